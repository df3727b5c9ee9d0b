/* library.h - shared libraries that a user may or may not have, opened at run time, and their
 * functions.
 *
 * The caller has a list of the functions that it wants, which makes a struct of pointers with the
 * types of the library's own header, and the symbols that fill it:
 *     #define FUNCTIONS(X) X(get_version, ncclGetVersion) X(all_reduce, ncclAllReduce)
 *     typedef struct Api { FUNCTIONS(LIBRARY_POINTER) } Api;
 *     const LibrarySymbol symbols[] = { FUNCTIONS(LIBRARY_SYMBOL) }; with an Api *api
 * The dynamic loader looks for a file in LD_LIBRARY_PATH, then in the folders that the program was
 * linked with (cuda.mk names those of CUDA), then where the system's configuration says. What it
 * does not find may be in one of NVIDIA's Python wheels, beside a program that pip installed. */
#ifndef CONVOY_BASE_PROCESS_LIBRARY_H
#define CONVOY_BASE_PROCESS_LIBRARY_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct LibrarySymbol {
    const char *name;
    void *slot;    /* address of a function pointer, filled by library_open */
    bool optional; /* a version of the library without it is fine: its slot becomes NULL */
} LibrarySymbol;

#define LIBRARY_POINTER(field, function) __typeof__(function) *field;
#define LIBRARY_SYMBOL(field, function)  { #function, &api->field, false },

typedef struct LibrarySpec {
    const char *title; /* "cuDNN", for sentences */
    /* ends with NULL; the first that can be opened is taken: "libcublasLt.so.13", ... */
    const char *const *file_names;
    const LibrarySymbol *symbols;
    int symbol_count;
    bool global; /* what is opened later finds its symbols, too */
} LibrarySpec;

/* Opens the library and fills all slots. ERR_ENV naming the library and what is missing (file, one
 * of its own dependencies, or symbol); all slots are NULL then. *handle is the caller's, for
 * library_close. May be called again: the same library gives the same functions. */
Status library_open(void **handle, const LibrarySpec *spec);
/* Whether one of these files is there, usable or not. */
bool library_exists(const char *const *file_names);
void library_path(void *handle, char *out, size_t bytes); /* of its file; "" if it is not known */
/* NULL ok. The functions are gone after it, unless the library was opened more than once. */
void library_close(void *handle);
#endif
