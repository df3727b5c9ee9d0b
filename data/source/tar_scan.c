/* tar_scan.c - see tar_scan.h.
 *
 * All members are listed first, with the checksum of each image and the number in each .cls; then
 * links are followed, by a table of the members in the order of their paths. A hard link leads to a
 * member, a symbolic one starts from its own folder. What they lead to is read once more where it
 * was not known to be an image or a label. */
#include "data/source/tar_scan.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "data/index/scan.h"
#include "data/source/packed_scan.h"
#include <stdlib.h>
#include <string.h>

#define LABEL_BYTES 32
#define PIECE_BYTES ((size_t)64 << 10)
#define MAX_HOPS    40

typedef struct Reading {
    TarScan *out;
    TarReader reader;
    StrBuf path;
    TarItem **sorted; /* [count] by path, of those with one path the last */
    size_t count;
    uint8_t buffer[PIECE_BYTES];
} Reading;

int tar_scan_compare(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    if (*a == *b || !*a || !*b) return (*a != '\0') - (*b != '\0');
    if (*a == '/' || *b == '/') return *a == '/' ? -1 : 1;
    return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

/* ---- what members hold ---- */

static Status read_image(Reading *r, TarItem *item)
{
    if (item->bytes > INDEX_MAX_SAMPLE_BYTES)
        return fail(ERR_DATA, "%s: larger than 64 MB", item->path);
    item->crc = 0;
    for (uint64_t left = item->bytes; left > 0;) {
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        TRY(tar_read(&r->reader, r->buffer, n));
        item->crc = crc32c_update(item->crc, r->buffer, n);
        left -= n;
    }
    return OK;
}

static Status read_label(Reading *r, TarItem *item)
{
    char text[LABEL_BYTES + 1] = { 0 };
    int64_t label = -1;
    if (item->bytes <= LABEL_BYTES) TRY(tar_read(&r->reader, text, (size_t)item->bytes));
    if (item->bytes > LABEL_BYTES || !str_to_i64(text, &label) || label < 0 ||
        label >= PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "%s: not a label: %.32s", item->path, text);
    item->label = (uint32_t)label;
    return OK;
}

static Status read_content(Reading *r, TarItem *item)
{
    if (item->part == TAR_REST) return OK;
    return item->part == TAR_IMAGE ? read_image(r, item) : read_label(r, item);
}

/* ---- the list of members ---- */

static Status clean_path(Reading *r, const char *folder, size_t bytes, const char *path,
                         bool *inside)
{
    str_clear(&r->path);
    *inside = tar_clean_path(&r->path, folder, bytes, path);
    return r->path.failed ? fail(ERR_MEMORY, "out of memory while listing samples") : OK;
}

static Status name_item(Reading *r, TarItem *item)
{
    TarScan *out = r->out;
    item->path = arena_strdup(out->arena, r->path.text);
    if (!item->path || !item->link) return ERR_MEMORY;
    item->hidden = item->path[0] == '.' || strstr(item->path, "/.");
    if (item->kind == TAR_FOLDER || item->kind == TAR_OTHER) return OK;
    const char *slash = strrchr(item->path, '/'), *dot = strchr(slash ? slash : item->path, '.');
    const bool label = str_ends_with_nocase(item->path, ".cls");
    item->whole = dot && !strchr(dot + 1, '.');
    item->key_bytes = dot && !item->hidden ? (size_t)(dot - item->path) : 0;
    if (scan_is_picture(item->path)) item->part = TAR_IMAGE;
    else if (label && item->whole) item->part = TAR_LABEL;
    out->has_labels |= label && !item->hidden;
    return OK;
}

static Status add_item(Reading *r, const TarMember *m)
{
    TarScan *out = r->out;
    bool inside = true;
    TRY(clean_path(r, "", 0, m->path, &inside));
    out->has_top |= !r->path.text[0] && m->kind == TAR_FOLDER;
    if (!r->path.text[0]) return OK; /* "./" */
    if (!mem_grow(&out->items, out->count, &out->capacity, sizeof *out->items)) return ERR_MEMORY;
    TarItem *item = &out->items[out->count++];
    *item = (TarItem){ .link = m->kind == TAR_FILE ? "" : arena_strdup(out->arena, m->link),
                       .offset = m->offset,
                       .bytes = m->bytes,
                       .kind = m->kind };
    TRY(name_item(r, item));
    if (item->hidden) return OK;
    if (item->kind == TAR_SPARSE && item->part != TAR_REST)
        return fail(ERR_DATA, "%s is kept as a sparse file; pack it without --sparse", item->path);
    return item->kind == TAR_FILE ? read_content(r, item) : OK;
}

static Status list_members(Reading *r)
{
    TarMember m;
    bool more = true;
    for (;;) {
        TRY(tar_next(&r->reader, &m, &more));
        if (!more) return OK;
        TRY(add_item(r, &m));
    }
}

/* ---- links ---- */

static int by_path(const void *pa, const void *pb)
{
    const TarItem *a = *(TarItem *const *)pa, *b = *(TarItem *const *)pb;
    const int order = tar_scan_compare(a->path, b->path);
    return order ? order : a < b ? -1 : 1;
}

static Status sort_items(Reading *r)
{
    const TarScan *out = r->out;
    if (!(r->sorted = mem_alloc((out->count + 1) * sizeof *r->sorted))) return ERR_MEMORY;
    for (size_t i = 0; i < out->count; i++) r->sorted[i] = &out->items[i];
    if (out->count) qsort(r->sorted, out->count, sizeof *r->sorted, by_path);
    for (size_t i = 0; i < out->count; i++) {
        TarItem *item = r->sorted[i];
        item->replaced = i + 1 < out->count && strcmp(item->path, r->sorted[i + 1]->path) == 0;
        if (!item->replaced) r->sorted[r->count++] = item;
    }
    return OK;
}

/* The last member of that path, or NULL. *folder: it is one, perhaps only by what lies below. */
static const TarItem *find(const Reading *r, const char *path, bool *folder)
{
    const size_t bytes = strlen(path);
    const TarItem *found = NULL;
    size_t low = 0, high = r->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (tar_scan_compare(r->sorted[middle]->path, path) < 0) low = middle + 1;
        else high = middle;
    }
    if (low < r->count && strcmp(r->sorted[low]->path, path) == 0) found = r->sorted[low];
    const char *next = low < r->count ? r->sorted[low]->path : "";
    *folder = found ? found->kind == TAR_FOLDER
                    : bytes == 0 || (strncmp(next, path, bytes) == 0 && next[bytes] == '/');
    return found;
}

/* Follows a link: *to is the file that it leads to, or *wrong says why there is none, and *folder
 * whether it is a folder. */
static Status follow(Reading *r, const TarItem *link, const TarItem **to, const char **wrong,
                     bool *folder)
{
    *folder = false;
    for (int hops = 0; hops < MAX_HOPS; hops++) {
        const bool symbolic = link->kind == TAR_SYMLINK;
        const char *slash = symbolic ? strrchr(link->path, '/') : NULL;
        bool inside = false;
        TRY(clean_path(r, link->path, slash ? (size_t)(slash - link->path) : 0, link->link,
                       &inside));
        *wrong = "which is outside the archive";
        if (!inside || (symbolic && link->link[0] == '/')) return OK;
        *to = link = find(r, r->path.text, folder);
        *wrong = *folder ? "which is a folder" : "which is not in the archive";
        if (*folder || !link) return OK;
        *wrong = link->kind == TAR_FILE ? NULL : "which is not a regular file";
        if (link->kind != TAR_HARD_LINK && link->kind != TAR_SYMLINK) return OK;
    }
    *wrong = "which leads back to itself";
    return OK;
}

/* By its ending; what else has a dot in its name may be a class, as 002.bee is. */
static bool is_other_file(const char *path)
{
    static const char *const endings[] = {
        ".txt",  ".md",   ".rst", ".csv", ".tsv",  ".json", ".jsonl", ".xml",  ".yaml", ".yml",
        ".toml", ".html", ".log", ".pdf", ".doc",  ".docx", ".xls",   ".xlsx", ".py",   ".ipynb",
        ".sh",   ".m",    ".mat", ".npy", ".npz",  ".pkl",  ".pt",    ".pth",  ".h5",   ".hdf5",
        ".bin",  ".dat",  ".db",  ".gz",  ".bz2",  ".xz",   ".zst",   ".zip",  ".tar",  ".tgz",
        ".gif",  ".webp", ".bmp", ".tif", ".tiff", ".avif", ".heic",  ".svg",  ".ppm",  ".pgm",
        ".cls",  ".jp2",  ".mp4", ".avi", ".wav",  ".md5",  ".sha256"
    };
    bool yes = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !yes; i++)
        yes = str_ends_with_nocase(path, endings[i]);
    return yes;
}

static Status take_link(Reading *r, TarItem *link)
{
    const TarItem *to = NULL;
    const char *wrong = NULL;
    bool folder = false;
    TRY(follow(r, link, &to, &wrong, &folder));
    if (wrong) {
        const char *says = arena_printf(
            r->out->arena,
            "%s is a link to %s, %s; tar --dereference packs the files that links point to",
            link->path, link->link, wrong);
        if (!says) return ERR_MEMORY;
        if (link->part != TAR_REST) return fail(ERR_DATA, "%s", says);
        /* it may stand for a class */
        if ((folder || !is_other_file(link->path)) && !r->out->lost_link) r->out->lost_link = says;
        return OK;
    }
    link->offset = to->offset;
    link->bytes = to->bytes;
    link->crc = to->crc;
    link->label = to->label;
    if (to->part == link->part && !to->hidden) return OK;
    tar_return(&r->reader, to->offset, to->bytes);
    return read_content(r, link);
}

static Status read_all(Reading *r)
{
    TarScan *out = r->out;
    TRY(arena_create(&out->arena, 0));
    TRY(list_members(r));
    TRY(sort_items(r));
    for (size_t i = 0; i < out->count; i++) {
        TarItem *item = &out->items[i];
        if (item->hidden || (item->kind != TAR_HARD_LINK && item->kind != TAR_SYMLINK)) continue;
        TRY(take_link(r, item));
    }
    return OK;
}

Status tar_scan_read(TarScan *out, ByteStream *s)
{
    Reading *r FREED = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->out = out;
    r->reader.stream = s;
    const Status status = read_all(r);
    tar_free(&r->reader);
    str_free(&r->path);
    mem_free((void *)r->sorted);
    return status;
}

void tar_scan_free(TarScan *t)
{
    mem_free(t->items);
    arena_destroy(t->arena);
}
