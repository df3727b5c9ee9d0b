/* stacks.c - see stacks.h. The signal carries the place of the answer, so that a thread that
 * answers late writes where nobody else does. */
#include "base/process/stacks.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process/symbols.h"
#include "base/thread.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OWN_FRAMES = 2 }; /* the handler, and what the kernel returns to from it */

typedef struct Answers { /* kept for the life of the process: one may come at any later time */
    struct Answers *next;
    ThreadStack stack[];
} Answers;

static void answer(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    ThreadStack *stack = info->si_value.sival_ptr;
    void *frame[STACKS_DEPTH + OWN_FRAMES];
    int error = errno;
    if (info->si_code == SI_QUEUE && info->si_pid == getpid() && stack) {
        int depth = backtrace(frame, STACKS_DEPTH + OWN_FRAMES) - OWN_FRAMES;
        for (int i = 0; i < depth; i++) stack->frame[i] = frame[i + OWN_FRAMES];
        stack->depth = depth > 0 ? depth : 0;
    }
    errno = error;
}

void stacks_prepare(void)
{
    void *frame[1];
    struct sigaction action = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigemptyset(&action.sa_mask);
    backtrace(frame, 1); /* loads libgcc, which the handler could not */
    sigaction(THREAD_STACK_SIGNAL, &action, NULL);
}

static void ask(int thread, ThreadStack *stack)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = stack;
    /* a thread that is gone does not answer */
    syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, THREAD_STACK_SIGNAL, &info);
}

static bool all_answered(const ThreadStack *stacks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (stacks[i].depth == 0) return false;
    return true;
}

const ThreadStack *stacks_ask(const int *threads, size_t count, double limit_s)
{
    static Answers *kept;
    Answers *answers = mem_calloc(1, sizeof *answers + count * sizeof answers->stack[0]);
    if (!answers) return NULL;
    answers->next = kept;
    kept = answers;
    ThreadStack *stacks = answers->stack;
    for (size_t i = 0; i < count; i++) ask(threads[i], &stacks[i]);
    for (double end_s = clock_s() + limit_s; clock_s() < end_s && !all_answered(stacks, count);)
        clock_sleep_s(0.01);
    return stacks;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_own(const Dl_info *file)
{
    Dl_info own;
    const void *code;
    void (*here)(void) = stacks_prepare;
    memcpy(&code, &here, sizeof code);
    return dladdr(code, &own) != 0 && own.dli_fbase == file->dli_fbase;
}

void stacks_describe(StrBuf *out, const ThreadStack *stack, int frame)
{
    char name[128];
    Dl_info file;
    uintptr_t address = (uintptr_t)stack->frame[frame], start = 0;
    uintptr_t inside = address - (frame > 0); /* the call, not what it returns to */
    if (dladdr(stack->frame[frame], &file) == 0 || !file.dli_fname) {
        str_printf(out, "%#zx", (size_t)address);
        return;
    }
    uintptr_t base = (uintptr_t)file.dli_fbase;
    if (is_own(&file) && symbols_find(inside - base, name, sizeof name, &start))
        str_printf(out, "%s+%#zx ", name, (size_t)(address - base - start));
    else if (file.dli_sname)
        str_printf(out, "%s+%#zx ", file.dli_sname, (size_t)(address - (uintptr_t)file.dli_saddr));
    str_printf(out, "(%s+%#zx)", base_name(file.dli_fname), (size_t)(inside - base));
}
