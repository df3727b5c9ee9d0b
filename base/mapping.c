/* mapping.c - see mapping.h. The handler finds the mapping in a table that the whole process has,
 * hence file scope; it may run on any thread at any moment, so the table's rows are taken and left
 * without a lock. A fault outside of them goes to whom it would have gone before. */
#include "base/mapping.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

enum { ROWS = 64 };

typedef struct Row {
    _Atomic uintptr_t start; /* 0: free */
    _Atomic size_t bytes;    /* 0: being filled */
} Row;

static Row rows[ROWS];
static struct sigaction before;
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

static bool make_zeros(uintptr_t at)
{
    for (int i = 0; i < ROWS; i++) {
        const uintptr_t start = rows[i].start;
        const size_t bytes = rows[i].bytes;
        if (start == 0 || at < start || at - start >= bytes) continue;
        return mmap((void *)start, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const bool sent = info->si_code <= 0; /* by a process: nothing was touched */
    if (!sent && make_zeros((uintptr_t)info->si_addr)) return;
    sigaction(number, &before, NULL); /* what was touched is touched again */
    if (sent) raise(number);
}

/* Again for each mapping: a library may have put a handler of its own there. */
static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, old;
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&install_lock);
    if (sigaction(SIGBUS, NULL, &old) == 0 && old.sa_sigaction != on_fault) {
        before = old;
        sigaction(SIGBUS, &action, NULL);
    }
    pthread_mutex_unlock(&install_lock);
}

static bool take_row(uintptr_t start, size_t bytes)
{
    for (int i = 0; i < ROWS; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&rows[i].start, &none, start)) continue;
        rows[i].bytes = bytes;
        return true;
    }
    errno = EMFILE;
    return false;
}

void *mapping_open(int fd, size_t bytes, bool shared)
{
    void *p = shared ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)
                     : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return NULL;
    install();
    if (take_row((uintptr_t)p, bytes)) return p;
    munmap(p, bytes);
    return NULL;
}

void mapping_close(void *mapping, size_t bytes)
{
    if (!mapping) return;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].start != (uintptr_t)mapping) continue;
        rows[i].bytes = 0;
        rows[i].start = 0;
    }
    munmap(mapping, bytes);
}
