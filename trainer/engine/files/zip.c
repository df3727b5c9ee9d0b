/* zip.c - see zip.h. Offsets are those of PKWARE's APPNOTE: 4.3.12 a file in the directory, 4.3.7
 * its own header, 4.3.16 the end of the directory, 4.3.14 and 4.3.15 those of zip64, 4.5.3 its
 * field. Checksums are not looked at: torch.save() need not write any. */
#include "trainer/engine/files/zip.h"
#include "base/wire.h"
#include <stdbool.h>
#include <string.h>

enum { END_BYTES = 22, COMMENT_MAX = 65535, LOCATOR_BYTES = 20, END64_BYTES = 56 };
enum { ENTRY_BYTES = 46, HEADER_BYTES = 30, FIELD64 = 1, FIELD_HEAD = 4 };

typedef struct Zip {
    const uint8_t *p;
    size_t bytes;
    uint64_t count, at, length; /* of the directory */
} Zip;

static uint64_t number(const uint8_t *p, int bytes)
{
    return wire_load(p, bytes);
}

static bool holds(const Zip *z, uint64_t at, uint64_t bytes)
{
    return at <= z->bytes && bytes <= z->bytes - at;
}

static bool is_at(const Zip *z, uint64_t at, uint64_t bytes, const char *mark)
{
    return holds(z, at, bytes) && memcmp(z->p + at, mark, 4) == 0;
}

static Status find_directory(Zip *z)
{
    size_t end = z->bytes;
    for (size_t comment = 0; comment <= COMMENT_MAX && z->bytes >= END_BYTES + comment; comment++) {
        const size_t at = z->bytes - END_BYTES - comment;
        if (!is_at(z, at, END_BYTES, "PK\5\6") || number(z->p + at + 20, 2) != comment) continue;
        end = at;
        break;
    }
    if (end == z->bytes)
        return fail(ERR_DATA, "a zip archive without a directory; is it truncated?");
    z->count = number(z->p + end + 10, 2);
    z->length = number(z->p + end + 12, 4);
    z->at = number(z->p + end + 16, 4);
    if (end < LOCATOR_BYTES || !is_at(z, end - LOCATOR_BYTES, LOCATOR_BYTES, "PK\6\7")) return OK;
    const uint64_t end64 = number(z->p + end - LOCATOR_BYTES + 8, 8);
    if (!is_at(z, end64, END64_BYTES, "PK\6\6"))
        return fail(ERR_DATA, "a zip archive with a missing zip64 directory");
    z->count = number(z->p + end64 + 32, 8);
    z->length = number(z->p + end64 + 40, 8);
    z->at = number(z->p + end64 + 48, 8);
    return OK;
}

/* What does not fit into 32 bits is in a field of its own, in this order. */
static bool widen(const uint8_t *extra, size_t bytes, uint64_t *const values[3])
{
    size_t id, length;
    for (size_t at = 0; at + FIELD_HEAD <= bytes; at += length) {
        id = (size_t)number(extra + at, 2);
        length = (size_t)number(extra + at + 2, 2);
        at += FIELD_HEAD;
        if (length > bytes - at) return false;
        if (id != FIELD64) continue;
        for (size_t i = 0, used = 0; i < 3; i++) {
            if (*values[i] != UINT32_MAX) continue;
            if (used + 8 > length) return false;
            *values[i] = number(extra + at + used, 8);
            used += 8;
        }
        return true;
    }
    return *values[0] != UINT32_MAX && *values[1] != UINT32_MAX && *values[2] != UINT32_MAX;
}

/* The file whose entry in the directory is at *at, which is set behind it. */
static Status read_entry(const Zip *z, uint64_t *at, uint64_t end, ZipEntry *e)
{
    if (!is_at(z, *at, ENTRY_BYTES, "PK\1\2") || end - *at < ENTRY_BYTES)
        return fail(ERR_DATA, "a zip archive with a damaged directory");
    const uint8_t *p = z->p + *at;
    const size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2);
    const uint64_t all = ENTRY_BYTES + name + extra + number(p + 32, 2);
    uint64_t packed = number(p + 20, 4), bytes = number(p + 24, 4), header = number(p + 42, 4);
    if (all > end - *at ||
        !widen(p + ENTRY_BYTES + name, extra, (uint64_t *[3]){ &bytes, &packed, &header }))
        return fail(ERR_DATA, "a zip archive with a damaged directory");
    *at += all;
    if (number(p + 10, 2) != 0 || packed != bytes || (number(p + 8, 2) & 1))
        return fail(ERR_DATA, "a zip archive with compressed or encrypted files, which torch.save "
                              "does not write");
    if (!is_at(z, header, HEADER_BYTES, "PK\3\4"))
        return fail(ERR_DATA, "a zip archive with a missing file; is it truncated?");
    const uint8_t *h = z->p + header;
    const uint64_t data = header + HEADER_BYTES + number(h + 26, 2) + number(h + 28, 2);
    if (!holds(z, data, bytes))
        return fail(ERR_DATA, "a zip archive with a missing file; is it truncated?");
    *e = (ZipEntry){ (const char *)p + ENTRY_BYTES, name, z->p + data, (size_t)bytes };
    return OK;
}

Status zip_walk(const uint8_t *archive, size_t bytes,
                Status (*take)(void *cookie, const ZipEntry *e), void *cookie)
{
    Zip z = { .p = archive, .bytes = bytes };
    TRY(find_directory(&z));
    if (!holds(&z, z.at, z.length))
        return fail(ERR_DATA, "a zip archive with a missing directory; is it truncated?");
    uint64_t at = z.at;
    for (uint64_t i = 0; i < z.count; i++) {
        ZipEntry e;
        TRY(read_entry(&z, &at, z.at + z.length, &e));
        TRY(take(cookie, &e));
    }
    return OK;
}
