/* mem.c - checked and counted allocation, and the arena.
 *
 * DESIGN. Every allocating call goes through allowed(): it counts, and lets a test fail the n-th
 * call. The two counters are the only mutable state; they are atomic and say nothing about order
 * between threads. All blocks come from the C library's allocator, so one mem_free() fits every
 * kind.
 *
 * ARENA. A list of zeroed chunks, the newest first; an allocation that does not fit opens a new
 * chunk at least as large as itself. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN         16
#define ARENA_DEFAULT_CHUNK ((size_t)64 * 1024)

static atomic_int_fast64_t allocations; /* since process start */
static atomic_int_fast64_t fail_after;  /* 0: off; n: the n-th allocation from now fails */

/* Counts one allocation; false if a test asked this one to fail. */
static bool allowed(void)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_after, memory_order_relaxed) <= 0) return true;
    return atomic_fetch_sub_explicit(&fail_after, 1, memory_order_relaxed) != 1;
}

static void *checked(void *p, size_t bytes)
{
    if (!p) fail(ERR_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
    return p;
}

void *mem_alloc(size_t bytes)
{
    return checked(allowed() ? malloc(bytes ? bytes : 1) : NULL, bytes);
}

void *mem_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!mem_mul(count, size, &bytes)) {
        fail(ERR_MEMORY, "out of memory: %zu elements of %zu bytes", count, size);
        return NULL;
    }
    return checked(allowed() ? calloc(1, bytes ? bytes : 1) : NULL, bytes);
}

void *mem_realloc(void *p, size_t bytes)
{
    return checked(allowed() ? realloc(p, bytes ? bytes : 1) : NULL, bytes);
}

void *mem_alloc_aligned(size_t bytes, size_t align)
{
    void *p = NULL;
    ASSERT(align >= MEM_ALIGN && (align & (align - 1)) == 0);
    if (allowed() && posix_memalign(&p, align, bytes ? bytes : 1) != 0) p = NULL;
    return checked(p, bytes);
}

char *mem_strdup(const char *s)
{
    if (!s) return NULL;
    size_t bytes = strlen(s) + 1;
    char *copy = mem_alloc(bytes);
    if (copy) memcpy(copy, s, bytes);
    return copy;
}

void mem_free(void *p)
{
    free(p);
}

int64_t mem_allocation_count(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

void mem_fail_at(int64_t n)
{
    atomic_store_explicit(&fail_after, n, memory_order_relaxed);
}

bool mem_mul(size_t a, size_t b, size_t *out)
{
    if (a != 0 && b > SIZE_MAX / a) return false;
    *out = a * b;
    return true;
}

bool mem_add(size_t a, size_t b, size_t *out)
{
    if (b > SIZE_MAX - a) return false;
    *out = a + b;
    return true;
}

/* ---- arena ---- */

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
