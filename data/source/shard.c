/* shard.c - reading back what convoy pack has written, without trusting it. */
#include "data/source/shard.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/index/index_build.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SHARDS 99999u

static const char magic[8] = { 'C', 'V', 'Y', 'S', 'H', 'A', 'R', 'D' };

void shard_name(char out[SHARD_NAME_BYTES], int shard)
{
    snprintf(out, SHARD_NAME_BYTES, "shard-%05d.bin", shard);
}

ShardTrailer shard_trailer(uint64_t index_at, uint64_t index_bytes)
{
    ShardTrailer t = { .index_at = index_at, .index_bytes = index_bytes };
    memcpy(t.magic, magic, sizeof magic);
    t.crc = crc32c_update(0, &t, offsetof(ShardTrailer, crc));
    return t;
}

static Status read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    const ssize_t got = fs_read_at(fd, out, bytes, at);
    if (got < 0) return fail(ERR_DATA, "cannot be read: %s", strerror(errno));
    return (size_t)got == bytes ? OK : fail(ERR_DATA, "the file is truncated");
}

static Status read_block(int fd, uint64_t file_bytes, Index **out)
{
    ShardTrailer t;
    if (file_bytes < sizeof t) return fail(ERR_DATA, "the file is truncated");
    TRY(read_at(fd, &t, sizeof t, file_bytes - sizeof t));
    bool sound = memcmp(t.magic, magic, sizeof magic) == 0 &&
                 t.crc == crc32c_update(0, &t, offsetof(ShardTrailer, crc));
    if (!sound) return fail(ERR_DATA, "not a shard of convoy pack, or truncated");
    uint64_t room = file_bytes - sizeof t;
    if (t.index_at > room || t.index_bytes != room - t.index_at)
        return fail(ERR_DATA, "the file is damaged");
    void *block FREED = mem_alloc((size_t)t.index_bytes);
    if (!block) return ERR_MEMORY;
    TRY(read_at(fd, block, (size_t)t.index_bytes, t.index_at));
    void *whole = block;
    block = NULL;
    return index_adopt(out, whole, (size_t)t.index_bytes);
}

static Status check_shard(const Index *x, uint64_t bytes)
{
    const IndexHeader *h = x->header;
    bool good = h->flags & INDEX_PACKED && !(h->flags & INDEX_MULTI) && h->shards > h->shard &&
                h->shards <= MAX_SHARDS && h->stamps == 1;
    for (int64_t i = 0; good && i < x->images; i++)
        good = x->offset[i] + x->bytes[i] + x->seek_bytes[i] <= bytes;
    return good ? OK : fail(ERR_DATA, "its index is not the index of a shard");
}

Status shard_load(Index **out, const char *folder, const char *name, uint64_t *bytes)
{
    struct stat info;
    Index *index FREED_BY(index_destroy_at) = NULL;
    *out = NULL;
    char *path FREED = fs_join(folder, name);
    if (!path) return ERR_MEMORY;
    int fd FREED_BY(fs_close) = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0)
        return fail(ERR_DATA, "%s: cannot open: %s", path, strerror(errno));
    Status status = read_block(fd, (uint64_t)info.st_size, &index);
    if (status == OK) status = check_shard(index, (uint64_t)info.st_size);
    if (status != OK) return status == ERR_MEMORY ? status : fail_note(status, "%s", path);
    *bytes = (uint64_t)info.st_size;
    *out = index;
    index = NULL;
    return OK;
}

/* ---- all of them ---- */

typedef struct Merge {
    const char *path;
    Index **shards; /* [count] */
    IndexPiece *pieces;
    uint32_t count;
} Merge;

static Status check_there(const Merge *m, uint32_t shard)
{
    char name[SHARD_NAME_BYTES];
    shard_name(name, (int)shard);
    char *path FREED = fs_join(m->path, name);
    if (!path) return ERR_MEMORY;
    if (fs_exists(path)) return OK;
    return fail(ERR_DATA, "%s: %s of %u is missing: packing was interrupted; run convoy pack again",
                m->path, name, m->count);
}

static Status load_one(void *cookie, int64_t i)
{
    Merge *m = cookie;
    uint64_t bytes = 0;
    char name[SHARD_NAME_BYTES];
    shard_name(name, (int)i);
    TRY(check_there(m, (uint32_t)i));
    TRY(shard_load(&m->shards[i], m->path, name, &bytes));
    const Index *x = m->shards[i];
    if (x->header->shard != (uint32_t)i)
        return fail(ERR_DATA, "%s/%s: holds shard %u of %u", m->path, name, x->header->shard,
                    x->header->shards);
    IndexPiece *piece = &m->pieces[i];
    TRY(index_piece_stamp(piece, name, 0, bytes));
    for (int64_t id = 0; id < x->images; id++) {
        IndexEntry e = { .offset = x->offset[id],
                         .label = (uint32_t)index_label(x, id),
                         .bytes = x->bytes[id],
                         .seek_bytes = x->seek_bytes[id],
                         .crc = x->crc[id] };
        TRY(index_piece_add(piece, NULL, index_path(x, id), &e));
    }
    return OK;
}

static Status check_together(const Merge *m)
{
    const IndexHeader *first = m->shards[0]->header;
    for (uint32_t i = 1; i < m->count; i++) {
        const IndexHeader *h = m->shards[i]->header;
        if (h->plan_key == first->plan_key && h->shards == first->shards &&
            h->classes == first->classes)
            continue;
        return fail(ERR_DATA, "%s: shard %u belongs to another set than shard 0", m->path, i);
    }
    return OK;
}

static Status assemble(Index **out, const Merge *m)
{
    const Index *first = m->shards[0];
    const char **names FREED = mem_alloc((size_t)first->classes * sizeof *names);
    if (!names) return ERR_MEMORY;
    for (int c = 0; c < first->classes; c++) names[c] = index_class_name(first, c);
    IndexParts parts = { .format = SHARD_FORMAT,
                         .root = "",
                         .class_names = names,
                         .classes = first->classes,
                         .flags = first->header->flags,
                         .pieces = m->pieces,
                         .piece_count = m->count,
                         .plan_key = first->header->plan_key };
    return index_build(out, &parts);
}

static Status count_shards(Merge *m)
{
    Index *first FREED_BY(index_destroy_at) = NULL;
    uint64_t bytes = 0;
    char name[SHARD_NAME_BYTES];
    shard_name(name, 0);
    TRY(shard_load(&first, m->path, name, &bytes));
    m->count = first->header->shards;
    /* Is the last one there? Else the number may be far off, and memory would be taken for it. */
    TRY(check_there(m, m->count - 1));
    m->shards = mem_calloc(m->count, sizeof *m->shards);
    m->pieces = mem_calloc(m->count, sizeof *m->pieces);
    return m->shards && m->pieces ? OK : ERR_MEMORY;
}

Status shard_merge(Index **out, const ScanOptions *o)
{
    Merge m = { .path = o->path };
    *out = NULL;
    Status status = count_shards(&m);
    if (status == OK) status = parallel_run(o->threads, m.count, "merge", load_one, &m);
    if (status == OK) status = check_together(&m);
    if (status == OK) status = assemble(out, &m);
    for (uint32_t i = 0; i < m.count; i++) {
        if (m.shards) index_destroy(m.shards[i]);
        if (m.pieces) index_piece_free(&m.pieces[i]);
    }
    mem_free(m.shards);
    mem_free(m.pieces);
    return status;
}
