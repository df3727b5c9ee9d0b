/* packed_files.c - see packed_files.h. */
#include "data/source/packed_files.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/source/class_names.h"
#include <stdio.h>
#include <string.h>

#define NUMBER_BYTES 12 /* a decimal int and its NUL */

void packed_files_free(PackedFiles *f)
{
    mem_free(f->names);
    mem_free(f->folder);
    *f = (PackedFiles){ 0 };
}

/* Is "train" in the name (1), or "val" (2)? Neither or both: 0. */
static int roles_of(const char *name)
{
    bool train = strstr(name, "train") != NULL, val = strstr(name, "val") != NULL;
    return train != val ? (train ? 1 : 2) : 0;
}

static void keep_wanted(PackedFiles *f, DataRole role, bool (*is_one)(const char *name))
{
    int64_t count = 0;
    int roles = 0, wanted = role == DATA_TRAIN ? 1 : 2;
    for (int64_t i = 0; i < f->count; i++) {
        if (f->names[i][0] == '.' || !is_one(f->names[i])) continue;
        roles |= roles_of(f->names[i]);
        f->names[count++] = f->names[i];
    }
    f->count = count;
    if (roles != 3) return;
    for (int64_t i = count = 0; i < f->count; i++)
        if (roles_of(f->names[i]) == wanted) f->names[count++] = f->names[i];
    f->count = count;
}

/* One container by itself: its name, relative to the folder that it lies in. */
static Status list_one(PackedFiles *out, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t bytes = strlen(name) + 1;
    out->names = mem_alloc(sizeof *out->names + bytes);
    out->folder = mem_strdup(slash ? path : ".");
    if (!out->names || !out->folder) return ERR_MEMORY;
    if (slash) out->folder[slash == path ? 1 : slash - path] = '\0';
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
        if (status == OK) keep_wanted(out, role, is_one);
    } else if (fs_exists(path) && is_one(path)) {
        status = list_one(out, path);
    }
    if (status != OK) packed_files_free(out);
    return status == ERR_MEMORY ? status : OK;
}

Status packed_files_probe(const char *path, DataRole role, bool (*is_one)(const char *name),
                          bool *yes)
{
    PackedFiles f;
    TRY(packed_files_list(&f, path, role, is_one));
    *yes = f.count > 0;
    packed_files_free(&f);
    return OK;
}

Status packed_files_none(const char *path, const char *what)
{
    if (!fs_exists(path)) return fail(ERR_DATA, "%s: no such folder", path);
    return fail(ERR_DATA, "%s: no %s in this folder", path, what);
}

/* ---- class names ---- */

Status packed_files_names(PackedFilesNames *out, const char *folder, int classes, const char *path)
{
    *out = (PackedFilesNames){ 0 };
    int given = 0;
    TRY(class_names_read(folder, CLASSES_FILE, &out->file, &given));
    out->given = given > 0;
    out->classes = given > classes ? given : classes;
    Status status = OK;
    if (out->given && given < classes)
        status = fail(ERR_DATA, "%s: label %d is beyond the %d names in %s", path, classes - 1,
                      given, CLASSES_FILE);
    if (status == OK && !(out->names = mem_calloc((size_t)out->classes, sizeof *out->names)))
        status = ERR_MEMORY;
    if (status == OK && !(out->numbers = mem_alloc((size_t)out->classes * NUMBER_BYTES)))
        status = ERR_MEMORY;
    for (int c = 0; status == OK && c < given; c++) out->names[c] = out->file[c];
    if (status != OK) packed_files_names_free(out);
    return status;
}

void packed_files_number_rest(PackedFilesNames *n)
{
    for (int c = 0; c < n->classes; c++) {
        if (n->names[c]) continue;
        char *number = n->numbers + (size_t)c * NUMBER_BYTES;
        snprintf(number, NUMBER_BYTES, "%d", c);
        n->names[c] = number;
    }
}

void packed_files_names_free(PackedFilesNames *n)
{
    mem_free(n->file);
    mem_free(n->numbers);
    mem_free((void *)n->names);
    *n = (PackedFilesNames){ 0 };
}
