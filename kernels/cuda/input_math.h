/* input_math.h - one byte of an image as the network sees it: every step rounded to float32, as torchvision's ToTensor
 * and Normalize do. Host and device compile it alike; there is no multiplication in it that could be fused. */
#ifndef CONVOY_KERNELS_CUDA_INPUT_MATH_H
#define CONVOY_KERNELS_CUDA_INPUT_MATH_H
#include "kernels/cuda/half_math.h"

CUDA_BOTH static inline float input_value(int byte, float mean, float std)
{
    float unit = (float)byte / 255.0f;
    return (unit - mean) / std;
}
#endif
