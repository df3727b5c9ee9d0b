/* signals.c - requests to stop.
 *
 * The handler runs on the main thread (all others block signals, base/thread.h), sets a flag and
 * returns; the training loop reads the flag once a step. The two flags below are the one mutable
 * state that a handler can reach, hence file scope. USR1 may come any number of times, and so may
 * HUP, which a shell and the kernel both send when a terminal goes; a second TERM or INT means that
 * somebody does not want to wait for the checkpoint. Who started the run with HUP ignored (nohup)
 * wants it to go on.
 *
 * SIGXFSZ is ignored so that a file size limit is a failed write (exit 74, file named) like a full
 * disk, and not a kill. */
#include "trainer/engine/guard/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_int stop_requested;             /* other threads ask too */
static volatile sig_atomic_t urgent_requests; /* TERM and INT seen */

static void on_signal(int number)
{
    stop_requested = 1;
    if (number == SIGUSR1 || number == SIGHUP) return;
    if (urgent_requests) _exit(128 + number);
    urgent_requests = 1;
}

void signals_ignore_size_limit(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

void signals_install(void)
{
    static const int stopping[] = { SIGUSR1, SIGTERM, SIGINT, SIGHUP };
    struct sigaction action, before;
    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART; /* reads and writes of the main thread go on */
    action.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof(stopping) / sizeof(stopping[0]); i++)
        if (stopping[i] != SIGHUP || sigaction(SIGHUP, NULL, &before) != 0 ||
            before.sa_handler != SIG_IGN)
            sigaction(stopping[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL); /* convoy train ... | head: the run goes on */
}

void signals_request_stop(void)
{
    stop_requested = 1;
}

void signals_forget_stop(void)
{
    stop_requested = 0;
}

bool signals_stop_requested(void)
{
    return stop_requested != 0;
}
