/* cudnn_emu.h - what tests may ask of the context that stands for cuDNN's. */
#ifndef CONVOY_TESTS_EMU_CUDNN_EMU_H
#define CONVOY_TESTS_EMU_CUDNN_EMU_H
#include "kernels/cuda/cudnn/cudnn_context.h"

/* From now on choices are measured, and kept for the life of the context. */
void emu_cudnn_time(CudnnContext *c);
int emu_cudnn_choices(const CudnnContext *c); /* how many were kept so far */
#endif
