/* utilization.h - how much of what the devices can do a step's products take: the model FLOPs
 * utilisation, MFU.
 *
 * MFU = FLOPs of an image x images/s / peak. FLOPs are those of the network's products, forward and
 * backward, that the step needs (graph_product_flops): what is done again to save memory does not
 * count, both passes of a step of optimizer.sam_rho do. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_UTILIZATION_H
#define CONVOY_TRAINER_ENGINE_SESSION_UTILIZATION_H
#include "trainer/engine/session/session.h"

/* Of one pass over an image in training, at the size of the stage at hand. */
double utilization_image_flops(const Session *s);
/* FLOP/s of all ranks' devices together: by device.peak_tflops, which is of one of them, else by
 * the data sheet of rank 0's GPU in the run's precision. 0: not known. *source: which of them, in a
 * word or two; NULL ok. */
double utilization_peak_flops(const Session *s, const char **source);
#endif
