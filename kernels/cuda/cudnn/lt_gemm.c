/* lt_gemm.c - row-major matrix products by cuBLASLt, which is opened at run time.
 *
 * ROW-MAJOR. cuBLASLt's matrices are column-major, and a row-major matrix is the column-major one
 * of its transpose. So d^T = op(b)^T op(a)^T is asked for: its first operand is our b, its second
 * our a, its rows are our n, and each transposition flag is the same as ours. Its bias is one value
 * for each of its rows, which are our columns.
 *
 * CHOICE. The first algorithm that cuBLASLt's heuristic names for shape, types, alignment and
 * workspace. Algorithms that add parts of a sum into the output in place are left out; those that
 * gather parts in the workspace add them in a fixed order. f32 products are true f32 unless tf32 is
 * asked for. */
#include "kernels/cuda/cudnn/lt_gemm.h"
#include "base/mem.h"
#include "base/process/library.h"
#include <cublasLt.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

/* what NVIDIA recommends for sm_90; older ones are content with less */
#define WORKSPACE_BYTES ((size_t)32 << 20)
enum { ALIGNMENT = 16, BIAS_ALIGNMENT = 256 };

#define LT_FUNCTIONS(X)                                                                            \
    X(get_version, cublasLtGetVersion)                                                             \
    X(status_string, cublasLtGetStatusString)                                                      \
    X(create, cublasLtCreate)                                                                      \
    X(destroy, cublasLtDestroy)                                                                    \
    X(matmul, cublasLtMatmul)                                                                      \
    X(desc_create, cublasLtMatmulDescCreate)                                                       \
    X(desc_destroy, cublasLtMatmulDescDestroy)                                                     \
    X(desc_set, cublasLtMatmulDescSetAttribute)                                                    \
    X(layout_create, cublasLtMatrixLayoutCreate)                                                   \
    X(layout_destroy, cublasLtMatrixLayoutDestroy)                                                 \
    X(preference_create, cublasLtMatmulPreferenceCreate)                                           \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy)                                         \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                                        \
    X(get_heuristic, cublasLtMatmulAlgoGetHeuristic)

typedef struct LtApi { /* types of the library's functions, from its header */
    LT_FUNCTIONS(LIBRARY_POINTER)
} LtApi;

typedef struct LtGemmContext {
    LtApi api;
    cublasLtHandle_t handle;
} LtGemmContext;

struct LtGemmPlan {
    const LtGemmContext *context; /* NULL: deviceless */
    bool accumulate, has_bias;
    size_t workspace_bytes;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
};

/* ---- library ---- */

static Status open_library(LtApi *api)
{
    static const char *const file_names[] = { "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR),
                                              "libcublasLt.so.13", "libcublasLt.so.12", NULL };
    const LibrarySymbol symbols[] = { LT_FUNCTIONS(LIBRARY_SYMBOL) };
    const LibrarySpec spec = { .title = "cuBLASLt",
                               .file_names = file_names,
                               .symbols = symbols,
                               .symbol_count = sizeof symbols / sizeof symbols[0] };
    /* stays open: unloading a CUDA library while the driver lives is not safe */
    void *handle = NULL;
    return library_open(&handle, &spec);
}

bool lt_gemm_version(char *out, size_t bytes)
{
    LtApi api;
    if (open_library(&api) != OK) {
        snprintf(out, bytes, "%s", status_message());
        return false;
    }
    size_t version = api.get_version();
    snprintf(out, bytes, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return true;
}

const char *lt_gemm_compiled_version(void)
{
    return TEXT_OF(CUBLAS_VER_MAJOR) "." TEXT_OF(CUBLAS_VER_MINOR) "." TEXT_OF(CUBLAS_VER_PATCH);
}

static Status lt_status(const LtApi *api, cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS) return OK;
    const Status code = status == CUBLAS_STATUS_ALLOC_FAILED    ? ERR_MEMORY
                        : status == CUBLAS_STATUS_INVALID_VALUE ? ERR_INTERNAL
                                                                : ERR_ENV;
    return fail(code, "cuBLASLt: %s: %s", what, api->status_string(status));
}

Status lt_gemm_context_create(LtGemmContext **out, CudaBackend *b)
{
    *out = NULL;
    if (b->deviceless) return OK;
    LtGemmContext *c = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    Status status = open_library(&c->api);
    if (status == OK) status = lt_status(&c->api, c->api.create(&c->handle), "opening the device");
    if (status != OK) {
        lt_gemm_context_destroy(c);
        return status;
    }
    *out = c;
    return OK;
}

void lt_gemm_context_destroy(LtGemmContext *c)
{
    if (c && c->handle) c->api.destroy(c->handle);
    mem_free(c);
}

/* ---- plans ---- */

static cudaDataType_t data_type(DType type)
{
    ASSERT(type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16);
    return type == DTYPE_F32 ? CUDA_R_32F : type == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static Status set(const LtGemmPlan *p, cublasLtMatmulDescAttributes_t attribute, const void *value,
                  size_t bytes)
{
    const LtApi *api = &p->context->api;
    return lt_status(api, api->desc_set(p->desc, attribute, value, bytes),
                     "describing a matrix product");
}

static Status describe_product(LtGemmPlan *p, const LtGemm *g)
{
    const LtApi *api = &p->context->api;
    const cublasComputeType_t compute = g->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const int32_t first = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  second = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY(lt_status(api, api->desc_create(&p->desc, compute, CUDA_R_32F),
                  "describing a matrix product"));
    TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    if (!g->has_bias) return OK;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const uintptr_t aligned =
        /* the heuristic looks at the pointer's alignment; run() sets the real one */
        BIAS_ALIGNMENT;
    TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned, sizeof aligned);
}

/* rows, columns: of the row-major matrix as stored */
static Status describe_matrix(const LtGemmPlan *p, cublasLtMatrixLayout_t *out, DType type,
                              int64_t rows, int64_t columns, int64_t ld)
{
    const LtApi *api = &p->context->api;
    ASSERT(ld >= columns && ld * (int64_t)dtype_bytes(type) % ALIGNMENT == 0);
    cublasStatus_t status =
        api->layout_create(out, data_type(type), (uint64_t)columns, (uint64_t)rows, ld);
    return lt_status(api, status, "describing a matrix");
}

static Status describe_matrices(LtGemmPlan *p, const LtGemm *g)
{
    const int64_t a_rows = g->transpose_a ? g->k : g->m, a_columns = g->transpose_a ? g->m : g->k;
    const int64_t b_rows = g->transpose_b ? g->n : g->k, b_columns = g->transpose_b ? g->k : g->n;
    TRY(describe_matrix(p, &p->a, g->ab, a_rows, a_columns, g->lda));
    TRY(describe_matrix(p, &p->b, g->ab, b_rows, b_columns, g->ldb));
    return describe_matrix(p, &p->d, g->d, g->m, g->n, g->ldd);
}

static Status set_preference(const LtGemmPlan *p, cublasLtMatmulPreference_t preference)
{
    const LtApi *api = &p->context->api;
    const uint64_t workspace = p->workspace_bytes;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t alignment = ALIGNMENT;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } rows[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment, sizeof alignment },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof alignment },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cublasStatus_t status =
            api->preference_set(preference, rows[i].attribute, rows[i].value, rows[i].bytes);
        TRY(lt_status(api, status, "preferences for a matrix product"));
    }
    return OK;
}

static Status choose_algorithm(LtGemmPlan *p)
{
    const LtGemmContext *c = p->context;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result = { .state = CUBLAS_STATUS_NOT_SUPPORTED };
    int found = 0;
    Status status = lt_status(&c->api, c->api.preference_create(&preference),
                              "preferences for a matrix product");
    if (status == OK) status = set_preference(p, preference);
    if (status == OK) {
        cublasStatus_t chosen = c->api.get_heuristic(c->handle, p->desc, p->b, p->a, p->d, p->d,
                                                     preference, 1, &result, &found);
        if (chosen == CUBLAS_STATUS_SUCCESS)
            chosen = found > 0 ? result.state : CUBLAS_STATUS_NOT_SUPPORTED;
        status = lt_status(&c->api, chosen, "choosing an algorithm");
    }
    if (preference) c->api.preference_destroy(preference);
    p->algorithm = result.algo;
    return status;
}

Status lt_gemm_plan_create(LtGemmPlan **out, CudaBackend *b, const LtGemm *g)
{
    *out = NULL;
    ASSERT(g->m > 0 && g->n > 0 && g->k > 0 && (!g->has_bias || g->d == DTYPE_F32));
    LtGemmPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->context = b->lt;
    p->accumulate = g->accumulate;
    p->has_bias = g->has_bias;
    p->workspace_bytes =
        b->workspace_limit < WORKSPACE_BYTES ? b->workspace_limit : WORKSPACE_BYTES;
    Status status = p->context ? describe_product(p, g) : OK;
    if (status == OK && p->context) status = describe_matrices(p, g);
    if (status == OK && p->context) status = choose_algorithm(p);
    if (status != OK) {
        lt_gemm_plan_destroy(p);
        return fail_note(status, "product of [%lld][%lld] and [%lld][%lld], %s to %s",
                         (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n,
                         dtype_name(g->ab), dtype_name(g->d));
    }
    *out = p;
    return OK;
}

void lt_gemm_plan_destroy(LtGemmPlan *p)
{
    if (!p) return;
    if (p->desc) p->context->api.desc_destroy(p->desc);
    if (p->a) p->context->api.layout_destroy(p->a);
    if (p->b) p->context->api.layout_destroy(p->b);
    if (p->d) p->context->api.layout_destroy(p->d);
    mem_free(p);
}

size_t lt_gemm_plan_workspace(const LtGemmPlan *p)
{
    return p->workspace_bytes;
}

const char *lt_gemm_plan_name(const LtGemmPlan *p)
{
    (void)p;
    return "cublaslt";
}

Status lt_gemm_plan_run(LtGemmPlan *p, cudaStream_t stream, const void *a, const void *b,
                        const void *bias, void *d, void *workspace)
{
    const LtGemmContext *c = p->context;
    const float one = 1, beta = p->accumulate ? 1 : 0;
    if (!c)
        return fail(ERR_INTERNAL, "a matrix product that was planned without a device cannot run");
    ASSERT(p->has_bias == (bias != NULL));
    if (bias) TRY(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    cublasStatus_t status =
        c->api.matmul(c->handle, p->desc, &one, b, p->b, a, p->a, &beta, d, p->d, d, p->d,
                      &p->algorithm, workspace, p->workspace_bytes, stream);
    return lt_status(&c->api, status, "matrix product");
}
