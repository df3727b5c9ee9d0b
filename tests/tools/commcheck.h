/* commcheck.h - what the parts of make_commcheck share, and its modes for device memory. Values are
 * small whole numbers, so float sums are exact in any order and known beforehand: element i of rank
 * r is (7 r + i) mod 13. */
#ifndef CONVOY_TESTS_TOOLS_COMMCHECK_H
#define CONVOY_TESTS_TOOLS_COMMCHECK_H

#include "trainer/engine/comm/comm.h"

#define HANG_TIMEOUT_S  2
#define HANG_SLEEP_S    60
#define CHECK_TIMEOUT_S 60

static inline int value_of(int rank, size_t i)
{
    return (int)((7 * (size_t)rank + i) % 13);
}

static inline int sum_of(int world, size_t i)
{
    int sum = 0;
    for (int r = 0; r < world; r++) sum += value_of(r, i);
    return sum;
}

/* Sums of device memory over all ranks; ERR_INTERNAL with a sentence for a wrong one. */
Status commcheck_device(Comm *c);
/* As that, but the last rank sleeps: the others end by the watchdog. */
Status commcheck_device_hang(Comm *c);

#endif
