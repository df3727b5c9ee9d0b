/* lt_gemm_emu.c - matrix products of the CUDA test double: plain loops behind lt_gemm.h, enqueued
 * like any other work.
 *
 * Sums run in f32 in the order of k; tf32 rounds its inputs. What cuBLASLt would refuse or read
 * wrongly is refused here: rows and operands that are not 16-byte aligned, operands that are not in
 * device memory. The workspace is overwritten, so that nothing can lie there by mistake. */
#include "kernels/cuda/cudnn/lt_gemm.h"

#include "kernels/float_math.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/emu/emu.h"

enum { ALIGNMENT = 16, WORKSPACE_BYTES = 512 };

struct LtGemmPlan {
    LtGemm gemm;
    bool deviceless;
};

typedef struct Product { /* what the stream gets: a copy, as a launch makes one */
    LtGemm g;
    const void *a, *b;
    const float *bias;
    void *d, *workspace;
} Product;

Status lt_gemm_context_create(struct LtGemmContext **out, CudaBackend *b)
{
    (void)b;
    *out = NULL;
    return OK;
}

void lt_gemm_context_destroy(struct LtGemmContext *c)
{
    ASSERT(!c);
}

bool lt_gemm_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "cuBLASLt test double");
    return true;
}

const char *lt_gemm_compiled_version(void)
{
    return "test double";
}

/* ---- plans ---- */

static Status check_matrix(const char *name, DType type, int64_t columns, int64_t ld)
{
    if (ld >= columns && ld * (int64_t)dtype_bytes(type) % ALIGNMENT == 0) return OK;
    return fail(ERR_INTERNAL, "matrix product: rows of %s: %lld of %s, %lld apart", name,
                (long long)columns, dtype_name(type), (long long)ld);
}

Status lt_gemm_plan_create(LtGemmPlan **out, CudaBackend *b, const LtGemm *g)
{
    *out = NULL;
    ASSERT(g->m > 0 && g->n > 0 && g->k > 0 && (!g->has_bias || g->d == DTYPE_F32));
    ASSERT(g->d == DTYPE_F32 || g->d == g->ab);
    ASSERT(!g->tf32 || g->ab == DTYPE_F32);
    TRY(check_matrix("a", g->ab, g->transpose_a ? g->m : g->k, g->lda));
    TRY(check_matrix("b", g->ab, g->transpose_b ? g->k : g->n, g->ldb));
    TRY(check_matrix("d", g->d, g->n, g->ldd));
    LtGemmPlan *p = *out = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->gemm = *g;
    p->deviceless = b->deviceless;
    return OK;
}

void lt_gemm_plan_destroy(LtGemmPlan *p)
{
    mem_free(p);
}

size_t lt_gemm_plan_workspace(const LtGemmPlan *p)
{
    (void)p;
    return WORKSPACE_BYTES;
}

const char *lt_gemm_plan_name(const LtGemmPlan *p)
{
    (void)p;
    return "gemm double";
}

/* ---- loops ---- */

static float round_tf32(float x)
{
    uint32_t bits = float_to_bits(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x;
    return float_from_bits((bits + 0x0fffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

static float load(const void *from, DType type, int64_t i)
{
    if (type == DTYPE_F32) return ((const float *)from)[i];
    uint16_t bits = ((const uint16_t *)from)[i];
    return type == DTYPE_BF16 ? float_from_bf16(bits) : float_from_f16(bits);
}

static void store(void *to, DType type, int64_t i, float x)
{
    if (type == DTYPE_F32) ((float *)to)[i] = x;
    else ((uint16_t *)to)[i] = type == DTYPE_BF16 ? float_to_bf16(x) : float_to_f16(x);
}

static float element(const LtGemm *g, const void *matrix, int64_t i)
{
    float x = load(matrix, g->ab, i);
    return g->tf32 ? round_tf32(x) : x;
}

static void multiply(const void *cookie)
{
    const Product *p = cookie;
    const LtGemm *g = &p->g;
    const int64_t a_row = g->transpose_a ? 1 : g->lda, a_k = g->transpose_a ? g->lda : 1;
    const int64_t b_column = g->transpose_b ? g->ldb : 1, b_k = g->transpose_b ? 1 : g->ldb;
    memset(p->workspace, 0x5a, WORKSPACE_BYTES);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += element(g, p->a, i * a_row + k * a_k) *
                       element(g, p->b, j * b_column + k * b_k);
            if (g->accumulate) sum += load(p->d, g->d, i * g->ldd + j);
            if (p->bias) sum += p->bias[j];
            store(p->d, g->d, i * g->ldd + j, sum);
        }
}

static Status check_operand(const char *name, const void *p, size_t bytes)
{
    if ((uintptr_t)p % ALIGNMENT != 0)
        return fail(ERR_INTERNAL, "matrix product: %s is not aligned", name);
    if (!emu_is_device_memory(p, bytes))
        return fail(ERR_INTERNAL, "matrix product: %s is not device memory", name);
    return OK;
}

/* Bytes from the first element to the last. */
static size_t extent(int64_t rows, int64_t columns, int64_t ld, DType type)
{
    return (size_t)((rows - 1) * ld + columns) * dtype_bytes(type);
}

Status lt_gemm_plan_run(LtGemmPlan *p, cudaStream_t stream, const void *a, const void *b,
                        const void *bias, void *d, void *workspace)
{
    const LtGemm *g = &p->gemm;
    if (p->deviceless)
        return fail(ERR_INTERNAL, "a matrix product that was planned without a device cannot run");
    ASSERT(g->has_bias == (bias != NULL));
    TRY(check_operand("a", a,
                      g->transpose_a ? extent(g->k, g->m, g->lda, g->ab)
                                     : extent(g->m, g->k, g->lda, g->ab)));
    TRY(check_operand("b", b,
                      g->transpose_b ? extent(g->n, g->k, g->ldb, g->ab)
                                     : extent(g->k, g->n, g->ldb, g->ab)));
    TRY(check_operand("d", d, extent(g->m, g->n, g->ldd, g->d)));
    TRY(check_operand("workspace", workspace, WORKSPACE_BYTES));
    if (bias) TRY(check_operand("bias", bias, (size_t)g->n * sizeof(float)));
    Product product = { .g = *g, .a = a, .b = b, .bias = bias, .d = d, .workspace = workspace };
    TRY_CUDA(emu_enqueue(stream, "gemm", multiply, &product, sizeof product));
    return OK;
}
