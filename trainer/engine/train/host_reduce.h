/* host_reduce.h - gradients of a device summed by the host: each bucket is copied to pinned memory
 * as soon as it is complete, summed there by the reducer, and copied back. For ranks that share a
 * device, and where there is no NCCL. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_HOST_REDUCE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_HOST_REDUCE_H
#include "trainer/engine/exec/executor.h"

typedef struct HostReduce HostReduce;

/* After executor_commit(). Borrows x; copies buckets. */
Status host_reduce_create(HostReduce **out, Executor *x, const Bucket *buckets, int bucket_count);
void host_reduce_destroy(HostReduce *s); /* NULL ok; nothing may be under way */
/* Host copies of the GRAD and the BUFFER slab; what the reducer sums. */
void *host_reduce_grads(const HostReduce *s);
void *host_reduce_buffers(const HostReduce *s);

Status host_reduce_fetch(HostReduce *s, int bucket,
                         Stream *stream);           /* enqueues the copy to the host */
Status host_reduce_wait(HostReduce *s, int bucket); /* until that copy is done */
Status host_reduce_return(HostReduce *s, int bucket, Stream *stream);
Status host_reduce_fetch_buffers(HostReduce *s, Stream *stream); /* waits for the stream */
Status host_reduce_return_buffers(HostReduce *s, Stream *stream);
#endif
