/* muon.h - Muon's directions: an OP_MUON for each tensor that it takes, before the OP_UPDATE of the
 * tensor's bucket, which finds them in the place of gradients.
 *
 * They run one after another and share one workspace. Every rank makes them all for itself, from
 * the same sums of gradients: they are the same bits on all. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_MUON_H
#define CONVOY_TRAINER_ENGINE_RULES_MUON_H
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/executor.h"

typedef struct Muon { /* all zero where the optimizer has none */
    Backend *backend;
    OpInstance *ops; /* [executor_state_count]; those of no backend are not there */
    MuonAttr attr;
    int count;
    void *workspace;
} Muon;

/* The workspace for all, by preparing them; needs no memory of x. 0: there is none, or they cannot
 * be prepared, which muon_init() will say. */
size_t muon_workspace_bytes(const Executor *x, Backend *backend, const Config *c);
/* momentum lies as gradients do. clip, loss_scale: NULL where updates have none. */
Status muon_init(Muon *m, const Executor *x, Backend *backend, const Config *c, void *momentum,
                 const OpTensor *clip, const OpTensor *loss_scale);
/* Whether there is one for that state of x. */
bool muon_has(const Muon *m, int state);
/* Those of the update's bucket, before it is added. */
Status muon_add(Muon *m, Executor *x, const StepOp *update);
void muon_deinit(Muon *m); /* also what is all zero or half built */
#endif
