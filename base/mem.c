/* mem.c - checked and counted allocation.
 *
 * DESIGN. Every allocating call goes through allowed(): it counts, and lets a test fail the n-th
 * call. The two counters are the only mutable state; they are atomic and say nothing about order
 * between threads. All blocks come from the C library's allocator, so one mem_free() fits every
 * kind. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

bool mem_grow(void *array_at, size_t count, size_t *capacity, size_t size)
{
    void *array = NULL;
    if (count < *capacity) return true;
    size_t wanted = *capacity ? 2 * *capacity : 64, bytes = 0;
    if (!mem_mul(wanted, size, &bytes)) {
        fail(ERR_MEMORY, "out of memory: %zu elements of %zu bytes", wanted, size);
        return false;
    }
    memcpy(&array, array_at, sizeof array); /* a pointer of some type, which is all the same */
    if (!(array = mem_realloc(array, bytes))) return false;
    memcpy(array_at, &array, sizeof array);
    *capacity = wanted;
    return true;
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

void mem_free_at(void *pointer_at)
{
    void *p;
    memcpy(&p, pointer_at, sizeof p); /* a pointer of some type, which is all the same */
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
