/* test_averaging.c - averaged copies of weights against timm, torch and airbench94's formula
 * (tests/golden/averages.txt, made in float64 by scripts/golden/make_averages_golden.py): how
 * much of a step's weights goes in, and what comes of it in f32 over many steps; and the copies
 * of a whole network: where they start, that a skipped step moves nothing, that swapping is
 * exact. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include "tests/tools/steps.h"
#include "trainer/engine/rules/averages.h"
#include "trainer/engine/train/train_state.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 5, ROW = SIZE + 1 };

typedef struct Rule { /* of a line of the golden file */
    const char *name;
    AverageKind kind;
    TrainPlan plan;
    const char *sets[5];
    int set_count;
} Rule;

/* ---- the formulas of make_averages_golden.py ---- */

static double weight_at(int i, int64_t step)
{
    const double t = (double)step;
    return (i + 1) * cos(0.7 * i + 0.01 * t) / (1 + 0.05 * t) + 0.001 * t * (i - 2);
}

static double gradient_at(int i, int64_t step)
{
    return 0.3 * sin(1.3 * i + 0.9 * (double)step) + 0.05 * (i - 1);
}

static double rate_at(int64_t step)
{
    return 0.2 / (1 + 0.5 * (double)(step - 1));
}

/* ---- one rule over many steps ---- */

typedef struct Rig {
    Backend *backend;
    Config *config;
    LerpAttr attr;
    OpInstance op;
    float average[8], x[8], scalars[SCALAR_COUNT], momentum[SIZE];
} Rig;

static void open_rig(Rig *r, const Rule *rule)
{
    const void *data[] = { r->average, r->x, r->scalars };
    *r = (Rig){ .attr = { rule->kind == AVERAGE_EMA ? LERP_FOLLOW : LERP_MEET, SCALAR_EMA } };
    REQUIRE_OK(backend_cpu_create(&r->backend, &(CpuOptions){ .threads = 1 }));
    REQUIRE_OK(config_load(&r->config, NULL, rule->sets, rule->set_count));
    r->op = (OpInstance){ .kind = OP_LERP, .backend = r->backend, .attr = &r->attr };
    for (int i = LERP_IN_AVERAGE; i <= LERP_IN_SCALARS; i++) {
        const int64_t n = i == LERP_IN_SCALARS ? SCALAR_COUNT : SIZE;
        r->op.in[i] = (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, &n),
                                  .bytes = (size_t)n * sizeof(float),
                                  .data = (void *)(uintptr_t)data[i] };
    }
    REQUIRE_OK(backend_prepare_op(&r->op));
    for (int i = 0; i < SIZE; i++) r->average[i] = r->x[i] = (float)weight_at(i, 0);
}

static void close_rig(Rig *r)
{
    backend_release_op(&r->op);
    config_destroy(r->config);
    backend_destroy(r->backend);
}

/* The step's weights: given, or by SGD from where Lookahead left them. */
static void train_step(Rig *r, const Rule *rule, int64_t step)
{
    for (int i = 0; i < SIZE; i++) {
        r->momentum[i] = 0.9F * r->momentum[i] + (float)gradient_at(i, step);
        if (rule->kind == AVERAGE_EMA) r->x[i] = (float)weight_at(i, step);
        else r->x[i] -= (float)rate_at(step) * r->momentum[i];
    }
}

static void check_rule(const Rule *rule)
{
    static double want[GOLDEN_VALUES], weights[GOLDEN_VALUES];
    char text[64];
    Rig r;
    snprintf(text, sizeof text, "%s.weights", rule->name);
    const int rows = golden_read("averages", rule->name, want) / ROW,
              shown = golden_read("averages", text, weights) / 2;
    REQUIRE(rows >= 6 && (shown == rows || rule->kind == AVERAGE_LOOKAHEAD));
    open_rig(&r, rule);
    int row = 0;
    for (int64_t step = 1; row < rows; step++) {
        const double w = averaging_weight(r.config, &rule->plan, rule->kind, step - 1, step);
        r.scalars[SCALAR_EMA] = (float)w;
        train_step(&r, rule, step);
        CHECK_OK(r.backend->v->ops[OP_LERP]->run(&r.op, NULL));
        if (step < (int64_t)want[row * ROW]) continue;
        if (shown) CHECK_NEAR(w, weights[2 * row + 1], 1e-14);
        for (int i = 0; i < SIZE; i++) {
            const double v = want[row * ROW + 1 + i],
                         got = (double)(rule->kind == AVERAGE_EMA ? r.average[i] : r.x[i]);
            CHECK_NEAR(got, v, 2e-6 * fmax(fabs(v), 0.1));
        }
        row++;
    }
    close_rig(&r);
}

static const TrainPlan long_plan = { .images = 4000, .global_batch = 8, .total_steps = 100000 };
#define TIMM(decay, warmup)                                                                        \
    .kind = AVERAGE_EMA, .plan = { .images = 4000, .global_batch = 8, .total_steps = 100000 },     \
    .sets = { "ema.decay=" #decay, "ema.warmup=" #warmup }, .set_count = 2

TEST(the_average_of_timm)
{
    check_rule(&(Rule){ .name = "timm", TIMM(0.99, false) });
    check_rule(&(Rule){ .name = "timm_warmup", TIMM(0.9998, true) });
    check_rule(&(Rule){ .name = "timm_low", TIMM(0.6, true) });
}

TEST(the_average_of_torchvision)
{
    check_rule(&(Rule){ .name = "torchvision",
                        .kind = AVERAGE_EMA,
                        .plan = { .images = 42, .global_batch = 6, .total_steps = 42 },
                        .sets = { "ema.decay=0.97", "ema.rule=torchvision", "ema.every=3",
                                  "train.epochs=6", "schedule.warmup_epochs=2" },
                        .set_count = 5 });
    check_rule(&(Rule){ .name = "torchvision_every",
                        .kind = AVERAGE_EMA,
                        .plan = { .images = 40, .global_batch = 8, .total_steps = 50 },
                        .sets = { "ema.decay=0.99", "ema.rule=torchvision", "train.epochs=10",
                                  "schedule.warmup_epochs=0" },
                        .set_count = 4 });
    check_rule(&(Rule){ .name = "torchvision_all", /* the adjustment makes more than 1 of it */
                        .kind = AVERAGE_EMA,
                        .plan = { .images = 40, .global_batch = 8, .total_steps = 10 },
                        .sets = { "ema.decay=0.9", "ema.rule=torchvision", "ema.every=4",
                                  "train.epochs=2", "schedule.warmup_epochs=0" },
                        .set_count = 5 });
}

TEST(lookahead)
{
    check_rule(&(Rule){ .name = "lookahead_timm",
                        .plan = long_plan,
                        .sets = { "optimizer.lookahead=timm", "optimizer.lookahead_steps=2" },
                        .set_count = 2 });
    check_rule(&(Rule){ .name = "lookahead_timm_3",
                        .plan = long_plan,
                        .sets = { "optimizer.lookahead=timm", "optimizer.lookahead_steps=3",
                                  "optimizer.lookahead_alpha=0.8" },
                        .set_count = 3 });
    check_rule(&(Rule){ .name = "lookahead_airbench",
                        .plan = { .images = 264, .global_batch = 8, .total_steps = 33 },
                        .sets = { "optimizer.lookahead=airbench", "optimizer.lookahead_steps=5" },
                        .set_count = 2 });
    check_rule(&(Rule){ .name = "lookahead_airbench_even",
                        .plan = { .images = 240, .global_batch = 8, .total_steps = 30 },
                        .sets = { "optimizer.lookahead=airbench", "optimizer.lookahead_steps=5" },
                        .set_count = 2 });
}

static double ema_of(const char *const *sets, int count, const TrainPlan *plan, int64_t step)
{
    Config *c = NULL;
    double w = -2;
    CHECK_OK(config_load(&c, NULL, sets, count));
    if (c) w = averaging_weight(c, plan, AVERAGE_EMA, step - 1, step);
    config_destroy(c);
    return w;
}

/* recipes: the published figures of each rule. */
TEST(decays_of_published_recipes)
{
    const char *timm[] = { "ema.decay=0.9998", "ema.warmup=true" };
    const char *vision[] = { "ema.decay=0.99998", "ema.rule=torchvision", "ema.every=32",
                             "train.epochs=600", "schedule.warmup_epochs=5" };
    const char *composer[] = { "ema.half_life=100", "ema.every=20" };
    const TrainPlan imagenet = { .images = 1281167, .global_batch = 1024 };
    CHECK_NEAR(ema_of(timm, 2, &long_plan, 353552), 1 - 0.9997999994755727, 2e-10);
    CHECK_NEAR(ema_of(timm, 2, &long_plan, 353554), 1 - 0.9998, 1e-15);
    CHECK_NEAR(ema_of(vision, 5, &imagenet, 7508), 0.00109226666667, 1e-12);
    CHECK_NEAR(ema_of(composer, 2, &long_plan, 40), 1 - 0.87055056329612, 1e-13);
    CHECK_NEAR(ema_of(composer, 2, &long_plan, 41), -1, 0);
    CHECK_NEAR(ema_of(NULL, 0, &long_plan, 1), -1, 0);
}

/* Where the warm-up is told in steps, it is as long in epochs as they take. */
TEST(torchvisions_average_copies_while_the_rate_warms_up)
{
    const char *sets[] = { "ema.decay=0.9", "ema.rule=torchvision", "schedule.warmup_epochs=0",
                           "schedule.warmup_steps=8", "train.epochs=80" };
    const TrainPlan plan = { .images = 40, .global_batch = 8, .total_steps = 400 };
    for (int64_t step = 1; step <= 11; step++) CHECK_NEAR(ema_of(sets, 5, &plan, step), 1, 0);
    CHECK_NEAR(ema_of(sets, 5, &plan, 12), 0.01, 1e-15);
}

/* ---- runs too short for their average ---- */

/* want "": nothing is said. */
static void check_warning(const char *const *sets, int count, int64_t steps, int64_t from,
                          const char *want)
{
    const TrainPlan plan = { .images = 48, .global_batch = 8, .total_steps = steps };
    Config *c = NULL;
    StrBuf text = { 0 };
    REQUIRE_OK(config_load(&c, NULL, sets, count));
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++)
        averaging_warn_text(&text, c, &plan, (AverageKind)k, (AverageRest){ 1, from }, from);
    CHECK_STR(text.length ? text.text : "", want);
    str_free(&text);
    config_destroy(c);
}

TEST(a_run_too_short_for_its_average_hears_of_it)
{
    const char *slow[] = { "ema.decay=0.9999", "ema.best=false" },
               *rare[] = { "ema.decay=0.5", "ema.every=20" },
               *half[] = { "ema.half_life=100", "ema.every=2" },
               *vision[] = { "ema.decay=0.9999", "ema.rule=torchvision", "train.epochs=6",
                             "schedule.warmup_epochs=1" },
               *airbench[] = { "optimizer.lookahead=airbench", "optimizer.lookahead_steps=5" },
               *timm[] = { "optimizer.lookahead=timm", "optimizer.lookahead_steps=50" };
    check_warning(
        slow, 1, 36, 0,
        "ema.decay: after 36 updates, at the end of the run, 99.65 % of the averaged weights are "
        "still the initial ones, and they choose the best; ema.decay=0.8 or "
        "ema.warmup=true would be enough");
    check_warning(
        slow, 2, 20000, 10,
        "ema.decay: after 19990 updates, at the end of the run, 13.55 % of the averaged weights "
        "are still those of step 10; ema.decay=0.9997 or ema.warmup=true would be enough");
    check_warning(
        rare, 2, 59, 0,
        "ema.decay: after 59 updates, at the end of the run, 25 % of the averaged weights are "
        "still the initial ones, and they choose the best; ema.decay=0.1 "
        "would be enough");
    check_warning(
        half, 2, 60, 0,
        "ema.half_life: after 60 updates, at the end of the run, 65.98 % of the averaged weights "
        "are still the initial ones, and they choose the best; use a smaller number");
    check_warning(
        vision, 4, 36, 0,
        "ema.decay: after 36 updates, at the end of the run, 99.61 % of the averaged weights are "
        "still those of step 7, and they choose the best; use a smaller number");
    check_warning(
        airbench, 2, 6, 0,
        "optimizer.lookahead_steps: after 6 updates, at the end of the run, 44.78 % of the slow "
        "weights are still the initial ones, and they are the final weights; use a smaller number");
    check_warning(timm, 2, 36, 0,
                  "optimizer.lookahead_steps: lookahead starts with update 100, but the run has "
                  "36");
}

TEST(a_run_long_enough_for_its_average_hears_nothing)
{
    const char *slow[] = { "ema.decay=0.9999", "ema.warmup=true" },
               *airbench[] = { "optimizer.lookahead=airbench", "optimizer.lookahead_steps=5" },
               *timm[] = { "optimizer.lookahead=timm", "optimizer.lookahead_steps=50" };
    check_warning(NULL, 0, 36, 0, "");
    check_warning(slow, 1, 24000, 0, "");
    check_warning(slow, 2, 36, 0, "");  /* it follows at first */
    check_warning(slow, 1, 36, 30, ""); /* it began shortly before the end */
    check_warning(slow, 1, 1, 0, "");   /* it is a copy */
    check_warning(airbench, 2, 36, 0, "");
    check_warning(timm, 2, 100, 0, "");
}

/* The share that earlier settings left goes on from there. */
TEST(a_resumed_run_keeps_what_is_known_of_its_average)
{
    const char *slow[] = { "ema.decay=0.9999" }, *slower[] = { "ema.decay=0.99995" };
    const TrainPlan first = { .images = 48, .global_batch = 8, .total_steps = 24 },
                    longer = { .images = 48, .global_batch = 8, .total_steps = 36 };
    Config *before = NULL, *now = NULL;
    StrBuf text = { 0 };
    REQUIRE_OK(config_load(&before, NULL, slow, 1));
    REQUIRE_OK(config_load(&now, NULL, slower, 1));
    AverageRest r = { 1, 0 };
    r = averaging_rest(before, &first, AVERAGE_EMA, r, 0, 10);
    r = averaging_rest(before, &first, AVERAGE_EMA, r, 10, 24); /* in two parts */
    CHECK_INT(r.since, 1);
    CHECK_NEAR(r.share, pow(0.9999, 23), 1e-12);
    averaging_warn_text(&text, now, &longer, AVERAGE_EMA, r, 24);
    CHECK_STR(
        text.text,
        "ema.decay: after 36 updates, at the end of the run, 99.71 % of the averaged weights "
        "are still the initial ones, and they choose the best; ema.decay=0.6 would be enough");
    str_clear(&text);
    averaging_warn_text(&text, now, &longer, AVERAGE_EMA, (AverageRest){ 0.05, 1 }, 24);
    CHECK_INT(text.length, 0);
    str_free(&text);
    config_destroy(before);
    config_destroy(now);
}

/* ---- the copies of a network ---- */

typedef struct Net {
    Network n;
    Config *config;
    Averages *averages;
    float *params, *buffers; /* the slabs */
    int64_t count;           /* of params */
} Net;

static void open_net(Net *t, const char *const *sets, int count, bool loss_scale)
{
    ModelOptions o = network_narrow(2, 16);
    const TrainPlan plan = { .images = 64, .global_batch = 8, .total_steps = 100 };
    o.graph.loss_scale = loss_scale;
    *t = (Net){ .config = NULL };
    REQUIRE_OK(network_open(&t->n, NETWORK_CPU, "resnet20", &o));
    REQUIRE_OK(network_fill(&t->n));
    REQUIRE_OK(config_load(&t->config, NULL, sets, count));
    REQUIRE_OK(averages_create(&t->averages, t->n.executor, t->config, &plan));
    t->params = executor_slab(t->n.executor, SLAB_PARAM);
    t->buffers = executor_slab(t->n.executor, SLAB_BUFFER);
    t->count = (int64_t)(executor_slab_bytes(t->n.executor, SLAB_PARAM) / sizeof(float));
}

static void close_net(Net *t)
{
    averages_destroy(t->averages);
    config_destroy(t->config);
    network_close(&t->n);
}

static float *copy_of(const Net *t, AverageKind kind, Slab slab)
{
    const AverageTraits traits = averaging_traits(t->config, kind);
    const StateShape shape = slab == SLAB_PARAM ? STATE_PARAMS : STATE_BUFFERS;
    for (int k = 0; k < state_count(t->n.executor); k++) {
        const State *s = state_at(t->n.executor, k);
        if (s->def.shape == shape && strcmp(s->def.prefix, traits.prefix) == 0) return s->data;
    }
    return NULL;
}

static void start(Net *t)
{
    CHECK_OK(train_state_begin(t->n.executor));
}

static void run_average(Net *t, int64_t update)
{
    float scalars[SCALAR_COUNT] = { 0 };
    averages_scalars(t->averages, update - 1, update, scalars);
    CHECK_OK(executor_set_record(t->n.executor, "scalars", scalars));
    CHECK_OK(steps_run(t->n.executor, TIMELINE_STEP, STEP_AVERAGE, 0));
}

TEST(copies_start_at_the_weights_and_change_places_exactly)
{
    static const char *const sets[] = { "ema.decay=0.75" };
    Net t;
    open_net(&t, sets, 1, false);
    const size_t bytes = (size_t)t.count * sizeof(float),
                 statistics = executor_slab_bytes(t.n.executor, SLAB_BUFFER);
    float *before = mem_alloc(bytes);
    REQUIRE(before && t.buffers);
    CHECK(copy_of(&t, AVERAGE_LOOKAHEAD, SLAB_PARAM) == NULL);
    CHECK_INT(state_tensor_count(t.n.executor), 2 * executor_state_count(t.n.executor));
    start(&t);
    CHECK(memcmp(copy_of(&t, AVERAGE_EMA, SLAB_PARAM), t.params, bytes) == 0);
    CHECK(memcmp(copy_of(&t, AVERAGE_EMA, SLAB_BUFFER), t.buffers, statistics) == 0);
    memcpy(before, t.params, bytes);
    for (int64_t i = 0; i < t.count; i++) t.params[i] += 1;
    t.buffers[0] = 8;
    copy_of(&t, AVERAGE_EMA, SLAB_BUFFER)[0] = 4;
    run_average(&t, 2);
    CHECK_NEAR((double)copy_of(&t, AVERAGE_EMA, SLAB_PARAM)[7], (double)before[7] + 0.25, 1e-6);
    CHECK(copy_of(&t, AVERAGE_EMA, SLAB_BUFFER)[0] == 5 && t.buffers[0] == 8);
    memcpy(before, t.params, bytes);
    CHECK_OK(averages_swap(t.averages, AVERAGE_EMA));
    CHECK(memcmp(copy_of(&t, AVERAGE_EMA, SLAB_PARAM), before, bytes) == 0);
    CHECK(t.buffers[0] == 5);
    CHECK_OK(averages_swap(t.averages, AVERAGE_EMA));
    CHECK(memcmp(t.params, before, bytes) == 0);
    mem_free(before);
    close_net(&t);
}

TEST(a_step_that_a_loss_scale_skips_moves_no_copy)
{
    static const char *const sets[] = { "ema.decay=0.5", "optimizer.lookahead=timm",
                                        "optimizer.lookahead_steps=2" };
    float state[LOSS_SCALE_COUNT] = { 1024, 0, 1, 0 };
    Net t;
    open_net(&t, sets, 3, true);
    start(&t);
    CHECK(copy_of(&t, AVERAGE_LOOKAHEAD, SLAB_BUFFER) == NULL); /* timm's is of parameters */
    t.params[3] = 2;
    copy_of(&t, AVERAGE_EMA, SLAB_PARAM)[3] = copy_of(&t, AVERAGE_LOOKAHEAD, SLAB_PARAM)[3] = 1;
    CHECK_OK(executor_set_record(t.n.executor, "loss_scale", state));
    run_average(&t, 4);
    CHECK(t.params[3] == 2 && copy_of(&t, AVERAGE_EMA, SLAB_PARAM)[3] == 1 &&
          copy_of(&t, AVERAGE_LOOKAHEAD, SLAB_PARAM)[3] == 1);
    state[LOSS_SCALE_FOUND_INF] = 0;
    CHECK_OK(executor_set_record(t.n.executor, "loss_scale", state));
    run_average(&t, 4); /* Lookahead first, and the average is of what that leaves */
    CHECK(t.params[3] == 1.5F && copy_of(&t, AVERAGE_LOOKAHEAD, SLAB_PARAM)[3] == 1.5F);
    CHECK(copy_of(&t, AVERAGE_EMA, SLAB_PARAM)[3] == 1.25F);
    close_net(&t);
}
