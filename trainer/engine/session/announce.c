/* announce.c - see announce.h. */
#include "trainer/engine/session/announce.h"
#include "base/log.h"
#include "base/str.h"
#include <string.h>

static void say_evaluation(const Session *s)
{
    const Config *c = s->config;
    const int64_t size = c->data.image_size, resize = c->data.eval_resize;
    log_detail(
        "evaluation: images are scaled to %lld pixels and cropped to %lld (data.eval_resize%s)",
        (long long)(resize > 0 ? resize : size), (long long)size,
        c->data.eval_resize_auto ? ": auto" : "");
    if (resize > 2 * size)
        log_warning("data.eval_resize is %lld, more than twice data.image_size %lld: evaluation "
                    "sees only the middle of each image; auto scales to fit",
                    (long long)resize, (long long)size);
}

static void say_frozen(const Session *s)
{
    int frozen = 0, params = 0;
    if (!s->first || s->config->model.freeze[0] == '\0') return;
    for (int i = 0; i < executor_state_count(s->executor); i++) {
        params += executor_state_is_param(s->executor, i);
        frozen += executor_state_is_param(s->executor, i) && !executor_state_trains(s->executor, i);
    }
    log_info("model.freeze: %d of %d parameters are frozen; batch norm uses %s (model.bn)", frozen,
             params,
             s->config->model.bn == BN_CHOICE_FROZEN ? "frozen statistics"
                                                     : "statistics of the batch, everywhere");
}

static void say_teacher(const Session *s)
{
    const Config *c = s->config, *its = s->teacher.config;
    if (its)
        log_info("train.teacher: %s from %s: %g of the loss, at temperature %g", its->model.name,
                 s->teacher.path, c->train.distill_weight, c->train.distill_temperature);
}

static int count_kind(const Program *p, OpKind kind)
{
    const Graph *g = program_graph(p);
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++) count += graph_node(g, i)->kind == kind;
    return count;
}

/* What the backend says; else what there is, which on the CPU is of evaluation alone. */
static void say_fusions(const Session *s)
{
    char text[512] = "";
    const FusionVTable *f = &s->backend->v->fusion;
    const int taken = s->eval && !f->describe ? count_kind(s->eval, OP_CONV2D_BN) : 0;
    if (f->describe) f->describe(s->backend, text, sizeof text);
    if (text[0]) log_detail("fused (device.fuse): %s", text);
    if (taken > 0)
        log_detail("device.fuse: in evaluation %d of %d batch norms are fused with the convolution "
                   "before them",
                   taken, taken + count_kind(s->eval, OP_BATCHNORM));
}

static void say_recompute(const Session *s)
{
    int again = 0;
    if (!s->first || s->recompute == RECOMPUTE_NONE) return;
    const Graph *g = program_graph(s->first);
    for (int i = 0; i < graph_node_count(g); i++) again += graph_node(g, i)->again;
    log_detail("train.recompute: %s: backward makes %d results of forward again",
               recompute_names[s->recompute], again);
}

static void add_kind(const Program *p, OpKind kind, StrBuf *out)
{
    enum { NAMES_MAX = 16 };
    const Graph *g = program_graph(p);
    const char *names[NAMES_MAX];
    int counts[NAMES_MAX], used = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const char *name = program_implementation(p, i);
        int k = 0;
        if (graph_node(g, i)->kind != kind || !name) continue;
        while (k < used && strcmp(names[k], name) != 0) k++;
        if (k == NAMES_MAX) continue;
        if (k == used) counts[used++] = 0;
        names[k] = name;
        counts[k]++;
    }
    if (used > 0) str_printf(out, "%s%s", out->length ? "; " : "", op_name(kind));
    for (int k = 0; k < used; k++) str_printf(out, "%s %d %s", k ? "," : "", counts[k], names[k]);
}

void announce_implementations(const Program *p, StrBuf *out)
{
    static const OpKind kinds[] = { OP_CONV2D, OP_CONV2D_BN, OP_CONV2D_BWD_DATA,
                                    OP_CONV2D_BWD_WEIGHTS, OP_LINEAR };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) add_kind(p, kinds[i], out);
}

/* A GPU's plans have no names that say anything. */
static void say_kernels(const Session *s)
{
    char text[512] = "";
    StrBuf names = { 0 };
    const BackendVTable *v = s->backend->v;
    if (v->describe_kernels) v->describe_kernels(s->backend, text, sizeof text);
    if (text[0]) log_detail("run by cuDNN (device.batchnorm, depthwise, attention): %s", text);
    if (!v->device) announce_implementations(s->first ? s->first : s->eval, &names);
    if (names.length > 0 && !names.failed)
        log_detail("convolutions and products run by: %s", names.text);
    str_free(&names);
}

/* How far the programs' places follow the tokens of a micro-batch. */
static void say_places(const Session *s)
{
    StrBuf list = { 0 };
    for (int i = 0; i < s->stages; i++)
        str_printf(&list, "%s%lld", i ? ", " : "", (long long)s->places[i]);
    if (!list.failed)
        log_detail("a micro-batch of %lld sequences takes the smallest of %s places that holds it",
                   (long long)s->plan.batch, list.text);
    str_free(&list);
}

void announce_programs(const Session *s)
{
    if (s->val && !config_is_text(s->config)) say_evaluation(s);
    if (config_is_text(s->config)) say_places(s);
    say_frozen(s);
    say_teacher(s);
    say_fusions(s);
    say_recompute(s);
    say_kernels(s);
}
