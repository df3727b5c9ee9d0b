/* mpi_library.c - see mpi_library.h. */
#include "trainer/engine/comm/mpi_library.h"

#include "base/process/library.h"
#include "base/process/process.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PLACES_MAX = 6, PLACE_BYTES = 1024 };

/* Files that may be the one wanted, in the order in which they are tried. */
typedef struct Places {
    char path[PLACES_MAX][PLACE_BYTES];
    const char *names[PLACES_MAX + 1];
    int count;
} Places;

static const struct {
    const char *name, *launcher, *plugin;
    const char *files[2]; /* names of the library */
    const char *build;    /* what make needs */
} kinds[MPI_KINDS] = {
    [MPI_KIND_OPENMPI] = { "Open MPI",
                           "Open MPI's mpirun",
                           "libconvoy_mpi_ompi.so",
                           { "libmpi.so.40", NULL },
                           "libopenmpi-dev" },
    /* libmpich.so.12: Debian's */
    [MPI_KIND_MPICH] = { "MPICH",
                         "mpiexec of MPICH or Intel MPI",
                         "libconvoy_mpi_mpich.so",
                         { "libmpi.so.12", "libmpich.so.12" },
                         "libmpich-dev" },
};
enum { FILES_MAX = sizeof kinds[0].files / sizeof kinds[0].files[0] };

const char *mpi_library_launcher(MpiKind kind)
{
    return kinds[kind].launcher;
}

/* In a folder as seen from that of a program; program NULL: where the loader looks. */
static void add_place(Places *p, const char *program, const char *folder, const char *file)
{
    const char *end = program ? strrchr(program, '/') : NULL;
    if (!file || (program && !end)) return;
    char *path = p->path[p->count];
    const int n = snprintf(path, PLACE_BYTES, "%.*s%s%s", end ? (int)(end + 1 - program) : 0,
                           end ? program : "", folder, file);
    if (n < PLACE_BYTES) p->names[p->count++] = path;
}

static void find_plugin(Places *p, MpiKind kind)
{
    char own[PLACE_BYTES];
    *p = (Places){ .count = 0 };
    if (process_path(getpid(), own, sizeof own) == OK) {
        add_place(p, own, "", kinds[kind].plugin);
        add_place(p, own, "../lib/convoy/", kinds[kind].plugin);
    }
    add_place(p, NULL, "", kinds[kind].plugin);
}

/* The launcher, or its daemon, is the parent; a script in between is no harm. */
static void find_library(Places *p, MpiKind kind)
{
    char own[PLACE_BYTES] = "", launcher[PLACE_BYTES] = "";
    *p = (Places){ .count = 0 };
    if (process_path(getppid(), launcher, sizeof launcher) != OK) launcher[0] = '\0';
    if (process_path(getpid(), own, sizeof own) != OK) own[0] = '\0';
    for (int i = 0; i < FILES_MAX; i++) add_place(p, launcher, "../lib/", kinds[kind].files[i]);
    for (int i = 0; i < FILES_MAX; i++) add_place(p, NULL, "", kinds[kind].files[i]);
    for (int i = 0; i < FILES_MAX; i++) add_place(p, own, "../lib/", kinds[kind].files[i]);
}

static Status open_library(void **handle, const Places *p, MpiKind kind, bool global)
{
    const LibrarySpec spec = { .title = kinds[kind].name,
                               .file_names = p->names,
                               .global = global };
    return library_open(handle, &spec);
}

typedef struct PluginApi {
    __typeof__(mpi_plugin_table) *table;
} PluginApi;

static Status open_plugin(const MpiTable **out, MpiKind kind)
{
    Places places;
    PluginApi plugin, *api = &plugin;
    void *handle;
    char title[64];
    const LibrarySymbol symbols[] = { LIBRARY_SYMBOL(table, mpi_plugin_table) };
    find_plugin(&places, kind);
    snprintf(title, sizeof title, "convoy's plugin for %s", kinds[kind].name);
    const LibrarySpec spec = {
        .title = title, .file_names = places.names, .symbols = symbols, .symbol_count = 1
    };
    TRY(library_open(&handle, &spec));
    *out = plugin.table();
    if ((*out)->layout == MPI_PLUGIN_LAYOUT) return OK;
    char path[PLACE_BYTES];
    library_path(handle, path, sizeof path);
    return fail(ERR_ENV, "%s: from another version of convoy; install both together", path);
}

static bool is_built(MpiKind kind)
{
    Places places;
    find_plugin(&places, kind);
    return library_exists(places.names);
}

Status mpi_library_open(MpiLibrary *out, MpiKind kind)
{
    Places places;
    void *handle;
    *out = (MpiLibrary){ .table = NULL };
    if (!is_built(kind)) return fail(ERR_ENV, "convoy was built without %s", kinds[kind].name);
    find_library(&places, kind);
    TRY(open_library(&handle, &places, kind, true));
    library_path(handle, out->path, sizeof out->path);
    return open_plugin(&out->table, kind);
}

/* Adds what --version says of it; whether it can be used. */
static bool describe(StrBuf *out, MpiKind kind)
{
    Places places;
    char path[PLACE_BYTES];
    void *handle = NULL;
    find_library(&places, kind);
    str_printf(out, "%s%s (", out->length ? ", " : "", kinds[kind].name);
    if (!is_built(kind)) str_add(out, "not built in");
    else if (open_library(&handle, &places, kind, false) == OK) {
        library_path(handle, path, sizeof path);
        str_add(out, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
        library_close(handle);
    } else if (library_exists(places.names)) str_add(out, status_message());
    else {
        str_add(out, "not found:");
        for (int i = 0; i < FILES_MAX && kinds[kind].files[i]; i++)
            str_printf(out, "%s %s", i ? "," : "", kinds[kind].files[i]);
    }
    str_add(out, ")");
    return handle != NULL;
}

void mpi_library_describe(StrBuf *out)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    for (int k = 0; k < MPI_KINDS; k++) describe(&text, (MpiKind)k);
    str_add(out, text.failed ? "out of memory" : text.text);
}

Status mpi_library_missing(MpiKind kind, const char *launcher)
{
    StrBuf here FREED_BY(str_free) = { 0 }, advice FREED_BY(str_free) = { 0 };
    for (int k = 0; k < MPI_KINDS; k++)
        if (describe(&here, (MpiKind)k) && k != (int)kind)
            str_printf(&advice, "start it with %s, or ", kinds[k].launcher);
    if (is_built(kind))
        str_printf(&advice, "add the folder of %s to LD_LIBRARY_PATH", kinds[kind].files[0]);
    else str_printf(&advice, "build convoy where %s is installed", kinds[kind].build);
    if (here.failed || advice.failed) return fail(ERR_MEMORY, "out of memory");
    return fail(ERR_ENV, "started by %s, which requires %s; convoy finds here: %s; %s", launcher,
                kinds[kind].name, here.text, advice.text);
}
