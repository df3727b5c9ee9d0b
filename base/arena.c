/* arena.c - a list of zeroed chunks, the newest first; an allocation that does not fit opens a new
 * chunk at least as large as itself. */
#include "base/arena.h"

#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ARENA_ALIGN         16
#define ARENA_DEFAULT_CHUNK ((size_t)64 * 1024)

typedef struct Chunk {
    struct Chunk *next;
    size_t used, capacity;
    _Alignas(ARENA_ALIGN) unsigned char bytes[];
} Chunk;

struct Arena {
    Chunk *newest;
    size_t chunk_bytes;
};

static bool add_chunk(Arena *arena, size_t least)
{
    size_t capacity = least > arena->chunk_bytes ? least : arena->chunk_bytes, total;
    if (!mem_add(capacity, sizeof(Chunk), &total)) {
        fail(ERR_MEMORY, "out of memory: cannot allocate %zu bytes", capacity);
        return false;
    }
    Chunk *chunk = mem_calloc(1, total);
    if (!chunk) return false;
    chunk->capacity = capacity;
    chunk->next = arena->newest;
    arena->newest = chunk;
    return true;
}

Status arena_create(Arena **out, size_t chunk_bytes)
{
    *out = NULL;
    Arena *arena = mem_calloc(1, sizeof *arena);
    if (!arena) return ERR_MEMORY;
    arena->chunk_bytes = chunk_bytes ? chunk_bytes : ARENA_DEFAULT_CHUNK;
    *out = arena;
    return OK;
}

void arena_destroy(Arena *arena)
{
    if (!arena) return;
    for (Chunk *chunk = arena->newest; chunk;) {
        Chunk *next = chunk->next;
        mem_free(chunk);
        chunk = next;
    }
    mem_free(arena);
}

void *arena_alloc(Arena *arena, size_t bytes)
{
    size_t rounded;
    if (!mem_add(bytes ? bytes : 1, ARENA_ALIGN - 1, &rounded)) {
        fail(ERR_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
        return NULL;
    }
    rounded &= ~(size_t)(ARENA_ALIGN - 1);
    Chunk *chunk = arena->newest;
    if (!chunk || chunk->capacity - chunk->used < rounded) {
        if (!add_chunk(arena, rounded)) return NULL;
        chunk = arena->newest;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += rounded;
    return p;
}

char *arena_strdup(Arena *arena, const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = arena_alloc(arena, bytes);
    if (copy) memcpy(copy, s, bytes);
    return copy;
}

char *arena_printf(Arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(n >= 0);
    char *text = arena_alloc(arena, (size_t)n + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}
