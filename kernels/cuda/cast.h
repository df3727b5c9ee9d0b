/* cast.h - flat conversions between f32, bf16 and f16: count elements, or many pieces at once. */
#ifndef CONVOY_KERNELS_CUDA_CAST_H
#define CONVOY_KERNELS_CUDA_CAST_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

C_LINKAGE cudaError_t cuda_launch_cast(const void *in, DType from, void *out, DType to,
                                       int64_t count, cudaStream_t stream);
/* out f32 += in */
C_LINKAGE cudaError_t cuda_launch_cast_add(const void *in, DType from, float *out, int64_t count,
                                           cudaStream_t stream);

enum { CAST_LIST_MAX = 64, CAST_LIST_GROUP = 8 };

/* Pieces that one launch converts to f32; it travels as a kernel's parameter. */
typedef struct CastList {
    int count;
    int64_t blocks; /* of the grid */
    struct {
        const void *from; /* aligned to 16 bytes, as is to */
        float *to;
        int64_t groups, first_block; /* of CAST_LIST_GROUP elements */
    } pieces[CAST_LIST_MAX];
} CastList;
/* One more piece, of count elements: a multiple of CAST_LIST_GROUP. */
C_LINKAGE void cast_list_add(CastList *list, const void *from, float *to, int64_t count);
/* Every piece: to = from, or to += from; from is bf16 or f16. */
C_LINKAGE cudaError_t cuda_launch_cast_list(const CastList *list, DType from, bool add,
                                            cudaStream_t stream);
#endif
