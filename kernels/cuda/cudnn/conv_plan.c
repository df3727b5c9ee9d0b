/* conv_plan.c - convolution passes as cuDNN operation graphs of one operation. */
#include "kernels/cuda/cudnn/conv_plan.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/conv_graph.h"
#include "kernels/cuda/cudnn/cudnn_use.h"
#include "kernels/cuda/cudnn/cudnn_write.h"
#include <stdio.h>
#include <string.h>

/* unique id - 1 in the operation graph */
enum { X = CONV_GRAPH_X, W = CONV_GRAPH_W, Y = CONV_GRAPH_Y, ROLE_COUNT = CONV_GRAPH_TENSORS };

static const struct PassRow {
    const char *name;
    int argument[ROLE_COUNT]; /* roles of conv_plan_bind()'s a, b, out */
} passes[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = { "forward", { X, W, Y } },
    [CONV_BWD_DATA] = { "bwd_data", { Y, W, X } },
    [CONV_BWD_WEIGHTS] = { "bwd_weights", { X, Y, W } },
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

static Status make_operation(const CudnnApi *api, const Operation *o,
                             const cudnnBackendDescriptor_t *tensors,
                             const cudnnBackendDescriptor_t *convolution,
                             cudnnBackendDescriptor_t *out)
{
    const ConvGraphPass *row = &conv_graph_passes[o->pass];
    const double alpha = 1, beta = o->accumulate ? 1 : 0; /* doubles whatever the types */
    const CudnnAttribute attributes[] = {
        { row->tensors[X], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[X] },
        { row->tensors[W], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[W] },
        { row->tensors[Y], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[Y] },
        { row->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, convolution },
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

Status conv_plan_create(ConvPlan **out, CudaBackend *b, ConvPass pass, const ConvShape *shape,
                        bool accumulate)
{
    char key[320], name[32];
    const Operation operation = { pass, *shape, accumulate };
    *out = NULL;
    ASSERT(b->cudnn && shape->attr.groups > 0 && shape->c % shape->attr.groups == 0);
    snprintf(name, sizeof name, "%s%s", passes[pass].name, accumulate ? " added" : "");
    conv_graph_key(name, shape, b->workspace_limit, key, sizeof key);
    /* For a filter a channel cuDNN's fast engines are compiled: one is timed with the others. */
    PlanRequest request = { .key = key,
                            .make_graph = make_graph,
                            .operation = &operation,
                            .avoid = conv_graph_notes_to_avoid(shape),
                            .prefer = conv_graph_notes_to_prefer(shape),
                            .compiled =
                                shape->attr.groups == shape->c ? COMPILED_TOO : COMPILED_LAST,
                            .workspace_limit = b->workspace_limit,
                            .operands = ROLE_COUNT,
                            .written = 1U << passes[pass].argument[2] };
    for (int i = 0; i < ROLE_COUNT; i++) {
        int64_t dims[4];
        conv_graph_dims(shape, i, dims);
        request.operand_bytes[i] =
            (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * dtype_bytes(shape->io);
        request.operand_types[i] = shape->io;
    }
    ConvPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->use.context = b->cudnn;
    p->row = &passes[pass];
    Status st = cudnn_use_get(b->cudnn, &request, &p->use.plan);
    if (st == OK) *out = p;
    else mem_free(p);
    return st;
}

CUDNN_USE_PLAN(ConvPlan, conv_plan)

Status conv_plan_bind(ConvPlan *p, const void *a, const void *b, void *out, void *workspace)
{
    void *data[ROLE_COUNT];
    /* Inputs are only read; cuDNN's list of operands knows no const. */
    memcpy(&data[p->row->argument[0]], &a, sizeof a);
    memcpy(&data[p->row->argument[1]], &b, sizeof b);
    data[p->row->argument[2]] = out;
    for (int i = 0; i < ROLE_COUNT; i++) ASSERT((uintptr_t)data[i] % 16 == 0);
    return cudnn_use_bind(&p->use, ROLE_COUNT, data, workspace);
}
