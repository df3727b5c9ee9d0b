/* index_piece.c - lists that double. */
#include "data/index/index_piece.h"
#include "base/mem.h"
#include <string.h>

/* Makes room for one more element of size bytes in *array, doubling. */
static Status grow(void **array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity) return OK;
    size_t wanted = *capacity ? *capacity * 2 : 64, bytes = 0;
    if (!mem_mul(wanted, size, &bytes))
        return fail(ERR_MEMORY, "sample list of %zu entries", wanted);
    void *p = mem_realloc(*array, bytes);
    if (!p) return ERR_MEMORY;
    *array = p;
    *capacity = wanted;
    return OK;
}

static Status add_text(StrBuf *text, const char *folder, const char *name, uint64_t *at)
{
    *at = text->length;
    if (folder && folder[0]) {
        str_add(text, folder);
        str_add_n(text, "/", 1);
    }
    str_add_n(text, name, strlen(name) + 1);
    return text->failed ? fail(ERR_MEMORY, "out of memory while listing images") : OK;
}

Status index_piece_add(IndexPiece *p, const char *folder, const char *name, const IndexEntry *entry)
{
    void *array = p->entries;
    TRY(grow(&array, &p->capacity, p->count, sizeof *p->entries));
    p->entries = array;
    IndexEntry e = *entry;
    TRY(add_text(&p->text, folder, name, &e.path_at));
    p->entries[p->count++] = e;
    return OK;
}

Status index_piece_stamp(IndexPiece *p, const char *name, int64_t mtime_ns, uint64_t bytes)
{
    void *array = p->stamps;
    TRY(grow(&array, &p->stamp_capacity, p->stamp_count, sizeof *p->stamps));
    p->stamps = array;
    IndexStamp s = { .mtime_ns = mtime_ns, .bytes = bytes };
    TRY(add_text(&p->text, NULL, name, &s.name_at));
    p->stamps[p->stamp_count++] = s;
    return OK;
}

void index_piece_free(IndexPiece *p)
{
    mem_free(p->entries);
    mem_free(p->stamps);
    str_free(&p->text);
    *p = (IndexPiece){ 0 };
}

const char *index_piece_path(const IndexPiece *p, size_t entry)
{
    return p->text.text + p->entries[entry].path_at;
}
