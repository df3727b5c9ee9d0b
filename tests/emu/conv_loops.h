/* conv_loops.h - the plain loops of conv_plan_emu.c, for the doubles that convolve. */
#ifndef CONVOY_TESTS_EMU_CONV_LOOPS_H
#define CONVOY_TESTS_EMU_CONV_LOOPS_H
#include "kernels/cuda/cudnn/conv_plan.h"

/* Element i of an array of f32, bf16 or f16. */
float conv_loops_read(DType type, const void *data, int64_t i);
void conv_loops_write(DType type, void *data, int64_t i, float v);
/* Adds the products of a pass to that of x, w and y which it makes. */
void conv_loops_sum(const ConvShape *s, ConvPass pass, float *x, float *w, float *y);
#endif
