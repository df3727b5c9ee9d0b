/* attention_plan.c - multi-head attention as cuDNN operation graphs, which are those that
 * cudnn-frontend 1.23 writes for scaled dot product attention.
 *
 * The forms are those that cuDNN has fused engines for, which keep no matrix of scores in memory:
 * products and the softmax between them written out in single steps. Matrices are [N,heads,rows,
 * columns] with strides of their own, so that queries, keys and values are read where one packed
 * projection left them; the right factor of a product is described turned around.
 *
 * Packed sequences are ragged tensors to cuDNN: of n times the longest, each with its own beginning
 * and length. What lies behind a sequence is left out of products, and its scores are minus
 * infinity. */
#include "kernels/cuda/cudnn/attention_plan.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_use.h"
#include "kernels/cuda/cudnn/cudnn_write.h"
#include <math.h>
#include <stdio.h>

/* Behind the operands that others see: [N,heads,L] of f32, the inner product of dy and y of each
 * query, at the beginning of the workspace; then numbers by value. */
enum {
    INNER = ATTENTION_OPERAND_COUNT,
    SCALE,
    INNER_FACTOR, /* 1; of weights that are dropped, 1 / factor */
    FACTOR,
    NEVER,
    OPERANDS,
    MOST_PARTS = 16
};
_Static_assert((int)OPERANDS <= (int)CUDNN_MAX_OPERANDS, "a pack must hold them");

typedef struct Operation {
    AttentionGraph pass;
    AttentionShape shape;
} Operation;

struct AttentionPlan {
    CudnnUse uses[MOST_PARTS]; /* of one plan */
    int parts, count;
    Operation operation; /* n: of a part */
    int operands[OPERANDS];
    float numbers[OPERANDS]; /* of those by value, which are read at every run */
};

/* ---- which tensors ---- */

enum { FORWARD = 1 << ATTENTION_FORWARD, BWD = 1 << ATTENTION_BWD };
typedef enum Kind { ROWS, NUMBER_A_ROW, LIST, MASK, VALUE } Kind;
typedef enum When { ALWAYS, WITH_STATISTICS, PACKED, PACKED_STATISTICS, DROPPED } When;
static const struct {
    unsigned passes, written; /* bits of the passes that have it, and that write it */
    Kind kind;
    int beside; /* how many of its kind lie in a row, if they do */
    When when;
    int starts; /* of packed sequences, where it begins; 0: it has no such list */
} table[OPERANDS] = {
    [ATTENTION_OP_Q] = { FORWARD | BWD, 0, ROWS, 3, ALWAYS, ATTENTION_OP_QKV_STARTS },
    [ATTENTION_OP_K] = { FORWARD | BWD, 0, ROWS, 3, ALWAYS, ATTENTION_OP_QKV_STARTS },
    [ATTENTION_OP_V] = { FORWARD | BWD, 0, ROWS, 3, ALWAYS, ATTENTION_OP_QKV_STARTS },
    [ATTENTION_OP_Y] = { FORWARD | BWD, FORWARD, ROWS, 1, ALWAYS, ATTENTION_OP_Y_STARTS },
    [ATTENTION_OP_DY] = { BWD, 0, ROWS, 1, ALWAYS, ATTENTION_OP_Y_STARTS },
    [ATTENTION_OP_DQ] = { BWD, BWD, ROWS, 3, ALWAYS, ATTENTION_OP_QKV_STARTS },
    [ATTENTION_OP_DK] = { BWD, BWD, ROWS, 3, ALWAYS, ATTENTION_OP_QKV_STARTS },
    [ATTENTION_OP_DV] = { BWD, BWD, ROWS, 3, ALWAYS, ATTENTION_OP_QKV_STARTS },
    [ATTENTION_OP_LSE] = { FORWARD | BWD, FORWARD, NUMBER_A_ROW, 0, WITH_STATISTICS,
                           ATTENTION_OP_LSE_STARTS },
    [ATTENTION_OP_LENGTHS] = { FORWARD | BWD, 0, LIST, 0, PACKED, 0 },
    [ATTENTION_OP_QKV_STARTS] = { FORWARD | BWD, 0, LIST, 0, PACKED, 0 },
    [ATTENTION_OP_Y_STARTS] = { FORWARD | BWD, 0, LIST, 0, PACKED, 0 },
    [ATTENTION_OP_LSE_STARTS] = { FORWARD | BWD, 0, LIST, 0, PACKED_STATISTICS, 0 },
    [ATTENTION_OP_MASK] = { FORWARD | BWD, 0, MASK, 0, DROPPED, 0 },
    [INNER] = { BWD, BWD, NUMBER_A_ROW, 0, ALWAYS, 0 },
    [SCALE] = { FORWARD | BWD, 0, VALUE, 0, ALWAYS, 0 },
    [INNER_FACTOR] = { BWD, 0, VALUE, 0, ALWAYS, 0 },
    [FACTOR] = { FORWARD | BWD, 0, VALUE, 0, DROPPED, 0 },
    [NEVER] = { FORWARD | BWD, 0, VALUE, 0, PACKED, 0 },
};

static bool is_wanted(const Operation *o, When when)
{
    const AttentionShape *s = &o->shape;
    const bool statistics = o->pass == ATTENTION_BWD || s->statistics;
    const bool wanted[] = { [ALWAYS] = true,
                            [WITH_STATISTICS] = statistics,
                            [PACKED] = s->packed > 0,
                            [PACKED_STATISTICS] = s->packed > 0 && statistics,
                            [DROPPED] = s->factor > 0 };
    return wanted[when];
}

static int operands_of(const Operation *o, int out[OPERANDS])
{
    int count = 0;
    for (int i = 0; i < OPERANDS; i++)
        if (table[i].passes >> o->pass & 1 && is_wanted(o, table[i].when)) out[count++] = i;
    return count;
}

static DType type_of(const AttentionShape *s, int operand)
{
    static const DType types[] = {
        [NUMBER_A_ROW] = DTYPE_F32, [LIST] = DTYPE_I32, [VALUE] = DTYPE_F32
    };
    const Kind kind = table[operand].kind;
    return kind == ROWS || kind == MASK ? s->io : types[kind];
}

/* How many numbers of all heads there are for a position. */
static int64_t row_step(const AttentionShape *s, int operand)
{
    return s->heads * (table[operand].kind == ROWS ? table[operand].beside * s->width : 1);
}

typedef CudnnPart Part;

typedef struct Writer {
    CudnnWriter graph;
    const Operation *operation;
    Part operands[OPERANDS];
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
                          .strides = { s[0], s[1], s[3], s[2] },
                          .offsets = t.offsets };
}

static CudnnTensor describe_rows(const Writer *w, int operand)
{
    const AttentionShape *s = &w->operation->shape;
    const int64_t row = row_step(s, operand);
    return (CudnnTensor){ .type = s->io,
                          .dims = { s->n, s->heads, s->length, s->width },
                          .strides = { s->length * row, s->width, row, 1 } };
}

static CudnnTensor describe_numbers(const Writer *w, int operand)
{
    const AttentionShape *s = &w->operation->shape;
    CudnnTensor t = matrix(w, DTYPE_F32, s->length, 1);
    if (s->packed && table[operand].starts) {
        t.strides[1] = 1;
        t.strides[2] = s->heads;
    }
    return t;
}

static CudnnTensor describe(const Writer *w, int operand)
{
    const AttentionShape *s = &w->operation->shape;
    CudnnTensor t = { .type = type_of(s, operand), .dims = { 1, 1, 1, 1 } };
    switch (table[operand].kind) {
    case ROWS:
        t = describe_rows(w, operand);
        break;
    case NUMBER_A_ROW:
        t = describe_numbers(w, operand);
        break;
    case LIST:
        t.dims[0] = s->n + (operand != ATTENTION_OP_LENGTHS);
        break;
    case MASK:
        t = matrix(w, s->io, s->length, attention_plan_mask_row(s->length));
        t.dims[3] = s->length;
        break;
    case VALUE:
        t.by_value = true;
        break;
    }
    if (s->packed && table[operand].starts) t.offsets = w->operands[table[operand].starts];
    return t;
}

static void write_operand(Writer *w, int operand, int64_t id)
{
    CudnnTensor t = describe(w, operand);
    /* right factors of a product with the transpose */
    if (operand == ATTENTION_OP_K ||
        (w->operation->pass == ATTENTION_BWD && operand == ATTENTION_OP_V))
        t = turned(t);
    t.id = id;
    w->operands[operand] = cudnn_write_tensor(&w->graph, &t);
}

/* Lists first: other operands are described with them. */
static void write_operands(Writer *w)
{
    int list[OPERANDS];
    const int count = operands_of(w->operation, list);
    for (int i = 0; i < count; i++)
        if (table[list[i]].kind == LIST) write_operand(w, list[i], i + 1);
    for (int i = 0; i < count; i++)
        if (table[list[i]].kind != LIST) write_operand(w, list[i], i + 1);
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

/* c = a b. Besides c's rows, which of the two other sides of a product are positions. */
typedef enum Side { SCORES, SUMS } Side; /* its columns; what is summed over */
static Part product(Writer *w, Side side, Part a, Part b, Part c)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    const Part lengths = w->operands[ATTENTION_OP_LENGTHS];
    const CudnnAttribute in = { CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &math };
    const Part by = cudnn_write_part(&w->graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR, &in, 1, "product");
    const CudnnAttribute attributes[] = {
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_DESC, by),
        CUDNN_DESCRIPTOR(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths),
        CUDNN_DESCRIPTOR(side == SCORES ? CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
                                        : CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
                         lengths),
    };
    cudnn_write_step(&w->graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, attributes,
                     lengths ? 6 : 4, "product of matrices");
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

/* Whether a score's row (axis 2) or column (3) is a position of the sequence. */
static Part is_within(Writer *w, Part s, int64_t axis)
{
    const CudnnPointwise number = { CUDNN_POINTWISE_GEN_INDEX, DTYPE_I32, axis, s, NULL, NULL,
                                    scores(w, DTYPE_I32) };
    const Part position = cudnn_write_pointwise_as(&w->graph, &number);
    const CudnnPointwise below = {
        CUDNN_POINTWISE_CMP_LT, DTYPE_U8, -1, position, w->operands[ATTENTION_OP_LENGTHS], NULL,
        scores(w, DTYPE_U8)
    };
    return cudnn_write_pointwise_as(&w->graph, &below);
}

/* scale q k^T. In packed sequences, scores past the end of a sequence are minus infinity. */
static Part scaled_scores(Writer *w)
{
    const Part *of = w->operands;
    Part s = product(w, SCORES, of[ATTENTION_OP_Q], of[ATTENTION_OP_K], scores(w, DTYPE_F32));
    s = point(w, CUDNN_POINTWISE_MUL, s, of[SCALE], scores(w, DTYPE_F32));
    if (!w->operation->shape.packed) return s;
    const Part query = is_within(w, s, 2), key = is_within(w, s, 3);
    const CudnnPointwise both = { CUDNN_POINTWISE_LOGICAL_AND, DTYPE_U8, -1, query, key, NULL,
                                  scores(w, DTYPE_U8) };
    const Part within = cudnn_write_pointwise_as(&w->graph, &both);
    const CudnnPointwise choose = {
        CUDNN_POINTWISE_BINARY_SELECT, DTYPE_F32, -1, s, of[NEVER], within, scores(w, DTYPE_F32)
    };
    return cudnn_write_pointwise_as(&w->graph, &choose);
}

static void write_forward(Writer *w)
{
    const AttentionShape *shape = &w->operation->shape;
    const Part *of = w->operands;
    const Part s = scaled_scores(w), most = reduce(w, CUDNN_REDUCE_TENSOR_MAX, s),
               above = point(w, CUDNN_POINTWISE_SUB, s, most, scores(w, DTYPE_F32)),
               e = point(w, CUDNN_POINTWISE_EXP, above, NULL, scores(w, DTYPE_F32)),
               sum = reduce(w, CUDNN_REDUCE_TENSOR_ADD, e),
               log = point(w, CUDNN_POINTWISE_LOG, sum, NULL, column(w));
    point(w, CUDNN_POINTWISE_ADD, most, log, shape->statistics ? of[ATTENTION_OP_LSE] : column(w));
    Part p = point(w, CUDNN_POINTWISE_DIV, e, sum, scores(w, of[FACTOR] ? DTYPE_F32 : shape->io));
    if (of[FACTOR]) {
        p = point(w, CUDNN_POINTWISE_MUL, p, of[FACTOR], scores(w, DTYPE_F32));
        p = point(w, CUDNN_POINTWISE_MUL, p, of[ATTENTION_OP_MASK], scores(w, shape->io));
    }
    product(w, SUMS, p, of[ATTENTION_OP_V], of[ATTENTION_OP_Y]);
}

static void write_inner(Writer *w)
{
    const AttentionShape *s = &w->operation->shape;
    const Part *of = w->operands;
    const Part both = point(w, CUDNN_POINTWISE_MUL, of[ATTENTION_OP_DY], of[ATTENTION_OP_Y],
                            between(w, matrix(w, DTYPE_F32, s->length, s->width)));
    point(w, CUDNN_POINTWISE_MUL, reduce(w, CUDNN_REDUCE_TENSOR_ADD, both), of[INNER_FACTOR],
          of[INNER]);
}

static Part times(Writer *w, Part scores_, Part other)
{
    return other ? point(w, CUDNN_POINTWISE_MUL, scores_, other, scores(w, DTYPE_F32)) : scores_;
}

static void write_bwd(Writer *w)
{
    const Part *of = w->operands;
    write_inner(w);
    Part s = scaled_scores(w);
    s = point(w, CUDNN_POINTWISE_SUB, s, of[ATTENTION_OP_LSE], scores(w, DTYPE_F32));
    const Part p = point(w, CUDNN_POINTWISE_EXP, s, NULL, scores(w, DTYPE_F32)),
               kept = times(w, times(w, p, of[ATTENTION_OP_MASK]), of[FACTOR]);
    product(w, SUMS, turn_scores(w, kept), of[ATTENTION_OP_DY], of[ATTENTION_OP_DV]);
    Part ds = product(w, SCORES, of[ATTENTION_OP_DY], of[ATTENTION_OP_V], scores(w, DTYPE_F32));
    ds = times(w, ds, of[ATTENTION_OP_MASK]);
    ds = point(w, CUDNN_POINTWISE_SUB, ds, of[INNER], scores(w, DTYPE_F32));
    ds = times(w, times(w, times(w, ds, p), of[FACTOR]), of[SCALE]);
    product(w, SUMS, turn_scores(w, ds), of[ATTENTION_OP_Q], of[ATTENTION_OP_DK]);
    product(w, SUMS, ds, turn(w, of[ATTENTION_OP_K], describe(w, ATTENTION_OP_K)),
            of[ATTENTION_OP_DQ]);
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
    snprintf(out, bytes, "attention %s%s%s%s %s n%lld heads%lld length%lld width%lld limit %zu",
             o->pass == ATTENTION_FORWARD ? "forward" : "bwd",
             o->pass == ATTENTION_FORWARD && s->statistics ? " statistics" : "",
             s->factor > 0 ? " mask" : "", s->packed ? " packed" : "", dtype_name(s->io),
             (long long)s->n, (long long)s->heads, (long long)s->length, (long long)s->width,
             limit);
}

/* Positions of all sequences; INNER has room for each as for the longest. */
static int64_t positions(const AttentionShape *s, int operand)
{
    return s->packed && table[operand].starts ? s->packed : s->n * s->length;
}

/* From the first number of an operand to behind its last. */
static size_t span(const AttentionShape *s, int operand)
{
    const int64_t row = row_step(s, operand), beside = table[operand].beside;
    switch (table[operand].kind) {
    case ROWS:
        return (size_t)(positions(s, operand) * row - (row - row / beside)) * dtype_bytes(s->io);
    case NUMBER_A_ROW:
        return (size_t)(positions(s, operand) * row) * sizeof(float);
    case LIST:
        return (size_t)(s->n + (operand != ATTENTION_OP_LENGTHS)) * sizeof(int32_t);
    case MASK:
        return attention_plan_mask_bytes(s);
    case VALUE:
        break;
    }
    return sizeof(float);
}

/* At the beginning of the workspace; all parts use the same. */
static size_t inner_bytes(const AttentionPlan *p)
{
    if (p->operation.pass == ATTENTION_FORWARD) return 0;
    return (span(&p->operation.shape, INNER) + 255) / 256 * 256;
}

/* Lists for timing, in one row each: sequences of equal length. mem_free. */
static int32_t *make_example(const AttentionShape *s)
{
    const int64_t row = attention_plan_places_row(s->n), even = s->packed / s->n,
                  length = even < s->length ? even : s->length;
    int32_t *lists = mem_calloc((size_t)(ATTENTION_PLACES * row), sizeof *lists);
    for (int64_t i = 0; lists && i <= s->n; i++) {
        const int64_t start = i * length;
        lists[i] = i < s->n ? (int32_t)length : 0;
        lists[row + i] = (int32_t)(start * row_step(s, ATTENTION_OP_Q));
        lists[2 * row + i] = (int32_t)(start * row_step(s, ATTENTION_OP_Y));
        lists[3 * row + i] = (int32_t)(start * row_step(s, ATTENTION_OP_LSE));
    }
    return lists;
}

static Status get_plan(AttentionPlan *p, CudaBackend *b, const CudnnPlan **out)
{
    char key[256];
    const Operation *o = &p->operation;
    const size_t others = inner_bytes(p) + attention_plan_mask_bytes(&o->shape) +
                          attention_plan_places_bytes(&o->shape, p->parts),
                 limit = b->workspace_limit > others ? b->workspace_limit - others : 0;
    if (others > b->workspace_limit)
        return fail(ERR_ENV, "attention needs %zu bytes next to a plan's workspace, of at most %zu",
                    others, b->workspace_limit);
    int32_t *example = o->shape.packed ? make_example(&o->shape) : NULL;
    if (o->shape.packed && !example) return ERR_MEMORY;
    format(o, limit, key, sizeof key);
    PlanRequest r = { .key = key,
                      .make_graph = make_graph,
                      .operation = o,
                      .avoid = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION),
                      .workspace_limit = limit,
                      .operands = p->count };
    for (int i = 0; i < p->count; i++) {
        const int operand = p->operands[i];
        r.operand_types[i] = type_of(&o->shape, operand);
        r.operand_bytes[i] = span(&o->shape, operand);
        if (table[operand].written >> o->pass & 1) r.written |= 1U << i;
        if (table[operand].kind == VALUE) r.by_value[i] = &p->numbers[operand];
        if (table[operand].kind == LIST)
            r.example[i] =
                example + (operand - ATTENTION_OP_LENGTHS) * attention_plan_places_row(o->shape.n);
    }
    const Status st = cudnn_use_get(b->cudnn, &r, out);
    mem_free(example);
    return st;
}

/* Before it the gradient of lengths that are no multiple of 128 needs a mask of what lies behind
 * the last position. */
enum { OLDEST_CUDNN = 91600 };
/* By cudnn-frontend's support surface 9.18.1 has packed sequences on all GPUs; plans were made with
 * this one. */
enum { OLDEST_PACKED = 91900 };

/* Engines of gradients keep those of all scores in their workspace, and masks lie there: where they
 * are too large, sequences are taken in parts. Numbers in f32 of a part must begin at a multiple of
 * 16 bytes. */
static Status get_parts(AttentionPlan *p, CudaBackend *b)
{
    AttentionShape *s = &p->operation.shape;
    const int64_t n = s->n, numbers = s->heads * s->length;
    const int most = p->operation.pass == ATTENTION_BWD || s->factor > 0 ? MOST_PARTS : 1;
    const CudnnPlan *plan = NULL;
    p->parts = 1;
    Status st = get_plan(p, b, &plan);
    for (int parts = 2; st == ERR_ENV && parts <= most; parts++) {
        if (n % parts != 0 || (!s->packed && n / parts * numbers % 4 != 0)) continue;
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
    if (shape->packed) TRY(cudnn_use_require(b->cudnn, OLDEST_PACKED, "attention of text"));
    if (shape->packed * row_step(shape, ATTENTION_OP_Q) > INT32_MAX)
        return fail(ERR_ENV, "attention of %lld positions: their lists hold 32 bits",
                    (long long)shape->packed);
    AttentionPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->operation = (Operation){ pass, *shape };
    p->count = operands_of(&p->operation, p->operands);
    p->numbers[SCALE] = shape->scale;
    p->numbers[FACTOR] = shape->factor;
    p->numbers[INNER_FACTOR] = shape->factor > 0 ? 1 / shape->factor : 1;
    p->numbers[NEVER] = -INFINITY;
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

const AttentionShape *attention_plan_part(const AttentionPlan *p)
{
    return &p->operation.shape;
}

const char *attention_plan_name(const AttentionPlan *p)
{
    return p->uses[0].plan->name;
}

/* Where a part of the sequences begins; the mask is of one part at a time. */
static void *part_of(const AttentionPlan *p, int operand, void *data, int part)
{
    const AttentionShape *s = &p->operation.shape;
    const Kind kind = table[operand].kind;
    int64_t first = 0;
    if (kind == LIST) first = part * ATTENTION_PLACES * attention_plan_places_row(s->n);
    else if (kind != MASK && !s->packed) first = part * s->n * s->length * row_step(s, operand);
    char *at = (char *)data + (size_t)first * dtype_bytes(type_of(s, operand));
    ASSERT((uintptr_t)at % 16 == 0);
    return at;
}

Status attention_plan_bind(AttentionPlan *p, void *const operands[ATTENTION_OPERAND_COUNT],
                           void *workspace)
{
    for (int part = 0; part < p->parts; part++) {
        void *data[CUDNN_MAX_OPERANDS] = { NULL };
        for (int i = 0; i < p->count; i++) {
            const int operand = p->operands[i];
            data[i] = table[operand].kind == VALUE ? &p->numbers[operand]
                      : operand == INNER           ? workspace
                                                   : part_of(p, operand, operands[operand], part);
        }
        TRY(cudnn_use_bind(&p->uses[part], p->count, data, (char *)workspace + inner_bytes(p)));
    }
    return OK;
}

Status attention_plan_run(AttentionPlan *p, int part, cudaStream_t stream)
{
    return cudnn_use_run(&p->uses[part], stream);
}
