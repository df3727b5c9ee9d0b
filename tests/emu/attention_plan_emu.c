/* attention_plan_emu.c - stands for cuDNN behind attention_plan.h: attention as plain loops, run by
 * the test double of the device.
 *
 * Rounded as the library's graph says: scores, softmax and sums in f32, what goes into the next
 * product in the type of the tensors. As strict as the library: operands must lie whole in device
 * memory, and the workspace that a plan asks for is really used (it holds a row of weights, and one
 * of their gradients). */
#include "base/mem.h"
#include "kernels/cuda/cudnn/attention_plan.h"
#include "tests/emu/conv_loops.h"
#include "tests/emu/emu.h"
#include <math.h>
#include <string.h>

typedef struct Work { /* what a run needs; copied when it is enqueued */
    AttentionGraph pass;
    AttentionShape shape;
    void *data[ATTENTION_OPERAND_COUNT];
    float *rows; /* the workspace: [2][length] */
} Work;

struct AttentionPlan {
    Work work;
};

_Static_assert(sizeof(Work) <= EMU_MAX_COOKIE, "a run's description must fit");

static int64_t row_of(const AttentionShape *s, AttentionOperand operand)
{
    const bool alone = operand == ATTENTION_OP_Y || operand == ATTENTION_OP_DY;
    return (alone ? 1 : 3) * s->heads * s->width;
}

/* Of an image and head: number i of a position. */
typedef struct Head {
    const Work *w;
    int64_t n, head;
} Head;

static int64_t place(const Head *h, AttentionOperand operand, int64_t position, int64_t i)
{
    const AttentionShape *s = &h->w->shape;
    return (h->n * s->length + position) * row_of(s, operand) + h->head * s->width + i;
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
    return (float *)h->w->data[ATTENTION_OP_LSE] + (h->n * s->heads + h->head) * s->length + query;
}

static void forward(const Head *h)
{
    const AttentionShape *s = &h->w->shape;
    float *p = h->w->rows;
    for (int64_t i = 0; i < s->length; i++) {
        float most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < s->length; j++) {
            p[j] = s->scale * inner(h, ATTENTION_OP_Q, i, ATTENTION_OP_K, j);
            most = p[j] > most || isnan(p[j]) ? p[j] : most;
        }
        for (int64_t j = 0; j < s->length; j++) sum += p[j] = expf(p[j] - most);
        if (s->statistics) *lse_of(h, i) = most + logf(sum);
        for (int64_t k = 0; k < s->width; k++) {
            float y = 0;
            for (int64_t j = 0; j < s->length; j++)
                y += rounded(h, p[j] / sum) * value(h, ATTENTION_OP_V, j, k);
            store(h, ATTENTION_OP_Y, i, k, y);
        }
    }
}

/* The weight of a key for a query, and its score's gradient. */
static void weigh(const Head *h, int64_t i, int64_t j, float *p, float *ds)
{
    const float scale = h->w->shape.scale, dp = inner(h, ATTENTION_OP_DY, i, ATTENTION_OP_V, j);
    const float e = expf(scale * inner(h, ATTENTION_OP_Q, i, ATTENTION_OP_K, j) - *lse_of(h, i));
    *ds = rounded(h, (dp - inner(h, ATTENTION_OP_DY, i, ATTENTION_OP_Y, i)) * e * scale);
    *p = rounded(h, e);
}

static void backward(const Head *h)
{
    const AttentionShape *s = &h->w->shape;
    float *p = h->w->rows, *ds = p + s->length;
    for (int64_t i = 0; i < s->length; i++) {
        for (int64_t j = 0; j < s->length; j++) weigh(h, i, j, &p[j], &ds[j]);
        for (int64_t k = 0; k < s->width; k++) {
            float dq = 0;
            for (int64_t j = 0; j < s->length; j++) dq += ds[j] * value(h, ATTENTION_OP_K, j, k);
            store(h, ATTENTION_OP_DQ, i, k, dq);
        }
    }
    for (int64_t j = 0; j < s->length; j++) {
        for (int64_t i = 0; i < s->length; i++) weigh(h, i, j, &p[i], &ds[i]);
        for (int64_t k = 0; k < s->width; k++) {
            float dk = 0, dv = 0;
            for (int64_t i = 0; i < s->length; i++) {
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
    for (int64_t i = 0; i < w->shape.n * w->shape.heads; i++) {
        const Head h = { w, i / w->shape.heads, i % w->shape.heads };
        if (w->pass == ATTENTION_FORWARD) forward(&h);
        else backward(&h);
    }
}

/* ---- plans ---- */

static size_t workspace_of(const AttentionShape *s)
{
    return 2 * (size_t)s->length * sizeof(float);
}

Status attention_plan_create(AttentionPlan **out, CudaBackend *b, AttentionGraph pass,
                             const AttentionShape *shape)
{
    *out = NULL;
    if (shape->io == DTYPE_F32 || shape->width % 8 != 0 || shape->width > 128 ||
        workspace_of(shape) > b->workspace_limit)
        return fail(ERR_ENV, "attention: the plain loops take it no more than cuDNN does");
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->work = (Work){ .pass = pass, .shape = *shape };
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
    (void)p;
    return 1;
}

const char *attention_plan_name(const AttentionPlan *p)
{
    (void)p;
    return "plain loops";
}

/* From the first number that the operand has to behind its last. */
static void check_operand(const AttentionShape *s, AttentionOperand operand, const void *p)
{
    const int64_t rows = s->n * s->length;
    const size_t bytes =
        operand == ATTENTION_OP_LSE
            ? (size_t)(rows * s->heads) * sizeof(float)
            : (size_t)((rows - 1) * row_of(s, operand) + s->heads * s->width) * dtype_bytes(s->io);
    ASSERT((uintptr_t)p % 16 == 0);
    ASSERT(emu_is_device_memory(p, bytes));
}

Status attention_plan_bind(AttentionPlan *p, void *const operands[ATTENTION_OPERAND_COUNT],
                           void *workspace)
{
    const AttentionShape *s = &p->work.shape;
    const bool forward_pass = p->work.pass == ATTENTION_FORWARD;
    for (int i = 0; i < ATTENTION_OPERAND_COUNT; i++) {
        const bool there = i <= ATTENTION_OP_Y ||
                           (i == ATTENTION_OP_LSE ? !forward_pass || s->statistics : !forward_pass);
        p->work.data[i] = there ? operands[i] : NULL;
        if (there) check_operand(s, (AttentionOperand)i, operands[i]);
    }
    ASSERT(emu_is_device_memory(workspace, attention_plan_workspace(p)));
    p->work.rows = workspace;
    return OK;
}

Status attention_plan_run(AttentionPlan *p, cudaStream_t stream)
{
    ASSERT(p->work.rows);
    TRY_CUDA(emu_enqueue(stream, "attention", run_work, &p->work, sizeof p->work));
    return OK;
}
