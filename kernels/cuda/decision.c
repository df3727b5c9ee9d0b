/* decision.c - see decision.h. */
#include "kernels/cuda/decision.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/time_ops.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct CudaDecision {
    CudaDecision *next;
    char *key;
    const char *name;
    Outcome outcome;
};

void cuda_decision_free(CudaDecision *list)
{
    for (CudaDecision *next; list; list = next) {
        next = list->next;
        mem_free(list->key);
        mem_free(list);
    }
}

/* ---- deciding ---- */

/* Training goes on in the usual way where cuDNN's cannot be timed. */
static Outcome measure(CudaBackend *b, const DecisionQuestion *q, const char *key)
{
    double ms[2] = { 0, 0 };
    bool taken = false;
    if (cudnn_context_find_choice(b->cudnn, key, &taken))
        return taken ? OUTCOME_TAKEN : OUTCOME_SLOWER;
    if (q->time(b, q->cookie, key, ms) != OK) {
        log_warning("%s cannot be timed and is not used: %s", key, status_message());
        return OUTCOME_UNTIMED;
    }
    taken = ms[1] < ms[0];
    log_debug("%s: %.4f ms, else %.4f ms", key, ms[1], ms[0]);
    if (cudnn_context_add_choice(b->cudnn, key, taken, ms[1]) != OK)
        log_warning("%s will be measured again at the next start: %s", key, status_message());
    cudnn_context_find_choice(b->cudnn, key, &taken); /* another process may have been first */
    return taken ? OUTCOME_TAKEN : OUTCOME_SLOWER;
}

static Outcome decide(CudaBackend *b, const DecisionQuestion *q, const char *key)
{
    if (q->timed && !cudnn_context_times(b->cudnn)) return OUTCOME_UNTIMED;
    if (q->compiled && !cudnn_context_compiles(b->cudnn)) return OUTCOME_NO_DRIVER;
    if (q->attempt(b, q->cookie) != OK) {
        log_debug("%s: %s", key, status_message());
        return OUTCOME_NO_ENGINE;
    }
    return q->timed ? measure(b, q, key) : OUTCOME_TAKEN;
}

static const CudaDecision *find(const CudaDecision *list, const char *key)
{
    while (list && strcmp(list->key, key) != 0) list = list->next;
    return list;
}

/* Attributes as the numbers that they are: what an op prints for people may be reworded. */
static void add_op(const OpShape *op, StrBuf *key)
{
    const size_t words = op_def(op->kind)->attr_bytes / sizeof(uint32_t);
    char text[64];
    str_printf(key, " %s", op_name(op->kind));
    for (size_t k = 0; k < words; k++) {
        uint32_t word = 0;
        memcpy(&word, (const char *)op->attr + k * sizeof word, sizeof word);
        str_printf(key, "%c%" PRIu32, k ? '.' : ' ', word);
    }
    for (int i = 0; i < OP_MAX_INPUTS + OP_MAX_OUTPUTS; i++) {
        const bool input = i < OP_MAX_INPUTS;
        const int slot = input ? i : i - OP_MAX_INPUTS;
        const TensorDesc *t = input ? &op->in[slot] : &op->out[slot];
        tensor_format(t, text, sizeof text);
        if (t->rank) str_printf(key, " %s%d:%s", input ? "" : "->", slot, text);
    }
    str_add(key, ";");
}

/* All that decides how fast it is. */
static StrBuf key_of(const CudaBackend *b, const DecisionQuestion *q)
{
    StrBuf key = { 0 };
    str_printf(&key, "%s %s: %s", q->name, q->by,
               b->precision == PRECISION_TF32 ? "tf32" : dtype_name(b->compute));
    for (int i = 0; i < q->op_count; i++) add_op(&q->ops[i], &key);
    str_printf(&key, " limit %zu", b->workspace_limit);
    return key;
}

bool cuda_decision_make(CudaBackend *b, CudaDecision **list, const DecisionQuestion *q)
{
    StrBuf key = key_of(b, q);
    const CudaDecision *known = key.failed ? NULL : find(*list, key.text);
    CudaDecision *made = key.failed || known ? NULL : mem_calloc(1, sizeof *made);
    if (!made) {
        str_free(&key);
        return known && known->outcome == OUTCOME_TAKEN;
    }
    *made = (CudaDecision){ NULL, key.text, q->name, decide(b, q, key.text) };
    made->next = *list; /* deciding may have asked for others */
    *list = made;
    return made->outcome == OUTCOME_TAKEN;
}

/* ---- one op by two hands ---- */

static CudaTimedRow timed_row(const void *shape, KernelTrial trial)
{
    return (CudaTimedRow){ .name = trial == TRIAL_OWN ? "our kernel" : "cuDNN's engine",
                           .ops = shape,
                           .count = 1,
                           .trial = trial };
}

static Status attempt_op(CudaBackend *b, const void *shape)
{
    const CudaTimedRow row = timed_row(shape, TRIAL_CUDNN);
    return cuda_time_ops_try(b, &row);
}

static Status time_op(CudaBackend *b, const void *shape, const char *what, double ms[2])
{
    const CudaTimedRow rows[2] = { timed_row(shape, TRIAL_OWN), timed_row(shape, TRIAL_CUDNN) };
    return cuda_time_ops(b, what, rows, ms);
}

bool cuda_decision_of_op(const OpInstance *op, const void *attr, const char *name, KernelMode mode,
                         bool compiled)
{
    CudaBackend *b = cuda_backend(op);
    OpShape shape = { .kind = op->kind, .attr = attr };
    const DecisionQuestion q = { .name = name,
                                 .by = "by cudnn",
                                 .ops = &shape,
                                 .op_count = 1,
                                 .attempt = attempt_op,
                                 .time = time_op,
                                 .cookie = &shape,
                                 .compiled = compiled,
                                 .timed = mode == KERNELS_AUTO };
    for (int i = 0; i < OP_MAX_INPUTS; i++) shape.in[i] = op->in[i].desc;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) shape.out[i] = op->out[i].desc;
    return cuda_decision_make(b, &b->kernels, &q);
}

/* ---- saying so ---- */

static void add_counts(const CudaDecision *list, const char *name, StrBuf *out)
{
    static const char *const words[OUTCOME_COUNT] = { [OUTCOME_NO_ENGINE] = "without an engine",
                                                      [OUTCOME_SLOWER] = "measured slower",
                                                      [OUTCOME_UNTIMED] = "not measured",
                                                      [OUTCOME_NO_DRIVER] =
                                                          "cannot be compiled without a driver" };
    int counts[OUTCOME_COUNT] = { 0 }, sum = 0;
    for (const CudaDecision *d = list; d; d = d->next) {
        if (strcmp(d->name, name) != 0) continue;
        counts[d->outcome]++;
        sum++;
    }
    str_printf(out, "%s%s %d of %d shapes", out->length ? "; " : "", name, counts[OUTCOME_TAKEN],
               sum);
    for (int i = OUTCOME_NO_ENGINE; i < OUTCOME_COUNT; i++)
        if (counts[i]) str_printf(out, ", %d %s", counts[i], words[i]);
}

static bool was_before(const CudaDecision *list, const CudaDecision *at)
{
    for (; list != at; list = list->next)
        if (strcmp(list->name, at->name) == 0) return true;
    return false;
}

void cuda_decision_describe(const CudaDecision *list, char *out, size_t bytes)
{
    StrBuf text = { 0 };
    for (const CudaDecision *d = list; d; d = d->next)
        if (!was_before(list, d)) add_counts(list, d->name, &text);
    snprintf(out, bytes, "%s", text.text && !text.failed ? text.text : "");
    str_free(&text);
}
