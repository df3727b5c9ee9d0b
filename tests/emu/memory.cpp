// memory.cpp - device and pinned memory of the emulated device. See emu.h.
//
// Device memory is one reserved range of addresses. Allocations are taken first fit, GAP bytes
// apart; what lies between them is poisoned where the address sanitizer watches. The range up to
// the highest allocation is closed unless work runs.
#include "runtime.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace emu {

static constexpr size_t kAlign = 512, kGap = 512, kPage = 4096;
static constexpr int kPattern = 0xFF;

struct DeviceMemory {
    char *base;
    size_t limit, reserved, used = 0, mapped = 0; // mapped: bytes from base that mprotect has seen
    std::map<size_t, size_t> blocks;              // offset -> bytes asked for
};
struct PinnedMemory {
    std::map<const char *, size_t> blocks;
};

static size_t megabytes_of(const char *variable, size_t otherwise)
{
    const char *text = getenv(variable);
    return (text ? size_t(strtoull(text, nullptr, 10)) : otherwise) << 20;
}

static DeviceMemory &device_memory()
{
    static DeviceMemory *const m = [] {
        DeviceMemory *made = new DeviceMemory;
        made->limit = megabytes_of("CONVOY_EMU_MEMORY_MB", 4096);
        made->used = megabytes_of("CONVOY_EMU_HELD_MB", 0);
        made->reserved = 2 * made->limit; // room for what first fit wastes
        void *p = mmap(nullptr, made->reserved, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) die("cannot reserve %zu bytes of address space", made->reserved);
        // fewer entries for mprotect to change; no harm where there are none
        (void)madvise(p, made->reserved, MADV_HUGEPAGE);
        made->base = static_cast<char *>(p);
        ASAN_POISON_MEMORY_REGION(made->base, made->reserved);
        return made;
    }();
    return *m;
}

static PinnedMemory &pinned_memory()
{
    static PinnedMemory *const m = new PinnedMemory;
    return *m;
}

static void protect(int how)
{
    DeviceMemory &m = device_memory();
    if (m.mapped && mprotect(m.base, m.mapped, how) != 0) die("mprotect failed");
}

OpenMemory::OpenMemory()
{
    if (runtime().open_depth++ == 0) protect(PROT_READ | PROT_WRITE);
}

OpenMemory::~OpenMemory()
{
    if (--runtime().open_depth == 0) protect(PROT_NONE);
}

static bool inside_region(const void *p)
{
    DeviceMemory &m = device_memory();
    return p >= m.base && p < m.base + m.reserved;
}

static bool within_block(const void *p, size_t bytes)
{
    if (!inside_region(p)) return false;
    DeviceMemory &m = device_memory();
    size_t at = size_t(static_cast<const char *>(p) - m.base);
    auto next = m.blocks.upper_bound(at);
    if (next == m.blocks.begin()) return false;
    auto block = std::prev(next);
    return at + bytes <= block->first + block->second;
}

cudaError_t check_range(const void *p, size_t bytes, bool device, const char *what)
{
    if (!device && !inside_region(p)) return cudaSuccess;
    if (device && within_block(p, bytes)) return cudaSuccess;
    return error(cudaErrorInvalidValue, "%s: %p + %zu is not %s memory", what, p, bytes,
                 device ? "device" : "host");
}

// The first gap that is large enough, or the end.
static size_t find_place(const DeviceMemory &m, size_t bytes)
{
    size_t at = 0;
    for (const auto &block : m.blocks) {
        if (block.first >= at + bytes + kGap) break;
        at = (block.first + block.second + kGap + kAlign - 1) / kAlign * kAlign;
    }
    return at;
}

static cudaError_t allocate(void **out, size_t bytes)
{
    DeviceMemory &m = device_memory();
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > m.limit - m.used) return error(cudaErrorMemoryAllocation);
    size_t at = find_place(m, bytes);
    if (at + bytes > m.reserved - kPage) return error(cudaErrorMemoryAllocation);
    size_t end = (at + bytes + kPage - 1) / kPage * kPage;
    m.mapped = end > m.mapped ? end : m.mapped;
    m.used += bytes;
    m.blocks[at] = bytes;
    OpenMemory open;
    protect(PROT_READ | PROT_WRITE); // the mapped part may have grown while memory was open already
    ASAN_UNPOISON_MEMORY_REGION(m.base + at, bytes);
    memset(m.base + at, kPattern, bytes);
    *out = m.base + at;
    return cudaSuccess;
}

static cudaError_t release(void *p)
{
    DeviceMemory &m = device_memory();
    auto block =
        inside_region(p) ? m.blocks.find(size_t(static_cast<char *>(p) - m.base)) : m.blocks.end();
    if (block == m.blocks.end())
        return error(cudaErrorInvalidValue, "cudaFree of %p, which was not allocated", p);
    {
        OpenMemory open;
        memset(p, kPattern, block->second);
        size_t first = (block->first + kPage - 1) / kPage * kPage,
               last = (block->first + block->second) / kPage * kPage;
        if (last > first) madvise(m.base + first, last - first, MADV_DONTNEED);
    }
    ASAN_POISON_MEMORY_REGION(p, block->second);
    m.used -= block->second;
    m.blocks.erase(block);
    return cudaSuccess;
}

static cudaError_t allocate_pinned(void **out, size_t bytes)
{
    if (!out) return error(cudaErrorInvalidValue);
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    *out = ::operator new(bytes, std::align_val_t(kPage), std::nothrow);
    if (!*out) return error(cudaErrorMemoryAllocation);
    memset(*out, kPattern, bytes);
    pinned_memory().blocks[static_cast<char *>(*out)] = bytes;
    return cudaSuccess;
}

static bool is_pinned(const void *p)
{
    const auto &blocks = pinned_memory().blocks;
    auto next = blocks.upper_bound(static_cast<const char *>(p));
    if (next == blocks.begin()) return false;
    auto block = std::prev(next);
    return p < block->first + block->second;
}

struct Copy {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
};

static cudaError_t check_copy(const Copy &c, cudaMemcpyKind kind, const char *what)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault)
        to_device = inside_region(c.to), from_device = inside_region(c.from);
    if (c.width > c.to_pitch || c.width > c.from_pitch) return error(cudaErrorInvalidValue);
    cudaError_t e = check_range(c.to, (c.height - 1) * c.to_pitch + c.width, to_device, what);
    return e == cudaSuccess
               ? check_range(c.from, (c.height - 1) * c.from_pitch + c.width, from_device, what)
               : e;
}

static void copy_rows(const Copy &c)
{
    for (size_t y = 0; y < c.height; y++)
        memmove(c.to + y * c.to_pitch, c.from + y * c.from_pitch, c.width);
}

static cudaError_t enqueue_copy(const Copy &c, cudaMemcpyKind kind, cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (c.width == 0 || c.height == 0) return cudaSuccess;
    cudaError_t e = check_copy(c, kind, "copy");
    return e == cudaSuccess ? enqueue(stream, "copy", [c] { copy_rows(c); }) : e;
}

} // namespace emu

using namespace emu;

extern "C" {

bool emu_is_device_memory(const void *p, size_t bytes)
{
    Guard guard(runtime().lock);
    return within_block(p, bytes);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    Guard guard(runtime().lock);
    cudaError_t e = sync_call_allowed(__func__);
    if (!out) return error(cudaErrorInvalidValue);
    return e == cudaSuccess ? allocate(out, bytes) : e;
}

cudaError_t cudaFree(void *p)
{
    Guard guard(runtime().lock);
    cudaError_t e = sync_call_allowed(__func__);
    if (e != cudaSuccess) return e;
    drain_all(); // as the device does before it takes memory back
    return p ? release(p) : cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    Guard guard(runtime().lock);
    cudaError_t e = sync_call_allowed(__func__);
    return e == cudaSuccess ? allocate_pinned(out, bytes) : e;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    return flags > cudaHostAllocPortable ? error(cudaErrorNotSupported)
                                         : cudaMallocHost(out, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    Guard guard(runtime().lock);
    cudaError_t e = sync_call_allowed(__func__);
    if (e != cudaSuccess || !p) return e;
    if (!pinned_memory().blocks.count(static_cast<char *>(p))) return error(cudaErrorInvalidValue);
    drain_all();
    pinned_memory().blocks.erase(static_cast<char *>(p));
    ::operator delete(p, std::align_val_t(kPage));
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    Guard guard(runtime().lock);
    *total_bytes = device_memory().limit;
    *free_bytes = device_memory().limit - device_memory().used;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *p)
{
    Guard guard(runtime().lock);
    *out = { cudaMemoryTypeUnregistered, -1, nullptr, const_cast<void *>(p) };
    if (within_block(p, 1)) *out = { cudaMemoryTypeDevice, 0, const_cast<void *>(p), nullptr };
    else if (is_pinned(p))
        *out = { cudaMemoryTypeHost, 0, const_cast<void *>(p), const_cast<void *>(p) };
    return cudaSuccess;
}

// Waits as CUDA's does: for the NULL stream and the blocking streams, not for non-blocking ones.
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    Guard guard(runtime().lock);
    cudaError_t e = sync_call_allowed(__func__);
    if (e != cudaSuccess) return e;
    return enqueue_copy(
        { static_cast<char *>(to), static_cast<const char *>(from), bytes, bytes, bytes, 1 }, kind,
        nullptr);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return enqueue_copy(
        { static_cast<char *>(to), static_cast<const char *>(from), bytes, bytes, bytes, 1 }, kind,
        stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return enqueue_copy({ static_cast<char *>(to), static_cast<const char *>(from), to_pitch,
                          from_pitch, width, height },
                        kind, stream);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    Guard guard(runtime().lock);
    if (bytes == 0) return cudaSuccess;
    cudaError_t e = check_range(p, bytes, true, "memset");
    return e == cudaSuccess ? enqueue(stream, "memset", [=] { memset(p, value, bytes); }) : e;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    return cudaMemsetAsync(p, value, bytes, nullptr);
}
}
