/* properties.h - what a device is, and what it can compute in. */
#ifndef CONVOY_KERNELS_CUDA_PROPERTIES_H
#define CONVOY_KERNELS_CUDA_PROPERTIES_H
#include "kernels/cuda/cuda.h"

/* Fill deviceless, device_name, compute_capability, sm_count, memory_bytes. The first makes the
 * device current for this thread. The second reads the JSON text that cuDNN's device property
 * descriptor takes: ERR_DATA naming a field. */
Status cuda_properties_of_device(CudaBackend *b, int device);
Status cuda_properties_of_text(CudaBackend *b, const char *json);
/* Sets precision, compute and pad. ERR_ENV naming device and precision where the device has no such
 * arithmetic. */
Status cuda_properties_set_precision(CudaBackend *b, Precision precision);
const char *cuda_properties_precision_name(
    Precision precision); /* "fp32", "tf32", "bf16", "fp16" */
#endif
