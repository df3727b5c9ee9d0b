/* transfer.h - tensors as the CUDA backend keeps them, from and to plain memory of the host. */
#ifndef CONVOY_KERNELS_CUDA_TRANSFER_H
#define CONVOY_KERNELS_CUDA_TRANSFER_H
#include "kernels/backend.h"

/* Synchronous, for initial values, checkpoints and tests: they wait for all work of the device, and
 * must not be called while a stream is being captured. An import writes all padding as zero. After
 * importing into the attached PARAM slab the caller calls params_changed: compute copies do not
 * follow by themselves. */
Status cuda_transfer_export(Backend *b, const OpTensor *t, void *host);
Status cuda_transfer_import(Backend *b, const OpTensor *t, const void *host);
#endif
