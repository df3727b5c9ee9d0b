/* fusion.c - which fusions the CUDA backend takes.
 *
 * A fusion is asked for by shapes (kernels/op.h). What decides is CudaOptions.fuse:
 *   FUSE_NONE  none is taken
 *   FUSE_ALL   those whose ops can all be prepared: cuDNN has an engine for each
 *   FUSE_AUTO  of these, those that were measured to be faster than what they replace, on this device and for this
 *              shape; the answer is kept in the plan cache. Where nothing can be measured and kept - a device that is
 *              only described, no cache - none is taken, since a run that is resumed must find what it began with.
 * In other types than f16 there are no engines, and nobody is asked. Each shape is decided once. */
#include "kernels/cuda/fusion.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn_graph.h"
#include <stdio.h>
#include <string.h>

typedef enum Outcome { OUTCOME_TAKEN, OUTCOME_NO_ENGINE, OUTCOME_SLOWER, OUTCOME_UNTIMED, OUTCOME_COUNT } Outcome;

typedef struct Decision {
    struct Decision *next;
    char *key;
    const char *name; /* the fusion's; static */
    Outcome outcome;
} Decision;

struct CudaFusions {
    Decision *first;
};

void cuda_fusions_destroy(CudaFusions *f)
{
    for (Decision *d = f ? f->first : NULL, *next; d; d = next) {
        next = d->next;
        mem_free(d->key);
        mem_free(d);
    }
    mem_free(f);
}

/* ---- the fusion in words: all that decides how fast it is ---- */

static void add_op(const OpShape *op, StrBuf *key)
{
    const OpDef *def = op_def(op->kind);
    char text[96] = "";
    if (def->print) def->print(op->attr, text, sizeof text);
    str_printf(key, " %s %s", def->name, text);
    for (int i = 0; i < OP_MAX_INPUTS && i < 4; i++) {
        if (op->in[i].rank != 4) continue;
        tensor_format(&op->in[i], text, sizeof text);
        str_printf(key, " %s", text);
    }
    tensor_format(&op->out[0], text, sizeof text);
    str_printf(key, " -> %s;", text);
}

static void write_key(const CudaBackend *b, const Fusion *f, StrBuf *key)
{
    str_printf(key, "fusion %s:", f->name);
    for (int i = 0; i < f->after_count; i++) add_op(&f->after[i], key);
    str_printf(key, " limit %zu", b->workspace_limit);
}

/* ---- deciding ---- */

/* Training goes on without a fusion that cannot be timed. */
static Outcome measure(CudaBackend *b, const Fusion *f, const char *key)
{
    double before = 0, after = 0;
    bool taken = false;
    if (cudnn_choice_find(b->cudnn, key, &taken)) return taken ? OUTCOME_TAKEN : OUTCOME_SLOWER;
    Status st = cuda_time_ops(b, f->before, f->before_count, &before);
    if (st == OK) st = cuda_time_ops(b, f->after, f->after_count, &after);
    if (st != OK) {
        log_warning("%s cannot be timed and is not used: %s", key, status_message());
        return OUTCOME_UNTIMED;
    }
    taken = after < before;
    log_debug("%s: %.4f ms, apart %.4f ms", key, after, before);
    if (cudnn_choice_add(b->cudnn, key, taken, after) != OK)
        log_warning("%s is measured again at the next start: %s", key, status_message());
    return taken ? OUTCOME_TAKEN : OUTCOME_SLOWER;
}

static Outcome decide(CudaBackend *b, const Fusion *f, const char *key)
{
    if (b->options.fuse == FUSE_AUTO && !cudnn_context_times(b->cudnn)) return OUTCOME_UNTIMED;
    if (cuda_try_ops(b, f->after, f->after_count) != OK) {
        log_debug("%s: %s", key, status_message());
        return OUTCOME_NO_ENGINE;
    }
    return b->options.fuse == FUSE_ALL ? OUTCOME_TAKEN : measure(b, f, key);
}

static const Decision *find(const CudaFusions *all, const char *key)
{
    for (const Decision *d = all->first; d; d = d->next)
        if (strcmp(d->key, key) == 0) return d;
    return NULL;
}

/* NULL if memory ran out. */
static const Decision *decision_of(CudaBackend *b, const Fusion *f)
{
    StrBuf key = { 0 };
    if (!b->fusions && !(b->fusions = mem_calloc(1, sizeof *b->fusions))) return NULL;
    write_key(b, f, &key);
    const Decision *known = key.failed ? NULL : find(b->fusions, key.text);
    Decision *made = key.failed || known ? NULL : mem_calloc(1, sizeof *made);
    if (made) {
        *made = (Decision){ b->fusions->first, key.text, f->name, decide(b, f, key.text) };
        b->fusions->first = made;
        return made;
    }
    str_free(&key);
    return known;
}

bool cuda_takes_fusion(void *backend, const Fusion *fusion)
{
    CudaBackend *b = backend;
    if (b->compute != DTYPE_F16 || b->options.fuse == FUSE_NONE) return false;
    const Decision *d = decision_of(b, fusion);
    return d && d->outcome == OUTCOME_TAKEN;
}

/* ---- saying so ---- */

static void add_counts(const CudaFusions *all, const char *name, StrBuf *out)
{
    static const char *const words[OUTCOME_COUNT] = { [OUTCOME_NO_ENGINE] = "without an engine",
                                                      [OUTCOME_SLOWER] = "measured slower",
                                                      [OUTCOME_UNTIMED] = "not measured" };
    int counts[OUTCOME_COUNT] = { 0 }, sum = 0;
    for (const Decision *d = all->first; d; d = d->next) {
        if (strcmp(d->name, name) != 0) continue;
        counts[d->outcome]++;
        sum++;
    }
    str_printf(out, "%s%s %d of %d shapes", out->length ? "; " : "", name, counts[OUTCOME_TAKEN], sum);
    for (int i = OUTCOME_NO_ENGINE; i < OUTCOME_COUNT; i++)
        if (counts[i]) str_printf(out, ", %d %s", counts[i], words[i]);
}

static bool was_before(const CudaFusions *all, const Decision *at)
{
    for (const Decision *d = all->first; d != at; d = d->next)
        if (strcmp(d->name, at->name) == 0) return true;
    return false;
}

void cuda_describe_fusions(const Backend *backend, char *out, size_t bytes)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    StrBuf text = { 0 };
    for (const Decision *d = b->fusions ? b->fusions->first : NULL; d; d = d->next)
        if (!was_before(b->fusions, d)) add_counts(b->fusions, d->name, &text);
    snprintf(out, bytes, "%s", text.text && !text.failed ? text.text : "");
    str_free(&text);
}
