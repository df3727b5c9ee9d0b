/* trust.h - the trust ratios of LARS and LAMB: OP_TRUST_RATIO before the OP_UPDATE of a bucket,
 * which reads what it leaves in the backend's memory.
 *
 * A tensor lies in one bucket, and sums are counted from its own first element: ratios are the same
 * however gradients are cut into buckets. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_TRUST_H
#define CONVOY_TRAINER_ENGINE_RULES_TRUST_H
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/executor.h"

typedef struct Trust { /* of one bucket; all zero where its update has no ratios */
    OpInstance op;
    void *memory; /* sums, behind them ratios */
} Trust;

/* Which segments adapt: as timm has it those that decay, or all by optimizer.always_adapt. For
 * lars_mlperf .adapts stays as it is: what MLPerf's list does not skip. */
void trust_choose(const Config *c, UpdateSegment *segments, int count);
/* update: an OP_UPDATE with its inputs that is not prepared yet; gets UPDATE_IN_RATIO if its kind
 * has ratios and any segment adapts. Borrows its attribute and tensors. */
Status trust_init(Trust *t, OpInstance *update);
/* Before the update is added. */
Status trust_add(Trust *t, Executor *x, const StepOp *update);
void trust_deinit(Trust *t); /* also what is all zero or half built */
#endif
