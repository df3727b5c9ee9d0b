/* mem.h - the only place that calls malloc. Checked, counted, aligned.
 *
 * Every allocation is counted (process-wide, atomically), so that a test can demand that steady
 * training steps allocate nothing. A failed allocation returns NULL from the mem_ functions after
 * recording ERR_MEMORY's sentence with fail(); callers write `if (!(p = mem_alloc(n))) return
 * ERR_MEMORY;`. Tests can make allocation number k fail. */
#ifndef CONVOY_BASE_MEM_H
#define CONVOY_BASE_MEM_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEM_ALIGN 64 /* cache line and AVX-512 vector; what mem_alloc_aligned gives at least */

/* uninitialised; bytes may be 0 (returns a unique pointer) */
void *mem_alloc(size_t bytes);
/* zeroed; count*size is checked for overflow */
void *mem_calloc(size_t count, size_t size);
/* on failure NULL is returned and p stays valid */
void *mem_realloc(void *p, size_t bytes);
/* room for one more behind count elements of such size: the array that array_at points to as it is,
 * or moved and of twice the capacity; false, and all stays as it was, without memory */
bool mem_grow(void *array_at, size_t count, size_t *capacity, size_t size);
/* align a power of two >= MEM_ALIGN; free with mem_free */
void *mem_alloc_aligned(size_t bytes, size_t align);
char *mem_strdup(const char *s); /* copies s; NULL in gives NULL out */
void mem_free(void *p);          /* NULL ok */
/* `char *path FREED = fs_join(dir, name);`: a pointer whose block is freed where its scope ends. It
 * is set to NULL once the block is another's. */
#define FREED FREED_BY(mem_free_at)
void mem_free_at(void *pointer_at);
int64_t mem_allocation_count(void); /* calls that allocated since process start */
/* tests: the n-th allocation from now fails once (0 = off) */
void mem_fail_at(int64_t n);
bool mem_mul(size_t a, size_t b, size_t *out); /* checked multiply: false on overflow */
bool mem_add(size_t a, size_t b, size_t *out); /* checked add: false on overflow */
#endif
