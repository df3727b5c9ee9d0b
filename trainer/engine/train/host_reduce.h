/* host_reduce.h - sums of a device done by the host: each range is copied to pinned memory as soon
 * as it is complete, summed there by the reducer, and copied back. For ranks that share a device,
 * and where there is no NCCL. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_HOST_REDUCE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_HOST_REDUCE_H
#include "trainer/engine/exec/executor.h"

typedef struct HostReduce HostReduce;

/* For the gradients of bucket_count buckets, and for running statistics. After executor_commit().
 * Borrows x. */
Status host_reduce_create(HostReduce **out, Executor *x, int bucket_count);
void host_reduce_destroy(HostReduce *s); /* NULL ok; nothing may be under way */
/* The host's copy of the GRAD or the BUFFER slab: what the reducer sums. */
void *host_reduce_memory(const HostReduce *s, Slab slab);

Status host_reduce_fetch(HostReduce *s, const SumRange *r, Stream *stream); /* enqueues the copy */
Status host_reduce_wait(HostReduce *s, const SumRange *r); /* until that copy is done */
Status host_reduce_return(HostReduce *s, const SumRange *r, Stream *stream);
#endif
