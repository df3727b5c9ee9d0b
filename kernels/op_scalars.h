/* op_scalars.h - the numbers of a step that its operations read. */
#ifndef CONVOY_KERNELS_OP_SCALARS_H
#define CONVOY_KERNELS_OP_SCALARS_H

/* Step scalars: one f32 tensor [SCALAR_COUNT], written before a step runs, read by ops while it
 * runs; so a captured step can be replayed. */
enum {
    SCALAR_LR,
    SCALAR_GRAD_SCALE /*1 / images in the global batch*/,
    SCALAR_BIAS_CORRECTION1 /*1 - beta1^t*/,
    SCALAR_BIAS_CORRECTION2,
    /* where OP_DROP's draws are addressed, in halves of 16 bits, which a float holds exactly: the
     * step, and the place of the micro-batch's first image in the global batch */
    SCALAR_STEP_LOW,
    SCALAR_STEP_HIGH,
    SCALAR_PLACE_LOW,
    SCALAR_PLACE_HIGH,
    /* LerpAttr.weight: how much of the step's weights goes into their averaged copies */
    SCALAR_EMA,
    SCALAR_LOOKAHEAD,
    SCALAR_COUNT
};
#endif
