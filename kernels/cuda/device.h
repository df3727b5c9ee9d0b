/* device.h - what the backend's parts that deal with the device itself share: its memory, streams,
 * and what it is. */
#ifndef CONVOY_KERNELS_CUDA_DEVICE_H
#define CONVOY_KERNELS_CUDA_DEVICE_H
#include "kernels/cuda/cuda.h"

/* ---- device.c: entries of the backend's table; see kernels/backend.h ---- */
extern const DeviceVTable cuda_device_vtable;
Status cuda_device_alloc(Backend *b, size_t bytes, void **out);
void cuda_device_free(Backend *b, void *p);
Status cuda_device_stream_create(Backend *b, Lane lane, Stream **out);
void cuda_device_stream_destroy(Backend *b, Stream *s);
Status cuda_device_stream_wait(Backend *b, Stream *s);

/* ---- properties.c ---- */
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
