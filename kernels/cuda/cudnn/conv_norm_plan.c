/* conv_norm_plan.c - fused convolutions as cuDNN operation graphs.
 *
 * The patterns are those that cuDNN has engines for, in fp16 and nothing else: pointwise operations
 * in front of the convolution whose results are never in memory, statistics behind it, or the
 * gradient of a ReLU and the sums of a batch norm's gradient behind a data gradient. What leaves
 * the convolution is of type io.
 *
 * Engines that are compiled when the plan is made are left out (CudnnContext.exhaustive makes them
 * too): a fusion that has no other is not worth its seconds at every first start. */
#include "kernels/cuda/cudnn/conv_norm_plan.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/conv_graph.h"
#include "kernels/cuda/cudnn/cudnn_use.h"
#include "kernels/cuda/cudnn/cudnn_write.h"

typedef struct Operation {
    ConvNormPass pass;
    ConvPrologue prologue;
    ConvShape shape;
} Operation;

struct ConvNormPlan {
    CudnnUse use;
    const ConvOperand *operands;
};

/* ---- writing a graph ---- */

typedef CudnnPart Part;

typedef struct Writer {
    CudnnWriter graph;
    const Operation *operation;
    Part operands[CONV_OPERAND_COUNT];
} Writer;

/* A tensor that lies in memory, by its place in the list of operands. */
static void describe_operands(Writer *w)
{
    const Operation *o = w->operation;
    const ConvOperand *list = conv_norm_shape_operands(o->pass, o->prologue);
    for (int i = 0; list[i] != CONV_OPERAND_COUNT; i++) {
        CudnnTensor t = { .id = i + 1, .type = conv_norm_shape_type(&o->shape, list[i]) };
        conv_norm_shape_dims(&o->shape, list[i], t.dims);
        w->operands[list[i]] = cudnn_write_tensor(&w->graph, &t);
    }
}

static Part pointwise(Writer *w, cudnnPointwiseMode_t mode, Part a, Part b, Part y)
{
    return cudnn_write_pointwise(&w->graph, mode, a, b, y);
}

static Part scale_and_shift(Writer *w, Part x, Part scale, Part shift)
{
    return pointwise(w, CUDNN_POINTWISE_ADD, pointwise(w, CUDNN_POINTWISE_MUL, x, scale, NULL),
                     shift, NULL);
}

static void convolve(Writer *w, ConvPass pass, Part x, Part filter, Part y)
{
    const ConvGraphPass *row = &conv_graph_passes[pass];
    const double alpha = 1, beta = 0;
    Part convolution = NULL;
    if (w->graph.status != OK) return;
    const Status st = conv_graph_descriptor(w->graph.api, &w->operation->shape.attr, &convolution);
    cudnn_write_keep(&w->graph, st, convolution);
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(row->tensors[CONV_GRAPH_X], x),
        CUDNN_DESCRIPTOR(row->tensors[CONV_GRAPH_W], filter),
        CUDNN_DESCRIPTOR(row->tensors[CONV_GRAPH_Y], y),
        CUDNN_DESCRIPTOR(row->convolution, convolution),
        { row->alpha, CUDNN_TYPE_DOUBLE, 1, &alpha },
        { row->beta, CUDNN_TYPE_DOUBLE, 1, &beta },
    };
    cudnn_write_step(&w->graph, row->type, attributes, 6, "convolution operation");
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
    if (p == CONV_DUAL)
        residual =
            scale_and_shift(w, residual, of[CONV_OP_RESIDUAL_SCALE], of[CONV_OP_RESIDUAL_SHIFT]);
    return pointwise(w, CUDNN_POINTWISE_RELU_FWD,
                     pointwise(w, CUDNN_POINTWISE_ADD, z, residual, NULL), NULL, of[CONV_OP_Z]);
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
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, of[CONV_OP_Y]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, of[CONV_OP_SUM]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, of[CONV_OP_SQUARE]),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, attributes, 5,
                     "statistics operation");
}

/* From its mean on the operands of a norm: x's, or the residual's own. */
static Part normalise(Writer *w, Part x, ConvOperand mean)
{
    const Part *of = &w->operands[mean - CONV_OP_MEAN];
    x = pointwise(w, CUDNN_POINTWISE_SUB, x, of[CONV_OP_MEAN], NULL);
    x = pointwise(w, CUDNN_POINTWISE_MUL, x, of[CONV_OP_INV_STD], NULL);
    return scale_and_shift(w, x, of[CONV_OP_GAMMA], of[CONV_OP_BETA]);
}

/* What dz does to the norm of x whose operands begin there. */
static void write_norm_gradient(Writer *w, Part x, ConvOperand mean)
{
    const Part dz = w->operands[CONV_OP_Z], *of = &w->operands[mean - CONV_OP_MEAN];
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const CudnnAttribute norm[] = {
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math },
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dz),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, of[CONV_OP_MEAN]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, of[CONV_OP_INV_STD]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, of[CONV_OP_GAMMA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, of[CONV_OP_DGAMMA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, of[CONV_OP_DBETA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, of[CONV_OP_BY_DZ]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, of[CONV_OP_BY_X]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, of[CONV_OP_CONSTANT]),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, norm, 11,
                     "gradient of batch norm");
}

/* The ReLU's input is formed again from x, the residual and what was saved. */
static void write_bwd_data(Writer *w)
{
    const Part *of = w->operands;
    const ConvPrologue end = w->operation->prologue;
    const DType io = w->operation->shape.io;
    Part g = cudnn_write_between(&w->graph, io), residual = of[CONV_OP_RESIDUAL];
    convolve(w, CONV_BWD_DATA, g, of[CONV_OP_W], of[CONV_OP_Y]);
    if (end != CONV_PLAIN)
        g = pointwise(w, CUDNN_POINTWISE_ADD, g, of[CONV_OP_DY2],
                      cudnn_write_between(&w->graph, io));
    Part z = normalise(w, of[CONV_OP_X], CONV_OP_MEAN);
    if (end == CONV_DUAL) residual = normalise(w, residual, CONV_OP_RESIDUAL_MEAN);
    if (end != CONV_PLAIN) z = pointwise(w, CUDNN_POINTWISE_ADD, z, residual, NULL);
    cudnn_write_pointwise_bwd(&w->graph, CUDNN_POINTWISE_RELU_BWD, g, z, of[CONV_OP_Z]);
    write_norm_gradient(w, of[CONV_OP_X], CONV_OP_MEAN);
    if (end == CONV_DUAL) write_norm_gradient(w, of[CONV_OP_RESIDUAL], CONV_OP_RESIDUAL_MEAN);
}

static void write_bwd_weights(Writer *w)
{
    convolve(w, CONV_BWD_WEIGHTS, write_prologue(w), w->operands[CONV_OP_W],
             w->operands[CONV_OP_Y]);
}

static Status make_graph(const CudnnContext *c, const void *operation,
                         cudnnBackendDescriptor_t *graph)
{
    static void (*const writers[CONV_NORM_PASS_COUNT])(
        Writer *) = { [CONV_NORM_STATS] = write_stats,
                      [CONV_NORM_BWD_DATA] = write_bwd_data,
                      [CONV_NORM_BWD_WEIGHTS] = write_bwd_weights };
    Writer w = { .graph = { .api = &c->api }, .operation = operation };
    conv_norm_shape_dims(&w.operation->shape, CONV_OP_X, w.graph.between_dims);
    describe_operands(&w);
    writers[w.operation->pass](&w);
    return cudnn_write_graph(&w.graph, graph);
}

/* ---- plans ---- */

/* cuDNN 9.10.2 divides by zero when it is asked for such engines on A100, and 9.11.0 has none
 * there; 9.14.0 is the oldest in which all were seen. */
enum { OLDEST_CUDNN = 91400 };

static void size_operands(ConvNormPass pass, const ConvShape *shape, const ConvOperand *list,
                          PlanRequest *r)
{
    int64_t dims[4];
    for (int i = 0; list[i] != CONV_OPERAND_COUNT; i++) {
        conv_norm_shape_dims(shape, list[i], dims);
        r->operands = i + 1;
        r->operand_types[i] = conv_norm_shape_type(shape, list[i]);
        r->operand_bytes[i] =
            (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * dtype_bytes(r->operand_types[i]);
        if (conv_norm_shape_writes(pass, list[i])) r->written |= (uint64_t)1 << i;
    }
}

Status conv_norm_plan_create(ConvNormPlan **out, CudaBackend *b, ConvNormPass pass,
                             ConvPrologue prologue, const ConvShape *shape)
{
    char key[320];
    const Operation operation = { pass, prologue, *shape };
    *out = NULL;
    ASSERT(b->cudnn && shape->attr.groups > 0 && shape->c % shape->attr.groups == 0);
    TRY(cudnn_use_require(b->cudnn, OLDEST_CUDNN, conv_norm_shape_pass_name(pass, prologue)));
    conv_graph_key(conv_norm_shape_pass_name(pass, prologue), shape, b->workspace_limit, key,
                   sizeof key);
    PlanRequest request = { .key = key,
                            .make_graph = make_graph,
                            .operation = &operation,
                            .avoid = conv_graph_notes_to_avoid(shape),
                            .prefer = conv_graph_notes_to_prefer(shape),
                            .compiled = COMPILED_NEVER,
                            .workspace_limit = b->workspace_limit };
    size_operands(pass, shape, conv_norm_shape_operands(pass, prologue), &request);
    ConvNormPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->use.context = b->cudnn;
    p->operands = conv_norm_shape_operands(pass, prologue);
    Status st = cudnn_use_get(b->cudnn, &request, &p->use.plan);
    if (st == OK) *out = p;
    else mem_free(p);
    return st;
}

CUDNN_USE_PLAN(ConvNormPlan, conv_norm_plan)

Status conv_norm_plan_bind(ConvNormPlan *p, void *const operands[CONV_OPERAND_COUNT],
                           void *workspace)
{
    void *data[CUDNN_MAX_OPERANDS] = { NULL };
    int count = 0;
    for (; p->operands[count] != CONV_OPERAND_COUNT; count++) {
        data[count] = operands[p->operands[count]];
        ASSERT((uintptr_t)data[count] % 16 == 0);
    }
    return cudnn_use_bind(&p->use, count, data, workspace);
}
