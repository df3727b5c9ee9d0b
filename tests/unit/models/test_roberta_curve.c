/* test_roberta_curve.c - 50 updates of RoBERTa on given batches against transformers and torch's
 * AdamW in float64: warm-up, linear decay, clipping, a tied table, sequences of many lengths. Words
 * and first weights are those that scripts/golden/make_text_golden.py draws by the same formula. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/steps.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/weights.h"
#include "trainer/engine/rules/optimizer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    UPDATES = 50,
    BATCH = 8,
    TOKENS = 32,
    WORDS = 200,
    PLACES = BATCH * TOKENS,
    MASKED = 72,
    WARM_UP = 10,
    TOTAL = 60
};
enum { FIRST, PAD, LAST, MASK = WORDS - 1 };
static const double peak = 5e-3;

typedef struct Inputs {
    int32_t ids[PLACES], where[PLACES][2], starts[BATCH + 1], order[PLACES], rows[MASKED],
        labels[MASKED];
    int places, masked;
} Inputs;

static double draw(int update, int n, int s, int which)
{
    return network_uniform(1000200 + (uint32_t)update, (uint32_t)((n * TOKENS + s) * 5 + which));
}

static int any_word(int update, int n, int s)
{
    return 4 + (int)(draw(update, n, s, 1) * 60);
}

/* before: the word before it, unmasked; returns this one, unmasked. */
static int add_word(Inputs *in, int update, int n, int s, int length, int before)
{
    const bool follows = s > 1 && draw(update, n, s, 0) < 0.9;
    int word = follows ? 4 + (7 * before + 3) % 60 : any_word(update, n, s);
    if (s == 0 || s == length - 1) word = s ? LAST : FIRST;
    const int place = in->places++;
    in->ids[place] = word;
    in->where[place][0] = n;
    in->where[place][1] = s;
    if (draw(update, n, s, 2) >= 0.15 || in->masked == MASKED) return word;
    in->rows[in->masked] = place;
    in->labels[in->masked++] = word;
    const double as = draw(update, n, s, 3);
    in->ids[place] = as < 0.8 ? MASK : as < 0.9 ? word : any_word(update, n, s);
    return word;
}

static void sort_places(Inputs *in)
{
    for (int i = 0; i < PLACES; i++) {
        int at = i;
        for (; at > 0 && (uint32_t)in->ids[in->order[at - 1]] > (uint32_t)in->ids[i]; at--)
            in->order[at] = in->order[at - 1];
        in->order[at] = i;
    }
}

static void draw_update(Inputs *in, int update)
{
    memset(in, -1, sizeof *in);
    in->places = in->masked = 0;
    for (int n = 0; n < BATCH; n++) {
        const int length = 20 + (int)(draw(update, n, 0, 4) * 13);
        in->starts[n] = in->places;
        for (int s = 0, before = 0; s < length; s++)
            before = add_word(in, update, n, s, length, before);
    }
    in->starts[BATCH] = in->places;
    sort_places(in);
}

static float first_value(const Weight *w, int64_t i)
{
    const size_t length = strlen(w->other);
    const bool padded = strstr(w->other, "word_embed") || strstr(w->other, "position_embed");
    if (w->kind == WEIGHT_FOLDED || (padded && i / w->desc.dims[1] == PAD)) return 0;
    if (w->desc.rank < 2) return strcmp(w->other + length - 6, "weight") == 0;
    const double u = network_uniform(network_stream(w->other), (uint32_t)i);
    return (float)((2 * u - 1) * sqrt(3.0) * 0.02);
}

static void fill(const Network *n)
{
    WeightList list;
    SafeTensor tensors[64];
    SafeFile *file = NULL;
    int count = 0;
    char scratch[64];
    const ModelDef *def = model_find("roberta_mini");
    const Graph *g = program_graph(n->program);
    REQUIRE_OK(weights_list(&list, g, def, MODEL_NAMES_HF));
    for (int i = 0; i < list.count; i++) {
        const Weight *w = &list.items[i];
        if (w->kind == WEIGHT_COPY) continue;
        REQUIRE(count < 64);
        float *values = mem_alloc((size_t)tensor_elements(&w->desc) * sizeof *values);
        for (int64_t k = 0; k < tensor_elements(&w->desc); k++) values[k] = first_value(w, k);
        tensors[count++] = (SafeTensor){ .name = w->other, .desc = w->desc, .data = values };
    }
    snprintf(scratch, sizeof scratch, "build/test_roberta_curve.%d.safetensors", (int)getpid());
    CHECK_OK(safetensors_write(scratch, tensors, count, NULL, 0));
    REQUIRE_OK(safetensors_open(&file, scratch));
    CHECK_OK(weights_restore(n->executor, g, def, file, scratch, NULL));
    safetensors_close(file);
    remove(scratch);
    for (int i = 0; i < count; i++) mem_free((void *)(uintptr_t)tensors[i].data);
    weights_free(&list);
}

static void set_inputs(const Network *n, const Inputs *in)
{
    const struct {
        const char *name;
        const void *data;
    } all[] = { { "ids", in->ids },     { "where", in->where }, { "starts", in->starts },
                { "order", in->order }, { "rows", in->rows },   { "labels", in->labels } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK_OK(program_set_input(n->program, all[i].name, all[i].data));
}

static double update_weights(const Network *n, Optimizer *o, int update, const Inputs *in,
                             double *norm)
{
    float scalars[SCALAR_COUNT] = { 0 };
    const double left = 1 - (double)(update - WARM_UP) / (TOTAL - WARM_UP);
    optimizer_scalars(o, peak * fmin((double)update / WARM_UP, left), update + 1, scalars);
    scalars[SCALAR_GRAD_SCALE] = 1 / (float)in->masked;
    set_inputs(n, in);
    CHECK_OK(executor_set_record(n->executor, "scalars", scalars));
    CHECK_OK(executor_run(n->executor, n->program, NULL));
    const double loss = program_stats(n->program)[STATS_LOSS_SUM] / in->masked;
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_MEASURE, 0));
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_PREPARE, 0));
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_RESULT, 0));
    *norm = optimizer_take_result(o, 0).grad_norm;
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_UPDATE, 0));
    return loss;
}

TEST(fifty_updates_are_those_of_transformers)
{
    static const char file[] = "roberta_curve";
    static const char *const sets[] = { "model.name=roberta_mini",     "optimizer.name=adamw",
                                        "optimizer.betas=0.9,0.98",    "optimizer.eps=1e-6",
                                        "optimizer.weight_decay=0.01", "optimizer.decay_skip=none",
                                        "optimizer.clip_norm=1" };
    static double losses[GOLDEN_VALUES], norms[GOLDEN_VALUES], counts[GOLDEN_VALUES];
    double worst = 0, norm = 0;
    Network n;
    Inputs in;
    Config *config = NULL;
    Optimizer *optimizer = NULL;
    ModelOptions o = { .width = 0.25, .layers = 2 };
    o.graph = (GraphOptions){ .batch = BATCH,
                              .tokens = TOKENS,
                              .words = WORDS,
                              .classes = WORDS,
                              .masked = MASKED,
                              .training = true };
    REQUIRE(golden_read(file, "losses", losses) == UPDATES);
    REQUIRE(golden_read(file, "norms", norms) == UPDATES);
    REQUIRE(golden_read(file, "counts", counts) == UPDATES);
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "roberta_mini", &o));
    fill(&n);
    REQUIRE_OK(config_load(&config, NULL, sets, (int)(sizeof sets / sizeof *sets)));
    Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    REQUIRE_OK(optimizer_create(&optimizer, n.executor, n.backend, config, &whole, 1));
    for (int update = 0; update < UPDATES; update++) {
        draw_update(&in, update);
        CHECK_INT(in.masked, (int)counts[update]);
        const double loss = update_weights(&n, optimizer, update, &in, &norm);
        CHECK_NEAR(loss, losses[update], 2e-4);
        CHECK_NEAR(norm, norms[update], 1e-3 * norms[update]);
        worst = fmax(worst, fabs(loss - losses[update]));
    }
    printf("    losses of %d updates off by at most %.3g\n", UPDATES, worst);
    CHECK(losses[UPDATES - 1] < losses[0] - 0.8);
    optimizer_destroy(optimizer);
    config_destroy(config);
    network_close(&n);
}
