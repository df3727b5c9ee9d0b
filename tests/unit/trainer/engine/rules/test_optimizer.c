/* test_optimizer.c - a few training steps against PyTorch's: forward, backward and the optimizer
 * together. The golden files hold float64 losses of SGD, Adam and AdamW from the formula's weights,
 * the running statistics of the first batch norm after one step, and losses and gradient norms of
 * SGD with clip_grad_norm_. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include "tests/tools/steps.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/rules/optimizer.h"
#include <math.h>
#include <string.h>

#define STEPS 5

typedef struct Setting {
    const char *line; /* of the golden file */
    double lr;
    const char *sets[5];
    int set_count;
    const char *norms; /* line of the golden file; NULL: none are measured */
} Setting;

static const Setting sgd = { "sgd.losses",
                             0.003,
                             { "optimizer.name=sgd", "optimizer.momentum=0.9",
                               "optimizer.nesterov=true", "optimizer.weight_decay=0.5" },
                             4,
                             NULL };
static const Setting adam = {
    "adam.losses", 1e-4, { "optimizer.name=adam", "optimizer.weight_decay=0" }, 2, NULL
};
static const Setting adamw = {
    "adamw.losses", 1e-4, { "optimizer.name=adamw", "optimizer.weight_decay=10" }, 2, NULL
};
static const Setting clipped = { "clip.losses",
                                 0.02,
                                 { "optimizer.name=sgd", "optimizer.momentum=0.5",
                                   "optimizer.weight_decay=0", "optimizer.clip_norm=0.5" },
                                 4,
                                 "clip.norms" };

static Status measure(Network *n, Optimizer *o, double *norm)
{
    TRY(steps_run(n->executor, TIMELINE_STEP, STEP_MEASURE, 0));
    TRY(steps_run(n->executor, TIMELINE_STEP, STEP_PREPARE, 0));
    TRY(steps_run(n->executor, TIMELINE_STEP, STEP_RESULT, 0));
    *norm = optimizer_take_result(o, 0).grad_norm;
    return OK;
}

static Status run_step(Network *n, Optimizer *o, const Setting *setting, int step, double *loss,
                       double *norm)
{
    float scalars[SCALAR_COUNT] = { 0 };
    double sum = 0, batch = (double)n->options.graph.batch;
    optimizer_scalars(o, setting->lr, step + 1, scalars);
    scalars[SCALAR_GRAD_SCALE] = (float)(1 / batch);
    TRY(executor_set_record(n->executor, "scalars", scalars));
    TRY(executor_run(n->executor, n->program, NULL));
    sum = program_stats(n->program)[STATS_LOSS_SUM];
    *loss = sum / batch;
    if (setting->norms) TRY(measure(n, o, norm));
    return steps_run(n->executor, TIMELINE_STEP, STEP_UPDATE, 0);
}

static void check_running(const Network *n, const char *file)
{
    double want[GOLDEN_VALUES], *mean = NULL, *var = NULL;
    int64_t channels = 0, count = 0;
    const Graph *g = program_graph(n->program);
    REQUIRE_OK(network_read(n, graph_find(g, "bn1.running_mean"), &mean, &channels));
    REQUIRE_OK(network_read(n, graph_find(g, "bn1.running_var"), &var, &count));
    REQUIRE(golden_read(file, "running.bn1", want) == 2 * channels);
    for (int64_t i = 0; i < channels; i++) {
        CHECK_NEAR(mean[i], want[i], 1e-6);
        CHECK_NEAR(var[i], want[channels + i], 1e-5 * want[channels + i]);
    }
    mem_free(mean);
    mem_free(var);
}

/* Training amplifies rounding from step to step, hence the growing bound; the learning rates are so
 * small that a ReLU which rounding turns does not part the trajectories. */
static void check_losses(const char *file, const char *model, double width, const Setting *setting)
{
    double want[GOLDEN_VALUES], norms[GOLDEN_VALUES], loss = 0, norm = 0;
    Network n;
    Config *config = NULL;
    Optimizer *optimizer = NULL;
    ModelOptions o = golden_options(file, true, width);
    REQUIRE_OK(network_open(&n, NETWORK_CPU, model, &o));
    REQUIRE_OK(golden_fill(&n, file, 1));
    REQUIRE_OK(config_load(&config, NULL, setting->sets, setting->set_count));
    Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    REQUIRE_OK(optimizer_create(&optimizer, n.executor, n.backend, config, &whole, 1));
    REQUIRE(golden_read(file, setting->line, want) == STEPS);
    REQUIRE(!setting->norms || golden_read(file, setting->norms, norms) == STEPS);
    for (int step = 0; step < STEPS; step++) {
        REQUIRE_OK(run_step(&n, optimizer, setting, step, &loss, &norm));
        CHECK_NEAR(loss, want[step], 2e-6 * pow(5, step) * (1 + want[step]));
        if (setting->norms) CHECK_NEAR(norm, norms[step], 1e-5 * pow(5, step) * norms[step]);
        if (setting->norms) CHECK(norms[step] > 2 * config->optimizer.clip_norm);
        if (step == 0) check_running(&n, file);
    }
    CHECK(want[STEPS - 1] < 0.9 * want[0]);
    optimizer_destroy(optimizer);
    config_destroy(config);
    network_close(&n);
}

/* A step whose gradients are finite or not. */
static OptimizerResult scaled_step(Network *n, Optimizer *o, float gradient)
{
    ((float *)executor_slab(n->executor, SLAB_GRAD))[3] = gradient;
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_MEASURE, 0));
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_UPDATE, 0));
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_END, 0));
    CHECK_OK(steps_run(n->executor, TIMELINE_STEP, STEP_RESULT, 0));
    return optimizer_take_result(o, 0);
}

/* 65536 is 2^16, the least 2^-14. */
TEST(a_loss_scale_is_exhausted_after_30_steps_that_it_could_not_help)
{
    Network n;
    Config *config = NULL;
    Optimizer *optimizer = NULL;
    ModelOptions o = network_narrow(2, 16);
    o.graph.loss_scale = true;
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "resnet20", &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(config_load(&config, NULL, NULL, 0));
    Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    memset(executor_slab(n.executor, SLAB_GRAD), 0, whole.bytes);
    REQUIRE_OK(optimizer_create(&optimizer, n.executor, n.backend, config, &whole, 1));
    for (int i = 0; i < 29; i++)
        CHECK(!scaled_step(&n, optimizer, i % 2 ? (float)INFINITY : (float)NAN).exhausted);
    OptimizerResult r = scaled_step(&n, optimizer, (float)INFINITY);
    CHECK(r.exhausted && r.skipped == 30 && r.loss_scale == 0x1p-14);
    CHECK(!scaled_step(&n, optimizer, 1).exhausted); /* a good step, whatever the scale */
    optimizer_destroy(optimizer);
    config_destroy(config);
    network_close(&n);
}

/* What one step without gradients leaves of the first value of conv1.weight and of bn1.weight. */
static void decay_once(const char *decay_skip, double left[2])
{
    static const char *const names[2] = { "conv1.weight", "bn1.weight" };
    const char *sets[] = { "optimizer.name=sgd", "optimizer.weight_decay=0.5", decay_skip };
    float scalars[SCALAR_COUNT] = { 0 };
    Network n;
    Config *config = NULL;
    Optimizer *optimizer = NULL;
    const ModelOptions o = network_narrow(2, 16);
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "resnet20", &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(config_load(&config, NULL, sets, 3));
    Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    REQUIRE_OK(optimizer_create(&optimizer, n.executor, n.backend, config, &whole, 1));
    for (int after = 0; after < 2; after++) {
        for (int i = 0; i < 2; i++) {
            double *values = NULL;
            int64_t count = 0;
            REQUIRE_OK(
                network_read(&n, graph_find(program_graph(n.program), names[i]), &values, &count));
            left[i] = after ? values[0] / left[i] : values[0];
            mem_free(values);
        }
        optimizer_scalars(optimizer, 0.1, 1, scalars);
        REQUIRE_OK(executor_set_record(n.executor, "scalars", scalars));
        REQUIRE_OK(steps_run(n.executor, TIMELINE_STEP, STEP_UPDATE, 0));
    }
    optimizer_destroy(optimizer);
    config_destroy(config);
    network_close(&n);
}

TEST(norms_decay_only_where_all_do)
{
    double left[2] = { 0 };
    decay_once("optimizer.decay_skip=timm", left);
    CHECK_NEAR(left[0], 0.95, 1e-6);
    CHECK_NEAR(left[1], 1, 1e-6);
    decay_once("optimizer.decay_skip=none", left);
    CHECK_NEAR(left[0], 0.95, 1e-6);
    CHECK_NEAR(left[1], 0.95, 1e-6);
}

TEST(sgd_trains_like_pytorch)
{
    check_losses("resnet20", "resnet20", 1, &sgd);
}
TEST(adam_trains_like_pytorch)
{
    check_losses("resnet20", "resnet20", 1, &adam);
}
TEST(adamw_trains_like_pytorch)
{
    check_losses("resnet20", "resnet20", 1, &adamw);
}
TEST(sgd_trains_a_narrow_resnet18_like_pytorch)
{
    check_losses("resnet18_narrow", "resnet18", 0.125, &sgd);
}
TEST(clipped_sgd_trains_like_pytorch)
{
    check_losses("resnet20", "resnet20", 1, &clipped);
}

/* Weight decay, momentum and a gradient of their own move nothing that a network holds fast. */
TEST(what_is_frozen_stays)
{
    const Setting setting = { .lr = 0.1, .norms = NULL };
    const char *sets[] = { "optimizer.momentum=0.9", "optimizer.weight_decay=0.5",
                           "optimizer.decay_skip=none" };
    Network n;
    Config *config = NULL;
    Optimizer *optimizer = NULL;
    ModelOptions o = network_narrow(4, 32);
    double loss = 0, *before[256], *after = NULL;
    int64_t count = 0;
    int frozen = 0, others = 0;
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "airbench94", &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(config_load(&config, NULL, sets, 3));
    const Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    REQUIRE_OK(optimizer_create(&optimizer, n.executor, n.backend, config, &whole, 1));
    const Graph *g = program_graph(n.program);
    const int tensors = graph_tensor_count(g);
    REQUIRE(tensors <= 256);
    for (TensorId id = 0; id < tensors; id++) {
        before[id] = NULL;
        if (graph_tensor(g, id)->role == ROLE_PARAM)
            REQUIRE_OK(network_read(&n, id, &before[id], &count));
    }
    for (int step = 0; step < 2; step++)
        REQUIRE_OK(run_step(&n, optimizer, &setting, step, &loss, NULL));
    for (TensorId id = 0; id < tensors; id++) {
        if (!before[id]) continue;
        REQUIRE_OK(network_read(&n, id, &after, &count));
        const bool same = memcmp(before[id], after, (size_t)count * sizeof *after) == 0;
        test_check(same == graph_tensor(g, id)->frozen, __FILE__, __LINE__,
                   graph_tensor(g, id)->name);
        frozen += same;
        others += !same;
        mem_free(before[id]);
        mem_free(after);
    }
    CHECK_INT(frozen, 8);
    CHECK_INT(others, 14);
    optimizer_destroy(optimizer);
    config_destroy(config);
    network_close(&n);
}
