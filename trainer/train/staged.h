/* staged.h - gradients of a device summed by the host: each bucket is copied to pinned memory as
 * soon as it is complete, summed there by the reducer, and copied back. For ranks that share a
 * device, and where there is no NCCL. */
#ifndef CONVOY_TRAINER_STAGED_H
#define CONVOY_TRAINER_STAGED_H
#include "trainer/exec/executor.h"

typedef struct Staged Staged;

/* After executor_commit(). Borrows x; copies buckets. */
Status staged_create(Staged **out, Executor *x, const Bucket *buckets, int bucket_count);
void staged_destroy(Staged *s); /* NULL ok; nothing may be under way */
/* Host copies of the GRAD and the BUFFER slab; what the reducer sums. */
void *staged_grads(const Staged *s);
void *staged_buffers(const Staged *s);

Status staged_fetch(Staged *s, int bucket, Stream *stream); /* enqueues the copy to the host */
Status staged_wait(Staged *s, int bucket);                  /* until that copy is done */
Status staged_return(Staged *s, int bucket, Stream *stream);
Status staged_fetch_buffers(Staged *s, Stream *stream); /* waits for the stream */
Status staged_return_buffers(Staged *s, Stream *stream);
#endif
