/* indexed.c - see indexed.h. The .idx is read, looked through and let go; what is needed of it
 * later are blocks. In both formats sentences lie in the .bin one behind the other, which is
 * checked, so a token's place in the text is its place in the file. */
#include "data/tokens/indexed.h"
#include "base/fs.h"
#include "base/mapping.h"
#include "base/mem.h"
#include "base/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PARTS = 32, /* mappings are few (base/mapping.c) */
    PIECE = 4096,
    MMAP_HEADER = 26,
    LAZY_HEADER = 48,
    VERSION = 1
};

typedef struct Part { /* one pair of files */
    char *name;       /* of the .bin */
    uint8_t *bytes;   /* the mapping */
    size_t size;
    int width;     /* bytes of a token */
    int above;     /* 1: ids are stored one too large */
    int64_t first; /* token of the text with which it begins */
    int64_t tokens;
    int64_t witness; /* offset of a byte that is not zero; -1: there is none */
} Part;

struct Indexed {
    Part parts[PARTS];
    int count;
    int64_t unknown;
};

typedef struct IndexFile {          /* a .idx, checked as far as its own bytes go */
    const uint8_t *sizes, *offsets; /* [sentences] */
    int64_t sentences;
    int size_bytes;      /* of an entry of sizes */
    int64_t offset_unit; /* what offsets count: bytes of the .bin */
    int width, above;
} IndexFile;

/* Bytes of a token by fairseq's code of its type; 0: none of whole numbers. */
static const uint8_t widths[] = { 0, 1, 1, 2, 4, 8, 0, 0, 2, 4, 8 };

/* ---- .idx ---- */

static Status take_type(IndexFile *x, uint64_t code, const char *path)
{
    x->width = code < sizeof widths ? widths[code] : 0;
    if (x->width > 0) return OK;
    return fail(ERR_DATA, "%s: element type %llu is not one of integers", path,
                (unsigned long long)code);
}

static Status check_version(uint64_t version, const char *path)
{
    if (version == VERSION) return OK;
    return fail(ERR_DATA, "%s: version %llu; only version %d is supported", path,
                (unsigned long long)version, VERSION);
}

static Status cut_short(const char *path)
{
    return fail(ERR_DATA, "%s: the file is truncated", path);
}

/* Whether the file has the length that its header implies: count entries of that size. */
static Status check_length(size_t bytes, size_t header, uint64_t count, size_t entry, size_t more,
                           const char *path)
{
    if (count > (bytes - header) / entry || bytes < header + count * entry + more)
        return cut_short(path);
    if (bytes == header + count * entry + more) return OK;
    return fail(ERR_DATA, "%s: longer than its header says", path);
}

static Status parse_mmap(IndexFile *x, const uint8_t *p, size_t bytes, const char *path)
{
    if (bytes < MMAP_HEADER) return cut_short(path);
    const uint64_t count = wire_load(p + 18, 8);
    TRY(check_version(wire_load(p + 9, 8), path));
    TRY(take_type(x, p[17], path));
    TRY(check_length(bytes, MMAP_HEADER, count, 12, 0, path));
    x->sentences = (int64_t)count;
    x->size_bytes = 4;
    x->sizes = p + MMAP_HEADER;
    x->offsets = x->sizes + 4 * count;
    x->offset_unit = 1;
    return OK;
}

static Status parse_lazy(IndexFile *x, const uint8_t *p, size_t bytes, const char *path)
{
    if (bytes < LAZY_HEADER) return cut_short(path);
    const uint64_t count = wire_load(p + 32, 8), dims = wire_load(p + 40, 8);
    TRY(check_version(wire_load(p + 8, 8), path));
    TRY(take_type(x, wire_load(p + 16, 8), path));
    if (wire_load(p + 24, 8) != (uint64_t)x->width)
        return fail(ERR_DATA, "%s: its elements have %llu bytes, but their type has %d", path,
                    (unsigned long long)wire_load(p + 24, 8), x->width);
    TRY(check_length(bytes, LAZY_HEADER, count, 24, 16, path));
    const uint8_t *dim_offsets = p + LAZY_HEADER;
    bool flat = dims == count;
    for (uint64_t i = 0; i <= count && flat; i++) flat = wire_load(dim_offsets + 8 * i, 8) == i;
    if (!flat) return fail(ERR_DATA, "%s: a sentence has more than one dimension", path);
    x->sentences = (int64_t)count;
    x->size_bytes = 8;
    x->offsets = dim_offsets + 8 * (count + 1);
    x->sizes = x->offsets + 8 * (count + 1);
    x->offset_unit = x->width;
    x->above = 1;
    return OK;
}

static Status parse_index(IndexFile *x, const uint8_t *p, size_t bytes, const char *path)
{
    static const struct {
        const char magic[9];
        Status (*parse)(IndexFile *, const uint8_t *, size_t, const char *);
    } formats[] = { { "MMIDIDX\0", parse_mmap }, { "TNTIDX\0\0", parse_lazy } };
    *x = (IndexFile){ 0 };
    for (int i = 0; i < 2; i++)
        if (bytes >= 8 && memcmp(p, formats[i].magic, 8) == 0)
            return formats[i].parse(x, p, bytes, path);
    if (bytes >= 8 && memcmp(p, "HUFFIDX", 8) == 0)
        return fail(ERR_DATA,
                    "%s: Huffman codes are not supported; run fairseq-preprocess with "
                    "--dataset-impl mmap",
                    path);
    return fail(ERR_DATA, "%s: not an index of fairseq's formats mmap or lazy", path);
}

/* Tells blocks all sentences; they lie one behind the other and fill the .bin. */
static Status take_sentences(const IndexFile *x, Part *part, Blocks *blocks, const char *path)
{
    const uint64_t all = part->size / (size_t)x->width;
    const uint64_t step = (uint64_t)x->width / (uint64_t)x->offset_unit;
    uint64_t at = 0;
    for (int64_t i = 0; i < x->sentences; i++) {
        const uint64_t tokens = wire_load(x->sizes + i * x->size_bytes, x->size_bytes);
        if (wire_load(x->offsets + 8 * i, 8) != at * step)
            return fail(ERR_DATA, "%s: sentence %lld does not follow the one before", path,
                        (long long)i + 1);
        if (tokens > INT32_MAX)
            return fail(ERR_DATA, "%s: sentence %lld has %lld tokens", path, (long long)i + 1,
                        (long long)tokens);
        if (tokens > all - at)
            return fail(ERR_DATA, "%s: sentence %lld ends beyond %s", path, (long long)i + 1,
                        part->name);
        at += tokens;
        TRY(blocks_add(blocks, (int64_t)tokens));
    }
    part->tokens = (int64_t)at;
    if (at == all && part->size % (size_t)x->width == 0) return OK;
    return fail(ERR_DATA, "%s: %zu bytes, but %s says %llu tokens of %d bytes", part->name,
                part->size, path, (unsigned long long)at, x->width);
}

/* ---- .bin ---- */

/* Ids as stored; what is too large for an int32_t is made -1, which is none. */
static void load_tokens(const Part *part, int64_t from, int64_t count, int32_t *out)
{
    const uint8_t *p = part->bytes + from * part->width;
    for (int64_t i = 0; i < count && part->width == 2; i++)
        out[i] = (p[2 * i] | p[2 * i + 1] << 8) - part->above;
    for (int64_t i = 0; i < count && part->width != 2; i++) {
        const uint64_t id = wire_load(p + i * part->width, part->width);
        out[i] = id <= INT32_MAX ? (int32_t)id - part->above : -1;
    }
}

static Status refuse_token(const Part *part, int64_t at, int32_t id, const Dictionary *d)
{
    if (id >= 0 && id == d->mask)
        return fail(ERR_DATA, "%s: token %lld is <mask>, which the text must not hold", part->name,
                    (long long)at + 1);
    return fail(ERR_DATA, "%s: token %lld is not a word of %s, which has ids up to %d", part->name,
                (long long)at + 1, d->path, d->listed - 1);
}

static Status check_tokens(Indexed *x, Part *part, const Dictionary *d)
{
    int32_t ids[PIECE];
    for (int64_t at = 0; at < part->tokens; at += PIECE) {
        const int64_t count = part->tokens - at < PIECE ? part->tokens - at : PIECE;
        int wrong = 0, unknown = 0;
        load_tokens(part, at, count, ids);
        for (int64_t i = 0; i < count; i++) {
            wrong |= ids[i] < 0 || ids[i] >= d->listed || ids[i] == d->mask;
            unknown += ids[i] == TOKEN_UNK;
        }
        x->unknown += unknown;
        for (int64_t i = 0; wrong && i < count; i++)
            if (ids[i] < 0 || ids[i] >= d->listed || ids[i] == d->mask)
                return refuse_token(part, at + i, ids[i], d);
    }
    part->witness = -1;
    for (size_t i = 0; i < part->size && part->witness < 0; i++)
        if (part->bytes[i]) part->witness = (int64_t)i;
    return OK;
}

static Status map_tokens(Part *part)
{
    struct stat info;
    const int fd = open(part->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(ERR_DATA, "%s: cannot open: %s", part->name, strerror(errno));
    int error = fstat(fd, &info) == 0 ? 0 : errno;
    if (!error && !S_ISREG(info.st_mode)) error = ENXIO;
    part->size = error ? 0 : (size_t)info.st_size;
    part->bytes = part->size > 0 ? mapping_open(fd, part->size, false) : NULL;
    if (part->size > 0 && !part->bytes) error = errno;
    close(fd);
    return error ? fail(ERR_DATA, "%s: cannot be read: %s", part->name,
                        error == ENXIO ? "not a regular file" : strerror(error))
                 : OK;
}

/* ---- parts ---- */

static Status open_part(Indexed *x, Part *part, const char *path, const Dictionary *d,
                        Blocks *blocks)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    IndexFile file;
    TRY(fs_read_file(path, &bytes, &size));
    Status status = parse_index(&file, bytes, size, path);
    if (status == OK) status = map_tokens(part);
    part->width = status == OK ? file.width : 1;
    part->above = status == OK ? file.above : 0;
    part->first = blocks->tokens;
    if (status == OK) status = take_sentences(&file, part, blocks, path);
    mem_free(bytes);
    return status == OK ? check_tokens(x, part, d) : status;
}

static char *part_name(const char *prefix, int part, const char *ending)
{
    StrBuf b = { 0 };
    str_printf(&b, "%s%.0d%s", prefix, part, ending); /* the first has no number */
    if (!b.failed) return b.text;
    str_free(&b);
    return NULL;
}

/* Explains why prefix.idx does not exist. */
static Status no_index(const char *prefix)
{
    static const char *const endings[] = { "", ".fasta" };
    static const char *const names[] = { "raw", "fasta" };
    for (int i = 0; i < 2; i++) {
        char *name = part_name(prefix, 0, endings[i]);
        if (!name) return ERR_MEMORY;
        const bool there = fs_exists(name) && !fs_is_dir(name);
        mem_free(name);
        if (there)
            return fail(ERR_DATA,
                        "%s%s: format %s is not supported; run fairseq-preprocess with "
                        "--dataset-impl mmap",
                        prefix, endings[i], names[i]);
    }
    return fail(ERR_DATA, "%s.idx: no such file", prefix);
}

static Status open_parts(Indexed *x, const char *prefix, const Dictionary *d, Blocks *blocks)
{
    for (;; x->count++) {
        char *path = part_name(prefix, x->count, ".idx");
        if (!path) return ERR_MEMORY;
        const bool there = fs_exists(path);
        Status status = OK;
        if (there && x->count == PARTS)
            status = fail(ERR_DATA, "%s: a set has at most %d parts", path, PARTS);
        else if (there) {
            Part *part = &x->parts[x->count];
            part->name = part_name(prefix, x->count, ".bin");
            status = part->name ? open_part(x, part, path, d, blocks) : ERR_MEMORY;
        }
        mem_free(path);
        if (status != OK) {
            if (x->count < PARTS) x->count++; /* to be closed */
            return status;
        }
        if (!there) return x->count > 0 ? blocks_end(blocks) : no_index(prefix);
    }
}

Status indexed_open(Indexed **out, const char *prefix, const Dictionary *d, Blocks *blocks)
{
    *out = NULL;
    Indexed *x = mem_calloc(1, sizeof *x);
    if (!x) return ERR_MEMORY;
    Status status = open_parts(x, prefix, d, blocks);
    if (status == OK) *out = x;
    else indexed_close(x);
    return status;
}

void indexed_close(Indexed *x)
{
    if (!x) return;
    for (int i = 0; i < x->count; i++) {
        mapping_close(x->parts[i].bytes, x->parts[i].size);
        mem_free(x->parts[i].name);
    }
    mem_free(x);
}

int64_t indexed_unknown(const Indexed *x)
{
    return x->unknown;
}

Status indexed_read(const Indexed *x, int64_t first, int64_t count, int32_t *out)
{
    int i = 0;
    while (count > 0) {
        while (first >= x->parts[i].first + x->parts[i].tokens) i++;
        const Part *part = &x->parts[i];
        const int64_t from = first - part->first, left = part->tokens - from;
        const int64_t n = count < left ? count : left;
        load_tokens(part, from, n, out);
        /* A mapping that lost its file reads as zeros (base/mapping.h). */
        if (part->witness >= 0 && part->bytes[part->witness] == 0)
            return fail(ERR_IO, "%s: was cut short, or can no longer be read", part->name);
        first += n;
        count -= n;
        out += n;
    }
    return OK;
}
