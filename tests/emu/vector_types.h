/* vector_types.h - the vector types of CUDA that Convoy's kernels and launchers use, of CUDA's
 * sizes and alignments. */
#ifndef CONVOY_TESTS_EMU_VECTOR_TYPES_H
#define CONVOY_TESTS_EMU_VECTOR_TYPES_H

struct char4 {
    signed char x, y, z, w;
} __attribute__((aligned(4)));
struct uchar2 {
    unsigned char x, y;
} __attribute__((aligned(2)));
struct uchar4 {
    unsigned char x, y, z, w;
} __attribute__((aligned(4)));
struct ushort2 {
    unsigned short x, y;
} __attribute__((aligned(4)));
struct ushort4 {
    unsigned short x, y, z, w;
} __attribute__((aligned(8)));
struct int2 {
    int x, y;
} __attribute__((aligned(8)));
struct int3 {
    int x, y, z;
};
struct int4 {
    int x, y, z, w;
} __attribute__((aligned(16)));
struct uint2 {
    unsigned x, y;
} __attribute__((aligned(8)));
struct uint3 {
    unsigned x, y, z;
};
struct uint4 {
    unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct float2 {
    float x, y;
} __attribute__((aligned(8)));
struct float3 {
    float x, y, z;
};
struct float4 {
    float x, y, z, w;
} __attribute__((aligned(16)));
struct double2 {
    double x, y;
} __attribute__((aligned(16)));

struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1)
        : x(across), y(down), z(deep)
    {
    }
#endif
};

#ifndef __cplusplus
typedef struct dim3 dim3;
typedef struct int2 int2;
typedef struct int4 int4;
typedef struct uint2 uint2;
typedef struct uint3 uint3;
typedef struct uint4 uint4;
typedef struct float2 float2;
typedef struct float4 float4;
#endif
#endif
