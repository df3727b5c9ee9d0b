/* muon.h - the iteration of OP_MUON: which tensors it is for, and its numbers. */
#ifndef CONVOY_KERNELS_OPS_MUON_H
#define CONVOY_KERNELS_OPS_MUON_H
#include "kernels/op.h"

enum { MUON_STEPS = 5 };
typedef struct MuonStep { /* X = a X + (b A + c A A) X */
    float a, b, c;
} MuonStep;

/* timm's rule: a matrix [K, C R S] of at least 4 rows and columns, neither 128 times as long as the
 * other, of a tensor whose first two dims are above 1. The rest is for AdamW. */
bool muon_takes(const TensorDesc *d);
/* Of tensors that it takes; the last one's numbers contain the direction's scale. */
void muon_steps(const TensorDesc *d, MuonStep out[MUON_STEPS]);
#endif
