/* index_split.c - see index_split.h. */
#include "data/index/index_split.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Drawn { /* a sample of a class, and where the hash puts it */
    uint64_t hash;
    int64_t id;
} Drawn;

static int by_hash(const void *pa, const void *pb)
{
    const Drawn *a = pa, *b = pb;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static uint64_t hash_of(const char *path, uint64_t seed)
{
    const size_t bytes = strlen(path);
    uint32_t counter[4] = { crc32c_update(0, path, bytes), (uint32_t)bytes, 0, 0 }, words[4];
    philox_4x32(seed, counter, words);
    return (uint64_t)words[1] << 32 | words[0];
}

static int64_t count_of(int64_t images, double share)
{
    const int64_t n = llround((double)images * share);
    if (images < 2) return 0;
    return n < 1 ? 1 : n > images - 1 ? images - 1 : n;
}

/* taken[i]: whether sample i is held out. */
static Status draw(bool *taken, const Index *x, double share, uint64_t seed)
{
    int64_t largest = 0;
    for (int c = 0; c < x->classes; c++)
        if (index_class_images(x, c) > largest) largest = index_class_images(x, c);
    Drawn *drawn = mem_alloc((size_t)largest * sizeof *drawn);
    if (!drawn) return ERR_MEMORY;
    for (int c = 0; c < x->classes; c++) {
        const int64_t first = (int64_t)x->class_start[c], n = index_class_images(x, c);
        for (int64_t i = 0; i < n; i++)
            drawn[i] = (Drawn){ hash_of(index_path(x, first + i), seed), first + i };
        qsort(drawn, (size_t)n, sizeof *drawn, by_hash);
        for (int64_t i = 0; i < count_of(n, share); i++) taken[drawn[i].id] = true;
    }
    mem_free(drawn);
    return OK;
}

/* Of an array of the whole, with so many bytes a sample, those of the side asked for. */
static void pick(uint8_t *to, const void *from, size_t bytes, const bool *taken, int64_t images,
                 bool held_out)
{
    for (int64_t i = 0; from && i < images; i++) {
        if (taken[i] != held_out) continue;
        memcpy(to, (const uint8_t *)from + (size_t)i * bytes, bytes);
        to += bytes;
    }
}

static void write_starts(uint64_t *start, const Index *x, const bool *taken, bool held_out)
{
    uint64_t n = 0;
    int64_t i = 0;
    for (int c = 0; c <= x->classes; c++) {
        for (; i < (int64_t)x->class_start[c]; i++) n += taken[i] == held_out;
        start[c] = n;
    }
}

static Status make_block(Index **out, const Index *x, const bool *taken, bool held_out)
{
    size_t at[INDEX_ARRAYS], bytes = 0;
    IndexHeader h = *x->header;
    h.images = 0;
    for (int64_t i = 0; i < x->images; i++) h.images += taken[i] == held_out;
    if (h.images == 0)
        return fail(ERR_DATA, "%s: no class has two images, so none can be held out",
                    index_root(x));
    ASSERT(index_layout(&h, at, &bytes));
    uint8_t *block = mem_calloc(1, bytes);
    if (!block) return ERR_MEMORY;
    h.block_bytes = bytes;
    memcpy(block, &h, sizeof h);
    write_starts((uint64_t *)(void *)(block + at[INDEX_CLASS_START]), x, taken, held_out);
    const struct {
        IndexArray array;
        const void *from;
        size_t bytes;
    } arrays[] = {
        { INDEX_PATH_AT, x->path_at, sizeof *x->path_at },
        { INDEX_OFFSET, x->offset, sizeof *x->offset },
        { INDEX_FILE, x->file, sizeof *x->file },
        { INDEX_BYTES, x->bytes, sizeof *x->bytes },
        { INDEX_SEEK_BYTES, x->seek_bytes, sizeof *x->seek_bytes },
        { INDEX_CRC, x->crc, sizeof *x->crc },
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        pick(block + at[arrays[i].array], arrays[i].from, arrays[i].bytes, taken, x->images,
             held_out);
    memcpy(block + at[INDEX_CLASS_AT], x->class_at, (size_t)x->classes * sizeof *x->class_at);
    memcpy(block + at[INDEX_STAMP_ROWS], x->stamps, (size_t)x->stamp_count * sizeof *x->stamps);
    memcpy(block + at[INDEX_TEXT], x->text, (size_t)h.text_bytes);
    ((IndexHeader *)(void *)block)->crc = index_checksum(block, bytes);
    return index_adopt(out, block, bytes);
}

Status index_split(Index **out, const Index *whole, double share, uint64_t seed, bool held_out)
{
    *out = NULL;
    ASSERT(share > 0 && share < 1);
    bool *taken = mem_calloc((size_t)whole->images, sizeof *taken);
    if (!taken) return ERR_MEMORY;
    Status status = draw(taken, whole, share, seed);
    if (status == OK) status = make_block(out, whole, taken, held_out);
    mem_free(taken);
    return status;
}
