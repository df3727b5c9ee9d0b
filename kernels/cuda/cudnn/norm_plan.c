/* norm_plan.c - training batch norms as cuDNN operation graphs.
 *
 * The forms are those that cuDNN has engines for. Behind the norm what is passed on is f32; the
 * gradient that goes into the norm's is of type io. Backward with an activation forms z again by a
 * norm in its inference phase, from the saved statistics: no engine takes z from anywhere else, nor
 * the ReLU's gradient straight from y.
 *
 * All of these engines are compiled when a plan is made, a second or more each; the plan cache
 * keeps what was compiled. The running statistics are left to the caller, although the graph could
 * have them: whether they may be updated in place, and which variance goes into them, is not
 * documented. */
#include "kernels/cuda/cudnn/norm_plan.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_use.h"
#include "kernels/cuda/cudnn/cudnn_write.h"
#include <stdio.h>

typedef struct Operation {
    NormPass pass;
    NormShape shape;
} Operation;

struct NormPlan {
    CudnnUse use;
    Operation operation;
    int count;
    NormOperand operands[NORM_OPERAND_COUNT];
    float eps; /* by value: read at every run */
};

/* ---- writing a graph ---- */

typedef CudnnPart Part;

typedef struct Writer {
    CudnnWriter graph;
    const Operation *operation;
    Part operands[NORM_OPERAND_COUNT], eps;
} Writer;

static void describe_operands(Writer *w)
{
    const Operation *o = w->operation;
    NormOperand list[NORM_OPERAND_COUNT];
    const int count = norm_shape_operands(o->pass, &o->shape, list);
    for (int i = 0; i < count; i++) {
        CudnnTensor t = { .id = i + 1, .type = norm_shape_type(&o->shape, list[i]) };
        norm_shape_dims(&o->shape, list[i], t.dims);
        w->operands[list[i]] = cudnn_write_tensor(&w->graph, &t);
    }
    const CudnnTensor eps = {
        .id = count + 1, .type = DTYPE_F32, .dims = { 1, 1, 1, 1 }, .by_value = true
    };
    if (o->pass == NORM_FORWARD) w->eps = cudnn_write_tensor(&w->graph, &eps);
}

/* In its training phase it writes mean and inv_std, by eps; in inference it reads them. */
static void normalise(Writer *w, cudnnBackendNormFwdPhase_t phase, Part y)
{
    const Part *of = w->operands;
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode },
        { CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase },
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, of[NORM_OP_X]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, of[NORM_OP_MEAN]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, of[NORM_OP_INV_STD]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, of[NORM_OP_GAMMA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, of[NORM_OP_BETA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, w->eps),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, attributes,
                     phase == CUDNN_NORM_FWD_TRAINING ? 9 : 8, "batch norm");
}

/* ---- the two passes ---- */

/* Of others norm_choice.c asks our own kernels. */
static const struct {
    cudnnPointwiseMode_t forward, backward;
} acts[ACT_COUNT] = {
    [ACT_RELU] = { CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD },
    [ACT_SILU] = { CUDNN_POINTWISE_SWISH_FWD, CUDNN_POINTWISE_SWISH_BWD },
};

static void write_forward(Writer *w)
{
    const NormShape *s = &w->operation->shape;
    const Part y = w->operands[NORM_OP_Y];
    const bool plain = s->act == ACT_NONE && !s->residual;
    Part z = plain ? y : cudnn_write_between(&w->graph, DTYPE_F32);
    normalise(w, CUDNN_NORM_FWD_TRAINING, z);
    if (s->residual)
        z = cudnn_write_pointwise(&w->graph, CUDNN_POINTWISE_ADD, z, w->operands[NORM_OP_RESIDUAL],
                                  s->act == ACT_NONE ? y : NULL);
    if (s->act != ACT_NONE) cudnn_write_pointwise(&w->graph, acts[s->act].forward, z, NULL, y);
}

/* dz of type io */
static Part write_gradient_of_z(Writer *w)
{
    const NormShape *s = &w->operation->shape;
    const Part dy = w->operands[NORM_OP_DY];
    if (s->act == ACT_NONE) return dy;
    const Part z = cudnn_write_between(&w->graph, DTYPE_F32),
               dz = cudnn_write_between(&w->graph, s->io);
    normalise(w, CUDNN_NORM_FWD_INFERENCE, z);
    return cudnn_write_pointwise_bwd(&w->graph, acts[s->act].backward, dy, z, dz);
}

static void write_bwd(Writer *w)
{
    const Part *of = w->operands;
    const Part dz = write_gradient_of_z(w);
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode },
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, of[NORM_OP_X]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, of[NORM_OP_MEAN]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, of[NORM_OP_INV_STD]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dz),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, of[NORM_OP_GAMMA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, of[NORM_OP_DGAMMA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, of[NORM_OP_DBETA]),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, of[NORM_OP_DX]),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, attributes, 9,
                     "gradient of batch norm");
}

static Status make_graph(const CudnnContext *c, const void *operation,
                         cudnnBackendDescriptor_t *graph)
{
    Writer w = { .graph = { .api = &c->api }, .operation = operation };
    norm_shape_dims(&w.operation->shape, NORM_OP_X, w.graph.between_dims);
    describe_operands(&w);
    if (w.operation->pass == NORM_FORWARD) write_forward(&w);
    else write_bwd(&w);
    return cudnn_write_graph(&w.graph, graph);
}

/* ---- plans ---- */

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static Status get_plan(NormPlan *p, CudaBackend *b)
{
    char name[160], key[224];
    const NormShape *s = &p->operation.shape;
    norm_shape_format(p->operation.pass, s, name, sizeof name);
    snprintf(key, sizeof key, "%s limit %zu", name, b->workspace_limit);
    PlanRequest r = { .key = key,
                      .make_graph = make_graph,
                      .operation = &p->operation,
                      .avoid = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION),
                      .workspace_limit = b->workspace_limit,
                      .operands = p->count };
    for (int i = 0; i < p->count; i++) {
        r.operand_types[i] = norm_shape_type(s, p->operands[i]);
        r.operand_bytes[i] =
            (size_t)norm_shape_elements(s, p->operands[i]) * dtype_bytes(r.operand_types[i]);
        if (norm_shape_writes(p->operation.pass, p->operands[i])) r.written |= 1U << i;
    }
    if (p->operation.pass == NORM_FORWARD) r.by_value[r.operands++] = &p->eps;
    return cudnn_use_get(b->cudnn, &r, &p->use.plan);
}

Status norm_plan_create(NormPlan **out, CudaBackend *b, NormPass pass, const NormShape *shape)
{
    *out = NULL;
    ASSERT(b->cudnn && (pass == NORM_FORWARD || !shape->residual));
    ASSERT(shape->act == ACT_NONE || acts[shape->act].forward != CUDNN_POINTWISE_ADD /* 0 */);
    NormPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->use.context = b->cudnn;
    p->operation = (Operation){ pass, *shape };
    p->count = norm_shape_operands(pass, shape, p->operands);
    p->eps = shape->eps;
    const Status st = get_plan(p, b);
    if (st == OK) *out = p;
    else mem_free(p);
    return st;
}

CUDNN_USE_PLAN(NormPlan, norm_plan)

Status norm_plan_bind(NormPlan *p, void *const operands[NORM_OPERAND_COUNT], void *workspace)
{
    void *data[CUDNN_MAX_OPERANDS] = { NULL };
    int count = p->count;
    for (int i = 0; i < count; i++) {
        data[i] = operands[p->operands[i]];
        ASSERT((uintptr_t)data[i] % 16 == 0);
    }
    ASSERT(p->operation.pass == NORM_FORWARD || operands[NORM_OP_DX] != operands[NORM_OP_DY]);
    if (p->operation.pass == NORM_FORWARD) data[count++] = &p->eps;
    return cudnn_use_bind(&p->use, count, data, workspace);
}
