/* cudnn_host.c - see cudnn_host.h. */
#include "tests/test.h"
#if CONVOY_CUDA && !defined CONVOY_EMU
#include "base/mem.h"
#include "kernels/float_math.h"
#include "tests/tools/cudnn_host.h"
#include <math.h>

/* ---- descriptors: what was set, by attribute ---- */

enum { MOST_VALUES = 40, MOST_ATTRIBUTES = 12, MOST_DESCRIPTORS = 1024 };

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

CudnnHost cudnn_host;

static struct Library {
    int made;
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

/* Parts live on in what they are parts of: all go together, in cudnn_host_close(). */
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
    else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) *(int64_t *)values = CUDNN_HOST_ENGINE;
    else if (name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE ||
             name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)values = dim(operand(1), 0) * (int64_t)cudnn_host.workspace_an_image;
    return CUDNN_STATUS_SUCCESS;
}

static size_t version(void)
{
    return cudnn_host.version;
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

/* Of a ragged tensor: behind the end of a sequence. */
static bool is_behind(const Descriptor *t, const int64_t at[4])
{
    return part(t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC) &&
           at[dim(t, 2) == cudnn_host.longest ? 2 : 3] >= lib.lengths[at[0]];
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
    cudnn_host.runs++;
    return CUDNN_STATUS_SUCCESS;
}

void cudnn_host_open(CudaBackend *b, CudnnContext *c, int64_t longest)
{
    static int handle;
    lib = (struct Library){ .made = 0 };
    cudnn_host = (CudnnHost){ .version = 91900, .workspace_an_image = 1000, .longest = longest };
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

void cudnn_host_close(CudnnContext *c)
{
    for (CudnnPlan *p = c->plans, *next; p; p = next) {
        next = p->next;
        cudnn_plan_destroy(c, p);
    }
    for (int i = 0; i < lib.made; i++) mem_free(lib.all[i]);
    lib.made = 0;
}
#endif
