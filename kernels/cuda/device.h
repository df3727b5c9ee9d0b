/* device.h - a device's memory and streams: entries of the backend's table (kernels/backend.h). */
#ifndef CONVOY_KERNELS_CUDA_DEVICE_H
#define CONVOY_KERNELS_CUDA_DEVICE_H
#include "kernels/cuda/cuda.h"

extern const DeviceVTable cuda_device_vtable;
Status cuda_device_alloc(Backend *b, size_t bytes, void **out);
void cuda_device_free(Backend *b, void *p);
Status cuda_device_stream_create(Backend *b, Lane lane, Stream **out);
void cuda_device_stream_destroy(Backend *b, Stream *s);
Status cuda_device_stream_wait(Backend *b, Stream *s);
#endif
