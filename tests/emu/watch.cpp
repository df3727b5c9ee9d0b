// watch.cpp - which pages work touches, by closing them before each piece of it. See emu.h.
#include "runtime.hpp"

#include <csignal>
#include <sys/mman.h>
#include <ucontext.h>

namespace {

constexpr uintptr_t kPage = 4096;

struct Watch {
    uintptr_t first, end; // whole pages
    size_t read, written;
};

struct Watches {
    std::vector<Watch> all;
    struct sigaction before;
    bool running; // a piece of work, with pages closed
};

Watches &watches()
{
    static Watches *const w = new Watches();
    return *w;
}

void protect(uintptr_t from, uintptr_t end, int how)
{
    if (end > from && mprotect(reinterpret_cast<void *>(from), end - from, how) != 0)
        emu::die("mprotect failed");
}

bool is_write(const void *context)
{
#if defined(__x86_64__)
    return static_cast<const ucontext_t *>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)context;
    return false;
#endif
}

// Opens one page as far as it is wanted. A fault elsewhere comes again, to whom it came before.
void on_fault(int, siginfo_t *info, void *context)
{
    Watches &w = watches();
    const uintptr_t at = reinterpret_cast<uintptr_t>(info->si_addr) / kPage * kPage;
    for (Watch &one : w.all) {
        if (!w.running || at < one.first || at >= one.end) continue;
        const bool write = is_write(context);
        (write ? one.written : one.read) += kPage;
        protect(at, at + kPage, write ? PROT_READ | PROT_WRITE : PROT_READ);
        return;
    }
    sigaction(SIGSEGV, &w.before, nullptr);
}

void run_watched(const emu::Work &work)
{
    Watches &w = watches();
    for (Watch &one : w.all) protect(one.first, one.end, PROT_NONE);
    w.running = !w.all.empty();
    work();
    w.running = false;
    for (Watch &one : w.all) protect(one.first, one.end, PROT_READ | PROT_WRITE);
}

} // namespace

emu::Work emu::watched(Work work)
{
    return [work = std::move(work)] { run_watched(work); };
}

extern "C" {

int emu_watch(const void *p, size_t bytes)
{
    Watches &w = watches();
    emu::Guard guard(emu::runtime().lock);
    const uintptr_t from = reinterpret_cast<uintptr_t>(p);
    Watch one = { (from + kPage - 1) / kPage * kPage, (from + bytes) / kPage * kPage, 0, 0 };
#if !defined(__x86_64__)
    one.end = one.first;
#endif
    if (one.end < one.first) one.end = one.first;
    if (w.all.empty()) {
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &w.before);
    }
    w.all.push_back(one);
    return int(w.all.size()) - 1;
}

EmuTouched emu_touched(int watch)
{
    emu::Guard guard(emu::runtime().lock);
    const Watch &one = watches().all[size_t(watch)];
    return { one.end - one.first, one.read, one.written };
}

void emu_watch_end(void)
{
    Watches &w = watches();
    emu::Guard guard(emu::runtime().lock);
    if (!w.all.empty()) sigaction(SIGSEGV, &w.before, nullptr);
    w.all.clear();
}
}
