/* packed_files.c - see packed_files.h. */
#include "data/source/packed_files.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/index/class_names.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MISSING_SHOWN 5

void packed_files_free(PackedFiles *f)
{
    mem_free(f->names);
    mem_free(f->folder);
    *f = (PackedFiles){ 0 };
}

/* ---- whose they are, by their names ---- */

int packed_files_set(const char *word, size_t bytes)
{
    static const struct {
        const char *word;
        int set;
    } sets[] = { { "train", 1 }, { "training", 1 },   { "val", 2 },  { "valid", 2 },  { "dev", 2 },
                 { "eval", 2 },  { "validation", 2 }, { "test", 3 }, { "testing", 3 } };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strlen(sets[i].word) == bytes && strncasecmp(word, sets[i].word, bytes) == 0)
            return sets[i].set;
    return 0;
}

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) != 0;
}

/* Whether a word goes on from at - 1 to at: "train0", "trainSet" are two. */
static bool goes_on(const char *name, size_t at)
{
    return at > 0 && is_letter(name[at - 1]) && is_letter(name[at]) &&
           !(islower((unsigned char)name[at - 1]) && isupper((unsigned char)name[at]));
}

/* Of the first word from at on that means one. */
static int set_of(const char *name, size_t at)
{
    int set = 0;
    while (name[at] && set == 0) {
        size_t end = at + 1;
        while (goes_on(name, end)) end++;
        set = packed_files_set(name + at, end - at);
        at = end;
    }
    return set;
}

/* Bytes of the whole words with which all names begin: what the set itself is called. */
static size_t common_words(const PackedFiles *f)
{
    size_t common = 0;
    bool inside = false;
    if (f->count == 0) return 0;
    const char *first = f->names[0], *last = f->names[f->count - 1]; /* they are sorted */
    while (first[common] && first[common] == last[common]) common++;
    for (int64_t i = 0; i < f->count; i++) inside |= goes_on(f->names[i], common);
    while (inside && goes_on(first, --common)) {
    }
    return common;
}

static void keep_containers(PackedFiles *f, bool (*is_one)(const char *name))
{
    int64_t count = 0;
    for (int64_t i = 0; i < f->count; i++)
        if (f->names[i][0] != '.' && is_one(f->names[i])) f->names[count++] = f->names[i];
    f->count = count;
}

static void keep_wanted(PackedFiles *f, DataRole role)
{
    const size_t common = common_words(f);
    const char *first[4] = { NULL };
    int sets = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const char **of = &first[set_of(f->names[i], common)];
        if (!*of) *of = f->names[i];
    }
    for (int set = 1; set < 4; set++) sets += first[set] != NULL;
    f->unnamed = sets == 1 ? first[0] : NULL;
    f->unclear = first[1] ? first[1] : first[2] ? first[2] : first[3];
    f->by_role = sets > 1;
    if (!f->by_role) return;
    const int validation = first[2] ? 2 : 3, wanted = role == DATA_TRAIN ? 1 : validation;
    int64_t count = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const int set = set_of(f->names[i], common);
        const bool other = set != 1 && set != validation;
        if (other && f->others++ == 0) f->other = f->names[i];
        if (set == wanted) f->names[count++] = f->names[i];
    }
    f->count = count;
}

/* One container by itself: its name, relative to the folder that it lies in. */
static Status list_one(PackedFiles *out, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t bytes = strlen(name) + 1;
    out->names = mem_alloc(sizeof *out->names + bytes);
    out->folder = fs_parent(path);
    if (!out->names || !out->folder) return ERR_MEMORY;
    out->names[0] = memcpy(out->names + 1, name, bytes);
    out->count = 1;
    return OK;
}

Status packed_files_list(PackedFiles *out, const char *path, DataRole role,
                         bool (*is_one)(const char *name))
{
    *out = (PackedFiles){ 0 };
    Status status = OK;
    if (fs_is_dir(path)) {
        status =
            (out->folder = mem_strdup(path)) ? fs_list(path, &out->names, &out->count) : ERR_MEMORY;
        if (status == OK) keep_containers(out, is_one);
        if (status == OK) keep_wanted(out, role);
    } else if (fs_exists(path) && is_one(path)) {
        status = list_one(out, path);
    }
    if (status != OK) packed_files_free(out);
    return status == ERR_MEMORY ? status : OK;
}

Status packed_files_probe(const char *path, DataRole role, bool (*is_one)(const char *name),
                          bool *yes)
{
    PackedFiles f FREED_BY(packed_files_free) = { 0 };
    TRY(packed_files_list(&f, path, role, is_one));
    *yes = f.count > 0 || f.by_role;
    return OK;
}

Status packed_files_check(const PackedFiles *f, const char *path, const char *what)
{
    if (f->unnamed)
        return fail(ERR_DATA,
                    "%s: %s names its set, %s does not; name the set (train, or val or test) in "
                    "all file names, or use one folder per set",
                    path, f->unclear, f->unnamed);
    if (f->count > 0) return OK;
    if (!fs_exists(path)) return fail(ERR_DATA, "%s: no such folder", path);
    if (f->by_role)
        return fail(ERR_DATA, "%s: no file name says that a file is for training; first %s", path,
                    f->unclear);
    return fail(ERR_DATA, "%s: no %s in this folder", path, what);
}

static Status add_file(uint32_t *crc, const char *folder, const char *name)
{
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    char *path FREED = fs_join(folder, name);
    if (!path) return ERR_MEMORY;
    Status status = fs_exists(path) ? fs_read_limited(path, FS_TEXT_BYTES, &bytes, &size) : OK;
    if (status == OK) *crc = crc32c_update(*crc, bytes, size);
    return status == ERR_MEMORY ? status : OK; /* the scan says what is wrong */
}

Status packed_files_print(uint32_t *out, const char *path, DataRole role,
                          bool (*is_one)(const char *name))
{
    PackedFiles f FREED_BY(packed_files_free) = { 0 };
    TRY(packed_files_list(&f, path, role, is_one));
    *out = 0;
    for (int64_t i = 0; i < f.count; i++)
        *out = crc32c_update(*out, f.names[i], strlen(f.names[i]) + 1);
    if (!f.folder) return OK;
    TRY(add_file(out, f.folder, PACKED_FILES_CLASSES));
    return add_file(out, f.folder, PACKED_FILES_LABELS);
}

/* ---- names that say how many there are ---- */

typedef struct Numbered {    /* train-00003-of-00128.tar */
    const char *name, *rest; /* rest: from -of- */
    size_t before;           /* bytes of the name in front of the number */
    int width;
    int64_t number, of;
} Numbered;

static bool read_number(Numbered *n, const char *name)
{
    static const char digits[] = "0123456789";
    bool found = false;
    for (const char *of = strstr(name, "of"); of; of = strstr(of + 1, "of")) {
        if (of == name || of[-1] != of[2] || (of[2] != '-' && of[2] != '_')) continue;
        const char *number = of - 1;
        while (number > name && number[-1] && strchr(digits, number[-1])) number--;
        const size_t width = (size_t)(of - 1 - number), behind = strspn(of + 3, digits);
        if (width == 0 || width > 9 || behind == 0 || behind > 9) continue;
        *n = (Numbered){ .name = name,
                         .rest = of - 1,
                         .before = (size_t)(number - name),
                         .width = (int)width,
                         .number = strtoll(number, NULL, 10),
                         .of = strtoll(of + 3, NULL, 10) };
        found = true;
    }
    return found;
}

/* Those of one set together, by number. */
static int by_set(const Numbered *a, const Numbered *b)
{
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    const int order = memcmp(a->name, b->name, a->before);
    return order ? order : strcmp(a->rest, b->rest);
}

static int by_set_and_number(const void *pa, const void *pb)
{
    const Numbered *a = pa, *b = pb;
    const int order = by_set(a, b);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

/* set: [count], all of one set. Numbers begin with 0, or with 1 where the last one says so. */
static Status check_set(const char *path, const Numbered *set, int64_t count)
{
    const int64_t of = set[0].of, first = set[0].number > 0 && set[count - 1].number == of;
    int64_t missing = 0;
    StrBuf list FREED_BY(str_free) = { 0 };
    for (int64_t number = first, i = 0; number < first + of; number++) {
        while (i < count && set[i].number < number) i++;
        if (i < count && set[i].number == number) continue;
        if (missing++ < MISSING_SHOWN)
            str_printf(&list, "%s%0*lld", missing > 1 ? ", " : "", set[0].width, (long long)number);
    }
    if (missing == 0) return OK;
    return fail(ERR_DATA, "%s: %lld of the %lld files %.*s*%s are missing: %s%s", path,
                (long long)missing, (long long)of, (int)set[0].before, set[0].name, set[0].rest,
                list.failed ? "" : list.text, missing > MISSING_SHOWN ? ", ..." : "");
}

Status packed_files_complete(const char *path, const char *const *names, int64_t count)
{
    int64_t n = 0, next = 0;
    Numbered *all FREED = mem_calloc((size_t)count, sizeof *all);
    if (!all) return ERR_MEMORY;
    for (int64_t i = 0; i < count; i++) n += read_number(&all[n], names[i]);
    qsort(all, (size_t)n, sizeof *all, by_set_and_number);
    for (int64_t i = 0; i < n; i = next) {
        for (next = i + 1; next < n && by_set(&all[i], &all[next]) == 0;) next++;
        TRY(check_set(path, all + i, next - i));
    }
    return OK;
}

/* ---- class names ---- */

Status packed_files_names(PackedFilesNames *out, const char *folder, const char *file, int classes,
                          const char *path)
{
    int given = 0;
    TRY(class_names_read(folder, file, &out->names, &given));
    out->given = given > 0;
    out->classes = out->given ? given : classes;
    if (out->classes < classes) {
        mem_free(out->names);
        return fail(ERR_DATA, "%s: label %d is beyond the %d names in %s", path, classes - 1, given,
                    file);
    }
    if (!out->given) out->names = class_names_numbers(classes);
    return out->names ? OK : ERR_MEMORY;
}
