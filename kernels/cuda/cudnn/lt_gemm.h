/* lt_gemm.h - matrix products as cuBLASLt runs them. lt_gemm.c talks to the library (opened at run
 * time); tests/emu has plain loops behind the same functions. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_LT_GEMM_H
#define CONVOY_KERNELS_CUDA_CUDNN_LT_GEMM_H
#include "kernels/cuda/cuda.h"

/* d[m][n] = op(a) op(b) (+ bias[n]) (+ d if accumulate), all row-major, summed in f32. a is [m][k]
 * or, transposed, [k][m]; b is [k][n] or, transposed, [n][k]; ld: elements from row to row as
 * stored, a multiple of 16 bytes. Equal inputs give equal bits: no sum depends on timing. */
typedef struct LtGemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b, accumulate;
    int64_t lda, ldb, ldd;
    DType ab, d;   /* f32, bf16 or f16; d also f32 for 16-bit ab */
    bool tf32;     /* f32 ab only */
    bool has_bias; /* f32 [n]; d is f32 then */
} LtGemm;

typedef struct LtGemmPlan LtGemmPlan;
/* Deviceless: a plan that cannot run. ERR_ENV if the library has nothing for this product. */
Status lt_gemm_plan_create(LtGemmPlan **out, CudaBackend *b, const LtGemm *gemm);
void lt_gemm_plan_destroy(LtGemmPlan *p); /* NULL ok */
/* Depends on the backend's workspace limit alone, so that a plan of memory made without a device
 * holds with one. */
size_t lt_gemm_plan_workspace(const LtGemmPlan *p);
const char *lt_gemm_plan_name(const LtGemmPlan *p); /* "cublaslt"; static */
/* Enqueues. All pointers are 16-byte aligned device memory, workspace 256-byte aligned; bias NULL
 * without one. */
Status lt_gemm_plan_run(LtGemmPlan *p, cudaStream_t stream, const void *a, const void *b,
                        const void *bias, void *d, void *workspace);
Status lt_gemm_context_create(struct LtGemmContext **out, CudaBackend *b);
void lt_gemm_context_destroy(struct LtGemmContext *c); /* NULL ok */
/* The library found at run time: "cuBLASLt 13.1.0" and true, or why it cannot be opened and
 * false. */
bool lt_gemm_version(char *out, size_t bytes);
const char *lt_gemm_compiled_version(void); /* of the header: "13.1.0"; static */
#endif
