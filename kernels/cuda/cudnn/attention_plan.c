/* attention_plan.c - multi-head attention as cuDNN operation graphs.
 *
 * The forms are those that cuDNN has fused engines for, which keep no matrix of scores in memory:
 * products and the softmax between them written out in single steps. Matrices are [N,heads,rows,
 * columns] with strides of their own, so that queries, keys and values are read where one packed
 * projection left them; the right factor of a product is described turned around. */
#include "kernels/cuda/cudnn/attention_plan.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_use.h"
#include "kernels/cuda/cudnn/cudnn_write.h"
#include <stdio.h>

/* Behind the operands that others see: [N,heads,L] of f32, the inner product of dy and y of each
 * query, at the beginning of the workspace. */
enum { INNER = ATTENTION_OPERAND_COUNT, OPERANDS, MOST_PARTS = 16 };

typedef struct Operation {
    AttentionGraph pass;
    AttentionShape shape;
} Operation;

struct AttentionPlan {
    CudnnUse uses[MOST_PARTS]; /* of one plan */
    int parts, count;
    Operation operation; /* n: of a part; scale is read at every run */
    int operands[OPERANDS];
    float one; /* likewise */
};

/* ---- which tensors ---- */

enum { FORWARD = 1 << ATTENTION_FORWARD, BWD = 1 << ATTENTION_BWD };
static const struct {
    unsigned passes, written; /* bits of the passes that have it, and that write it */
    int beside;               /* how many of its kind lie in a row; 0: one number per row, in f32 */
} table[OPERANDS] = {
    [ATTENTION_OP_Q] = { FORWARD | BWD, 0, 3 },
    [ATTENTION_OP_K] = { FORWARD | BWD, 0, 3 },
    [ATTENTION_OP_V] = { FORWARD | BWD, 0, 3 },
    [ATTENTION_OP_Y] = { FORWARD | BWD, FORWARD, 1 },
    [ATTENTION_OP_DY] = { BWD, 0, 1 },
    [ATTENTION_OP_DQ] = { BWD, BWD, 3 },
    [ATTENTION_OP_DK] = { BWD, BWD, 3 },
    [ATTENTION_OP_DV] = { BWD, BWD, 3 },
    [ATTENTION_OP_LSE] = { FORWARD | BWD, FORWARD, 0 },
    [INNER] = { BWD, BWD, 0 },
};

static int operands_of(const Operation *o, int out[OPERANDS])
{
    int count = 0;
    for (int i = 0; i < OPERANDS; i++) {
        const bool unwanted =
            i == ATTENTION_OP_LSE && o->pass == ATTENTION_FORWARD && !o->shape.statistics;
        if (table[i].passes >> o->pass & 1 && !unwanted) out[count++] = i;
    }
    return count;
}

static DType type_of(const AttentionShape *s, int operand)
{
    return table[operand].beside ? s->io : DTYPE_F32;
}

/* How many numbers of all heads lie between a position and the next. */
static int64_t row_step(const AttentionShape *s, int operand)
{
    return s->heads * (table[operand].beside ? table[operand].beside * s->width : 1);
}

typedef CudnnPart Part;

typedef struct Writer {
    CudnnWriter graph;
    const Operation *operation;
    Part operands[OPERANDS], scale, one;
} Writer;

/* [N,heads,rows,columns], packed; columns 1: one number a row */
static CudnnTensor matrix(const Writer *w, DType type, int64_t rows, int64_t columns)
{
    const AttentionShape *s = &w->operation->shape;
    return (CudnnTensor){ .type = type,
                          .dims = { s->n, s->heads, rows, columns },
                          .strides = { s->heads * rows * columns, rows * columns, columns, 1 } };
}

static CudnnTensor turned(CudnnTensor t)
{
    const int64_t *d = t.dims, *s = t.strides;
    return (CudnnTensor){ .type = t.type,
                          .dims = { d[0], d[1], d[3], d[2] },
                          .strides = { s[0], s[1], s[3], s[2] } };
}

static CudnnTensor describe(const Writer *w, int operand)
{
    const AttentionShape *s = &w->operation->shape;
    if (!table[operand].beside) return matrix(w, DTYPE_F32, s->length, 1);
    const int64_t row = row_step(s, operand);
    return (CudnnTensor){ .type = s->io,
                          .dims = { s->n, s->heads, s->length, s->width },
                          .strides = { s->length * row, s->width, row, 1 } };
}

static void write_operands(Writer *w)
{
    const Operation *o = w->operation;
    int list[OPERANDS];
    CudnnTensor number = { .type = DTYPE_F32, .dims = { 1, 1, 1, 1 }, .by_value = true };
    const int count = operands_of(o, list);
    for (int i = 0; i < count; i++) {
        CudnnTensor t = describe(w, list[i]);
        /* right factors of a product with the transpose */
        if (list[i] == ATTENTION_OP_K || (o->pass == ATTENTION_BWD && list[i] == ATTENTION_OP_V))
            t = turned(t);
        t.id = i + 1;
        w->operands[list[i]] = cudnn_write_tensor(&w->graph, &t);
    }
    number.id = count + 1;
    w->scale = cudnn_write_tensor(&w->graph, &number);
    number.id = count + 2;
    if (o->pass == ATTENTION_BWD) w->one = cudnn_write_tensor(&w->graph, &number);
}

/* ---- steps ---- */

static Part between(Writer *w, CudnnTensor t)
{
    enum { FIRST = 200 }; /* ids behind all others */
    t.between = true;
    t.id = FIRST + w->graph.part_count;
    return cudnn_write_tensor(&w->graph, &t);
}

static Part scores(Writer *w, DType type)
{
    const int64_t length = w->operation->shape.length;
    return between(w, matrix(w, type, length, length));
}

static Part column(Writer *w)
{
    return between(w, matrix(w, DTYPE_F32, w->operation->shape.length, 1));
}

static Part point(Writer *w, cudnnPointwiseMode_t mode, Part a, Part b, Part y)
{
    return cudnn_write_pointwise(&w->graph, mode, a, b, y);
}

static Part product(Writer *w, Part a, Part b, Part c)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const CudnnAttribute in = { CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math };
    const Part by = cudnn_write_part(&w->graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR, &in, 1, "product");
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_DESC, by),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, attributes, 4,
                     "product of matrices");
    return c;
}

/* Of each row one number. */
static Part reduce(Writer *w, cudnnReduceTensorOp_t mode, Part x)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const CudnnAttribute in[] = {
        { CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode },
        { CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math },
    };
    const Part by = cudnn_write_part(&w->graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, in, 2, "sum"),
               y = column(w);
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_REDUCTION_DESC, by),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, attributes, 3,
                     "reduction of rows");
    return y;
}

/* x as y describes it: turned around. */
static Part turn(Writer *w, Part x, CudnnTensor t)
{
    const Part y = between(w, t);
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, attributes, 2,
                     "transposed matrix");
    return y;
}

static Part turn_scores(Writer *w, Part x)
{
    const AttentionShape *s = &w->operation->shape;
    return turn(w, x, turned(matrix(w, s->io, s->length, s->length)));
}

/* ---- the two passes ---- */

/* scale q k^T */
static Part scaled_scores(Writer *w)
{
    const Part s =
        product(w, w->operands[ATTENTION_OP_Q], w->operands[ATTENTION_OP_K], scores(w, DTYPE_F32));
    return point(w, CUDNN_POINTWISE_MUL, s, w->scale, scores(w, DTYPE_F32));
}

static void write_forward(Writer *w)
{
    const AttentionShape *shape = &w->operation->shape;
    const Part s = scaled_scores(w), most = reduce(w, CUDNN_REDUCE_TENSOR_MAX, s),
               above = point(w, CUDNN_POINTWISE_SUB, s, most, scores(w, DTYPE_F32)),
               e = point(w, CUDNN_POINTWISE_EXP, above, NULL, scores(w, DTYPE_F32)),
               sum = reduce(w, CUDNN_REDUCE_TENSOR_ADD, e),
               log = point(w, CUDNN_POINTWISE_LOG, sum, NULL, column(w));
    point(w, CUDNN_POINTWISE_ADD, most, log,
          shape->statistics ? w->operands[ATTENTION_OP_LSE] : column(w));
    const Part p = point(w, CUDNN_POINTWISE_DIV, e, sum, scores(w, shape->io));
    product(w, p, w->operands[ATTENTION_OP_V], w->operands[ATTENTION_OP_Y]);
}

static void write_inner(Writer *w)
{
    const AttentionShape *s = &w->operation->shape;
    const Part *of = w->operands;
    const Part both = point(w, CUDNN_POINTWISE_MUL, of[ATTENTION_OP_DY], of[ATTENTION_OP_Y],
                            between(w, matrix(w, DTYPE_F32, s->length, s->width)));
    point(w, CUDNN_POINTWISE_MUL, reduce(w, CUDNN_REDUCE_TENSOR_ADD, both), w->one, of[INNER]);
}

static void write_bwd(Writer *w)
{
    const Part *of = w->operands;
    write_inner(w);
    Part s = scaled_scores(w);
    s = point(w, CUDNN_POINTWISE_SUB, s, of[ATTENTION_OP_LSE], scores(w, DTYPE_F32));
    const Part p = point(w, CUDNN_POINTWISE_EXP, s, NULL, scores(w, DTYPE_F32));
    product(w, turn_scores(w, p), of[ATTENTION_OP_DY], of[ATTENTION_OP_DV]);
    Part ds = product(w, of[ATTENTION_OP_DY], of[ATTENTION_OP_V], scores(w, DTYPE_F32));
    ds = point(w, CUDNN_POINTWISE_SUB, ds, of[INNER], scores(w, DTYPE_F32));
    ds = point(w, CUDNN_POINTWISE_MUL, ds, p, scores(w, DTYPE_F32));
    ds = point(w, CUDNN_POINTWISE_MUL, ds, w->scale, scores(w, DTYPE_F32));
    product(w, turn_scores(w, ds), of[ATTENTION_OP_Q], of[ATTENTION_OP_DK]);
    product(w, ds, turn(w, of[ATTENTION_OP_K], describe(w, ATTENTION_OP_K)), of[ATTENTION_OP_DQ]);
}

static Status make_graph(const CudnnContext *c, const void *operation,
                         cudnnBackendDescriptor_t *graph)
{
    Writer w = { .graph = { .api = &c->api }, .operation = operation };
    write_operands(&w);
    if (w.operation->pass == ATTENTION_FORWARD) write_forward(&w);
    else write_bwd(&w);
    return cudnn_write_graph(&w.graph, graph);
}

/* ---- plans ---- */

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static void format(const Operation *o, size_t limit, char *out, size_t bytes)
{
    const AttentionShape *s = &o->shape;
    snprintf(out, bytes, "attention %s%s %s n%lld heads%lld length%lld width%lld limit %zu",
             o->pass == ATTENTION_FORWARD ? "forward" : "bwd",
             o->pass == ATTENTION_FORWARD && s->statistics ? " statistics" : "", dtype_name(s->io),
             (long long)s->n, (long long)s->heads, (long long)s->length, (long long)s->width,
             limit);
}

/* From the first number of an operand to behind its last. */
static size_t span(const AttentionShape *s, int operand)
{
    const int64_t row = row_step(s, operand), beside = table[operand].beside;
    return (size_t)(s->n * s->length * row - (beside ? row - row / beside : 0)) *
           dtype_bytes(type_of(s, operand));
}

/* At the beginning of the workspace; all parts use the same. */
static size_t inner_bytes(const AttentionPlan *p)
{
    if (p->operation.pass == ATTENTION_FORWARD) return 0;
    return (span(&p->operation.shape, INNER) + 255) / 256 * 256;
}

static Status get_plan(AttentionPlan *p, CudaBackend *b, const CudnnPlan **out)
{
    char key[224];
    const Operation *o = &p->operation;
    const size_t inner = inner_bytes(p),
                 limit = b->workspace_limit > inner ? b->workspace_limit - inner : 0;
    format(o, limit, key, sizeof key);
    PlanRequest r = { .key = key,
                      .make_graph = make_graph,
                      .operation = o,
                      .avoid = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION),
                      .workspace_limit = limit,
                      .operands = p->count };
    for (int i = 0; i < p->count; i++) {
        r.operand_types[i] = type_of(&o->shape, p->operands[i]);
        r.operand_bytes[i] = span(&o->shape, p->operands[i]);
        if (table[p->operands[i]].written >> o->pass & 1) r.written |= 1U << i;
    }
    r.by_value[r.operands++] = &p->operation.shape.scale;
    if (o->pass == ATTENTION_BWD) r.by_value[r.operands++] = &p->one;
    return cudnn_use_get(b->cudnn, &r, out);
}

/* Before it the gradient of lengths that are no multiple of 128 needs a mask of what lies behind
 * the last position. */
enum { OLDEST_CUDNN = 91600 };

/* Engines of gradients keep those of all scores in their workspace: where these are too large, the
 * images are taken in parts. Numbers in f32 of a part must begin at a multiple of 16 bytes. */
static Status get_parts(AttentionPlan *p, CudaBackend *b)
{
    AttentionShape *s = &p->operation.shape;
    const int64_t n = s->n, numbers = s->heads * s->length;
    const int most = p->operation.pass == ATTENTION_BWD ? MOST_PARTS : 1;
    const CudnnPlan *plan = NULL;
    p->parts = 1;
    Status st = get_plan(p, b, &plan);
    for (int parts = 2; st == ERR_ENV && parts <= most; parts++) {
        if (n % parts != 0 || n / parts * numbers % 4 != 0) continue;
        s->n = n / parts;
        p->parts = parts;
        st = get_plan(p, b, &plan);
    }
    for (int i = 0; i < p->parts; i++) p->uses[i] = (CudnnUse){ .context = b->cudnn, .plan = plan };
    return st;
}

Status attention_plan_create(AttentionPlan **out, CudaBackend *b, AttentionGraph pass,
                             const AttentionShape *shape)
{
    *out = NULL;
    if (pass == ATTENTION_BWD)
        TRY(cudnn_use_require(b->cudnn, OLDEST_CUDNN, "the gradient of attention"));
    AttentionPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->operation = (Operation){ pass, *shape };
    p->count = operands_of(&p->operation, p->operands);
    p->one = 1;
    const Status st = get_parts(p, b);
    if (st == OK) *out = p;
    else mem_free(p);
    return st;
}

void attention_plan_destroy(AttentionPlan *p)
{
    if (!p) return;
    for (int i = 0; i < p->parts; i++) cudnn_use_release(&p->uses[i]);
    mem_free(p);
}

size_t attention_plan_workspace(const AttentionPlan *p)
{
    return inner_bytes(p) + p->uses[0].plan->workspace;
}

int attention_plan_parts(const AttentionPlan *p)
{
    return p->parts;
}

const char *attention_plan_name(const AttentionPlan *p)
{
    return p->uses[0].plan->name;
}

/* Where a part of the images begins. */
static void *part_of(const AttentionPlan *p, int operand, void *data, int part)
{
    const AttentionShape *s = &p->operation.shape;
    const int64_t first = part * s->n * s->length * row_step(s, operand);
    char *at = (char *)data + (size_t)first * dtype_bytes(type_of(s, operand));
    ASSERT((uintptr_t)at % 16 == 0);
    return at;
}

Status attention_plan_bind(AttentionPlan *p, void *const operands[ATTENTION_OPERAND_COUNT],
                           void *workspace)
{
    for (int part = 0; part < p->parts; part++) {
        void *data[CUDNN_MAX_OPERANDS] = { NULL };
        int count = p->count;
        for (int i = 0; i < count; i++)
            data[i] = p->operands[i] == INNER
                          ? workspace
                          : part_of(p, p->operands[i], operands[p->operands[i]], part);
        data[count++] = &p->operation.shape.scale;
        if (p->operation.pass == ATTENTION_BWD) data[count++] = &p->one;
        TRY(cudnn_use_bind(&p->uses[part], count, data, (char *)workspace + inner_bytes(p)));
    }
    return OK;
}

Status attention_plan_run(AttentionPlan *p, cudaStream_t stream)
{
    for (int part = 0; part < p->parts; part++) TRY(cudnn_use_run(&p->uses[part], stream));
    return OK;
}
