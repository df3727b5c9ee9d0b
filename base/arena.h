/* arena.h - memory for things that die together: a bump allocator that grows by chunks and is freed
 * as a whole. Not thread-safe. */
#ifndef CONVOY_BASE_ARENA_H
#define CONVOY_BASE_ARENA_H
#include "base/status.h"
#include <stddef.h>

typedef struct Arena Arena;
Status arena_create(Arena **out, size_t chunk_bytes); /* chunk_bytes 0 = 64 KiB */
void arena_destroy(Arena *arena);                     /* NULL ok */
FREED_BY_POINTER(Arena, arena_destroy)
/* aligned to 16, zeroed; NULL + fail() when out of memory */
void *arena_alloc(Arena *arena, size_t bytes);
char *arena_strdup(Arena *arena, const char *s);
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
#endif
