/* symbols.h - names of functions, static ones too, from this program's own file. */
#ifndef CONVOY_BASE_PROCESS_SYMBOLS_H
#define CONVOY_BASE_PROCESS_SYMBOLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The function that holds offset, an address less that of the program's first byte (dladdr()'s
 * dli_fbase), and where it begins. false: it is not known, for example where the program was
 * stripped. */
bool symbols_find(uintptr_t offset, char *name, size_t bytes, uintptr_t *start);
#endif
