/* tar.c - see tar.h.
 *
 * A member is a header of 512 bytes and its content, padded to 512. Numbers are octal text, or base
 * 256 where the first byte has its high bit set. A pax header (type x) holds "length key=value"
 * lines for the next member, a GNU header its name (type L) or where it leads (type K). A block of
 * zeros ends the archive; a file that ends before it, also between members, is cut short, and
 * nothing may follow, so that no sample is lost without a word. What does not add up - a wrong
 * header checksum, a number that is none, a member longer than the file - is an error with its
 * place. */
#include "data/source/tar.h"
#include <string.h>

#define BLOCK_BYTES     512
#define RECORD_MAX      ((uint64_t)1 << 20) /* bytes of a pax or GNU header's content */
#define MAX_MEMBER_SIZE ((uint64_t)1 << 62)

typedef struct Field {
    size_t at, bytes;
} Field;

static const Field name_field = { 0, 100 }, size_field = { 124, 12 }, checksum_field = { 148, 8 },
                   link_field = { 157, 100 }, prefix_field = { 345, 155 };
#define TYPE_AT  156
#define MAGIC_AT 257

static Status damaged(const TarReader *t, const char *what)
{
    return fail(ERR_DATA, "%s byte %llu", what, (unsigned long long)byte_stream_offset(t->stream));
}

static Status check_memory(bool failed)
{
    return failed ? fail(ERR_MEMORY, "out of memory reading a tar header") : OK;
}

void tar_free(TarReader *t)
{
    str_free(&t->path);
    str_free(&t->link);
    str_free(&t->next_path);
    str_free(&t->next_link);
    str_free(&t->record);
}

/* ---- numbers ---- */

static bool base256(const uint8_t *p, size_t bytes, uint64_t *out)
{
    uint64_t value = p[0] & 0x3f;
    if (p[0] & 0x40) return false; /* negative */
    for (size_t i = 1; i < bytes; i++) {
        if (value >> 54) return false;
        value = value << 8 | p[i];
    }
    *out = value;
    return true;
}

static bool octal(const uint8_t *p, size_t bytes, uint64_t *out)
{
    size_t i = 0, digits = 0;
    uint64_t value = 0;
    while (i < bytes && p[i] == ' ') i++;
    for (; i < bytes && p[i] >= '0' && p[i] <= '7'; i++, digits++)
        value = value << 3 | (uint64_t)(p[i] - '0');
    if (i < bytes && p[i] != ' ' && p[i] != '\0') return false;
    *out = value;
    return digits > 0;
}

static bool number(const uint8_t *block, Field f, uint64_t *out)
{
    const uint8_t *p = block + f.at;
    return p[0] & 0x80 ? base256(p, f.bytes, out) : octal(p, f.bytes, out);
}

/* The sum of the header's bytes, its own field taken as blanks; old programs summed signed
 * bytes. */
static bool checksum_is_right(const uint8_t *block)
{
    uint64_t said = 0;
    int64_t plain = 0, with_sign = 0;
    if (!number(block, checksum_field, &said)) return false;
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        bool own = i >= checksum_field.at && i < checksum_field.at + checksum_field.bytes;
        plain += own ? ' ' : block[i];
        with_sign += own ? ' ' : (int8_t)block[i];
    }
    return said == (uint64_t)plain || (int64_t)said == with_sign;
}

/* ---- blocks ---- */

static Status read_exactly(TarReader *t, void *out, uint64_t bytes)
{
    size_t got = 0;
    TRY(byte_stream_read(t->stream, out, (size_t)bytes, &got));
    return got == bytes ? OK : damaged(t, "the archive is truncated at");
}

static bool is_zero(const uint8_t *block)
{
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        if (block[i]) return false;
    return true;
}

/* Behind the zero block that ends an archive there may be more of them, and nothing else. */
static Status check_end(TarReader *t, uint8_t block[BLOCK_BYTES])
{
    size_t got = 0;
    do {
        memset(block, 0, BLOCK_BYTES);
        TRY(byte_stream_read(t->stream, block, BLOCK_BYTES, &got));
        if (!is_zero(block)) return damaged(t, "the archive has data after its end, before");
    } while (got > 0);
    return OK;
}

/* *more false: the end. */
static Status read_header(TarReader *t, uint8_t block[BLOCK_BYTES], bool *more)
{
    TRY(read_exactly(t, block, BLOCK_BYTES));
    *more = !is_zero(block);
    if (!*more) return check_end(t, block);
    return checksum_is_right(block) ? OK : damaged(t, "not a tar header before");
}

Status tar_read(TarReader *t, void *out, size_t bytes)
{
    ASSERT(bytes <= t->left - t->padding);
    TRY(read_exactly(t, out, bytes));
    t->left -= bytes;
    return OK;
}

void tar_return(TarReader *t, uint64_t offset, uint64_t bytes)
{
    byte_stream_seek(t->stream, offset);
    t->left = bytes;
    t->padding = 0;
}

static Status begin_content(TarReader *t, uint64_t bytes)
{
    if (bytes > MAX_MEMBER_SIZE) return damaged(t, "a member of impossible size before");
    t->padding = (BLOCK_BYTES - bytes % BLOCK_BYTES) % BLOCK_BYTES;
    t->left = bytes + t->padding;
    return OK;
}

static Status skip_rest(TarReader *t)
{
    uint64_t left = t->left;
    t->left = 0;
    return left > 0 ? read_exactly(t, NULL, left) : OK;
}

/* ---- what is said ahead of a member ---- */

static Status read_record(TarReader *t, uint64_t bytes)
{
    char piece[4096];
    str_clear(&t->record);
    if (bytes > RECORD_MAX) return damaged(t, "an extended header of impossible size before");
    TRY(begin_content(t, bytes));
    while (bytes > 0) {
        size_t n = bytes < sizeof piece ? (size_t)bytes : sizeof piece;
        TRY(tar_read(t, piece, n));
        str_add_n(&t->record, piece, n);
        bytes -= n;
    }
    str_add_n(&t->record, "", 0);
    TRY(check_memory(t->record.failed));
    return skip_rest(t);
}

static bool is_key(const char *key, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(key, wanted, bytes) == 0;
}

static void take_pax_value(TarReader *t, const char *key, size_t key_bytes, const char *value,
                           size_t bytes)
{
    const bool is_path = is_key(key, key_bytes, "path");
    if (is_path || is_key(key, key_bytes, "linkpath")) {
        StrBuf *to = is_path ? &t->next_path : &t->next_link;
        str_clear(to);
        str_add_n(to, value, bytes);
    } else if (is_key(key, key_bytes, "size")) {
        t->next_size = 0;
        t->has_next_size = true;
        for (size_t i = 0; i < bytes && t->next_size <= MAX_MEMBER_SIZE; i++)
            t->next_size = value[i] >= '0' && value[i] <= '9'
                               ? t->next_size * 10 + (uint64_t)(value[i] - '0')
                               /* refused later */
                               : MAX_MEMBER_SIZE + 1;
    } else if (key_bytes > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        t->next_sparse = true;
    }
}

/* "30 mtime=1350244992.023960108\n", the length counting all of the line. */
static Status take_pax(TarReader *t)
{
    const char *p = t->record.text ? t->record.text : "", *end = p + t->record.length;
    while (p < end && *p) {
        size_t length = 0;
        const char *q = p;
        for (; q < end && *q >= '0' && *q <= '9' && length <= RECORD_MAX; q++)
            length = length * 10 + (size_t)(*q - '0');
        const char *line_end = length <= (size_t)(end - p) ? p + length : NULL;
        if (q == p || !line_end || q >= line_end || *q != ' ' || line_end[-1] != '\n')
            return damaged(t, "a damaged pax header before");
        const char *key = q + 1, *equals = memchr(key, '=', (size_t)(line_end - key));
        if (!equals) return damaged(t, "a damaged pax header before");
        take_pax_value(t, key, (size_t)(equals - key), equals + 1,
                       (size_t)(line_end - 1 - (equals + 1)));
        p = line_end;
    }
    return check_memory(t->next_path.failed || t->next_link.failed);
}

/* ---- members ---- */

static void add_field(StrBuf *out, const uint8_t *block, Field f)
{
    const uint8_t *end = memchr(block + f.at, 0, f.bytes);
    str_add_n(out, (const char *)block + f.at, end ? (size_t)(end - (block + f.at)) : f.bytes);
}

/* A name may not hide a NUL: what is compared is what is shown. */
static void add_text(StrBuf *out, const StrBuf *text)
{
    str_add_n(out, text->text, strnlen(text->text, text->length));
}

static Status name_member(TarReader *t, const uint8_t *block)
{
    str_clear(&t->path);
    str_clear(&t->link);
    if (t->next_path.length > 0) {
        add_text(&t->path, &t->next_path);
    } else {
        bool has_prefix = memcmp(block + MAGIC_AT, "ustar\0", 6) == 0 && block[prefix_field.at];
        if (has_prefix) {
            add_field(&t->path, block, prefix_field);
            str_add_n(&t->path, "/", 1);
        }
        add_field(&t->path, block, name_field);
    }
    if (t->next_link.length > 0) add_text(&t->link, &t->next_link);
    else add_field(&t->link, block, link_field);
    str_add_n(&t->path, "", 0);
    str_add_n(&t->link, "", 0);
    return check_memory(t->path.failed || t->link.failed);
}

static TarKind kind_of(const TarReader *t, char type)
{
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (type == '5' || (is_file && t->path.length > 0 && t->path.text[t->path.length - 1] == '/'))
        return TAR_FOLDER;
    if (type == 'S' || (is_file && t->next_sparse)) return TAR_SPARSE;
    if (is_file && t->path.length > 0) return TAR_FILE;
    return type == '1' ? TAR_HARD_LINK : type == '2' ? TAR_SYMLINK : TAR_OTHER;
}

/* A header that only speaks of the next member; *done is false for it. */
static Status take_header(TarReader *t, const uint8_t *block, TarMember *m, bool *done)
{
    uint64_t bytes = 0;
    char type = (char)block[TYPE_AT];
    if (!number(block, size_field, &bytes)) return damaged(t, "a member of impossible size before");
    *done = false;
    if (type == 'x' || type == 'L' || type == 'K') {
        TRY(read_record(t, bytes));
        if (type == 'x') return take_pax(t);
        StrBuf *to = type == 'L' ? &t->next_path : &t->next_link;
        str_clear(to);
        str_add_n(to, t->record.text, t->record.length);
        return check_memory(to->failed);
    }
    if (type == 'g') return begin_content(t, bytes);
    *done = true;
    TRY(name_member(t, block));
    if (t->has_next_size) bytes = t->next_size;
    /* links, devices and folders: a size there means nothing */
    bool no_content = type >= '1' && type <= '6';
    *m = (TarMember){ .path = t->path.text,
                      .link = t->link.text,
                      .offset = byte_stream_offset(t->stream),
                      .bytes = no_content ? 0 : bytes,
                      .kind = kind_of(t, type) };
    str_clear(&t->next_path);
    str_clear(&t->next_link);
    t->has_next_size = t->next_sparse = false;
    return begin_content(t, m->bytes);
}

Status tar_next(TarReader *t, TarMember *m, bool *more)
{
    uint8_t block[BLOCK_BYTES];
    bool done = false;
    *more = false;
    while (!done) {
        TRY(skip_rest(t));
        TRY(read_header(t, block, more));
        if (!*more) return OK;
        TRY(take_header(t, block, m, &done));
    }
    return OK;
}

bool tar_clean_path(StrBuf *out, const char *folder, size_t folder_bytes, const char *path)
{
    const size_t start = out->length;
    bool inside = true;
    str_add_n(out, folder, folder_bytes);
    for (const char *part = path; *part && !out->failed; part += *part == '/') {
        const size_t bytes = strcspn(part, "/");
        if (bytes == 2 && part[0] == '.' && part[1] == '.') {
            inside = inside && out->length > start;
            while (out->length > start && out->text[--out->length] != '/') {
            }
        } else if (bytes > 1 || (bytes == 1 && part[0] != '.')) {
            if (out->length > start) str_add_n(out, "/", 1);
            str_add_n(out, part, bytes);
        }
        part += bytes;
    }
    str_add_n(out, "", 1);
    return inside;
}
