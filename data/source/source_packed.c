/* source_packed.c - reading samples out of containers.
 *
 * A sample is one pread. Containers are opened when the first sample is asked for and stay open, up
 * to KEEP_OPEN of them; those beyond are opened for each read, so that a thousand tar files do not
 * use up the descriptors of a process. The checksum of each sample is verified when it is read for
 * the first time; a bit a sample remembers that. What has changed on the disk since the index was
 * made is then a bad sample, never a wrong picture. */
#include "data/source/source_packed.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/source/packed_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEEP_OPEN      512
#define MAX_NAME_BYTES 768 /* of a sample in messages; a sentence is cut at 1023 anyway */

typedef struct PackedSource {
    Source base;
    char *root;
    int root_fd; /* -1: root is itself the container */
    /* [stamps] descriptor + 1, 0 = not open; and one more: how many are kept */
    _Atomic int *files;
    _Atomic uint64_t *checked; /* a bit a sample: its checksum was right once */
} PackedSource;

void source_packed_close(Source *base)
{
    PackedSource *s = (PackedSource *)base;
    for (int i = 0; s->files && i < base->index->stamp_count; i++)
        if (s->files[i] > 0) close(s->files[i] - 1);
    if (s->root_fd >= 0) close(s->root_fd);
    mem_free(s->files);
    mem_free(s->checked);
    mem_free(s->root);
    source_free_classes(base);
    mem_free(s);
}

/* An index may be of a time when fewer files were enough. */
static Status check_complete(const char *path, const Index *index)
{
    const char **names FREED = mem_calloc((size_t)index->stamp_count + 1, sizeof *names);
    if (!names) return ERR_MEMORY;
    for (int i = 0; i < index->stamp_count; i++) names[i] = index_stamp_name(index, i);
    return packed_files_complete(path, names, index->stamp_count);
}

static Status fill_packed(PackedSource *s, const char *path, const Index *index)
{
    if (!(index->header->flags & INDEX_PACKED))
        return fail(ERR_DATA, "%s: the index does not say where samples are", path);
    TRY(source_use_index(&s->base, index));
    if (!(s->root = mem_strdup(path))) return ERR_MEMORY;
    s->files = mem_calloc((size_t)index->stamp_count + 1, sizeof *s->files);
    s->checked = mem_calloc((size_t)index->images / 64 + 1, sizeof *s->checked);
    if (!s->files || !s->checked) return ERR_MEMORY;
    s->root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0 && errno != ENOTDIR)
        return fail(ERR_DATA, "%s: cannot open: %s", path, strerror(errno));
    return s->root_fd >= 0 ? check_complete(path, index) : OK;
}

Status source_packed_open(Source **out, const DatasetOptions *o, const Index *index)
{
    PackedSource *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->base.index = index;
    s->root_fd = -1;
    Status status = fill_packed(s, o->path, index);
    if (status == OK) *out = &s->base;
    else source_packed_close(&s->base);
    return status;
}

void source_packed_describe(const Source *base, int64_t id, char *out, size_t bytes)
{
    const PackedSource *s = (const PackedSource *)base;
    const char *file =
        s->root_fd >= 0 ? index_stamp_name(base->index, (int)base->index->file[id]) : "";
    snprintf(out, bytes, "%s%s%s[%s]", s->root, file[0] ? "/" : "", file,
             index_path(base->index, id));
}

/* ---- reading ---- */

typedef struct PackedRead {
    const PackedSource *source;
    int64_t id;
    uint8_t *out;
    size_t wanted, got;
} PackedRead;

static int open_container(const PackedSource *s, uint32_t file)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY; /* a pipe now: do not wait */
    if (s->root_fd < 0) return open(s->root, flags);
    return openat(s->root_fd, index_stamp_name(s->base.index, (int)file), flags);
}

/* A descriptor of the container; *keep is false where the caller must close it. -1 with errno. */
static int take_file(const PackedSource *s, uint32_t file, bool *keep)
{
    _Atomic int *place = &s->files[file];
    int known = atomic_load(place);
    *keep = true;
    if (known > 0) return known - 1;
    int fd = open_container(s, file), none = 0;
    if (fd < 0) return -1;
    _Atomic int *kept = &s->files[s->base.index->stamp_count];
    *keep = atomic_fetch_add(kept, 1) < KEEP_OPEN &&
            atomic_compare_exchange_strong(place, &none, fd + 1);
    if (!*keep) atomic_fetch_sub(kept, 1);
    return fd;
}

static int read_once(void *cookie, int n, Status *status)
{
    PackedRead *r = cookie;
    const PackedSource *s = r->source;
    uint32_t file = s->base.index->file[r->id];
    bool keep = false;
    (void)status;
    /* A kept descriptor may have gone stale on a network file system: later attempts open the file
     * anew. */
    int fd = n == 0 ? take_file(s, file, &keep) : open_container(s, file);
    if (fd < 0) return errno;
    const ssize_t got = fs_read_at(fd, r->out, r->wanted, s->base.index->offset[r->id]);
    const int error = got < 0 ? errno : 0;
    r->got = got > 0 ? (size_t)got : 0;
    if (!keep) close(fd);
    return error;
}

static Status check_sample(const PackedSource *s, int64_t id, const char *name, const uint8_t *data,
                           size_t bytes)
{
    uint64_t bit = (uint64_t)1 << (id % 64);
    if (atomic_load_explicit(&s->checked[id / 64], memory_order_relaxed) & bit) return OK;
    uint32_t crc = crc32c_update(0, data, bytes), wanted = s->base.index->crc[id];
    if (crc != wanted)
        return fail(ERR_DATA, "%s: the checksum is %08x, should be %08x: the file is damaged", name,
                    crc, wanted);
    atomic_fetch_or_explicit(&s->checked[id / 64], bit, memory_order_relaxed);
    return OK;
}

Status source_packed_read(const Source *base, int64_t id, ByteBuf *buf, Sample *out)
{
    const PackedSource *s = (const PackedSource *)base;
    char name[MAX_NAME_BYTES];
    size_t bytes = base->index->bytes[id], total = bytes + base->index->seek_bytes[id];
    source_packed_describe(base, id, name, sizeof name);
    if (bytes == 0) return fail(ERR_DATA, "%s: the file is empty", name);
    TRY(byte_buf_reserve(buf, total));
    PackedRead r = { .source = s, .id = id, .out = buf->data, .wanted = total };
    TRY(source_retry(name, read_once, &r));
    if (r.got < total)
        return fail(ERR_DATA, "%s: the container ends before this sample does", name);
    TRY(check_sample(s, id, name, buf->data, total));
    *out = source_file_sample(buf->data, bytes, total - bytes);
    return OK;
}

void source_packed_forget(const Source *base, int64_t id, bool *gone)
{
    const PackedSource *s = (const PackedSource *)base;
    const Index *x = base->index;
    bool folder = s->root_fd >= 0;
    source_forget_file(folder ? s->root_fd : AT_FDCWD,
                       folder ? index_stamp_name(x, (int)x->file[id]) : s->root,
                       (int64_t)x->offset[id], (int64_t)x->bytes[id] + x->seek_bytes[id], gone);
}
