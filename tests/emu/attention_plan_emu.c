/* attention_plan_emu.c - stands for cuDNN behind attention_plan.h: attention as plain loops, run by
 * the test double of the device.
 *
 * Rounded as the library's graph says: scores, softmax and sums in f32, what goes into the next
 * product in the type of the tensors. Packed sequences lie where the lists say. As strict as the
 * library: operands must lie whole in device memory, and the workspace that a plan asks for is
 * really used (it holds a row of weights, and one of their gradients). */
#include "base/mem.h"
#include "kernels/cuda/cudnn/attention_plan.h"
#include "tests/emu/conv_loops.h"
#include "tests/emu/emu.h"
#include <math.h>
#include <string.h>

typedef struct Work { /* what a run needs; copied when it is enqueued */
    AttentionGraph pass;
    AttentionShape shape; /* of a part */
    int part;
    void *data[ATTENTION_OPERAND_COUNT];
    float *rows; /* the workspace: [2][length] */
} Work;

struct AttentionPlan {
    Work work;
    int parts;
};

_Static_assert(sizeof(Work) <= EMU_MAX_COOKIE, "a run's description must fit");

static bool lies_alone(AttentionOperand operand)
{
    return operand == ATTENTION_OP_Y || operand == ATTENTION_OP_DY;
}

static int64_t row_of(const AttentionShape *s, AttentionOperand operand)
{
    return (lies_alone(operand) ? 1 : 3) * s->heads * s->width;
}

/* Of a sequence of the part, and head: number i of a position. */
typedef struct Head {
    const Work *w;
    int64_t n, head, length;
} Head;

static int64_t listed(const Work *w, AttentionOperand list, int64_t n)
{
    const int64_t row = attention_plan_places_row(w->shape.n);
    return ((const int32_t *)w->data[list])[w->part * ATTENTION_PLACES * row + n];
}

static int64_t place(const Head *h, AttentionOperand operand, int64_t position, int64_t i)
{
    const Work *w = h->w;
    const AttentionShape *s = &w->shape;
    const int64_t row = row_of(s, operand);
    int64_t first = (w->part * s->n + h->n) * s->length * row;
    if (s->packed)
        first =
            listed(w, lies_alone(operand) ? ATTENTION_OP_Y_STARTS : ATTENTION_OP_QKV_STARTS, h->n);
    return first + position * row + h->head * s->width + i;
}

static float value(const Head *h, AttentionOperand operand, int64_t position, int64_t i)
{
    return conv_loops_read(h->w->shape.io, h->w->data[operand], place(h, operand, position, i));
}

static void store(const Head *h, AttentionOperand operand, int64_t position, int64_t i, float v)
{
    conv_loops_write(h->w->shape.io, h->w->data[operand], place(h, operand, position, i), v);
}

static float rounded(const Head *h, float v)
{
    uint32_t number[1];
    conv_loops_write(h->w->shape.io, number, 0, v);
    return conv_loops_read(h->w->shape.io, number, 0);
}

static float inner(const Head *h, AttentionOperand a, int64_t i, AttentionOperand b, int64_t j)
{
    float sum = 0;
    for (int64_t k = 0; k < h->w->shape.width; k++) sum += value(h, a, i, k) * value(h, b, j, k);
    return sum;
}

static float *lse_of(const Head *h, int64_t query)
{
    const AttentionShape *s = &h->w->shape;
    const int64_t n = h->w->part * s->n + h->n;
    float *lse = h->w->data[ATTENTION_OP_LSE];
    if (s->packed)
        return lse + listed(h->w, ATTENTION_OP_LSE_STARTS, h->n) + query * s->heads + h->head;
    return lse + (n * s->heads + h->head) * s->length + query;
}

/* The mask's number; 1 where there is none. */
static float kept(const Head *h, int64_t query, int64_t key)
{
    const AttentionShape *s = &h->w->shape;
    const int64_t row = (h->n * s->heads + h->head) * s->length + query;
    if (!(s->factor > 0)) return 1;
    return conv_loops_read(s->io, h->w->data[ATTENTION_OP_MASK],
                           row * attention_plan_mask_row(s->length) + key);
}

static float factor_of(const AttentionShape *s)
{
    return s->factor > 0 ? s->factor : 1;
}

static void forward(const Head *h)
{
    const AttentionShape *s = &h->w->shape;
    float *p = h->w->rows;
    for (int64_t i = 0; i < h->length; i++) {
        float most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < h->length; j++) {
            p[j] = s->scale * inner(h, ATTENTION_OP_Q, i, ATTENTION_OP_K, j);
            most = p[j] > most || isnan(p[j]) ? p[j] : most;
        }
        for (int64_t j = 0; j < h->length; j++) sum += p[j] = expf(p[j] - most);
        if (s->statistics) *lse_of(h, i) = most + logf(sum);
        for (int64_t j = 0; j < h->length; j++)
            p[j] = rounded(h, p[j] / sum * factor_of(s) * kept(h, i, j));
        for (int64_t k = 0; k < s->width; k++) {
            float y = 0;
            for (int64_t j = 0; j < h->length; j++) y += p[j] * value(h, ATTENTION_OP_V, j, k);
            store(h, ATTENTION_OP_Y, i, k, y);
        }
    }
}

/* The weight of a key for a query, and its score's gradient. */
static void weigh(const Head *h, int64_t i, int64_t j, float *p, float *ds)
{
    const AttentionShape *s = &h->w->shape;
    const float factor = factor_of(s), keep = kept(h, i, j),
                dp = inner(h, ATTENTION_OP_DY, i, ATTENTION_OP_V, j) * keep,
                sum = inner(h, ATTENTION_OP_DY, i, ATTENTION_OP_Y, i) * (1 / factor);
    const float e = expf(s->scale * inner(h, ATTENTION_OP_Q, i, ATTENTION_OP_K, j) - *lse_of(h, i));
    *ds = rounded(h, (dp - sum) * e * factor * s->scale);
    *p = rounded(h, e * keep * factor);
}

static void backward(const Head *h)
{
    const AttentionShape *s = &h->w->shape;
    float *p = h->w->rows, *ds = p + s->length;
    for (int64_t i = 0; i < h->length; i++) {
        for (int64_t j = 0; j < h->length; j++) weigh(h, i, j, &p[j], &ds[j]);
        for (int64_t k = 0; k < s->width; k++) {
            float dq = 0;
            for (int64_t j = 0; j < h->length; j++) dq += ds[j] * value(h, ATTENTION_OP_K, j, k);
            store(h, ATTENTION_OP_DQ, i, k, dq);
        }
    }
    for (int64_t j = 0; j < h->length; j++) {
        for (int64_t i = 0; i < h->length; i++) weigh(h, i, j, &p[i], &ds[i]);
        for (int64_t k = 0; k < s->width; k++) {
            float dk = 0, dv = 0;
            for (int64_t i = 0; i < h->length; i++) {
                dk += ds[i] * value(h, ATTENTION_OP_Q, i, k);
                dv += p[i] * value(h, ATTENTION_OP_DY, i, k);
            }
            store(h, ATTENTION_OP_DK, j, k, dk);
            store(h, ATTENTION_OP_DV, j, k, dv);
        }
    }
}

static void run_work(const void *cookie)
{
    const Work *w = cookie;
    const AttentionShape *s = &w->shape;
    for (int64_t i = 0; i < s->n * s->heads; i++) {
        Head h = { w, i / s->heads, i % s->heads, s->length };
        if (s->packed) h.length = listed(w, ATTENTION_OP_LENGTHS, h.n);
        ASSERT(h.length >= 1 && h.length <= s->length);
        if (w->pass == ATTENTION_FORWARD) forward(&h);
        else backward(&h);
    }
}

/* ---- plans ---- */

static size_t workspace_of(const AttentionShape *s)
{
    return 2 * (size_t)s->length * sizeof(float);
}

static size_t all_of(const AttentionShape *s, int parts)
{
    return workspace_of(s) + attention_plan_mask_bytes(s) + attention_plan_places_bytes(s, parts);
}

Status attention_plan_create(AttentionPlan **out, CudaBackend *b, AttentionGraph pass,
                             const AttentionShape *shape)
{
    AttentionShape part = *shape;
    int parts = 1;
    *out = NULL;
    while (all_of(&part, parts) > b->workspace_limit && parts < 16) {
        parts++;
        if (shape->n % parts == 0) part.n = shape->n / parts;
    }
    parts = (int)(shape->n / part.n);
    if (shape->io == DTYPE_F32 || shape->width % 8 != 0 || shape->width > 128 ||
        all_of(&part, parts) > b->workspace_limit)
        return fail(ERR_ENV, "attention: the plain loops take it no more than cuDNN does");
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->work = (Work){ .pass = pass, .shape = part };
    (*out)->parts = parts;
    return OK;
}

void attention_plan_destroy(AttentionPlan *p)
{
    mem_free(p);
}

size_t attention_plan_workspace(const AttentionPlan *p)
{
    return workspace_of(&p->work.shape);
}

int attention_plan_parts(const AttentionPlan *p)
{
    return p->parts;
}

const AttentionShape *attention_plan_part(const AttentionPlan *p)
{
    return &p->work.shape;
}

const char *attention_plan_name(const AttentionPlan *p)
{
    (void)p;
    return "plain loops";
}

static size_t bytes_of(const AttentionPlan *p, AttentionOperand operand)
{
    const AttentionShape *s = &p->work.shape;
    const int64_t rows = s->packed ? s->packed : p->parts * s->n * s->length;
    if (operand == ATTENTION_OP_MASK) return attention_plan_mask_bytes(s);
    if (operand >= ATTENTION_OP_LENGTHS) /* up to behind the last part's */
        return (size_t)(((p->parts - 1) * ATTENTION_PLACES + 1) * attention_plan_places_row(s->n)) *
               sizeof(int32_t);
    if (operand == ATTENTION_OP_LSE) return (size_t)(rows * s->heads) * sizeof(float);
    return (size_t)((rows - 1) * row_of(s, operand) + s->heads * s->width) * dtype_bytes(s->io);
}

static bool has(const AttentionPlan *p, AttentionOperand operand)
{
    const AttentionShape *s = &p->work.shape;
    const bool forward_pass = p->work.pass == ATTENTION_FORWARD;
    if (operand <= ATTENTION_OP_Y) return true;
    if (operand == ATTENTION_OP_LSE) return !forward_pass || s->statistics;
    if (operand == ATTENTION_OP_MASK) return s->factor > 0;
    if (operand >= ATTENTION_OP_LENGTHS) return s->packed > 0;
    return !forward_pass;
}

Status attention_plan_bind(AttentionPlan *p, void *const operands[ATTENTION_OPERAND_COUNT],
                           void *workspace)
{
    for (int i = 0; i < ATTENTION_OPERAND_COUNT; i++) {
        p->work.data[i] = has(p, (AttentionOperand)i) ? operands[i] : NULL;
        if (!p->work.data[i]) continue;
        ASSERT((uintptr_t)operands[i] % 16 == 0);
        ASSERT(emu_is_device_memory(operands[i], bytes_of(p, (AttentionOperand)i)));
    }
    ASSERT(emu_is_device_memory(workspace, attention_plan_workspace(p)));
    p->work.rows = workspace;
    return OK;
}

Status attention_plan_run(AttentionPlan *p, int part, cudaStream_t stream)
{
    ASSERT(p->work.rows && part < p->parts);
    p->work.part = part;
    TRY_CUDA(emu_enqueue(stream, "attention", run_work, &p->work, sizeof p->work));
    return OK;
}
