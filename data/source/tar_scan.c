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
#include "data/source/tar.h"
#include <stdlib.h>
#include <string.h>

#define LABEL_BYTES 32
#define PIECE_BYTES ((size_t)64 << 10)
#define MAX_HOPS    40
#define NONE        SIZE_MAX
#define NO_GROUP    UINT32_MAX

typedef enum Part { PART_OTHER, PART_IMAGE, PART_LABEL } Part; /* by the ending of its name */

typedef struct Item { /* a member */
    uint64_t path_at, link_at, offset, bytes;
    uint32_t crc, label;
    uint32_t group; /* the sample that it is of; NO_GROUP: of none */
    uint16_t kind;  /* TarKind */
    uint8_t part;   /* Part */
    bool known;     /* crc or label are */
    bool whole;     /* what follows the first dot of its name is all of its ending */
    bool hidden;    /* passed over, but links may lead there */
    bool replaced;  /* as TarImage.replaced */
} Item;

typedef struct Place { /* in the order of paths */
    const char *path;
    Item *item;
} Place;

typedef struct Reading {
    TarScan *out;
    TarReader reader;
    bool again; /* the archive was read; now single members of it are */
    StrBuf text, path;
    Item *items;
    size_t count, capacity;
    Place *places; /* [count], once all are listed */
    size_t last;   /* item of a group, NONE before the first */
    uint8_t buffer[PIECE_BYTES];
} Reading;

static const char *path_of(const Reading *r, const Item *item)
{
    return r->text.text + item->path_at;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static Status check_memory(bool failed)
{
    return failed ? fail(ERR_MEMORY, "out of memory while listing samples") : OK;
}

static Status note(TarNote *n, const char *what)
{
    if (n->count++ == 0) str_add(&n->first, what);
    return check_memory(n->first.failed);
}

/* ---- what members hold ---- */

static Status read_bytes(Reading *r, void *out, size_t bytes)
{
    size_t got = 0;
    if (!r->again) return tar_read(&r->reader, out, bytes);
    TRY(byte_stream_read(r->reader.stream, out, bytes, &got));
    return got == bytes ? OK : fail(ERR_DATA, "it has become shorter while it was read");
}

static Status read_image(Reading *r, Item *item, const char *path)
{
    if (item->bytes > INDEX_MAX_SAMPLE_BYTES) return fail(ERR_DATA, "%s: larger than 64 MB", path);
    for (uint64_t left = item->bytes; left > 0;) {
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        TRY(read_bytes(r, r->buffer, n));
        item->crc = crc32c_update(item->crc, r->buffer, n);
        left -= n;
    }
    return OK;
}

static Status read_label(Reading *r, Item *item, const char *path)
{
    char text[LABEL_BYTES + 1] = { 0 };
    int64_t label = -1;
    if (item->bytes <= LABEL_BYTES) TRY(read_bytes(r, text, (size_t)item->bytes));
    if (item->bytes > LABEL_BYTES || !str_to_i64(text, &label) || label < 0 ||
        label >= PACKED_SCAN_MAX_CLASSES)
        return fail(ERR_DATA, "%s: not a label: %.32s", path, text);
    item->label = (uint32_t)label;
    return OK;
}

/* Of the item what its name says. */
static Status read_content(Reading *r, Item *item)
{
    const char *path = path_of(r, item);
    item->known = true;
    return item->part == PART_IMAGE ? read_image(r, item, path) : read_label(r, item, path);
}

/* ---- the list of members ---- */

/* A part of the path begins with a dot. */
static bool is_hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.");
}

static size_t key_bytes(const char *path)
{
    const char *name = name_of(path);
    return (size_t)(name - path) + strcspn(name, ".");
}

/* Members with one key that follow each other are of one sample. */
static void find_group(Reading *r, Item *item)
{
    const char *path = path_of(r, item), *dot = strchr(name_of(path), '.');
    if (item->hidden || !dot) return;
    const Item *last = r->last == NONE ? NULL : &r->items[r->last];
    const size_t key = key_bytes(path);
    const bool same =
        last && key_bytes(path_of(r, last)) == key && memcmp(path_of(r, last), path, key) == 0;
    item->group = last ? last->group + !same : 0;
    item->whole = !strchr(dot + 1, '.');
    r->last = (size_t)(item - r->items);
}

static Status add_item(Reading *r, const TarMember *m)
{
    if (r->count == r->capacity) {
        const size_t wanted = r->capacity ? 2 * r->capacity : 256;
        Item *grown = mem_realloc(r->items, wanted * sizeof *grown);
        if (!grown) return ERR_MEMORY;
        r->items = grown;
        r->capacity = wanted;
    }
    Item *item = &r->items[r->count];
    *item = (Item){ .path_at = r->text.length,
                    .offset = m->offset,
                    .bytes = m->bytes,
                    .label = TAR_SCAN_NO_LABEL,
                    .group = NO_GROUP,
                    .kind = (uint16_t)m->kind };
    tar_clean_path(&r->text, "", 0, m->path);
    item->link_at = r->text.length;
    str_add_n(&r->text, m->link, strlen(m->link) + 1);
    TRY(check_memory(r->text.failed));
    const char *path = path_of(r, item);
    if (!path[0]) return OK; /* "./" */
    r->count++;
    item->hidden = is_hidden(path);
    if (item->kind == TAR_FOLDER || item->kind == TAR_OTHER) return OK;
    item->part = scan_is_picture(path)                ? PART_IMAGE
                 : str_ends_with_nocase(path, ".cls") ? PART_LABEL
                                                      : PART_OTHER;
    find_group(r, item);
    if (item->hidden || item->part == PART_OTHER) return OK;
    if (item->part == PART_LABEL) r->out->has_labels = true;
    if (item->kind == TAR_SPARSE)
        return fail(ERR_DATA, "%s is kept as a sparse file; pack it without --sparse", path);
    const bool wanted = item->part == PART_IMAGE || item->whole;
    return item->kind == TAR_FILE && wanted ? read_content(r, item) : OK;
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

/* ---- by path ---- */

static int by_path(const void *pa, const void *pb)
{
    const Place *a = pa, *b = pb;
    const int order = strcmp(a->path, b->path);
    return order ? order : a->item < b->item ? -1 : 1;
}

static Status sort_items(Reading *r)
{
    r->places = mem_alloc((r->count + 1) * sizeof *r->places);
    if (!r->places) return ERR_MEMORY;
    for (size_t i = 0; i < r->count; i++)
        r->places[i] = (Place){ path_of(r, &r->items[i]), &r->items[i] };
    if (r->count) qsort(r->places, r->count, sizeof *r->places, by_path);
    for (size_t i = 1; i < r->count; i++)
        r->places[i - 1].item->replaced = strcmp(r->places[i - 1].path, r->places[i].path) == 0;
    return OK;
}

/* The first place of which the path does not come before this one. */
static size_t lower_bound(const Reading *r, const char *path)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->places[middle].path, path) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The last member of that path. */
static Item *find(const Reading *r, const char *path)
{
    Item *found = NULL;
    for (size_t i = lower_bound(r, path); i < r->count && strcmp(r->places[i].path, path) == 0; i++)
        found = r->places[i].item;
    return found;
}

/* Whether something lies below the folder r->path. images: only those that are taken. */
static bool holds(Reading *r, bool images)
{
    const size_t bytes = strlen(r->path.text) + 1;
    r->path.length = bytes - 1;
    str_add_n(&r->path, "/", 1);
    if (r->path.failed) return true; /* which is told elsewhere */
    bool found = false;
    for (size_t i = lower_bound(r, r->path.text); i < r->count && !found; i++) {
        if (strncmp(r->places[i].path, r->path.text, bytes) != 0) break;
        const Item *item = r->places[i].item;
        found = !images || (item->part == PART_IMAGE && !item->hidden);
    }
    r->path.text[bytes - 1] = '\0';
    return found;
}

/* ---- links ---- */

/* Follows a link: *to is the file that it leads to; else what is wrong is returned, and *folder
 * whether it is a folder. r->path is where it came to. */
static const char *follow(Reading *r, const Item *link, Item **to, bool *folder)
{
    *folder = false;
    for (int hops = 0; hops < MAX_HOPS; hops++) {
        const char *target = r->text.text + link->link_at, *path = path_of(r, link);
        const char *slash = link->kind == TAR_SYMLINK ? strrchr(path, '/') : NULL;
        str_clear(&r->path);
        if (!tar_clean_path(&r->path, path, slash ? (size_t)(slash - path) : 0, target) ||
            (link->kind == TAR_SYMLINK && target[0] == '/'))
            return "which leads out of the archive";
        if (r->path.failed) return "for which memory is short";
        *to = find(r, r->path.text);
        *folder = *to ? (*to)->kind == TAR_FOLDER : !r->path.text[0] || holds(r, false);
        if (*folder) return "which is a folder";
        if (!*to) return "which is not in the archive";
        if ((*to)->kind == TAR_FILE) return NULL;
        if ((*to)->kind != TAR_HARD_LINK && (*to)->kind != TAR_SYMLINK)
            return "which is no plain file";
        link = *to;
    }
    return "which leads round in a circle";
}

static void describe_link(const Reading *r, const Item *link, const char *wrong, StrBuf *out)
{
    str_printf(out, "%s is a link to %s, %s; tar's --dereference packs what links lead to",
               path_of(r, link), r->text.text + link->link_at, wrong);
}

static Status take_link(Reading *r, Item *link)
{
    Item *to = NULL;
    bool folder = false;
    StrBuf sentence = { 0 };
    const char *wrong = follow(r, link, &to, &folder);
    TRY(check_memory(r->path.failed));
    if (wrong) {
        describe_link(r, link, wrong, &sentence);
        Status status = check_memory(sentence.failed);
        /* without an ending it may stand for a class */
        const bool matters = folder || !strchr(name_of(path_of(r, link)), '.');
        if (status == OK && link->part != PART_OTHER) status = fail(ERR_DATA, "%s", sentence.text);
        else if (status == OK && matters) status = note(&r->out->links, sentence.text);
        str_free(&sentence);
        return status;
    }
    link->offset = to->offset;
    link->bytes = to->bytes;
    link->crc = to->crc;
    link->label = to->label;
    if (link->part == PART_OTHER || (link->part == PART_LABEL && !link->whole) ||
        (link->part == to->part && to->known))
        return OK;
    link->crc = 0;
    byte_stream_seek(r->reader.stream, link->offset);
    return read_content(r, link);
}

static Status follow_links(Reading *r)
{
    r->again = true;
    for (size_t i = 0; i < r->count; i++) {
        Item *item = &r->items[i];
        if (item->hidden || (item->kind != TAR_HARD_LINK && item->kind != TAR_SYMLINK)) continue;
        TRY(take_link(r, item));
    }
    return OK;
}

/* ---- what there is ---- */

static Status add_image(Reading *r, const Item *item)
{
    TarScan *out = r->out;
    const char *path = path_of(r, item);
    out->images[out->count++] = (TarImage){ .path_at = out->text.length,
                                            .offset = item->offset,
                                            .bytes = (uint32_t)item->bytes,
                                            .crc = item->crc,
                                            .label = TAR_SCAN_NO_LABEL,
                                            .replaced = item->replaced };
    str_add_n(&out->text, path, strlen(path) + 1);
    return check_memory(out->text.failed);
}

/* A folder that has no image below is one of a class without images, it may be. */
static Status add_folder(Reading *r, const char *path, size_t bytes)
{
    StrBuf *folders = &r->out->folders;
    if (bytes == 0) return OK;
    str_clear(&r->path);
    str_add_n(&r->path, path, bytes);
    TRY(check_memory(r->path.failed));
    if (!holds(r, true)) str_add_n(folders, r->path.text, bytes + 1);
    return check_memory(folders->failed || r->path.failed);
}

/* As a tree. */
static Status take_items(Reading *r)
{
    size_t images = 0;
    const char *last = "";
    size_t last_bytes = 0;
    for (size_t i = 0; i < r->count; i++) images += r->items[i].part == PART_IMAGE;
    if (images && !(r->out->images = mem_alloc(images * sizeof *r->out->images))) return ERR_MEMORY;
    for (size_t i = 0; i < r->count; i++) {
        const Item *item = &r->items[i];
        if (item->hidden) continue;
        const char *path = path_of(r, item);
        if (item->part == PART_IMAGE) {
            TRY(add_image(r, item));
            continue;
        }
        if (item->kind != TAR_FOLDER) TRY(left_out_add(&r->out->left, NULL, path));
        const size_t bytes =
            item->kind == TAR_FOLDER ? strlen(path) : (size_t)(name_of(path) - path);
        const size_t folder = bytes > 0 && path[bytes - 1] == '/' ? bytes - 1 : bytes;
        if (folder == last_bytes && strncmp(last, path, folder) == 0) continue;
        TRY(add_folder(r, path, folder));
        last = path;
        last_bytes = folder;
    }
    return OK;
}

typedef struct Group { /* a sample */
    const Item *first, *best;
    size_t image; /* the best one's place among the images */
    int ending;   /* of it */
    uint32_t label;
} Group;

static Status close_group(Reading *r, const Group *g)
{
    if (!g->first) return OK;
    if (!g->best) return note(&r->out->imageless, path_of(r, g->first));
    r->out->images[g->image].is_samples = true;
    r->out->images[g->image].label = g->label;
    return g->label != TAR_SCAN_NO_LABEL ? OK : note(&r->out->unlabelled, path_of(r, g->best));
}

static Status group_image(Reading *r, Group *g, const Item *item, size_t image)
{
    const int ending = scan_picture_ending(path_of(r, item));
    const bool better = item->whole && (!g->best || ending < g->ending);
    const Item *spare = better ? g->best : item;
    if (g->best && item->whole && ending == g->ending) TRY(note(&r->out->twice, path_of(r, item)));
    if (spare) TRY(note(&r->out->spare, path_of(r, spare)));
    if (better) {
        g->best = item;
        g->image = image;
        g->ending = ending;
    }
    return OK;
}

/* As samples. */
static Status group_items(Reading *r)
{
    Group g = { 0 };
    uint32_t group = NO_GROUP;
    size_t image = 0;
    for (size_t i = 0; i < r->count; i++) {
        const Item *item = &r->items[i];
        if (item->group == NO_GROUP) continue;
        if (item->group != group) {
            TRY(close_group(r, &g));
            g = (Group){ .first = item, .label = TAR_SCAN_NO_LABEL };
            group = item->group;
        }
        if (item->part == PART_IMAGE) TRY(group_image(r, &g, item, image++));
        if (item->part == PART_LABEL && item->whole) g.label = item->label;
    }
    return close_group(r, &g);
}

static Status read_all(Reading *r)
{
    TRY(list_members(r));
    TRY(sort_items(r));
    TRY(follow_links(r));
    TRY(take_items(r));
    return group_items(r);
}

Status tar_scan_read(TarScan *out, ByteStream *s)
{
    Reading *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->out = out;
    r->last = NONE;
    r->reader.stream = s;
    Status status = read_all(r);
    tar_free(&r->reader);
    str_free(&r->text);
    str_free(&r->path);
    mem_free(r->items);
    mem_free(r->places);
    mem_free(r);
    return status;
}

void tar_scan_free(TarScan *t)
{
    TarNote *const notes[] = { &t->unlabelled, &t->imageless, &t->spare, &t->twice, &t->links };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) str_free(&notes[i]->first);
    str_free(&t->text);
    str_free(&t->folders);
    left_out_free(&t->left);
    mem_free(t->images);
}
