/* penalty.h - the L2 term that weight decay stands for: what TensorFlow's examples add to the loss
 * they print. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_PENALTY_H
#define CONVOY_TRAINER_ENGINE_RULES_PENALTY_H
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/executor.h"

/* optimizer.weight_decay / 2 times the sum of squares of the parameters that decay, as they are
 * now, each by its factor of decay (param_rules.h); 0 for adamw and lamb, whose decay is no part of
 * the loss. Allocates and copies parameters to the host: not for every step. No step may be under
 * way. */
Status penalty_of_parameters(Executor *x, const Config *c, double *out);
#endif
