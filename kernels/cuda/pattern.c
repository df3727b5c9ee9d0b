/* pattern.c - see pattern.h. A piece is made on the host; the rest of the memory is filled with
 * copies of what is filled already. */
#include "kernels/cuda/pattern.h"
#include "base/mem.h"
#include "base/rng.h"

enum { PATTERN_WORDS = 1 << 15 };

static Status fill(char *data, size_t bytes, const uint32_t *pattern, cudaStream_t stream)
{
    size_t done = PATTERN_WORDS * sizeof *pattern;
    if (done > bytes) done = bytes;
    TRY_CUDA(cudaMemcpyAsync(data, pattern, done, cudaMemcpyHostToDevice, stream));
    while (done < bytes) {
        size_t more = done < bytes - done ? done : bytes - done;
        TRY_CUDA(cudaMemcpyAsync(data + done, data, more, cudaMemcpyDeviceToDevice, stream));
        done += more;
    }
    return CUDA_STATUS(cudaStreamSynchronize(stream));
}

Status cuda_pattern_fill(void *data, size_t bytes, cudaStream_t stream)
{
    Rng rng = rng_at(0, RNG_SYNTHETIC, 0, 0);
    uint32_t *pattern = mem_alloc(PATTERN_WORDS * sizeof *pattern);
    if (!pattern) return ERR_MEMORY;
    for (int i = 0; i < PATTERN_WORDS; i++)
        pattern[i] = (rng_u32(&rng) & 0x83ff83ffu) | 0x3c003c00u;
    Status st = fill(data, bytes, pattern, stream);
    mem_free(pattern);
    return st;
}
