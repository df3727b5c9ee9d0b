/* conv_plan.c - convolution passes as cuDNN operation graphs of one operation.
 *
 * Sums are f32. Engines that are not reproducible, that sum in a smaller type or that do not simply
 * sum (Winograd, FFT) are avoided; and for strict f32 those that round their inputs. Where inputs
 * may be rounded, engines on tensor cores come first: now and then the heuristics begin with one
 * that is not and copies whole activations through its workspace. */
#include "kernels/cuda/cudnn/conv_plan.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/conv_graph.h"
#include <stdio.h>
#include <string.h>

/* unique id - 1 in the operation graph */
enum { X = CONV_GRAPH_X, W = CONV_GRAPH_W, Y = CONV_GRAPH_Y, ROLE_COUNT = CONV_GRAPH_TENSORS };

static const struct PassRow {
    const char *name;
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t role[ROLE_COUNT], conv, alpha, beta;
    int argument[ROLE_COUNT]; /* roles of conv_plan_bind()'s a, b, out */
} passes[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = { "forward",
                       CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                       { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y },
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                       { X, W, Y } },
    [CONV_BWD_DATA] = { "bwd_data",
                        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY },
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                        { Y, W, X } },
    [CONV_BWD_WEIGHTS] = { "bwd_weights",
                           CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                           { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY },
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                           { X, Y, W } },
};

typedef struct Operation {
    ConvPass pass;
    ConvShape shape;
    bool accumulate;
} Operation;

struct ConvPlan {
    CudnnUse use;
    const struct PassRow *row;
};

/* ---- the operation graph ---- */

void conv_graph_dims(const ConvShape *s, int which, int64_t dims[4])
{
    const int64_t all[ROLE_COUNT][4] = {
        [X] = { s->n, s->c, s->h, s->w },
        [W] = { s->k, s->c / s->attr.groups, s->r, s->s },
        [Y] = { s->n, s->k, s->p, s->q },
    };
    for (int i = 0; i < 4; i++) dims[i] = all[which][i];
}

Status conv_graph_descriptor(const CudnnApi *api, const Conv2dAttr *a,
                             cudnnBackendDescriptor_t *out)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2, dilation[2] = { 1, 1 }, stride[2] = { a->stride_h, a->stride_w };
    const int64_t before[2] = { a->pad_top, a->pad_left },
                  after[2] = { a->pad_bottom, a->pad_right };
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums },
        { CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode },
        { CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes },
        { CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation },
        { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride },
        { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before },
        { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after },
    };
    return cudnn_api_make(api, out, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, attributes, 7,
                          "convolution descriptor");
}

static Status make_operation(const CudnnApi *api, const Operation *o,
                             const cudnnBackendDescriptor_t *tensors,
                             const cudnnBackendDescriptor_t *convolution,
                             cudnnBackendDescriptor_t *out)
{
    const struct PassRow *row = &passes[o->pass];
    const double alpha = 1, beta = o->accumulate ? 1 : 0; /* doubles whatever the types */
    const CudnnAttribute attributes[] = {
        { row->role[X], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[X] },
        { row->role[W], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[W] },
        { row->role[Y], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[Y] },
        { row->conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, convolution },
        { row->alpha, CUDNN_TYPE_DOUBLE, 1, &alpha },
        { row->beta, CUDNN_TYPE_DOUBLE, 1, &beta },
    };
    return cudnn_api_make(api, out, row->type, attributes, 6, "convolution operation");
}

static Status make_graph(const CudnnContext *c, const void *operation,
                         cudnnBackendDescriptor_t *graph)
{
    const Operation *o = operation;
    const CudnnApi *api = &c->api;
    cudnnBackendDescriptor_t tensors[ROLE_COUNT] = { NULL }, convolution = NULL, op = NULL;
    Status st = OK;
    for (int i = 0; i < ROLE_COUNT && st == OK; i++) {
        CudnnTensor t = { .id = i + 1, .type = o->shape.io };
        conv_graph_dims(&o->shape, i, t.dims);
        st = cudnn_write_make_tensor(api, &t, &tensors[i]);
    }
    if (st == OK) st = conv_graph_descriptor(api, &o->shape.attr, &convolution);
    if (st == OK) st = make_operation(api, o, tensors, &convolution, &op);
    const CudnnAttribute attribute = { CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       1, &op };
    if (st == OK)
        st = cudnn_api_make(api, graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &attribute, 1,
                            "graph");
    for (int i = 0; i < ROLE_COUNT; i++) cudnn_api_free(api, tensors[i]);
    cudnn_api_free(api, convolution);
    cudnn_api_free(api, op);
    return st;
}

/* ---- plans ---- */

void conv_graph_key(const char *pass, const ConvShape *s, size_t limit, char *out, size_t bytes)
{
    const Conv2dAttr *a = &s->attr;
    snprintf(out, bytes,
             "conv %s %s%s n%lld c%lld h%lld w%lld k%lld r%lld s%lld p%lld q%lld stride %d,%d pad "
             "%d,%d,%d,%d groups %d limit %zu",
             pass, dtype_name(s->io), s->tf32 ? " tf32" : "", (long long)s->n, (long long)s->c,
             (long long)s->h, (long long)s->w, (long long)s->k, (long long)s->r, (long long)s->s,
             (long long)s->p, (long long)s->q, a->stride_h, a->stride_w, a->pad_top, a->pad_bottom,
             a->pad_left, a->pad_right, a->groups, limit);
}

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static bool is_strict(const ConvShape *s)
{
    return s->io == DTYPE_F32 && !s->tf32;
}

unsigned conv_graph_notes_to_prefer(const ConvShape *s)
{
    return is_strict(s) ? 0 : NOTE(TENSOR_CORE);
}

unsigned conv_graph_notes_to_avoid(const ConvShape *s)
{
    const unsigned always = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(FFT) |
                            NOTE(WINOGRAD) | NOTE(WINOGRAD_TILE_4x4) | NOTE(WINOGRAD_TILE_6x6) |
                            NOTE(WINOGRAD_TILE_13x13);
    return is_strict(s) ? always | NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS) : always;
}

Status conv_plan_create(ConvPlan **out, CudaBackend *b, ConvPass pass, const ConvShape *shape,
                        bool accumulate)
{
    char key[320], name[32];
    const Operation operation = { pass, *shape, accumulate };
    *out = NULL;
    ASSERT(b->cudnn && shape->attr.groups > 0 && shape->c % shape->attr.groups == 0);
    snprintf(name, sizeof name, "%s%s", passes[pass].name, accumulate ? " added" : "");
    conv_graph_key(name, shape, b->workspace_limit, key, sizeof key);
    PlanRequest request = { .key = key,
                            .make_graph = make_graph,
                            .operation = &operation,
                            .avoid = conv_graph_notes_to_avoid(shape),
                            .prefer = conv_graph_notes_to_prefer(shape),
                            .compiled =
                                shape->attr.groups == shape->c ? COMPILED_TOO : COMPILED_LAST,
                            .workspace_limit = b->workspace_limit,
                            .operands = ROLE_COUNT };
    for (int i = 0; i < ROLE_COUNT; i++) {
        int64_t dims[4];
        conv_graph_dims(shape, i, dims);
        request.operand_bytes[i] =
            (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * dtype_bytes(shape->io);
    }
    ConvPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->use.context = b->cudnn;
    p->row = &passes[pass];
    Status st = cudnn_plan_get(b->cudnn, &request, &p->use.plan);
    if (st == OK) *out = p;
    else mem_free(p);
    return st;
}

void conv_plan_destroy(ConvPlan *p)
{
    if (!p) return;
    cudnn_plan_use_release(&p->use);
    mem_free(p);
}

size_t conv_plan_workspace(const ConvPlan *p)
{
    return p->use.plan->workspace;
}

const char *conv_plan_name(const ConvPlan *p)
{
    return p->use.plan->name;
}

Status conv_plan_bind(ConvPlan *p, const void *a, const void *b, void *out, void *workspace)
{
    void *data[ROLE_COUNT];
    /* Inputs are only read; cuDNN's list of operands knows no const. */
    memcpy(&data[p->row->argument[0]], &a, sizeof a);
    memcpy(&data[p->row->argument[1]], &b, sizeof b);
    data[p->row->argument[2]] = out;
    for (int i = 0; i < ROLE_COUNT; i++) ASSERT((uintptr_t)data[i] % 16 == 0);
    return cudnn_plan_use_bind(&p->use, ROLE_COUNT, data, workspace);
}

Status conv_plan_run(ConvPlan *p, cudaStream_t stream)
{
    return cudnn_plan_use_run(&p->use, stream);
}
