/* transfer.h - tensors as the CPU backend keeps them, from and to plain memory. */
#ifndef CONVOY_KERNELS_CPU_TRANSFER_H
#define CONVOY_KERNELS_CPU_TRANSFER_H
#include "kernels/backend.h"

/* Copies between t and plain host memory; may allocate. */
Status cpu_transfer_export(Backend *backend, const OpTensor *t, void *host);
Status cpu_transfer_import(Backend *backend, const OpTensor *t, const void *host);
#endif
