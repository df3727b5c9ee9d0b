/* optimizer.h - the optimizer: OP_UPDATE over the parameter slab, bucket by bucket.
 *
 * Parameter, gradient and optimizer state of an element share an index in their slabs, so one
 * instance per gradient bucket updates a contiguous range as soon as that bucket has been reduced,
 * while later ones are still under way. Weight decay differs per parameter: each instance has one
 * segment per parameter in its bucket.
 *
 * LOSS SCALE. Where the executor has one, a step is: optimizer_check_finite() at every bucket,
 * optimizer_update() of every bucket (which does nothing if anything was not finite),
 * optimizer_update_scale().
 *
 * NORM. Where optimizer_needs_norm(), optimizer_sum_squares() of every bucket and optimizer_norm()
 * come before the first update, which shrinks gradients by the norm if it clips
 * (torch.nn.utils.clip_grad_norm_ over all parameters). */
#ifndef CONVOY_TRAINER_TRAIN_OPTIMIZER_H
#define CONVOY_TRAINER_TRAIN_OPTIMIZER_H
#include "trainer/config/config.h"
#include "trainer/exec/executor.h"

typedef struct Optimizer Optimizer;
/* After executor_commit(). Borrows x; copies buckets. States start at zero. */
Status optimizer_create(Optimizer **out, Executor *x, Backend *backend, const Config *c,
                        const Bucket *buckets, int bucket_count);
void optimizer_destroy(Optimizer *o); /* NULL ok */
/* SCALAR_LR and the bias corrections of update number update (1-based). */
void optimizer_scalars(const Optimizer *o, double lr, int64_t update, float scalars[SCALAR_COUNT]);
Status optimizer_update(Optimizer *o, int bucket, Stream *stream);
/* for gradients that are not finite */
Status optimizer_check_finite(Optimizer *o, int bucket, Stream *stream);
/* the loss scale grows or shrinks */
Status optimizer_update_scale(Optimizer *o, Stream *stream);
/* clips by the norm, or tells it */
bool optimizer_needs_norm(const Config *c);
Status optimizer_sum_squares(Optimizer *o, int bucket, Stream *stream);
Status optimizer_norm(Optimizer *o, Stream *stream); /* into executor_clip() */

/* State for checkpoints: state s of parameter i (executor_state order) as a tensor like its
 * parameter. */
int optimizer_state_count(const Optimizer *o); /* 0, 1 or 2 per parameter */
/* "momentum", "exp_avg", "exp_avg_sq" */
const char *optimizer_state_name(const Optimizer *o, int s);
OpTensor optimizer_state(const Optimizer *o, int s, int param);
void *optimizer_state_slab(const Optimizer *o, int s); /* as large as the PARAM slab */
#endif
