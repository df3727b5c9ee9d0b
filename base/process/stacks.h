/* stacks.h - in which functions the threads of this process are, for a report on one that hangs.
 *
 * A thread is asked by a signal, and its handler unwinds the stack (glibc's backtrace()). It cannot
 * answer while it blocks that signal or is stuck in the kernel, on a file system that is gone for
 * example. */
#ifndef CONVOY_BASE_PROCESS_STACKS_H
#define CONVOY_BASE_PROCESS_STACKS_H
#include "base/str.h"
#include <signal.h>
#include <stddef.h>

enum { STACKS_DEPTH = 48 };

/* made by stacks_ask(), which leaves it behind: an answer may come at any later time */
typedef struct ThreadStack {
    _Atomic int depth; /* frames, innermost first; 0 as long as the thread has not answered */
    void *frame[STACKS_DEPTH];
} ThreadStack;

/* Before the first question: the handler, and what unwinding has to load. */
void stacks_prepare(void);
/* Asks count threads (as in /proc/self/task) and waits until all have answered, at most limit_s.
 * System calls that are never restarted, such as nanosleep, return early in them. One thread may
 * ask at a time. NULL: out of memory. */
const ThreadStack *stacks_ask(const int *threads, size_t count, double limit_s);
/* Appends "FUNCTION+0x1f (FILE+0x5a31f)", as much of it as is known; FILE+OFFSET is what addr2line
 * wants. */
void stacks_describe(StrBuf *out, const ThreadStack *stack, int frame);
#endif
