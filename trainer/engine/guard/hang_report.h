/* hang_report.h - what is left of a rank that its watchdogs end: hang-RANK.json in the run
 * folder. */
#ifndef CONVOY_TRAINER_ENGINE_GUARD_HANG_REPORT_H
#define CONVOY_TRAINER_ENGINE_GUARD_HANG_REPORT_H
#include "trainer/engine/comm/comm.h"
#include <stdint.h>

void hang_report_prepare(void); /* once, before anything can hang */
/* {"time", "rank", "host", "pid", "step", "phase", "reason", "threads": [{"thread", "comm",
 * "syscall", "wchan", "stack": [...]}]}: where each thread is, as far as the kernel (first line of
 * those files of /proc/self/task/THREAD) and the thread itself (base/process/stacks.h) tell. Takes
 * half a second. Best effort: an error is dropped. */
void hang_report_write(const Comm *comm, const char *run_dir, const char *reason);
/* A number that another one replaces when any rank has left a report in run_dir. */
uint64_t hang_report_mark(const char *run_dir);
#endif
