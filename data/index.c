/* index.c - growing and asking the flat sample list. Filled by scan.c. */
#include "data/index.h"
#include "base/mem.h"
#include <string.h>

/* Makes room for one more element of size bytes in *array, doubling. */
static Status grow(void **array, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity) return OK;
    size_t wanted = *capacity ? *capacity * 2 : 64;
    if (wanted < needed) wanted = needed;
    size_t bytes = 0;
    if (!mem_mul(wanted, size, &bytes)) return fail(ERR_MEMORY, "sample list of %zu entries", wanted);
    void *p = mem_realloc(*array, bytes);
    if (!p) return ERR_MEMORY;
    *array = p;
    *capacity = wanted;
    return OK;
}

static Status reserve_text(Index *index, size_t bytes)
{
    void *p = index->text;
    Status status = grow(&p, &index->text_capacity, index->text_bytes + bytes, 1);
    index->text = p;
    return status;
}

static void append_text(Index *index, const char *s, size_t length)
{
    memcpy(index->text + index->text_bytes, s, length);
    index->text_bytes += length;
}

Status index_create(Index **out)
{
    *out = mem_calloc(1, sizeof **out);
    return *out ? OK : ERR_MEMORY;
}

void index_destroy(Index *index)
{
    if (!index) return;
    mem_free(index->class_start);
    mem_free(index->class_at);
    mem_free(index->path_at);
    mem_free(index->text);
    mem_free(index);
}

/* class_start and class_at grow together; class_start is one longer. */
static Status reserve_class(Index *index)
{
    size_t needed = (size_t)index->classes + 2;
    size_t capacity = index->class_capacity;
    void *p = index->class_start;
    TRY(grow(&p, &capacity, needed, sizeof *index->class_start));
    index->class_start = p;
    capacity = index->class_capacity;
    p = index->class_at;
    TRY(grow(&p, &capacity, needed, sizeof *index->class_at));
    index->class_at = p;
    index->class_capacity = capacity;
    return OK;
}

Status index_add_class(Index *index, const char *name)
{
    size_t length = strlen(name) + 1;
    TRY(reserve_class(index));
    TRY(reserve_text(index, length));
    index->class_at[index->classes] = index->text_bytes;
    index->class_start[index->classes] = index->images;
    index->class_start[index->classes + 1] = index->images;
    append_text(index, name, length);
    index->classes++;
    return OK;
}

Status index_add_sample(Index *index, const char *folder, const char *file)
{
    ASSERT(index->classes > 0);
    size_t folder_length = strlen(folder), file_length = strlen(file) + 1;
    void *p = index->path_at;
    TRY(grow(&p, &index->path_capacity, (size_t)index->images + 1, sizeof *index->path_at));
    index->path_at = p;
    TRY(reserve_text(index, folder_length + 1 + file_length));
    index->path_at[index->images++] = index->text_bytes;
    append_text(index, folder, folder_length);
    append_text(index, "/", 1);
    append_text(index, file, file_length);
    index->class_start[index->classes] = index->images;
    return OK;
}

int index_label(const Index *index, int64_t id)
{
    ASSERT(id >= 0 && id < index->images);
    int low = 0, high = index->classes; /* class_start[low] <= id < class_start[high] */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (index->class_start[middle] <= id) low = middle;
        else high = middle;
    }
    return low;
}

const char *index_path(const Index *index, int64_t id)
{
    ASSERT(id >= 0 && id < index->images);
    return index->text + index->path_at[id];
}

const char *index_class_name(const Index *index, int label)
{
    return index->text + index->class_at[label];
}

int64_t index_class_images(const Index *index, int label)
{
    return index->class_start[label + 1] - index->class_start[label];
}
