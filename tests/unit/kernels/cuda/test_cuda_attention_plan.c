/* test_cuda_attention_plan.c - cuDNN's graphs of attention. What they compute: a library that does
 * what the documentation of the backend API says of each operation stands for cuDNN, takes the
 * graph apart and runs it on the host, number by number; behind the end of a packed sequence it
 * reads NaN, and a product writes there unless it is told not to. That cuDNN itself has engines for
 * them on described devices: compiled once, where it is there; the machine needs no GPU. */
#ifndef CONVOY_EMU /* its attention is plain loops */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/cuda/cudnn/attention_plan.h"
#include "kernels/cuda/cudnn/cudnn_context_internal.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include "tests/tools/cudnn_there.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>

/* ---- descriptors: what was set, by attribute ---- */

enum { MOST_VALUES = 40, MOST_ATTRIBUTES = 12, MOST_DESCRIPTORS = 1024, ENGINE_NUMBER = 77 };

typedef union Value {
    void *descriptor;
    int64_t integer;
    int choice; /* of an enum */
    bool flag;
} Value;

typedef struct Attribute {
    cudnnBackendAttributeName_t name;
    int64_t count;
    Value values[MOST_VALUES];
} Attribute;

typedef struct Descriptor {
    cudnnBackendDescriptorType_t type;
    int count;
    Attribute attributes[MOST_ATTRIBUTES];
    double *numbers; /* of a tensor between operations */
} Descriptor;

static struct Library {
    size_t version, workspace_an_image;
    int made, runs;
    Descriptor *all[MOST_DESCRIPTORS];
    const Descriptor *graph; /* the one that was finalised last */
    const Descriptor *pack;  /* while a graph runs */
    const int32_t *lengths;  /* likewise, of packed sequences */
} lib;

static const Attribute *attribute(const Descriptor *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < d->count; i++)
        if (d->attributes[i].name == name) return &d->attributes[i];
    return NULL;
}

static Descriptor *part(const Descriptor *d, cudnnBackendAttributeName_t name)
{
    const Attribute *a = attribute(d, name);
    return a ? a->values[0].descriptor : NULL;
}

static cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    Descriptor *d = mem_calloc(1, sizeof *d);
    ASSERT(d && lib.made < MOST_DESCRIPTORS);
    d->type = type;
    lib.all[lib.made++] = d;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

/* Parts live on in what they are parts of: all go together, in close_library(). */
static cudnnStatus_t destroy(cudnnBackendDescriptor_t d)
{
    (void)d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    Descriptor *d = to;
    Attribute *a = &d->attributes[d->count++];
    ASSERT(d->count <= MOST_ATTRIBUTES && count <= MOST_VALUES);
    *a = (Attribute){ .name = name, .count = count };
    for (int64_t i = 0; i < count; i++) {
        if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR || type == CUDNN_TYPE_VOID_PTR)
            a->values[i].descriptor = ((void *const *)values)[i];
        else if (type == CUDNN_TYPE_INT64) a->values[i].integer = ((const int64_t *)values)[i];
        else if (type == CUDNN_TYPE_BOOLEAN) a->values[i].flag = ((const bool *)values)[i];
        else a->values[i].choice = ((const int *)values)[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(cudnnBackendDescriptor_t d)
{
    if (((Descriptor *)d)->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) lib.graph = d;
    return CUDNN_STATUS_SUCCESS;
}

static const Descriptor *operand(int64_t id);
static int64_t dim(const Descriptor *tensor, int i);

/* One engine, with nothing to be said of it, whose workspace grows with the images. */
static cudnnStatus_t get(const cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count,
                         void *values)
{
    (void)d, (void)type, (void)wanted;
    *count = 1;
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE || name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)
        *count = 0;
    else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) *(int64_t *)values = ENGINE_NUMBER;
    else if (name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE ||
             name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)values = dim(operand(1), 0) * (int64_t)lib.workspace_an_image;
    return CUDNN_STATUS_SUCCESS;
}

static size_t version(void)
{
    return lib.version;
}

static void no_reason(char *message, size_t bytes)
{
    if (bytes) message[0] = '\0';
}

static cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- tensors ---- */

static int64_t dim(const Descriptor *tensor, int i)
{
    return attribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS)->values[i].integer;
}

static int64_t id_of(const Descriptor *tensor)
{
    return attribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID)->values[0].integer;
}

static bool flag(const Descriptor *tensor, cudnnBackendAttributeName_t name)
{
    return attribute(tensor, name)->values[0].flag;
}

/* The tensor with that id among those of the graph's operations. */
static const Descriptor *operand(int64_t id)
{
    for (int i = lib.made - 1; i >= 0; i--)
        if (lib.all[i]->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && id_of(lib.all[i]) == id)
            return lib.all[i];
    return NULL;
}

static float rounded(const Descriptor *t, double v)
{
    const int type = attribute(t, CUDNN_ATTR_TENSOR_DATA_TYPE)->values[0].choice;
    return type == CUDNN_DATA_HALF       ? float_from_f16(float_to_f16((float)v))
           : type == CUDNN_DATA_BFLOAT16 ? float_from_bf16(float_to_bf16((float)v))
                                         : (float)v;
}

static void *memory_of(const Descriptor *t, const Descriptor *pack)
{
    const Attribute *ids = attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int64_t i = 0; i < ids->count; i++)
        if (ids->values[i].integer == id_of(t))
            return attribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->values[i].descriptor;
    return NULL;
}

/* Where an element lies in the tensor's memory; dims of 1 are repeated. */
static int64_t place(const Descriptor *t, const int64_t at[4])
{
    const Attribute *strides = attribute(t, CUDNN_ATTR_TENSOR_STRIDES);
    const Descriptor *ragged = part(t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
    int64_t sum = ragged ? ((const int32_t *)memory_of(ragged, lib.pack))[at[0]] : 0;
    for (int i = ragged ? 1 : 0; i < 4; i++)
        if (dim(t, i) > 1) sum += at[i] * strides->values[i].integer;
    return sum;
}

enum { N = 6, HEADS = 2, L = 6, D = 8, E = HEADS * D, ROWS = N * L };

/* Of a ragged tensor: behind the end of a sequence. */
static bool is_behind(const Descriptor *t, const int64_t at[4])
{
    return part(t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC) &&
           at[dim(t, 2) == L ? 2 : 3] >= lib.lengths[at[0]];
}

static float read(const Descriptor *t, const Descriptor *pack, const int64_t at[4])
{
    const int type = attribute(t, CUDNN_ATTR_TENSOR_DATA_TYPE)->values[0].choice;
    const int64_t i = place(t, at);
    if (is_behind(t, at)) return NAN;
    if (flag(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
        ASSERT(t->numbers);
        return rounded(t, t->numbers[i]);
    }
    const void *data = memory_of(t, pack);
    ASSERT(data);
    if (type == CUDNN_DATA_INT32) return (float)((const int32_t *)data)[i];
    if (type == CUDNN_DATA_FLOAT) return ((const float *)data)[i];
    const uint16_t half = ((const uint16_t *)data)[i];
    return type == CUDNN_DATA_HALF ? float_from_f16(half) : float_from_bf16(half);
}

static void write(Descriptor *t, const Descriptor *pack, const int64_t at[4], double v)
{
    const int type = attribute(t, CUDNN_ATTR_TENSOR_DATA_TYPE)->values[0].choice;
    const int64_t i = place(t, at);
    if (flag(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
        if (!t->numbers) /* all of these are packed */
            t->numbers = mem_calloc((size_t)(dim(t, 0) * dim(t, 1) * dim(t, 2) * dim(t, 3)),
                                    sizeof *t->numbers);
        ASSERT(t->numbers);
        t->numbers[i] = (double)rounded(t, v);
        return;
    }
    void *data = memory_of(t, pack);
    ASSERT(data && !flag(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE));
    if (type == CUDNN_DATA_FLOAT) ((float *)data)[i] = (float)v;
    else
        ((uint16_t *)data)[i] =
            type == CUDNN_DATA_HALF ? float_to_f16((float)v) : float_to_bf16((float)v);
}

/* ---- operations ---- */

typedef struct Step {
    const Descriptor *operation, *pack;
} Step;

static double point(int mode, double a, double b)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return a + b;
    case CUDNN_POINTWISE_SUB:
        return a - b;
    case CUDNN_POINTWISE_MUL:
        return a * b;
    case CUDNN_POINTWISE_DIV:
        return a / b;
    case CUDNN_POINTWISE_EXP:
        return exp(a);
    case CUDNN_POINTWISE_LOG:
        return log(a);
    case CUDNN_POINTWISE_CMP_LT:
        return a < b;
    case CUDNN_POINTWISE_LOGICAL_AND:
        return a != 0 && b != 0;
    default:
        CHECK_INT(mode, CUDNN_POINTWISE_ADD);
        return NAN;
    }
}

static double pointwise(const Step *s, const int64_t at[4])
{
    const Descriptor *o = s->operation, *b = part(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                     *choice = part(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
                     *how = part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const int mode = attribute(how, CUDNN_ATTR_POINTWISE_MODE)->values[0].choice;
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        return (double)at[attribute(how, CUDNN_ATTR_POINTWISE_AXIS)->values[0].integer];
    CHECK((mode == CUDNN_POINTWISE_BINARY_SELECT) == (choice != NULL));
    if (choice && read(choice, s->pack, at) == 0) return (double)read(b, s->pack, at);
    if (choice) return (double)read(part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC), s->pack, at);
    return point(mode, (double)read(part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC), s->pack, at),
                 b ? (double)read(b, s->pack, at) : 0);
}

/* How much of a side of a product there is, by the list that it is told. */
static int64_t extent(const Step *s, cudnnBackendAttributeName_t override, const int64_t at[4],
                      int64_t whole)
{
    const Descriptor *list = part(s->operation, override);
    return list ? ((const int32_t *)memory_of(list, s->pack))[at[0]] : whole;
}

static bool is_left_out(const Step *s, const int64_t at[4])
{
    const Descriptor *c = part(s->operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    return at[2] >= extent(s, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, at, dim(c, 2)) ||
           at[3] >= extent(s, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, at, dim(c, 3));
}

static double product(const Step *s, const int64_t at[4])
{
    const Descriptor *a = part(s->operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                     *b = part(s->operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    const int64_t terms =
        extent(s, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, at, dim(a, 3));
    double sum = 0;
    CHECK_INT(dim(a, 3), dim(b, 2));
    if (is_left_out(s, at)) return 0;
    for (int64_t k = 0; k < terms; k++)
        sum += (double)read(a, s->pack, (int64_t[4]){ at[0], at[1], at[2], k }) *
               (double)read(b, s->pack, (int64_t[4]){ at[0], at[1], k, at[3] });
    return sum;
}

/* Of a row: cuDNN reduces the dims that the result has no more. */
static double reduction(const Step *s, const int64_t at[4])
{
    const Descriptor *x = part(s->operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                     *how = part(s->operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const bool most =
        attribute(how, CUDNN_ATTR_REDUCTION_OPERATOR)->values[0].choice == CUDNN_REDUCE_TENSOR_MAX;
    double result = most ? -INFINITY : 0;
    CHECK_INT(dim(part(s->operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC), 3), 1);
    for (int64_t k = 0; k < dim(x, 3); k++) {
        const double v = (double)read(x, s->pack, (int64_t[4]){ at[0], at[1], at[2], k });
        result = most ? fmax(result, v) : result + v;
    }
    return result;
}

/* The same numbers, described otherwise. */
static void view(const Step *s)
{
    const Descriptor *x = part(s->operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    Descriptor *y = part(s->operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    const Attribute *d = attribute(x, CUDNN_ATTR_TENSOR_DIMENSIONS);
    int64_t most = 0, at[4];
    for (int i = 0; i < 4; i++) at[i] = d->values[i].integer - 1;
    most = place(x, at);
    CHECK_INT(place(y, (int64_t[4]){ dim(y, 0) - 1, dim(y, 1) - 1, dim(y, 2) - 1, dim(y, 3) - 1 }),
              most);
    CHECK(part(x, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC) ==
          part(y, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC));
    y->numbers = mem_calloc((size_t)most + 1, sizeof *y->numbers);
    ASSERT(y->numbers);
    for (at[0] = 0; at[0] < dim(x, 0); at[0]++)
        for (at[1] = 0; at[1] < dim(x, 1); at[1]++)
            for (at[2] = 0; at[2] < dim(x, 2); at[2]++)
                for (at[3] = 0; at[3] < dim(x, 3); at[3]++)
                    if (!is_behind(x, at)) y->numbers[place(x, at)] = (double)read(x, s->pack, at);
}

static void run_step(const Step *s)
{
    double (*element)(const Step *, const int64_t *) = NULL;
    cudnnBackendAttributeName_t result = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
    const cudnnBackendDescriptorType_t type = s->operation->type;
    if (type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) element = pointwise;
    if (type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
        element = product;
        result = CUDNN_ATTR_OPERATION_MATMUL_CDESC;
    }
    if (type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
        element = reduction;
        result = CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
    }
    if (!element) {
        CHECK_INT(type, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
        view(s);
        return;
    }
    Descriptor *y = part(s->operation, result);
    const bool in_memory = !flag(y, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    int64_t at[4];
    for (at[0] = 0; at[0] < dim(y, 0); at[0]++)
        for (at[1] = 0; at[1] < dim(y, 1); at[1]++)
            for (at[2] = 0; at[2] < dim(y, 2); at[2]++)
                for (at[3] = 0; at[3] < dim(y, 3); at[3]++) {
                    const bool behind = element == product ? is_left_out(s, at) : is_behind(y, at);
                    if (!in_memory || !behind) write(y, s->pack, at, element(s, at));
                }
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack)
{
    const Attribute *steps = attribute(lib.graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    (void)handle, (void)plan;
    lib.pack = pack;
    lib.lengths = NULL;
    for (int64_t i = 0; i < steps->count; i++) {
        const Descriptor *lengths =
            part(steps->values[i].descriptor, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
        if (lengths) lib.lengths = memory_of(lengths, pack);
    }
    for (int64_t i = 0; i < steps->count; i++)
        run_step(&(Step){ steps->values[i].descriptor, pack });
    for (int i = 0; i < lib.made; i++) {
        mem_free(lib.all[i]->numbers);
        lib.all[i]->numbers = NULL;
    }
    lib.runs++;
    return CUDNN_STATUS_SUCCESS;
}

static void open_library(CudaBackend *b, CudnnContext *c)
{
    static int handle;
    lib = (struct Library){ .version = 91900, .workspace_an_image = 1000 };
    *c = (CudnnContext){ .api = { .get_version = version,
                                  .get_last_error_string = no_reason,
                                  .set_stream = set_stream,
                                  .create_descriptor = create,
                                  .destroy_descriptor = destroy,
                                  .set_attribute = set,
                                  .get_attribute = get,
                                  .finalize = finalize,
                                  .execute = execute },
                         .handle = (cudnnHandle_t)(void *)&handle };
    *b = (CudaBackend){ .workspace_limit = 1 << 20, .cudnn = c };
}

static void close_library(CudnnContext *c)
{
    for (CudnnPlan *p = c->plans, *next; p; p = next) {
        next = p->next;
        cudnn_plan_destroy(c, p);
    }
    for (int i = 0; i < lib.made; i++) mem_free(lib.all[i]);
    lib.made = 0;
}

/* ---- attention from the maths ---- */

/* packed: of these lengths, one behind the other */
static const int lengths[N] = { 3, 4, L, 1, 5, 2 };
enum { PACKED = 3 + 4 + L + 1 + 5 + 2, MASK_ROW = 8 };
static const float factor = 1.25f; /* of what is kept */

typedef struct Tensors {
    _Alignas(16) uint16_t qkv[ROWS * 3 * E];
    _Alignas(16) uint16_t dqkv[ROWS * 3 * E];
    _Alignas(16) uint16_t y[ROWS * E];
    _Alignas(16) uint16_t dy[ROWS * E];
    _Alignas(16) float lse[N * HEADS * L];
    _Alignas(16) uint16_t mask[N * HEADS * L * MASK_ROW];
    _Alignas(16) int32_t places[N * ATTENTION_PLACES * 8];
    _Alignas(256) char workspace[8192];
    bool packed, dropped;
} Tensors;

static int length_of(const Tensors *t, int n)
{
    return t->packed ? lengths[n] : L;
}

static int first_row(const Tensors *t, int n)
{
    int row = 0;
    for (int i = 0; i < n; i++) row += length_of(t, i);
    return row;
}

static double keeps(const Tensors *t, int n, int head, int query, int key)
{
    const int row = (n * HEADS + head) * L + query;
    return t->dropped ? (double)(factor * float_from_f16(t->mask[row * MASK_ROW + key])) : 1;
}

static float lse_at(const Tensors *t, int n, int head, int query)
{
    const int row = first_row(t, n) + query;
    return t->lse[t->packed ? row * HEADS + head : (n * HEADS + head) * L + query];
}

static float half_at(const uint16_t *rows, int64_t width, int64_t row, int64_t channel)
{
    return float_from_f16(rows[row * width + channel]);
}

static double dot(const uint16_t *a, int64_t a_width, int64_t a_row, int64_t a_channel,
                  const uint16_t *b, int64_t b_width, int64_t b_row, int64_t b_channel)
{
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += (double)half_at(a, a_width, a_row, a_channel + i) *
               (double)half_at(b, b_width, b_row, b_channel + i);
    return sum;
}

/* Of sequence n and head: the weights, and their scores' gradients. */
static void weigh(const Tensors *t, int n, int head, double p[L][L], double ds[L][L])
{
    const int row = first_row(t, n), length = length_of(t, n), channel = head * D;
    for (int i = 0; i < length; i++) {
        double sum = 0, inner = 0, dp[L];
        for (int j = 0; j < length; j++) {
            p[i][j] =
                exp(dot(t->qkv, 3 * E, row + i, channel, t->qkv, 3 * E, row + j, E + channel) /
                    sqrt(D));
            sum += p[i][j];
            dp[j] = dot(t->dy, E, row + i, channel, t->qkv, 3 * E, row + j, 2 * E + channel) *
                    keeps(t, n, head, i, j);
        }
        for (int j = 0; j < length; j++) p[i][j] /= sum;
        for (int j = 0; j < length; j++) inner += p[i][j] * dp[j];
        for (int j = 0; j < length; j++) ds[i][j] = p[i][j] * (dp[j] - inner) / sqrt(D);
        for (int j = 0; j < length; j++) p[i][j] *= keeps(t, n, head, i, j);
        CHECK_NEAR((double)lse_at(t, n, head, i), log(sum), 1e-5);
    }
}

static void check_head(const Tensors *t, int n, int head)
{
    double p[L][L], ds[L][L];
    const int row = first_row(t, n), length = length_of(t, n), channel = head * D;
    weigh(t, n, head, p, ds);
    for (int i = 0; i < length; i++)
        for (int k = channel; k < channel + D; k++) {
            double y = 0, dq = 0, dk = 0, dv = 0;
            for (int j = 0; j < length; j++) {
                y += p[i][j] * (double)half_at(t->qkv, 3 * E, row + j, 2 * E + k);
                dq += ds[i][j] * (double)half_at(t->qkv, 3 * E, row + j, E + k);
                dk += ds[j][i] * (double)half_at(t->qkv, 3 * E, row + j, k);
                dv += p[j][i] * (double)half_at(t->dy, E, row + j, k);
            }
            CHECK_NEAR((double)half_at(t->y, E, row + i, k), y, 0.003);
            CHECK_NEAR((double)half_at(t->dqkv, 3 * E, row + i, k), dq, 0.003);
            CHECK_NEAR((double)half_at(t->dqkv, 3 * E, row + i, E + k), dk, 0.003);
            CHECK_NEAR((double)half_at(t->dqkv, 3 * E, row + i, 2 * E + k), dv, 0.003);
        }
}

/* Behind the last sequence nothing was written. */
static void check_rest(const Tensors *t)
{
    for (int i = first_row(t, N) * E; i < ROWS * E; i++) CHECK_INT(t->y[i], 0xffff);
    for (int i = first_row(t, N) * 3 * E; i < ROWS * 3 * E; i++) CHECK_INT(t->dqkv[i], 0xffff);
}

/* ---- tests ---- */

static const AttentionShape small = {
    .n = N, .heads = HEADS, .length = L, .width = D, .io = DTYPE_F16, .statistics = true
};

static void fill(Tensors *t, bool packed, bool dropped)
{
    Rng rng = rng_at(7, (RngPurpose)0, 0, 0);
    memset(t, 0xff, sizeof *t);
    t->packed = packed;
    t->dropped = dropped;
    for (int i = 0; i < ROWS * 3 * E; i++)
        t->qkv[i] = float_to_f16((float)rng_uniform(&rng) * 4 - 2);
    for (int i = 0; i < ROWS * E; i++) t->dy[i] = float_to_f16((float)rng_uniform(&rng) * 2 - 1);
    for (int i = 0; i < N * HEADS * L * MASK_ROW; i++)
        t->mask[i] = float_to_f16(rng_uniform(&rng) < 0.8);
}

/* The lists of so many parts. */
static void fill_places(Tensors *t, int parts)
{
    const int n = N / parts, row = (int)attention_plan_places_row(n);
    for (int i = 0; i < N + parts; i++) {
        const int part = i / (n + 1), k = i % (n + 1), sequence = part * n + k,
                  first = first_row(t, sequence);
        int32_t *to = t->places + part * ATTENTION_PLACES * row + k;
        if (k < n) to[0] = lengths[sequence];
        to[row] = first * 3 * E;
        to[2 * row] = first * E;
        to[3 * row] = first * HEADS;
    }
}

static void run_pass(CudaBackend *b, AttentionGraph pass, Tensors *t, int runs)
{
    const int n = N / runs, row = (int)attention_plan_places_row(n);
    AttentionShape s = small;
    AttentionPlan *p = NULL;
    static uint16_t mask[N * HEADS * L * MASK_ROW];
    s.scale = 1 / sqrtf(D);
    s.packed = t->packed ? PACKED : 0;
    s.factor = t->dropped ? factor : 0;
    void *const operands[ATTENTION_OPERAND_COUNT] = {
        t->qkv,          t->qkv + E,          t->qkv + 2 * E,      t->y,   t->dy,
        t->dqkv,         t->dqkv + E,         t->dqkv + 2 * E,     t->lse, t->places,
        t->places + row, t->places + 2 * row, t->places + 3 * row, mask
    };
    fill_places(t, runs);
    REQUIRE_OK(attention_plan_create(&p, b, pass, &s));
    CHECK_STR(attention_plan_name(p), "cudnn engine 77");
    CHECK_INT(attention_plan_parts(p), runs);
    CHECK_INT(attention_plan_part(p)->n, n);
    CHECK(attention_plan_workspace(p) <= sizeof t->workspace);
    CHECK_OK(attention_plan_bind(p, operands, t->workspace));
    for (int i = 0; i < runs; i++) {
        const size_t numbers = (size_t)n * HEADS * L * MASK_ROW;
        memcpy(mask, t->mask + (size_t)i * numbers, numbers * sizeof *mask);
        CHECK_OK(attention_plan_run(p, i, NULL));
    }
    CHECK_INT(lib.runs, runs);
    attention_plan_destroy(p);
}

static void check_graphs(bool packed, bool dropped)
{
    static Tensors t;
    CudaBackend b;
    CudnnContext c;
    for (int parts = 1; parts <= N; parts++) {
        if (N % parts != 0) continue;
        const size_t images = N / parts, inner = (images * HEADS * L * 4 + 255) / 256 * 256;
        const AttentionShape part = { .n = N / parts,
                                      .heads = HEADS,
                                      .length = L,
                                      .io = DTYPE_F16,
                                      .packed = packed,
                                      .factor = dropped ? factor : 0 };
        const size_t more =
            attention_plan_mask_bytes(&part) + attention_plan_places_bytes(&part, parts);
        const size_t mask = dropped ? images * HEADS * L * MASK_ROW * 2 : 0,
                     lists = packed ? (size_t)parts * 4 * (images < 4 ? 4 : 8) * 4 : 0;
        CHECK_INT(more, (mask + 255) / 256 * 256 + (lists + 255) / 256 * 256);
        fill(&t, packed, dropped);
        open_library(&b, &c);
        /* workspace for so many parts; forward goes through them where there is a mask */
        if (dropped) b.workspace_limit = images * lib.workspace_an_image + more;
        run_pass(&b, ATTENTION_FORWARD, &t, dropped ? parts : 1);
        b.workspace_limit = images * lib.workspace_an_image + inner + more;
        lib.runs = 0;
        run_pass(&b, ATTENTION_BWD, &t, parts);
        for (int n = 0; n < N; n++)
            for (int head = 0; head < HEADS; head++) check_head(&t, n, head);
        check_rest(&t);
        close_library(&c);
    }
}

TEST(the_graphs_of_attention_compute_it)
{
    check_graphs(false, false);
}

TEST(the_graphs_of_attention_drop_what_the_mask_does_not_keep)
{
    check_graphs(false, true);
}

TEST(the_graphs_of_attention_take_packed_sequences)
{
    check_graphs(true, false);
    check_graphs(true, true);
}

TEST(attention_without_statistics_leaves_none)
{
    static Tensors t;
    AttentionShape s = small;
    AttentionPlan *p = NULL;
    CudaBackend b;
    CudnnContext c;
    fill(&t, false, false);
    open_library(&b, &c);
    s.statistics = false;
    void *const operands[ATTENTION_OPERAND_COUNT] = { t.qkv, t.qkv + E, t.qkv + 2 * E, t.y };
    REQUIRE_OK(attention_plan_create(&p, &b, ATTENTION_FORWARD, &s));
    CHECK_OK(attention_plan_bind(p, operands, t.workspace));
    CHECK_OK(attention_plan_run(p, 0, NULL));
    CHECK(isfinite(half_at(t.y, E, ROWS - 1, E - 1)));
    CHECK(isnan(t.lse[0]));
    attention_plan_destroy(p);
    close_library(&c);
}

TEST(gradients_of_attention_need_room_and_a_cudnn_that_has_them)
{
    AttentionPlan *p = NULL;
    CudaBackend b;
    CudnnContext c;
    open_library(&b, &c);
    b.workspace_limit = lib.workspace_an_image - 1;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_BWD, &small), ERR_ENV);
    CHECK_CONTAINS(status_message(), "cuDNN has no engine for attention bwd f16 n1 heads2");
    b.workspace_limit = 1 << 20;
    lib.version = 91501;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_BWD, &small), ERR_ENV);
    CHECK_STR(status_message(), "the gradient of attention needs cuDNN 9.16 or newer, not 9.15");
    CHECK_OK(attention_plan_create(&p, &b, ATTENTION_FORWARD, &small));
    attention_plan_destroy(p);
    lib.version = 91801;
    AttentionShape text = small;
    text.packed = PACKED;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_FORWARD, &text), ERR_ENV);
    CHECK_STR(status_message(), "attention of text needs cuDNN 9.19 or newer, not 9.18");
    lib.version = 91900;
    text.packed = INT32_MAX / (3 * E) + 1;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_FORWARD, &text), ERR_ENV);
    CHECK_CONTAINS(status_message(), "their lists hold 32 bits");
    /* a plan that needs no workspace, beside a mask that does not fit, not even of one image */
    AttentionShape drops = small;
    drops.factor = factor;
    lib.workspace_an_image = 0;
    b.workspace_limit = HEADS * L * MASK_ROW * 2 - 1;
    CHECK_STATUS(attention_plan_create(&p, &b, ATTENTION_FORWARD, &drops), ERR_ENV);
    CHECK_CONTAINS(status_message(), "next to a plan's workspace");
    b.workspace_limit = 256;
    CHECK_OK(attention_plan_create(&p, &b, ATTENTION_FORWARD, &drops));
    CHECK_INT(attention_plan_parts(p), N);
    attention_plan_destroy(p);
    close_library(&c);
}

TEST(cudnn_has_engines_for_attention)
{
    static const struct {
        const char *gpu;
        DType io;
        int64_t length, width;
        bool packed, dropped, there, bwd; /* bwd: its gradient has one too */
    } rows[] = { { "h200", DTYPE_BF16, 197, 64, false, false, true, true },
                 { "h200", DTYPE_F16, 50, 64, false, false, true, true },
                 { "h200", DTYPE_F16, 1, 8, false, false, true, true },
                 { "a100", DTYPE_BF16, 577, 80, false, false, true, true },
                 { "b200", DTYPE_BF16, 197, 128, false, false, true, true },
                 { "t4", DTYPE_F16, 197, 64, false, false, false, false },
                 { "h200", DTYPE_BF16, 512, 64, true, true, true, true },
                 { "h200", DTYPE_F16, 77, 64, true, false, true, true },
                 { "h200", DTYPE_F16, 197, 64, false, true, true, true },
                 { "a100", DTYPE_BF16, 197, 64, false, true, true, true },
                 { "a100", DTYPE_BF16, 512, 64, true, true, true, false },
                 { "b200", DTYPE_BF16, 197, 64, false, true, true, true },
                 { "b200", DTYPE_BF16, 512, 64, true, true, true, false } };
    if (!cudnn_is_there()) return;
    if (!dlopen("libcuda.so.1", RTLD_NOW) && !dlopen(CONVOY_DRIVER_SHIM, RTLD_NOW | RTLD_GLOBAL)) {
        test_skip(dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const AttentionShape s = { .n = 4,
                                   .heads = 3,
                                   .length = rows[i].length,
                                   .width = rows[i].width,
                                   .packed = rows[i].packed ? 3 * rows[i].length + 1 : 0,
                                   .scale = 0.125f,
                                   .factor = rows[i].dropped ? 1.25f : 0,
                                   .io = rows[i].io,
                                   .statistics = true };
        CudaBackend b;
        REQUIRE_OK(cudnn_open_described(&b, rows[i].gpu, NULL, NULL));
        b.cudnn->uncompiled = i > 0;
        for (int pass = ATTENTION_FORWARD; pass <= ATTENTION_BWD; pass++) {
            AttentionPlan *p = NULL;
            const Status st = attention_plan_create(&p, &b, (AttentionGraph)pass, &s);
            CHECK_STATUS(st, (pass == ATTENTION_BWD ? rows[i].bwd : rows[i].there) ? OK : ERR_ENV);
            attention_plan_destroy(p);
        }
        cudnn_context_destroy(b.cudnn);
    }
}
#endif
