/* safetensors.c - the file format behind checkpoints.
 *
 * FILE. 8 bytes little-endian header length; JSON header, padded with blanks so that the data
 * begins at a multiple of 8; tensor bytes, one after the other without holes, as the format
 * demands. __metadata__ holds strings only.
 *
 * CHECKSUMS. "crc32c" covers the data. "header_crc32c" covers the header with its own eight digits
 * read as zeros, so that a flipped bit in a name, a shape or the position of a run does not go
 * unnoticed; it is the first entry of the header, which gives it a fixed place. Files by other
 * writers have neither and are read without.
 *
 * READING. The file is read, not mapped: one that shrinks meanwhile, or lies on a disk that fails,
 * is an error of that file, not the end of the process. Everything the header claims is checked
 * before it is believed: JSON types, dims (checked multiply), and, with the tensors sorted by
 * offset, that each begins where the one before ends. That rules out overlap, holes and anything
 * outside of the file at once. Names are text, each there once. */
#include "trainer/engine/files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/wire.h"

enum { LENGTH_BYTES = 8, DATA_ALIGN = 8, CRC_DIGITS = 8, NAME_LIMIT = 200 };
static const uint64_t header_limit = 100u * 1000u * 1000u;
static const size_t read_piece = (size_t)1 << 20; /* still in the CPU's cache for its checksum */
/* of every file that we write */
static const char header_start[] = "{\"__metadata__\":{\"header_crc32c\":\"";
static const char zero_digits[] = "00000000";

typedef struct DTypeRow {
    const char *name;
    DType dtype;
} DTypeRow;

static const DTypeRow dtype_rows[] = {
    { "F32", DTYPE_F32 },   { "F64", DTYPE_F64 }, { "U8", DTYPE_U8 },   { "I32", DTYPE_I32 },
    { "BF16", DTYPE_BF16 }, { "F16", DTYPE_F16 }, { "I64", DTYPE_I64 },
};
enum { DTYPE_ROWS = sizeof(dtype_rows) / sizeof(dtype_rows[0]) };

static const char *format_dtype_name(DType dtype)
{
    for (int i = 0; i < DTYPE_ROWS; i++)
        if (dtype_rows[i].dtype == dtype) return dtype_rows[i].name;
    return NULL;
}

/* CRC of a header as if its own digits were zeros. digits is where they are in text. */
static uint32_t header_crc(const char *text, size_t bytes, size_t digits)
{
    uint32_t crc = crc32c_update(0, text, digits);
    crc = crc32c_update(crc, zero_digits, CRC_DIGITS);
    return crc32c_update(crc, text + digits + CRC_DIGITS, bytes - digits - CRC_DIGITS);
}

/* ---- writing ---- */

static void add_tensor_entry(JsonWriter *w, const SafeTensor *t, size_t offset)
{
    json_begin_object(w, t->name);
    json_string(w, "dtype", format_dtype_name(t->desc.dtype));
    json_begin_array(w, "shape");
    for (int i = 0; i < t->desc.rank; i++) json_int(w, NULL, t->desc.dims[i]);
    json_end_array(w);
    json_begin_array(w, "data_offsets");
    json_int(w, NULL, (int64_t)offset);
    json_int(w, NULL, (int64_t)(offset + tensor_plain_bytes(&t->desc)));
    json_end_array(w);
    json_end_object(w);
}

/* The header, padded, with both checksums in it. */
static Status make_header(StrBuf *header, const SafeTensor *tensors, int tensor_count,
                          const SafePair *metadata, int pair_count)
{
    uint32_t data_crc = 0;
    char digits[CRC_DIGITS + 1];
    for (int i = 0; i < tensor_count; i++) {
        ASSERT(format_dtype_name(tensors[i].desc.dtype));
        data_crc = crc32c_update(data_crc, tensors[i].data, tensor_plain_bytes(&tensors[i].desc));
    }
    snprintf(digits, sizeof(digits), "%08" PRIx32, data_crc);

    JsonWriter w = { .out = header };
    json_begin_object(&w, NULL);
    json_begin_object(&w, "__metadata__");
    json_string(&w, "header_crc32c", zero_digits);
    json_string(&w, "crc32c", digits);
    /* what readers of the format ask for; the layout is the same for all of them */
    json_string(&w, "format", "pt");
    for (int i = 0; i < pair_count; i++) json_string(&w, metadata[i].key, metadata[i].value);
    json_end_object(&w);
    size_t offset = 0;
    for (int i = 0; i < tensor_count; i++) {
        add_tensor_entry(&w, &tensors[i], offset);
        offset += tensor_plain_bytes(&tensors[i].desc);
    }
    json_end_object(&w);
    while (!header->failed && header->length % DATA_ALIGN != 0) str_add(header, " ");
    if (header->failed) return ERR_MEMORY;

    size_t start = sizeof(header_start) - 1;
    ASSERT(header->length > start + CRC_DIGITS && memcmp(header->text, header_start, start) == 0);
    snprintf(digits, sizeof(digits), "%08" PRIx32, header_crc(header->text, header->length, start));
    memcpy(header->text + start, digits, CRC_DIGITS);
    return OK;
}

typedef struct Content {
    const StrBuf *header;
    const SafeTensor *tensors;
    int count;
} Content;

static bool write_content(int fd, const void *cookie)
{
    const Content *c = cookie;
    unsigned char length[LENGTH_BYTES];
    wire_store(length, c->header->length, LENGTH_BYTES);
    if (!fs_write_all(fd, length, sizeof(length)) ||
        !fs_write_all(fd, c->header->text, c->header->length))
        return false;
    for (int i = 0; i < c->count; i++)
        if (!fs_write_all(fd, c->tensors[i].data, tensor_plain_bytes(&c->tensors[i].desc)))
            return false;
    return true;
}

Status safetensors_write(const char *path, const SafeTensor *tensors, int tensor_count,
                         const SafePair *metadata, int pair_count)
{
    StrBuf header = { 0 };
    const Content content = { &header, tensors, tensor_count };
    Status status = make_header(&header, tensors, tensor_count, metadata, pair_count);
    if (status == OK) status = fs_write_by(path, write_content, &content);
    str_free(&header);
    return status;
}

/* ---- reading ---- */

struct SafeFile {
    char *path;
    int fd;
    uint8_t *bytes; /* the whole file */
    size_t file_bytes;
    uint32_t data_crc;
    const char *header;
    size_t header_bytes;
    const uint8_t *data;
    size_t data_bytes;
    Arena *arena; /* JSON tree */
    const JsonValue *root, *metadata;
    SafeTensor *tensors;        /* sorted by offset */
    const SafeTensor **by_name; /* sorted by name */
    int count;
    const char *prefix; /* of what is found by name; NULL: none */
};

/* Bytes [from, to) of the file; *crc goes on over them. */
static Status read_bytes(SafeFile *f, size_t from, size_t to, uint32_t *crc)
{
    while (from < to) {
        size_t piece = to - from < read_piece ? to - from : read_piece;
        ssize_t n = pread(f->fd, f->bytes + from, piece, (off_t)from);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(ERR_DATA, "%s: cannot read: %s", f->path, strerror(errno));
        if (n == 0) return fail(ERR_DATA, "%s: became shorter while it was read", f->path);
        *crc = crc32c_update(*crc, f->bytes + from, (size_t)n);
        from += (size_t)n;
    }
    return OK;
}

static Status measure_safetensors(SafeFile *f)
{
    struct stat st;
    f->fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO would wait for a writer */
    if (f->fd < 0) return fail(ERR_DATA, "%s: cannot open: %s", f->path, strerror(errno));
    if (fstat(f->fd, &st) != 0)
        return fail(ERR_DATA, "%s: cannot read: %s", f->path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return fail(ERR_DATA, "%s: not a file", f->path);
    if (st.st_size < LENGTH_BYTES)
        return fail(ERR_DATA, "%s: too short for a safetensors file", f->path);
    f->file_bytes = (size_t)st.st_size;
    return OK;
}

/* What torch.save writes begins with a zip archive's or a pickle's first bytes, which no header's
 * length can be. */
static Status fail_start(const SafeFile *f, const uint8_t start[LENGTH_BYTES], uint64_t length)
{
    if (memcmp(start, "PK\3\4", 4) == 0 || (start[0] == 0x80 && start[1] >= 2 && start[1] <= 5))
        return fail(ERR_DATA,
                    "%s: saved by torch.save, not a checkpoint of Convoy; predict --model, eval "
                    "--checkpoint and model.init read it",
                    f->path);
    return fail(ERR_DATA,
                "%s: not a safetensors file, or truncated: the header should have %" PRIu64
                " bytes, but the file has %zu",
                f->path, length, f->file_bytes);
}

/* Before there is room for the data, so that what is no such file costs nothing. */
static Status read_header(SafeFile *f, bool whole)
{
    uint8_t length_bytes[LENGTH_BYTES];
    uint32_t unused = 0;
    TRY(measure_safetensors(f));
    f->bytes = length_bytes;
    Status status = read_bytes(f, 0, LENGTH_BYTES, &unused);
    f->bytes = NULL;
    if (status != OK) return status;
    const uint64_t length = wire_load(length_bytes, LENGTH_BYTES);
    if (length > header_limit || length > f->file_bytes - LENGTH_BYTES)
        return fail_start(f, length_bytes, length);
    if (!whole) f->file_bytes = LENGTH_BYTES + (size_t)length;
    int64_t left = process_available_bytes();
    if (left > 0 && f->file_bytes > (uint64_t)left)
        return fail(ERR_MEMORY, "%s: has %zu MiB, more than the %lld MiB of free memory", f->path,
                    f->file_bytes >> 20, (long long)(left >> 20));
    if (!(f->bytes = mem_alloc_aligned(f->file_bytes, MEM_ALIGN))) return ERR_MEMORY;
    f->header = (const char *)f->bytes + LENGTH_BYTES;
    f->header_bytes = (size_t)length;
    f->data = f->bytes + LENGTH_BYTES + length;
    f->data_bytes = f->file_bytes - LENGTH_BYTES - (size_t)length;
    return read_bytes(f, 0, LENGTH_BYTES + (size_t)length, &unused);
}

static Status check_header_crc(const SafeFile *f)
{
    size_t start = sizeof(header_start) - 1;
    if (f->header_bytes < start + CRC_DIGITS || memcmp(f->header, header_start, start) != 0)
        return OK;
    char digits[CRC_DIGITS + 1];
    snprintf(digits, sizeof(digits), "%08" PRIx32, header_crc(f->header, f->header_bytes, start));
    if (memcmp(f->header + start, digits, CRC_DIGITS) != 0)
        return fail(ERR_DATA, "%s: corrupt: header checksum differs", f->path);
    return OK;
}

static Status bad_tensor(const SafeFile *f, const char *name, const char *what)
{
    return fail(ERR_DATA, "%s: tensor %.*s: %s", f->path, NAME_LIMIT, name, what);
}

/* Names go into messages and tables: they are text. */
static Status check_name(const SafeFile *f, const char *name)
{
    bool text = json_is_utf8(name);
    for (const char *p = name; *p; p++) text = text && (unsigned char)*p >= ' ' && *p != 127;
    return text ? OK
                : fail(ERR_DATA, "%s: tensor %d: its name is not UTF-8 text", f->path, f->count);
}

static bool whole_number(const JsonValue *v)
{
    return v && v->type == JSON_NUMBER && v->is_integer && v->integer >= 0;
}

static Status parse_dtype(const SafeFile *f, const JsonValue *entry, DType *out)
{
    const char *dtype = json_text(entry, "dtype", NULL);
    if (!dtype) return bad_tensor(f, entry->key, "no dtype");
    for (int i = 0; i < DTYPE_ROWS; i++) {
        if (strcmp(dtype, dtype_rows[i].name) != 0) continue;
        *out = dtype_rows[i].dtype;
        return OK;
    }
    return bad_tensor(f, entry->key, "dtype is not one of F32, F64, U8, I32, BF16, F16, I64");
}

/* A scalar (empty shape) becomes a vector of one element. */
static Status parse_shape(const SafeFile *f, const JsonValue *entry, TensorDesc *desc,
                          size_t *bytes)
{
    const JsonValue *shape = json_get(entry, "shape");
    if (!shape || shape->type != JSON_ARRAY) return bad_tensor(f, entry->key, "no shape");
    int64_t dims[TENSOR_MAX_RANK] = { 1 };
    int rank = 0;
    *bytes = dtype_bytes(desc->dtype);
    for (const JsonValue *d = shape->child; d; d = d->next) {
        if (!whole_number(d)) return bad_tensor(f, entry->key, "a dimension is not a whole number");
        if (rank == TENSOR_MAX_RANK) return bad_tensor(f, entry->key, "more than 4 dimensions");
        if (!mem_mul(*bytes, (size_t)d->integer, bytes))
            return bad_tensor(f, entry->key, "size overflows");
        dims[rank++] = d->integer;
    }
    *desc = tensor_desc(desc->dtype, rank == 0 ? 1 : rank, dims);
    return OK;
}

/* Reads data_offsets; bytes is what dtype and shape say. */
static Status parse_range(const SafeFile *f, const JsonValue *entry, size_t bytes, SafeTensor *out)
{
    const JsonValue *offsets = json_get(entry, "data_offsets");
    const JsonValue *begin = offsets && offsets->type == JSON_ARRAY ? offsets->child : NULL;
    const JsonValue *end = begin ? begin->next : NULL;
    if (!whole_number(begin) || !whole_number(end) || end->next)
        return bad_tensor(f, entry->key, "data_offsets are not two whole numbers");
    if (begin->integer > end->integer || (uint64_t)end->integer > f->data_bytes)
        return bad_tensor(f, entry->key, "data_offsets are outside the file; is it truncated?");
    if ((uint64_t)(end->integer - begin->integer) != bytes)
        return bad_tensor(f, entry->key, "data_offsets do not match the shape");
    out->data = f->data + begin->integer;
    return OK;
}

static Status parse_tensor(const SafeFile *f, const JsonValue *entry, SafeTensor *out)
{
    size_t bytes = 0;
    TRY(check_name(f, entry->key));
    if (entry->type != JSON_OBJECT) return bad_tensor(f, entry->key, "not an object");
    out->name = entry->key;
    TRY(parse_dtype(f, entry, &out->desc.dtype));
    TRY(parse_shape(f, entry, &out->desc, &bytes));
    return parse_range(f, entry, bytes, out);
}

/* Empty tensors come before the one that begins at the same place. */
static int compare_places(const void *a, const void *b)
{
    const SafeTensor *x = a, *y = b;
    const char *p = x->data, *q = y->data;
    if (p != q) return p < q ? -1 : 1;
    size_t m = tensor_plain_bytes(&x->desc), n = tensor_plain_bytes(&y->desc);
    return m < n ? -1 : m > n;
}

static Status check_cover(const SafeFile *f)
{
    const uint8_t *expected = f->data;
    for (int i = 0; i < f->count; i++) {
        const SafeTensor *t = &f->tensors[i];
        if ((const uint8_t *)t->data != expected)
            return bad_tensor(f, t->name, "overlaps another tensor or leaves a gap before it");
        expected += tensor_plain_bytes(&t->desc);
    }
    if (expected != f->data + f->data_bytes)
        return fail(ERR_DATA, "%s: bytes after the last tensor", f->path);
    return OK;
}

static int compare_names(const void *a, const void *b)
{
    const SafeTensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int compare_to_name(const void *name, const void *entry)
{
    const SafeTensor *const *t = entry;
    return strcmp(name, (*t)->name);
}

static Status sort_names(SafeFile *f)
{
    f->by_name = mem_calloc((size_t)f->count + 1, sizeof *f->by_name);
    if (!f->by_name) return ERR_MEMORY;
    for (int i = 0; i < f->count; i++) f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, (size_t)f->count, sizeof *f->by_name, compare_names);
    for (int i = 1; i < f->count; i++)
        if (compare_names(&f->by_name[i - 1], &f->by_name[i]) == 0)
            return bad_tensor(f, f->by_name[i]->name, "appears twice");
    return OK;
}

static Status parse_tensors(SafeFile *f)
{
    size_t entries = 0;
    for (const JsonValue *v = f->root->child; v; v = v->next) entries++;
    f->tensors = mem_calloc(entries, sizeof *f->tensors);
    if (!f->tensors) return ERR_MEMORY;
    for (const JsonValue *v = f->root->child; v; v = v->next) {
        if (v == f->metadata) continue;
        TRY(parse_tensor(f, v, &f->tensors[f->count]));
        f->count++;
    }
    qsort(f->tensors, (size_t)f->count, sizeof(SafeTensor), compare_places);
    TRY(check_cover(f));
    return sort_names(f);
}

static Status check_data_crc(const SafeFile *f)
{
    const char *stored = safetensors_metadata(f, "crc32c");
    if (!stored) return OK;
    char digits[CRC_DIGITS + 1];
    snprintf(digits, sizeof(digits), "%08" PRIx32, f->data_crc);
    if (strcmp(stored, digits) != 0)
        return fail(ERR_DATA, "%s: corrupt: data checksum is %s, expected %.20s", f->path, digits,
                    stored);
    return OK;
}

static Status parse_header(SafeFile *f)
{
    JsonValue *root = NULL;
    TRY(arena_create(&f->arena, 0));
    Status status = json_parse(f->arena, f->header, f->header_bytes, &root);
    if (status != OK) return fail_note(status, "%s: header", f->path);
    if (root->type != JSON_OBJECT)
        return fail(ERR_DATA, "%s: header is not a JSON object", f->path);
    f->root = root;
    f->metadata = json_get(root, "__metadata__");
    if (f->metadata && f->metadata->type != JSON_OBJECT)
        return fail(ERR_DATA, "%s: __metadata__ is not an object", f->path);
    return OK;
}

static Status open_file(SafeFile *f, bool whole)
{
    TRY(read_header(f, whole));
    TRY(check_header_crc(f));
    TRY(parse_header(f));
    if (!whole) return OK;
    TRY(parse_tensors(f));
    TRY(read_bytes(f, f->file_bytes - f->data_bytes, f->file_bytes, &f->data_crc));
    return check_data_crc(f);
}

static Status open_part(SafeFile **out, const char *path, bool whole)
{
    *out = NULL;
    SafeFile *f = mem_calloc(1, sizeof *f);
    if (!f) return ERR_MEMORY;
    f->fd = -1;
    f->path = mem_strdup(path);
    Status status = f->path ? open_file(f, whole) : ERR_MEMORY;
    if (f->fd >= 0) close(f->fd);
    if (status != OK) {
        safetensors_close(f);
        return status;
    }
    *out = f;
    return OK;
}

Status safetensors_open(SafeFile **out, const char *path)
{
    return open_part(out, path, true);
}

Status safetensors_open_header(SafeFile **out, const char *path)
{
    return open_part(out, path, false);
}

static Status check_names(SafeFile *f, int count)
{
    for (f->count = 0; f->count < count; f->count++) TRY(check_name(f, f->tensors[f->count].name));
    return sort_names(f);
}

Status safetensors_adopt(SafeFile **out, const char *path, uint8_t *bytes, Arena *arena,
                         SafeTensor *tensors, int count)
{
    SafeFile *f = mem_calloc(1, sizeof *f);
    *out = NULL;
    if (f) *f = (SafeFile){ .bytes = bytes, .arena = arena, .tensors = tensors };
    Status status = f && (f->path = mem_strdup(path)) ? check_names(f, count) : ERR_MEMORY;
    if (status == OK) *out = f;
    else if (f) safetensors_close(f);
    if (f) return status;
    mem_free(bytes);
    arena_destroy(arena);
    mem_free(tensors);
    return status;
}

Status safetensors_rename(SafeFile *f, Status (*rename)(void *cookie, Arena *names, SafeTensor *t),
                          void *cookie)
{
    int kept = 0;
    for (int i = 0; i < f->count; i++) {
        SafeTensor t = f->tensors[i];
        TRY(rename(cookie, f->arena, &t));
        if (t.name) f->tensors[kept++] = t;
    }
    f->count = kept;
    mem_free(f->by_name);
    return sort_names(f);
}

void safetensors_close(SafeFile *f)
{
    if (!f) return;
    mem_free(f->bytes);
    arena_destroy(f->arena);
    mem_free(f->tensors);
    mem_free(f->by_name);
    mem_free(f->path);
    mem_free(f);
}

int safetensors_count(const SafeFile *f)
{
    return f->count;
}

const SafeTensor *safetensors_at(const SafeFile *f, int index)
{
    ASSERT(index >= 0 && index < f->count);
    return &f->tensors[index];
}

bool safetensors_has(const SafeFile *f, const char *prefix)
{
    bool found = false;
    for (int i = 0; i < f->count && !found; i++)
        found = str_starts_with(f->tensors[i].name, prefix);
    return found;
}

void safetensors_set_prefix(SafeFile *f, const char *prefix)
{
    f->prefix = prefix;
}

const SafeTensor *safetensors_find(const SafeFile *f, const char *name)
{
    char whole[2 * NAME_LIMIT];
    if (f->prefix) {
        const int n = snprintf(whole, sizeof whole, "%s%s", f->prefix, name);
        if (n < 0 || (size_t)n >= sizeof whole) return NULL;
        name = whole;
    }
    const SafeTensor **found =
        bsearch(name, f->by_name, (size_t)f->count, sizeof *f->by_name, compare_to_name);
    return found ? *found : NULL;
}

const char *safetensors_metadata(const SafeFile *f, const char *key)
{
    return json_text(f->metadata, key, NULL);
}
