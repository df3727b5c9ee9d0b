/* bench_sums.h - what the benchmarks of sums over ranks share: memory that is summed by what
 * training would sum gradients with. NCCL where every rank has a GPU of its own, else MPI on host
 * memory (where ranks share a GPU, that is what their gradients take too). */
#ifndef CONVOY_TRAINER_APP_CMD_BENCH_BENCH_SUMS_H
#define CONVOY_TRAINER_APP_CMD_BENCH_BENCH_SUMS_H
#include "trainer/engine/session/session.h"

typedef struct BenchSums { /* zero-initialise all but comm */
    Comm *comm;
    DeviceChoice choice;
    Backend *backend; /* NULL: host memory */
    DeviceComm *device;
    Stream *stream;
    Event *end;
    bool registered; /* data is memory of device_comm_alloc() */
    DType type;      /* in which gradients would travel */
    float *data;     /* what is summed */
    /* of bench_sums_allocate_from(); apart: what is summed is this, and the sum goes to data */
    float *from;
    bool apart;
    float *host;   /* where it is filled and checked: pinned, or data itself */
    void *scratch; /* for another type than f32, else NULL */
} BenchSums;

/* Collective: whether each rank has a device of its own and NCCL to sum with. */
Status bench_sums_join(BenchSums *s, const Config *c);
/* Local. scratch: for sums in type, too. */
Status bench_sums_allocate(BenchSums *s, size_t count, bool scratch);
/* Local: from, of as many elements. */
Status bench_sums_allocate_from(BenchSums *s, size_t count);
/* What was enqueued is done; nothing to wait for in host memory. */
Status bench_sums_wait(BenchSums *s);
#define BENCH_SUMS_RANKS        2000 /* up to here every sum of the check is exact */
#define BENCH_SUMS_RANKS_16_BIT 36   /* likewise */
/* Collective: fills data (apart: from) with whole numbers, calls sum, and counts the elements of
 * all ranks that are wrong then; data is 0 behind it, so that sums of sums stay finite. type: in
 * which sum sums. */
Status bench_sums_check(BenchSums *s, size_t count, DType type, Status (*sum)(void *cookie),
                        void *cookie, int64_t *wrong);
void bench_sums_close(BenchSums *s);
#endif
