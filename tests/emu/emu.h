/* emu.h - the test double of a CUDA device: what its own parts, and other doubles that enqueue
 * work, share.
 *
 * THE DEVICE is this process. Work that is enqueued on a stream lies there as a closure until
 * someone waits for it: synchronising, a query (which lets a little run), a blocking copy. Then a
 * scheduler takes one piece of work after the other, from whichever stream it likes, seeded
 * (CONVOY_EMU_SEED, default 1), bound only by the order within a stream and by events. A missing
 * event shows as wrong numbers, and so does host memory that is reused too early.
 *
 * MEMORY from cudaMalloc starts as bytes 0xFF, NaN in every float type, lies in a region of its
 * own, and the region is closed (mprotect) but while work runs: host code that follows a device
 * pointer dies there, as it would on a machine with a GPU. With -fsanitize=address, gaps between
 * allocations are poisoned: kernels that leave their buffers are found. CONVOY_EMU_MEMORY_MB
 * (default 4096) is the size of the device's memory, CONVOY_EMU_HELD_MB (default 0) what other
 * programs hold of it.
 *
 * KERNELS run one block after the other, in a seeded order, each CUDA thread on a fiber that runs
 * until a barrier or a shuffle; which fiber goes next is seeded too, so what needs a barrier and
 * has none gives different numbers in different runs. Blocks that can never go on end the process
 * with a sentence: a shuffle whose mask names threads that left or wait elsewhere, threads that
 * wait at different kinds of barrier. Threads that left a block are not waited for by
 * __syncthreads, as is documented for compute capability 7.0 and newer. __shared__ is static
 * memory: not zero but what the last block left.
 *
 * CONVOY_EMU_SPOILS names work ("convolution", a kernel) that spoils the capture in which it is
 * enqueued and says nothing of it, or "instantiate": then no graph can be instantiated.
 * CAPTURES are listed in the file that CONVOY_EMU_NODES names (node_list.cpp).
 *
 * Tests only; host threads may call everything at any time (one lock around all of it, which is
 * held while work runs: a host function on a stream must not wait for a thread that calls CUDA, as
 * in CUDA). */
#ifndef CONVOY_TESTS_EMU_EMU_H
#define CONVOY_TESTS_EMU_EMU_H
#include "cuda_runtime_api.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a call of run on a copy of the cookie (bytes; no more than EMU_MAX_COOKIE). Device
 * memory is open while it runs. For doubles of libraries that enqueue work: convolutions, matrix
 * products. name is borrowed for ever. */
#define EMU_MAX_COOKIE 512
cudaError_t emu_enqueue(cudaStream_t stream, const char *name, void (*run)(const void *cookie),
                        const void *cookie, size_t bytes);
/* Whether [p, p+bytes) lies within one live device allocation. Doubles check their operands with
 * it. */
bool emu_is_device_memory(const void *p, size_t bytes);
/* The priorities with which a replay of the graph that was instantiated last runs its nodes, in the
 * order of their capture, and how many (up to most); 0 where it runs them without. */
int emu_graph_priorities(int *out, int most);

/* What work on the device touches of [p, p+bytes) from now on, in whole pages, in bytes: each piece
 * of work closes them anew, so what two kernels read counts twice, what one reads twice once. A
 * kernel that writes a page before it reads there is not seen to read. Only x86-64 says whether a
 * touch is a read: elsewhere nothing is watched. Returns the watch's number; ranges must not
 * overlap. emu_watch_end() ends all. */
typedef struct EmuTouched {
    size_t watched, read, written;
} EmuTouched;
int emu_watch(const void *p, size_t bytes);
EmuTouched emu_touched(int watch);
void emu_watch_end(void);

#ifdef __cplusplus
}
#endif
#endif
