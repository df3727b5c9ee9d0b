// fibers.cpp - runs a kernel: block after block, each thread on a fiber that gives way at barriers.
// See emu.h.
//
// A fiber that finishes one thread takes the next unstarted one at once, so kernels without
// barriers never switch. Switching is setjmp and longjmp: only the first entry of a fiber goes
// through ucontext, whose switches cost a system call each.
#undef _FORTIFY_SOURCE // its longjmp refuses to jump between stacks
#include "cuda_runtime.h"
#include "runtime.hpp"

#include <csetjmp>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

EmuThread *emu_thread;
EmuBlock emu_block;

namespace {

using emu::die;

constexpr int kMaxThreads = 1024;
constexpr size_t kPage = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStack = 512 * 1024;
#else
constexpr size_t kStack = 128 * 1024;
#endif

enum class State { unstarted, runnable, at_block_barrier, at_warp_barrier, done };

struct Fiber;
struct Thread : EmuThread {
    State state;
    Fiber *fiber;
    int number;
    // what it waits with
    unsigned mask;
    EmuExchange exchange;
    EmuVote vote;
    uint64_t value, result;
    int source;
};

struct Fiber {
    ucontext_t context;
    jmp_buf jump;
    char *stack;
    bool entered;
};

struct Launcher {
    std::vector<Thread> threads;
    std::vector<Fiber *> idle; // fibers without a thread
    const std::function<void()> *body;
    const char *name;
    int alive, waiting; // threads of the block; of them at the block's barrier
    int unstarted;      // how many have not begun
    bool backwards;     // order in which threads begin
    Fiber *running;
    jmp_buf scheduler;
#if defined(__SANITIZE_ADDRESS__)
    void *fake_stack;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
#endif
};

Launcher &launcher()
{
    static Launcher *const l = new Launcher();
    return *l;
}

Thread &self()
{
    return *static_cast<Thread *>(emu_thread);
}

[[noreturn]] void die_in_kernel(const char *what)
{
    die("kernel %s, block %u,%u,%u, thread %d: %s", launcher().name, emu_block.index.x,
        emu_block.index.y, emu_block.index.z, self().number, what);
}

// ---- switching ----

void leave_to(Fiber *fiber) // from the scheduler; returns when the fiber gives way
{
    Launcher &l = launcher();
    l.running = fiber;
#if defined(__SANITIZE_ADDRESS__)
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber->stack + kPage, kStack);
#endif
    if (_setjmp(l.scheduler) == 0) {
        if (fiber->entered) _longjmp(fiber->jump, 1);
        fiber->entered = true;
        setcontext(&fiber->context);
    }
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void arrived_in_fiber()
{
#if defined(__SANITIZE_ADDRESS__)
    Launcher &l = launcher();
    __sanitizer_finish_switch_fiber(nullptr, &l.scheduler_stack, &l.scheduler_stack_bytes);
#endif
}

void give_way() // from a fiber to the scheduler; returns when the scheduler comes back to it
{
    Launcher &l = launcher();
    Fiber *me = l.running;
#if defined(__SANITIZE_ADDRESS__)
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, l.scheduler_stack, l.scheduler_stack_bytes);
#endif
    if (_setjmp(me->jump) == 0) _longjmp(l.scheduler, 1);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, &l.scheduler_stack, &l.scheduler_stack_bytes);
#endif
}

// ---- barriers ----

void release_block_barrier()
{
    Launcher &l = launcher();
    int count = 0;
    EmuVote vote = EMU_VOTE_ANY;
    for (Thread &t : l.threads)
        if (t.state == State::at_block_barrier) count += t.value != 0, vote = t.vote;
    for (Thread &t : l.threads) {
        if (t.state != State::at_block_barrier) continue;
        if (t.vote != vote)
            die_in_kernel("the block's threads wait at different kinds of __syncthreads");
        t.result = vote == EMU_VOTE_COUNT ? uint64_t(count)
                   : vote == EMU_VOTE_ALL ? uint64_t(count == l.waiting)
                                          : uint64_t(count > 0);
        t.state = State::runnable;
    }
    l.waiting = 0;
}

void end_thread()
{
    Launcher &l = launcher();
    self().state = State::done;
    l.alive--;
    if (l.alive > 0 && l.waiting == l.alive) release_block_barrier();
}

// Gives every lane of the mask its result and lets it go on.
void release_warp(Thread *lanes, unsigned mask, EmuExchange exchange)
{
    uint64_t ballot = 0;
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1 && lanes[i].value) ballot |= uint64_t(1) << i;
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        Thread &t = lanes[i];
        if (exchange == EMU_SHUFFLE && !(mask >> t.source & 1))
            die_in_kernel("a shuffle reads from a lane that is not in its mask");
        t.result = exchange == EMU_SHUFFLE ? lanes[t.source].value : ballot;
        t.state = State::runnable;
    }
}

// ---- running a block ----

Thread *take_unstarted()
{
    Launcher &l = launcher();
    if (l.unstarted == 0) return nullptr;
    size_t n = l.threads.size(), started = n - size_t(l.unstarted--);
    return &l.threads[l.backwards ? n - 1 - started : started];
}

void fiber_main()
{
    arrived_in_fiber();
    for (;;) {
        Fiber *me = launcher().running;
        while (Thread *t = take_unstarted()) {
            t->fiber = me;
            t->state = State::runnable;
            emu_thread = t;
            (*launcher().body)();
            end_thread();
        }
        launcher().idle.push_back(me);
        give_way();
    }
}

Fiber *make_fiber()
{
    Fiber *f = new Fiber();
    void *p = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, kPage, PROT_NONE) != 0) die("no memory for a fiber's stack");
    f->stack = static_cast<char *>(p);
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack + kPage;
    f->context.uc_stack.ss_size = kStack;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
    return f;
}

Fiber *take_fiber()
{
    Launcher &l = launcher();
    if (l.idle.empty()) return make_fiber();
    Fiber *f = l.idle.back();
    l.idle.pop_back();
    return f;
}

void resume(Thread *t)
{
    emu_thread = t;
    leave_to(t->fiber);
}

void start_block(uint3 index)
{
    Launcher &l = launcher();
    emu_block.index = index;
    dim3 b = emu_block.block;
    l.alive = l.unstarted = int(l.threads.size());
    l.waiting = 0;
    for (unsigned i = 0; i < l.threads.size(); i++) {
        Thread &t = l.threads[i];
        t.index = { i % b.x, i / b.x % b.y, i / (b.x * b.y) };
        t.state = State::unstarted;
        t.number = int(i);
    }
}

void run_block(uint3 index)
{
    Launcher &l = launcher();
    start_block(index);
    while (l.alive > 0) {
        uint64_t draw = emu::runtime().random.next();
        bool moved = false, descending = draw & 1;
        l.backwards = draw & 2;
        while (l.unstarted > 0) {
            leave_to(take_fiber());
            moved = true;
        }
        for (size_t i = 0, n = l.threads.size(); i < n; i++) {
            Thread &t = l.threads[descending ? n - 1 - i : i];
            if (t.state != State::runnable) continue;
            resume(&t);
            moved = true;
        }
        if (moved) continue;
        for (Thread &t : l.threads)
            if (t.state != State::done) emu_thread = &t;
        die_in_kernel(
            "waits for ever: the threads it waits for are at another barrier or have left");
    }
}

// Blocks in a seeded order: multiples of a number that shares no divisor with their count.
void run_grid(const char *name, dim3 grid, dim3 block, const std::function<void()> &body)
{
    Launcher &l = launcher();
    emu::Random &random = emu::runtime().random;
    uint64_t count = uint64_t(grid.x) * grid.y * grid.z, stride, at = random.below(count);
    auto divisor = [](uint64_t a, uint64_t b) {
        while (b) std::tie(a, b) = std::make_tuple(b, a % b);
        return a;
    };
    do stride = 1 + random.below(count);
    while (divisor(stride, count) != 1);
    l.threads.resize(size_t(block.x) * block.y * block.z);
    l.body = &body;
    l.name = name;
    emu_block.block = block;
    emu_block.grid = grid;
    for (uint64_t i = 0; i < count; i++, at = (at + stride) % count)
        run_block({ unsigned(at % grid.x), unsigned(at / grid.x % grid.y),
                    unsigned(at / grid.x / grid.y) });
}

} // namespace

int emu_lane()
{
    return self().number % 32;
}

int emu_block_barrier(EmuVote vote, bool predicate)
{
    Launcher &l = launcher();
    Thread &t = self();
    t.vote = vote;
    t.value = predicate;
    t.state = State::at_block_barrier;
    if (++l.waiting == l.alive) release_block_barrier();
    else give_way();
    return int(t.result);
}

uint64_t emu_warp_exchange(unsigned mask, EmuExchange exchange, uint64_t value, int source)
{
    Launcher &l = launcher();
    Thread &t = self();
    size_t first = size_t(t.number) / 32 * 32;
    if (!(mask >> (t.number % 32) & 1)) die_in_kernel("a lane is not in the mask it passes");
    t.mask = mask;
    t.exchange = exchange;
    t.value = value;
    t.source = source;
    t.state = State::at_warp_barrier;
    bool complete = true;
    for (unsigned i = 0; i < 32 && complete; i++) {
        if (!(mask >> i & 1)) continue;
        if (first + i >= l.threads.size())
            die_in_kernel("the mask names lanes beyond the end of the block");
        const Thread &other = l.threads[first + i];
        if (other.state == State::done) die_in_kernel("the mask names a lane that has left");
        complete = other.state == State::at_warp_barrier && other.mask == mask &&
                   other.exchange == exchange;
    }
    if (complete) release_warp(&l.threads[first], mask, exchange);
    else give_way();
    return t.result;
}

cudaError_t emu_launch_work(const char *name, dim3 grid, dim3 block, cudaStream_t stream,
                            std::function<void()> thread)
{
    uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (threads == 0 || threads > kMaxThreads || block.z > 64 || grid.x == 0 || grid.y == 0 ||
        grid.z == 0 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
        return emu::error(cudaErrorInvalidConfiguration,
                          "kernel %s: grid %u,%u,%u of blocks %u,%u,%u", name, grid.x, grid.y,
                          grid.z, block.x, block.y, block.z);
    return emu::enqueue(stream, name, [name, grid, block, thread = std::move(thread)] {
        run_grid(name, grid, block, thread);
    });
}
