/* test_stacks.c - threads tell in which functions they are; those that cannot are not waited
 * for. */
#include "base/clock.h"
#include "base/process/stacks.h"
#include "base/thread.h"
#include "tests/test.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int thread_id;
static atomic_bool go_home;

/* Not inlined and no tail call: both functions have to be there to be seen. */
static __attribute__((noinline)) void wait_in_the_inner_function(void)
{
    while (!go_home) usleep(1000);
}

static __attribute__((noinline)) void *wait_in_the_outer_function(void *block)
{
    sigset_t all;
    sigfillset(&all);
    if (block) pthread_sigmask(SIG_SETMASK, &all, NULL);
    thread_id = (int)syscall(SYS_gettid);
    wait_in_the_inner_function();
    return block;
}

/* The stack of a thread that waits, one function a line; "" if it has not answered within
 * limit_s. */
static void stack_of_waiter(StrBuf *out, bool block, double limit_s)
{
    pthread_t thread;
    thread_id = 0;
    go_home = false;
    stacks_prepare();
    REQUIRE_OK(thread_start(&thread, "waiter", wait_in_the_outer_function, block ? &thread : NULL));
    while (thread_id == 0) clock_sleep_s(0.001);
    clock_sleep_s(0.01);
    const int id = thread_id;
    const ThreadStack *stack = stacks_ask(&id, 1, limit_s);
    REQUIRE(stack != NULL);
    for (int i = 0; i < stack->depth; i++) {
        stacks_describe(out, stack, i);
        str_add(out, "\n");
    }
    go_home = true;
    pthread_join(thread, NULL);
}

TEST(a_thread_tells_in_which_functions_it_is)
{
    StrBuf out = { 0 };
    stack_of_waiter(&out, false, 10);
    REQUIRE(out.text != NULL);
    const char *inner = strstr(out.text, "wait_in_the_inner_function+0x");
    const char *outer = strstr(out.text, "wait_in_the_outer_function+0x");
    CHECK(inner != NULL && outer != NULL && inner < outer);
    CHECK_CONTAINS(out.text, "+0x");
    CHECK_CONTAINS(out.text, "(libc.so.6+0x");
    str_free(&out);
}

TEST(a_thread_that_cannot_answer_is_not_waited_for)
{
    StrBuf out = { 0 };
    double start = clock_s();
    stack_of_waiter(&out, true, 0.3);
    CHECK(out.text == NULL);
    CHECK(clock_s() - start < 10);
}
