/* library.c - dlopen by candidates, dlsym by table. */
#include "base/process/library.h"
#include "base/process/process.h"
#include "base/str.h"
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* The sentence worth showing. "file not found" of the plain name is the least informative one: a
 * candidate that exists but lacks a dependency of its own says more. */
typedef struct Reason {
    char text[512];
    bool informative;
} Reason;

static void keep_reason(Reason *reason, const char *candidate)
{
    const char *said = dlerror();
    if (!said) said = "unknown error of the dynamic loader";
    bool informative = !str_starts_with(said, candidate) || !strstr(said, "No such file");
    if (reason->text[0] && (reason->informative || !informative)) return;
    snprintf(reason->text, sizeof reason->text, "%s", said);
    reason->informative = informative;
}

static void set_slot(const LibrarySymbol *symbol, void *address)
{
    memcpy(symbol->slot, &address, sizeof address);
}

static void clear_slots(const LibrarySpec *spec)
{
    for (int i = 0; i < spec->symbol_count; i++) set_slot(&spec->symbols[i], NULL);
}

static void *open_one(const char *file, int flags, Reason *reason)
{
    void *handle = dlopen(file, RTLD_NOW | flags);
    if (!handle) keep_reason(reason, file);
    return handle;
}

/* Where pip puts NVIDIA's wheels, if it has put this program beside them: PREFIX/bin/convoy. */
static void *open_from_wheels(const char *file, int flags, Reason *reason)
{
    char own[PATH_MAX], pattern[2 * PATH_MAX];
    glob_t found;
    void *handle = NULL;
    if (strchr(file, '/') || process_own_path(own, sizeof own) != OK) return NULL;
    *strrchr(own, '/') = '\0';
    snprintf(pattern, sizeof pattern, "%s/../lib/python3*/site-packages/nvidia/*/lib/%s", own,
             file);
    if (glob(pattern, 0, NULL, &found) != 0) return NULL;
    for (size_t i = 0; i < found.gl_pathc && !handle; i++)
        handle = open_one(found.gl_pathv[i], flags, reason);
    globfree(&found);
    return handle;
}

static void *open_first(const char *const *file_names, int flags, Reason *reason)
{
    void *handle = NULL;
    for (int i = 0; file_names[i] && !handle; i++) handle = open_one(file_names[i], flags, reason);
    for (int i = 0; file_names[i] && !handle; i++)
        handle = open_from_wheels(file_names[i], flags, reason);
    return handle;
}

Status library_open(void **handle, const LibrarySpec *spec)
{
    Reason reason = { "", false };
    clear_slots(spec);
    *handle = open_first(spec->file_names, spec->global ? RTLD_GLOBAL : RTLD_LOCAL, &reason);
    if (!*handle) return fail(ERR_ENV, "%s cannot be opened: %s", spec->title, reason.text);
    for (int i = 0; i < spec->symbol_count; i++) {
        const LibrarySymbol *symbol = &spec->symbols[i];
        void *address = dlsym(*handle, symbol->name);
        if (!address && !symbol->optional) {
            clear_slots(spec);
            library_close(*handle);
            *handle = NULL;
            return fail(ERR_ENV, "%s is too old or damaged: it has no %s", spec->title,
                        symbol->name);
        }
        set_slot(symbol, address);
    }
    return OK;
}

bool library_exists(const char *const *file_names)
{
    Reason reason = { "", false };
    void *handle = open_first(file_names, RTLD_LOCAL, &reason);
    library_close(handle);
    return handle || reason.informative;
}

void library_path(void *handle, char *out, size_t bytes)
{
    const struct link_map *map = NULL;
    const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map;
    snprintf(out, bytes, "%s", known ? map->l_name : "");
}

void library_close(void *handle)
{
    if (handle) dlclose(handle);
}
