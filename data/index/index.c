/* index.c - the block of an index: where things lie in it, whether it can be trusted, and questions
 * about it. */
#include "data/index/index.h"
#include "base/both.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include <limits.h>
#include <string.h>

#define MAX_IMAGES ((uint64_t)1 << 36)
#define MAX_TEXT   ((uint64_t)1 << 42)
#define MAX_OFFSET ((uint64_t)1 << 62)

static const char magic[8] = { 'C', 'V', 'Y', 'I', 'N', 'D', 'E', 'X' };

size_t index_label_bytes(int64_t classes)
{
    return ((size_t)classes + 7) / 8;
}

bool index_layout(const IndexHeader *h, size_t at[INDEX_ARRAYS], size_t *block_bytes)
{
    if (h->images > MAX_IMAGES || h->text_bytes > MAX_TEXT || h->classes > INT_MAX - 1 ||
        h->stamps > INT_MAX)
        return false;
    size_t places = h->flags & INDEX_PACKED ? (size_t)h->images : 0, labels = 0;
    if (h->flags & INDEX_MULTI &&
        (!mem_mul((size_t)h->images, index_label_bytes(h->classes), &labels) || labels > MAX_TEXT))
        return false;
    const size_t bytes[INDEX_ARRAYS] = {
        [INDEX_CLASS_START] = ((size_t)h->classes + 1) * sizeof(uint64_t),
        [INDEX_CLASS_AT] = (size_t)h->classes * sizeof(uint64_t),
        [INDEX_PATH_AT] = (size_t)h->images * sizeof(uint64_t),
        [INDEX_STAMP_ROWS] = (size_t)h->stamps * sizeof(IndexStamp),
        [INDEX_OFFSET] = places * sizeof(uint64_t),
        [INDEX_FILE] = places * sizeof(uint32_t),
        [INDEX_BYTES] = places * sizeof(uint32_t),
        [INDEX_SEEK_BYTES] = places * sizeof(uint32_t),
        [INDEX_CRC] = places * sizeof(uint32_t),
        [INDEX_LABELS] = labels,
        [INDEX_TEXT] = (size_t)h->text_bytes,
    };
    size_t end = sizeof *h;
    for (int i = 0; i < INDEX_ARRAYS; i++) {
        at[i] = end;
        end += (bytes[i] + 7) & ~(size_t)7; /* the limits above keep this far from overflow */
    }
    *block_bytes = end;
    return true;
}

uint32_t index_checksum(const void *block, size_t bytes)
{
    IndexHeader h;
    memcpy(&h, block, sizeof h);
    h.crc = 0;
    return crc32c_update(crc32c_update(0, &h, sizeof h), (const uint8_t *)block + sizeof h,
                         bytes - sizeof h);
}

/* ---- trust ---- */

static Status check_header(const Index *x)
{
    size_t at[INDEX_ARRAYS], total = 0;
    if (x->block_bytes < sizeof(IndexHeader)) return fail(ERR_DATA, "cut short");
    const IndexHeader *h = x->header;
    if (memcmp(h->magic, magic, sizeof magic) != 0) return fail(ERR_DATA, "not an index");
    if (h->version != INDEX_VERSION)
        return fail(ERR_DATA, "has version %u, this program writes %u", h->version, INDEX_VERSION);
    if (!index_layout(h, at, &total)) return fail(ERR_DATA, "counts out of range");
    if (total != x->block_bytes || h->block_bytes != total)
        return fail(ERR_DATA, "%zu bytes long, should be %zu", x->block_bytes, total);
    if (index_checksum(x->block, x->block_bytes) != h->crc)
        return fail(ERR_DATA, "the checksum is wrong");
    if (h->images == 0 || h->classes == 0 || h->text_bytes == 0) return fail(ERR_DATA, "empty");
    return OK;
}

static void point(Index *x)
{
    size_t at[INDEX_ARRAYS], total = 0;
    const IndexHeader *h = x->header;
    ASSERT(index_layout(h, at, &total));
    bool places = h->flags & INDEX_PACKED;
    x->images = (int64_t)h->images;
    x->classes = (int)h->classes;
    x->stamp_count = (int)h->stamps;
    x->class_start = (const void *)(x->block + at[INDEX_CLASS_START]);
    x->class_at = (const void *)(x->block + at[INDEX_CLASS_AT]);
    x->path_at = (const void *)(x->block + at[INDEX_PATH_AT]);
    x->stamps = (const void *)(x->block + at[INDEX_STAMP_ROWS]);
    x->offset = places ? (const void *)(x->block + at[INDEX_OFFSET]) : NULL;
    x->file = places ? (const void *)(x->block + at[INDEX_FILE]) : NULL;
    x->bytes = places ? (const void *)(x->block + at[INDEX_BYTES]) : NULL;
    x->seek_bytes = places ? (const void *)(x->block + at[INDEX_SEEK_BYTES]) : NULL;
    x->crc = places ? (const void *)(x->block + at[INDEX_CRC]) : NULL;
    x->labels = h->flags & INDEX_MULTI ? x->block + at[INDEX_LABELS] : NULL;
    x->label_bytes = x->labels ? index_label_bytes(x->classes) : 0;
    x->text = (const char *)(x->block + at[INDEX_TEXT]);
}

/* The text ends with a NUL, so an offset into it is the start of a string. */
static Status check_texts(const Index *x)
{
    const IndexHeader *h = x->header;
    uint64_t end = h->text_bytes;
    bool good = x->text[end - 1] == '\0' && h->root_at < end && h->format_at < end;
    for (int c = 0; c < x->classes; c++) good &= x->class_at[c] < end;
    for (int64_t i = 0; i < x->images; i++) good &= x->path_at[i] < end;
    for (int i = 0; i < x->stamp_count; i++) good &= x->stamps[i].name_at < end;
    return good ? OK : fail(ERR_DATA, "a name is outside its table");
}

static Status check_numbers(const Index *x)
{
    bool good = x->class_start[0] == 0 && x->class_start[x->classes] == x->header->images;
    for (int c = 0; c < x->classes; c++) good &= x->class_start[c] <= x->class_start[c + 1];
    if (x->labels) good &= x->class_start[1] == x->header->images;
    if (!good) return fail(ERR_DATA, "class boundaries are out of order");
    for (int64_t i = 0; x->labels && x->classes % 8 && i < x->images; i++)
        good &= x->labels[(size_t)(i + 1) * x->label_bytes - 1] >> x->classes % 8 == 0;
    for (int64_t i = 0; x->offset && i < x->images; i++) {
        good &= x->offset[i] <= MAX_OFFSET && x->file[i] < x->header->stamps;
        good &= x->bytes[i] <= INDEX_MAX_SAMPLE_BYTES && x->seek_bytes[i] <= INDEX_MAX_SAMPLE_BYTES;
    }
    return good ? OK : fail(ERR_DATA, "a sample is out of range");
}

Status index_adopt(Index **out, void *block, size_t bytes)
{
    *out = NULL;
    Index *x = mem_calloc(1, sizeof *x);
    if (!x) {
        mem_free(block);
        return ERR_MEMORY;
    }
    x->block = block;
    x->block_bytes = bytes;
    x->header = block;
    Status status = check_header(x);
    if (status == OK) point(x);
    if (status == OK) status = check_texts(x);
    if (status == OK) status = check_numbers(x);
    if (status == OK) *out = x;
    else index_destroy(x);
    return status;
}

void index_destroy(Index *index)
{
    if (!index) return;
    mem_free(index->block);
    mem_free(index);
}

/* ---- questions ---- */

int index_label(const Index *index, int64_t id)
{
    ASSERT(id >= 0 && id < index->images);
    int low = 0, high = index->classes; /* class_start[low] <= id < class_start[high] */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (index->class_start[middle] <= (uint64_t)id) low = middle;
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
    return (int64_t)(index->class_start[label + 1] - index->class_start[label]);
}

void index_count_images(const Index *index, int64_t *counts)
{
    for (int c = 0; c < index->classes; c++)
        counts[c] = index->labels ? 0 : index_class_images(index, c);
    for (int64_t i = 0; index->labels && i < index->images; i++)
        for (int c = 0; c < index->classes; c++)
            counts[c] += both_bit(index->labels + (size_t)i * index->label_bytes, c);
}

const char *index_stamp_name(const Index *index, int stamp)
{
    return index->text + index->stamps[stamp].name_at;
}

const char *index_root(const Index *index)
{
    return index->text + index->header->root_at;
}

const char *index_format(const Index *index)
{
    return index->text + index->header->format_at;
}
