/* conv_norm_plan.c - fused convolutions as cuDNN operation graphs.
 *
 * The patterns are those that cuDNN has engines for, in fp16 and nothing else: pointwise operations in front of the
 * convolution whose results are never in memory, statistics behind it, or the gradient of a ReLU and the sums of a
 * batch norm's gradient behind a data gradient. What pointwise operations pass on is f32; what leaves the convolution
 * is of type io. A graph is written as formulas are: a step takes tensors and gives one.
 *
 * Engines that are compiled when the plan is made are left out (CudnnContext.exhaustive makes them too): a fusion that
 * has no other is not worth its seconds at every first start. */
#include "kernels/cuda/conv_norm_plan.h"
#include "base/mem.h"
#include "kernels/cuda/conv_graph.h"
#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 64, MAX_STEPS = 12, FIRST_BETWEEN = 100 };

typedef struct Operation {
    ConvNormPass pass;
    ConvPrologue prologue;
    ConvShape shape;
} Operation;

struct ConvNormPlan {
    CudnnContext *context; /* borrowed */
    const CudnnPlan *plan; /* the context's */
    const ConvOperand *operands;
    cudnnBackendDescriptor_t pack; /* NULL until bound */
    void *data[CUDNN_MAX_OPERANDS], *workspace;
};

/* ---- writing a graph ---- */

typedef cudnnBackendDescriptor_t Part;

/* Sticky: after an error every step gives NULL. */
typedef struct Writer {
    const CudnnApi *api;
    const Operation *operation;
    Status status;
    Part parts[MAX_PARTS]; /* all that was made; owned */
    Part steps[MAX_STEPS]; /* the operations among them */
    Part operands[CONV_OPERAND_COUNT];
    int part_count, step_count, between;
} Writer;

static Part keep(Writer *w, Status st, Part part)
{
    ASSERT(w->part_count < MAX_PARTS);
    if (st != OK) w->status = st;
    else w->parts[w->part_count++] = part;
    return part;
}

static Part make(Writer *w, cudnnBackendDescriptorType_t type, const CudnnAttribute *attributes, int count,
                 const char *what)
{
    Part part = NULL;
    if (w->status != OK) return NULL;
    Status st = cudnn_make(w->api, &part, type, attributes, count, what);
    return keep(w, st, part);
}

static void step(Writer *w, cudnnBackendDescriptorType_t type, const CudnnAttribute *attributes, int count,
                 const char *what)
{
    Part part = make(w, type, attributes, count, what);
    ASSERT(w->step_count < MAX_STEPS);
    if (part) w->steps[w->step_count++] = part;
}

static Part tensor(Writer *w, const ConvTensor *t)
{
    Part part = NULL;
    if (w->status != OK) return NULL;
    Status st = conv_graph_tensor(w->api, t, &part);
    return keep(w, st, part);
}

/* A tensor that lies in memory, by its place in the list of operands. */
static void describe_operands(Writer *w)
{
    const Operation *o = w->operation;
    const ConvOperand *list = conv_norm_operands(o->pass, o->prologue);
    for (int i = 0; list[i] != CONV_OPERAND_COUNT; i++) {
        ConvTensor t = { .id = i + 1, .type = conv_norm_type(&o->shape, list[i]) };
        conv_norm_dims(&o->shape, list[i], t.dims);
        w->operands[list[i]] = tensor(w, &t);
    }
}

/* A tensor of x's shape between two steps. */
static Part between(Writer *w, DType type)
{
    ConvTensor t = { .id = FIRST_BETWEEN + w->between++, .type = type, .between = true };
    conv_norm_dims(&w->operation->shape, CONV_OP_X, t.dims);
    return tensor(w, &t);
}

static Part pointwise_mode(Writer *w, cudnnPointwiseMode_t mode)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode },
        { CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math },
    };
    return make(w, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, attributes, 2, "pointwise descriptor");
}

#define DESCRIPTOR(name, part)                                                                                         \
    {                                                                                                                  \
        name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(part)                                                                \
    }

/* y = mode(a, b); b: NULL for modes of one operand; y: NULL for a tensor that is never in memory. Returns y. */
static Part pointwise(Writer *w, cudnnPointwiseMode_t mode, Part a, Part b, Part y)
{
    const Part how = pointwise_mode(w, mode), to = y ? y : between(w, DTYPE_F32);
    const CudnnAttribute attributes[] = {
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b),
    };
    step(w, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, attributes, b ? 4 : 3, "pointwise operation");
    return to;
}

static Part scale_and_shift(Writer *w, Part x, Part scale, Part shift)
{
    return pointwise(w, CUDNN_POINTWISE_ADD, pointwise(w, CUDNN_POINTWISE_MUL, x, scale, NULL), shift, NULL);
}

static void convolve(Writer *w, ConvPass pass, Part x, Part filter, Part y)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
    } rows[CONV_PASS_COUNT] = {
        [CONV_FORWARD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
        [CONV_BWD_DATA] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
        [CONV_BWD_WEIGHTS] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
    };
    const double alpha = 1, beta = 0;
    Part window = NULL;
    if (w->status != OK) return;
    Status st = conv_graph_window(w->api, &w->operation->shape.attr, &window);
    keep(w, st, window);
    const CudnnAttribute attributes[] = {
        DESCRIPTOR(rows[pass].x, x),
        DESCRIPTOR(rows[pass].w, filter),
        DESCRIPTOR(rows[pass].y, y),
        DESCRIPTOR(rows[pass].window, window),
        { rows[pass].alpha, CUDNN_TYPE_DOUBLE, 1, &alpha },
        { rows[pass].beta, CUDNN_TYPE_DOUBLE, 1, &beta },
    };
    step(w, rows[pass].type, attributes, 6, "convolution operation");
}

/* ---- the three passes ---- */

/* What is convolved. */
static Part write_prologue(Writer *w)
{
    Part *of = w->operands, z = of[CONV_OP_X];
    const ConvPrologue p = w->operation->prologue;
    if (p == CONV_PLAIN) return z;
    z = scale_and_shift(w, z, of[CONV_OP_SCALE], of[CONV_OP_SHIFT]);
    if (p == CONV_AFFINE) return pointwise(w, CUDNN_POINTWISE_RELU_FWD, z, NULL, NULL);
    Part residual = of[CONV_OP_RESIDUAL];
    if (p == CONV_DUAL) residual = scale_and_shift(w, residual, of[CONV_OP_RESIDUAL_SCALE], of[CONV_OP_RESIDUAL_SHIFT]);
    return pointwise(w, CUDNN_POINTWISE_RELU_FWD, pointwise(w, CUDNN_POINTWISE_ADD, z, residual, NULL), NULL,
                     of[CONV_OP_Z]);
}

static void write_stats(Writer *w)
{
    const Part *of = w->operands;
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    convolve(w, CONV_FORWARD, write_prologue(w), of[CONV_OP_W], of[CONV_OP_Y]);
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode },
        { CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math },
        DESCRIPTOR(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, of[CONV_OP_Y]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, of[CONV_OP_SUM]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, of[CONV_OP_SQUARE]),
    };
    step(w, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, attributes, 5, "statistics operation");
}

/* The ReLU's input is formed again from x and what was saved. */
static void write_bwd_data(Writer *w)
{
    const Part *of = w->operands;
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const Part g = between(w, w->operation->shape.io), how = pointwise_mode(w, CUDNN_POINTWISE_RELU_BWD);
    convolve(w, CONV_BWD_DATA, g, of[CONV_OP_W], of[CONV_OP_Y]);
    Part z = pointwise(w, CUDNN_POINTWISE_SUB, of[CONV_OP_X], of[CONV_OP_MEAN], NULL);
    z = pointwise(w, CUDNN_POINTWISE_MUL, z, of[CONV_OP_INV_STD], NULL);
    z = scale_and_shift(w, z, of[CONV_OP_GAMMA], of[CONV_OP_BETA]);
    const CudnnAttribute relu[] = {
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, g),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, z),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, of[CONV_OP_Z]),
    };
    step(w, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, relu, 4, "gradient of ReLU");
    const CudnnAttribute norm[] = {
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math },
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, of[CONV_OP_X]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, of[CONV_OP_Z]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, of[CONV_OP_MEAN]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, of[CONV_OP_INV_STD]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, of[CONV_OP_GAMMA]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, of[CONV_OP_DGAMMA]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, of[CONV_OP_DBETA]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, of[CONV_OP_BY_DZ]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, of[CONV_OP_BY_X]),
        DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, of[CONV_OP_CONSTANT]),
    };
    step(w, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, norm, 11, "gradient of batch norm");
}

static void write_bwd_weights(Writer *w)
{
    convolve(w, CONV_BWD_WEIGHTS, write_prologue(w), w->operands[CONV_OP_W], w->operands[CONV_OP_Y]);
}

static Status make_graph(const CudnnContext *c, const void *operation, cudnnBackendDescriptor_t *graph)
{
    static void (*const writers[CONV_NORM_PASS_COUNT])(Writer *) = { [CONV_NORM_STATS] = write_stats,
                                                                     [CONV_NORM_BWD_DATA] = write_bwd_data,
                                                                     [CONV_NORM_BWD_WEIGHTS] = write_bwd_weights };
    Writer w = { .api = &c->api, .operation = operation };
    describe_operands(&w);
    writers[w.operation->pass](&w);
    const CudnnAttribute attribute = { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, w.step_count,
                                       w.steps };
    Status st = w.status;
    if (st == OK) st = cudnn_make(&c->api, graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &attribute, 1, "graph");
    for (int i = 0; i < w.part_count; i++) cudnn_free(&c->api, w.parts[i]);
    return st;
}

/* ---- plans ---- */

static void size_operands(const ConvShape *shape, const ConvOperand *list, PlanRequest *r)
{
    int64_t dims[4];
    for (r->operands = 0; list[r->operands] != CONV_OPERAND_COUNT; r->operands++) {
        conv_norm_dims(shape, list[r->operands], dims);
        r->operand_bytes[r->operands] =
            (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * dtype_bytes(conv_norm_type(shape, list[r->operands]));
    }
}

Status conv_norm_plan_create(ConvNormPlan **out, CudaBackend *b, ConvNormPass pass, ConvPrologue prologue,
                             const ConvShape *shape)
{
    char key[320];
    const Operation operation = { pass, prologue, *shape };
    *out = NULL;
    ASSERT(b->cudnn && shape->attr.groups > 0 && shape->c % shape->attr.groups == 0);
    conv_graph_key(conv_norm_pass_name(pass, prologue), shape, b->workspace_limit, key, sizeof key);
    PlanRequest request = { .key = key,
                            .make_graph = make_graph,
                            .operation = &operation,
                            .avoid = conv_graph_notes_to_avoid(shape),
                            .prefer = conv_graph_notes_to_prefer(shape),
                            .ready_only = true,
                            .workspace_limit = b->workspace_limit };
    size_operands(shape, conv_norm_operands(pass, prologue), &request);
    ConvNormPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->context = b->cudnn;
    p->operands = conv_norm_operands(pass, prologue);
    Status st = cudnn_plan_get(p->context, &request, &p->plan);
    if (st == OK) *out = p;
    else mem_free(p);
    return st;
}

void conv_norm_plan_destroy(ConvNormPlan *p)
{
    if (!p) return;
    cudnn_free(&p->context->api, p->pack);
    mem_free(p);
}

size_t conv_norm_plan_workspace(const ConvNormPlan *p)
{
    return p->plan->workspace;
}

const char *conv_norm_plan_name(const ConvNormPlan *p)
{
    return p->plan->name;
}

Status conv_norm_plan_bind(ConvNormPlan *p, void *const operands[CONV_OPERAND_COUNT], void *workspace)
{
    void *data[CUDNN_MAX_OPERANDS] = { NULL };
    int count = 0;
    for (; p->operands[count] != CONV_OPERAND_COUNT; count++) {
        data[count] = operands[p->operands[count]];
        ASSERT(data[count] && (uintptr_t)data[count] % 16 == 0);
    }
    cudnn_plans_save(p->context);
    if (p->pack && memcmp(data, p->data, sizeof data) == 0 && workspace == p->workspace) return OK;
    cudnn_free(&p->context->api, p->pack);
    memcpy(p->data, data, sizeof data);
    p->workspace = workspace;
    return cudnn_pack_make(p->context, &p->pack, count, p->data, workspace);
}

Status conv_norm_plan_run(ConvNormPlan *p, cudaStream_t stream)
{
    ASSERT(p->pack);
    return cudnn_execute(p->context, p->plan->plan, p->pack, stream);
}
