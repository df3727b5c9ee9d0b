/* optimizer.h - the optimizer: OP_UPDATE over the parameter slab, bucket by bucket.
 *
 * Parameter, gradient and optimizer state of an element share an index in their slabs, so one
 * instance per gradient bucket updates a contiguous range as soon as that bucket has been reduced,
 * while later ones are still under way. Weight decay differs per parameter: each instance has one
 * segment per parameter in its bucket.
 *
 * All that it does in a step are operations of the executor's list (step.h).
 *
 * LOSS SCALE. Where programs scale their loss, a step is: "finite check" of every bucket, "update"
 * of every bucket (which does nothing if anything was not finite), "loss scale".
 *
 * NORM. Where optimizer_needs_norm(), "squares" of every bucket and "norm" come before the first
 * update, which shrinks gradients by the norm if it clips (torch.nn.utils.clip_grad_norm_ over all
 * parameters).
 *
 * What a rule needs of one tensor alone belongs before the update of its bucket: a tensor lies in
 * one, and the bucket's gradients are complete by then. The trust ratios of LARS and LAMB are made
 * there (trust.h). */
#ifndef CONVOY_TRAINER_ENGINE_RULES_OPTIMIZER_H
#define CONVOY_TRAINER_ENGINE_RULES_OPTIMIZER_H
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/state.h"

/* The states that its rule keeps, UPDATE_STATES_MAX at most; how many. */
int optimizer_states(const Config *c, StateDef *out);

typedef struct Optimizer Optimizer;
/* After executor_commit(). Borrows x; copies buckets. States start as their row of UPDATE_ROWS
 * says. */
Status optimizer_create(Optimizer **out, Executor *x, Backend *backend, const Config *c,
                        const Bucket *buckets, int bucket_count);
void optimizer_destroy(Optimizer *o); /* NULL ok */
/* SCALAR_LR and the bias corrections of step number step (1-based); skipped ones are no updates. */
void optimizer_scalars(const Optimizer *o, double lr, int64_t step, float scalars[SCALAR_COUNT]);
/* Steps that a loss scale has skipped, as of the last result taken. */
int64_t optimizer_skipped(const Optimizer *o);
/* These scalars need the result of the step before. */
bool optimizer_awaits_result(const Optimizer *o);
/* Tensors like the parameters that a rule with this many states reads or writes; ratios: with
 * those of trust.h. */
int optimizer_rule_passes(UpdateKind kind, int states, bool ratios);
/* clips by the norm, or tells it */
bool optimizer_needs_norm(const Config *c);
/* What "squares" fills; rank 0 where neither the norm nor sharpness.h needs it. */
OpTensor optimizer_squares(const Optimizer *o);

#define OPTIMIZER_RESULTS 2 /* steps whose results are kept apart */
typedef struct OptimizerResult {
    double loss_scale; /* after the step; 0 where there is none */
    /* steps in all whose gradients were not finite: they updated nothing */
    int64_t skipped;
    bool exhausted; /* this step was one of them, and the scale cannot help any more */
    bool measured;
    double grad_norm; /* of the mean loss, before clipping; where it is measured */
} OptimizerResult;
/* Once the step is done; steps in their order. */
OptimizerResult optimizer_take_result(Optimizer *o, int result);

const OpTensor *optimizer_loss_scale(const Optimizer *o); /* NULL where there is none */
Status optimizer_state_changed(Optimizer *o); /* after something else has written to it */
#endif
