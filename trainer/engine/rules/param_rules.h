/* param_rules.h - what the keys of the optimizer mean for each parameter: whether it trains, how
 * fast, and how much it decays. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_PARAM_RULES_H
#define CONVOY_TRAINER_ENGINE_RULES_PARAM_RULES_H
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/executor.h"

typedef struct ParamRule {
    bool trains;  /* false: the rest is 0 */
    double lr;    /* factor of the learning rate */
    double decay; /* factor of optimizer.weight_decay; 0 for what optimizer.decay_skip leaves out,
                     which rules that adapt to tensors leave alone too */
} ParamRule;

/* out [executor_state_count(x)], in that order; buffers do not train. lr is the product of three:
 * optimizer.groups (the first pattern that fits), head_lr (the layer of the last parameter) and
 * layer_decay (by timm's groups: everything before the first block, each block with what lies
 * between the last one and it, the last layer; what follows the last block belongs to that; of N
 * groups the i-th has layer_decay^(N-1-i)). ERR_USAGE naming the key: a pattern fits nothing that
 * trains and that others left, the last layer is frozen, or the network has no blocks. */
Status param_rules_make(ParamRule *out, const Executor *x, const Config *c);
#endif
