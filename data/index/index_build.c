/* index_build.c - puts the samples of all pieces in order and writes the block. */
#include "data/index/index_build.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

typedef struct Ref { /* an entry, wherever it lies */
    const IndexEntry *entry;
    const char *path;
    size_t folder_bytes; /* of the path: up to its last slash */
    uint64_t text_base, stamp_base, number;
} Ref;

static int by_folder_then_name(const Ref *a, const Ref *b)
{
    size_t shorter = a->folder_bytes < b->folder_bytes ? a->folder_bytes : b->folder_bytes;
    int order = memcmp(a->path, b->path, shorter);
    if (order) return order;
    if (a->folder_bytes != b->folder_bytes) return a->folder_bytes < b->folder_bytes ? -1 : 1;
    return strcmp(a->path + a->folder_bytes, b->path + b->folder_bytes);
}

static int by_label_and_path(const void *pa, const void *pb)
{
    const Ref *a = pa, *b = pb;
    if (a->entry->label != b->entry->label) return a->entry->label < b->entry->label ? -1 : 1;
    int order = by_folder_then_name(a, b);
    if (order) return order;
    return a->number < b->number ? -1 : 1;
}

static Status list_entries(const IndexParts *parts, Ref **out, size_t *count)
{
    size_t n = 0, bytes = 0;
    for (size_t p = 0; p < parts->piece_count; p++) n += parts->pieces[p].count;
    if (n == 0) return fail(ERR_DATA, "%s: contains no images", parts->root);
    if (!mem_mul(n, sizeof(Ref), &bytes) || !(*out = mem_alloc(bytes))) return ERR_MEMORY;
    *count = n;
    uint64_t text_base = 0, stamp_base = 0;
    Ref *ref = *out;
    for (size_t p = 0; p < parts->piece_count; p++) {
        const IndexPiece *piece = &parts->pieces[p];
        for (size_t i = 0; i < piece->count; i++, ref++) {
            const char *path = index_piece_path(piece, i), *slash = strrchr(path, '/');
            *ref = (Ref){ .entry = &piece->entries[i],
                          .path = path,
                          .folder_bytes = slash ? (size_t)(slash - path) : 0,
                          .text_base = text_base,
                          .stamp_base = stamp_base,
                          .number = (uint64_t)(ref - *out) };
            ASSERT(ref->entry->label < (uint32_t)parts->classes);
        }
        text_base += piece->text.length;
        stamp_base += piece->stamp_count;
    }
    if (!parts->sorted) qsort(*out, n, sizeof **out, by_label_and_path);
    return OK;
}

/* ---- the block ---- */

typedef struct Block {
    uint8_t *bytes;
    size_t size, at[INDEX_ARRAYS];
} Block;

static uint64_t *wide(const Block *b, IndexArray array)
{
    return (uint64_t *)(void *)(b->bytes + b->at[array]);
}

static uint32_t *narrow(const Block *b, IndexArray array)
{
    return (uint32_t *)(void *)(b->bytes + b->at[array]);
}

static void write_samples(const Block *b, const IndexParts *parts, const Ref *refs, size_t count)
{
    uint64_t *start = wide(b, INDEX_CLASS_START);
    const size_t bits = parts->labels ? index_label_bytes(parts->classes) : 0;
    size_t c = 0;
    for (size_t i = 0; i < count; i++) {
        const Ref *r = &refs[i];
        ASSERT(c <= (size_t)r->entry->label + 1); /* sorted means sorted */
        while (c <= r->entry->label) start[c++] = i;
        wide(b, INDEX_PATH_AT)[i] = r->text_base + r->entry->path_at;
        if (bits)
            memcpy(b->bytes + b->at[INDEX_LABELS] + i * bits, parts->labels + r->number * bits,
                   bits);
        if (!(parts->flags & INDEX_PACKED)) continue;
        wide(b, INDEX_OFFSET)[i] = r->entry->offset;
        narrow(b, INDEX_FILE)[i] = (uint32_t)(r->stamp_base + r->entry->file);
        narrow(b, INDEX_BYTES)[i] = r->entry->bytes;
        narrow(b, INDEX_SEEK_BYTES)[i] = r->entry->seek_bytes;
        narrow(b, INDEX_CRC)[i] = r->entry->crc;
    }
    while (c <= (size_t)parts->classes) start[c++] = count;
}

static uint64_t put_text(char *text, uint64_t *end, const char *s, size_t bytes)
{
    uint64_t at = *end;
    if (bytes) memcpy(text + at, s, bytes);
    *end += bytes;
    return at;
}

/* The text is that of the pieces one after another, then class names, root and format. */
static void write_texts(const Block *b, const IndexParts *parts)
{
    IndexHeader *h = (IndexHeader *)(void *)b->bytes;
    char *text = (char *)(b->bytes + b->at[INDEX_TEXT]);
    IndexStamp *stamp = (IndexStamp *)(void *)(b->bytes + b->at[INDEX_STAMP_ROWS]);
    uint64_t end = 0;
    for (size_t p = 0; p < parts->piece_count; p++) {
        const IndexPiece *piece = &parts->pieces[p];
        uint64_t base = put_text(text, &end, piece->text.text, piece->text.length);
        for (size_t i = 0; i < piece->stamp_count; i++) {
            *stamp = piece->stamps[i];
            stamp->name_at += base;
            stamp++;
        }
    }
    for (int c = 0; c < parts->classes; c++)
        wide(b, INDEX_CLASS_AT)[c] =
            put_text(text, &end, parts->class_names[c], strlen(parts->class_names[c]) + 1);
    h->root_at = put_text(text, &end, parts->root, strlen(parts->root) + 1);
    h->format_at = put_text(text, &end, parts->format, strlen(parts->format) + 1);
    ASSERT(end == h->text_bytes);
}

static IndexHeader header_of(const IndexParts *parts, size_t images)
{
    IndexHeader h = { .magic = { 'C', 'V', 'Y', 'I', 'N', 'D', 'E', 'X' },
                      .version = INDEX_VERSION,
                      .images = images,
                      .classes = (uint32_t)parts->classes,
                      .flags = parts->flags,
                      .shard = parts->shard,
                      .shards = parts->shards,
                      .plan_key = parts->plan_key };
    for (size_t p = 0; p < parts->piece_count; p++) {
        h.text_bytes += parts->pieces[p].text.length;
        h.stamps += (uint32_t)parts->pieces[p].stamp_count;
    }
    for (int c = 0; c < parts->classes; c++) h.text_bytes += strlen(parts->class_names[c]) + 1;
    h.text_bytes += strlen(parts->root) + 1 + strlen(parts->format) + 1;
    return h;
}

static Status make_block(const IndexParts *parts, const Ref *refs, size_t count, Block *b)
{
    IndexHeader h = header_of(parts, count);
    if (!index_layout(&h, b->at, &b->size))
        return fail(ERR_DATA, "%s: too many images", parts->root);
    if (!(b->bytes = mem_calloc(1, b->size))) return ERR_MEMORY;
    h.block_bytes = b->size;
    memcpy(b->bytes, &h, sizeof h);
    write_samples(b, parts, refs, count);
    write_texts(b, parts);
    ((IndexHeader *)(void *)b->bytes)->crc = index_checksum(b->bytes, b->size);
    return OK;
}

Status index_build(Index **out, const IndexParts *parts)
{
    *out = NULL;
    Ref *refs FREED = NULL;
    size_t count = 0;
    Block b = { 0 };
    ASSERT(parts->classes > 0);
    TRY(list_entries(parts, &refs, &count));
    TRY(make_block(parts, refs, count, &b));
    Status status = index_adopt(out, b.bytes, b.size);
    return status == ERR_DATA ? fail_note(ERR_INTERNAL, "%s: the index just made", parts->root)
                              : status;
}
