/* test_muon.c - Muon against timm's in float64, its iteration too, with a learning rate that
 * changes from step to step (scripts/golden/make_muon_golden.py): on tensors from the formula, and
 * training a network through the trainer's optimizer. */
#include "base/mem.h"
#include "kernels/cpu/layout.h"
#include "kernels/ops/muon.h"
#include "kernels/ops/update.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/steps.h"
#include "trainer/engine/rules/muon.h"
#include "trainer/engine/rules/optimizer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME "muon"

enum { TENSORS = 14, STEPS = 4, NETWORK_STEPS = 12 };

static const int64_t shapes[TENSORS][TENSOR_MAX_RANK] = { /* as in the script */
                                                          { 16, 8, 3, 3 }, { 64, 16, 1, 1 },
                                                          { 8, 16, 1, 1 }, { 16, 1, 3, 3 },
                                                          { 16, 4, 3, 3 }, { 10, 64 },
                                                          { 300, 32 },     { 1, 9, 8 },
                                                          { 3, 40 },       { 4, 512 },
                                                          { 4, 513 },      { 700, 30, 3, 3 },
                                                          { 16 },          { 10 }
};

static TensorDesc shape_of(int k)
{
    int rank = 0;
    while (rank < TENSOR_MAX_RANK && shapes[k][rank] > 0) rank++;
    return tensor_desc(DTYPE_F32, rank, shapes[k]);
}

typedef struct Rule { /* as in the script's CASES */
    const char *name;
    double lr, decay, momentum, beta1, beta2, eps;
    bool nesterov;
} Rule;

static const Rule rules[] = { { "muon", .02, .1, .9, .9, .95, 1e-7, false },
                              { "muon_nesterov", .02, .1, .95, .9, .95, 1e-7, true },
                              { "muon_plain", .02, 0, 0, .8, .9, 1e-3, false } };
enum { RULES = sizeof rules / sizeof *rules };

/* One tensor and its two operations, on memory of its own. */
typedef struct One {
    TensorDesc desc;
    bool taken;
    int64_t count;
    float *memory[4]; /* parameter, gradient, states */
    float scalars[SCALAR_COUNT];
    UpdateSegment segment;
    UpdateAttr update_attr;
    MuonAttr muon_attr;
    OpInstance muon, update;
} One;

static OpTensor tensor(TensorDesc desc, void *data)
{
    return (OpTensor){ .desc = desc, .bytes = tensor_plain_bytes(&desc), .data = data };
}

static void fill(float *to, int64_t count, uint32_t stream, double scale)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)((2 * network_uniform(stream, (uint32_t)i) - 1) * scale);
}

static void prepare_muon(One *o, Backend *b)
{
    o->muon = (OpInstance){ .kind = OP_MUON, .backend = b, .attr = &o->muon_attr };
    o->muon.in[MUON_IN_GRAD] = tensor(o->desc, o->memory[1]);
    o->muon.in[MUON_IN_MOMENTUM] = tensor(o->desc, o->memory[2]);
    REQUIRE_OK(backend_prepare_op(&o->muon));
    REQUIRE((o->muon.workspace = mem_alloc_aligned(o->muon.workspace_bytes, MEM_ALIGN)) != NULL);
    REQUIRE_OK(b->v->ops[OP_MUON]->bind(&o->muon));
}

static void open_one(One *o, Backend *b, const Rule *rule, int k)
{
    *o = (One){ .desc = shape_of(k) };
    o->count = tensor_elements(&o->desc);
    o->taken = muon_takes(&o->desc);
    o->muon_attr = (MuonAttr){ rule->momentum, (float)rule->eps, rule->nesterov };
    o->segment =
        (UpdateSegment){ 0, o->count, o->desc.rank > 1 ? (float)rule->decay : 0, 1, o->taken };
    o->update_attr = (UpdateAttr){ .kind = UPDATE_MUON,
                                   .momentum = (float)rule->momentum,
                                   .eps = (float)rule->eps,
                                   .beta1 = rule->beta1,
                                   .beta2 = rule->beta2,
                                   .nesterov = rule->nesterov,
                                   .segment_count = 1,
                                   .segments = &o->segment };
    const TensorDesc flat = tensor_desc(DTYPE_F32, 1, &o->count);
    for (int i = 0; i < 4; i++) {
        REQUIRE((o->memory[i] = mem_alloc_aligned(tensor_plain_bytes(&flat), MEM_ALIGN)) != NULL);
        memset(o->memory[i], 0, tensor_plain_bytes(&flat));
        o->update.in[UPDATE_IN_PARAM + i] = tensor(flat, o->memory[i]);
    }
    fill(o->memory[0], o->count, 8000 + (uint32_t)k, 1);
    o->update.kind = OP_UPDATE;
    o->update.backend = b;
    o->update.attr = &o->update_attr;
    o->update.in[UPDATE_IN_SCALARS] =
        tensor(tensor_desc(DTYPE_F32, 1, (int64_t[]){ SCALAR_COUNT }), o->scalars);
    REQUIRE_OK(backend_prepare_op(&o->update));
    if (o->taken) prepare_muon(o, b);
}

static void step_one(One *o, const Rule *rule, int k, int step)
{
    static const double factors[STEPS] = { 1, 2, 0.5, 0.25 };
    Stream *stream = NULL;
    const BackendVTable *v = o->update.backend->v;
    fill(o->memory[1], o->count, 9000 + 100 * (uint32_t)step + (uint32_t)k,
         k == 5 && step == 0 ? 0 : 0.25);
    o->scalars[SCALAR_LR] = (float)(rule->lr * factors[step]);
    o->scalars[SCALAR_BIAS_CORRECTION1] = (float)(1 - pow(rule->beta1, step + 1));
    o->scalars[SCALAR_BIAS_CORRECTION2] = (float)(1 - pow(rule->beta2, step + 1));
    REQUIRE_OK(v->stream_create(o->update.backend, LANE_COMPUTE, &stream));
    if (o->taken) CHECK_OK(v->ops[OP_MUON]->run(&o->muon, stream));
    CHECK_OK(v->ops[OP_UPDATE]->run(&o->update, stream));
    v->stream_destroy(o->update.backend, stream);
}

static void close_one(One *o)
{
    mem_free(o->muon.workspace);
    if (o->taken) backend_release_op(&o->muon);
    backend_release_op(&o->update);
    for (int i = 0; i < 4; i++) mem_free(o->memory[i]);
}

/* How far float32 may bring a value of a tensor that Muon takes. The iteration multiplies what
 * rounding (2^-24) leaves in the direction of a small singular value by a of each step, 493 in
 * all; its products add up to side terms, whose roundings partly cancel (a root). A step moves a
 * value by lr times the direction's scale. */
static double bound_of(const One *o, const Rule *rule)
{
    const double rows = (double)o->desc.dims[0], columns = (double)o->count / rows,
                 scale = 0.2 * sqrt(fmax(rows, columns)), all_steps = 3.75 * rule->lr;
    return o->taken ? all_steps * scale * 493 * 0x1p-24 * sqrt(fmin(rows, columns)) : 0;
}

static void check_value(const Rule *rule, int k, const char *what, double got, double want,
                        double most)
{
    char text[128];
    snprintf(text, sizeof text, "%s: %s of tensor %d is %.9g, not %.9g (%.2g)", rule->name, what, k,
             got, want, fabs(got - want) / most);
    (void)test_check(fabs(got - want) <= most, __FILE__, __LINE__, text);
}

static void check_one(Backend *b, const Rule *rule, int k, const double want[4])
{
    One o;
    double squares = 0;
    open_one(&o, b, rule, k);
    for (int step = 0; step < STEPS; step++) step_one(&o, rule, k, step);
    const float *p = o.memory[0];
    const double most = bound_of(&o, rule) + 2e-6;
    for (int64_t i = 0; i < o.count; i++) squares += (double)p[i] * (double)p[i];
    check_value(rule, k, "first value", (double)p[0], want[0], most);
    check_value(rule, k, "middle value", (double)p[o.count / 2], want[1], most);
    check_value(rule, k, "last value", (double)p[o.count - 1], want[2], most);
    check_value(rule, k, "norm", sqrt(squares), want[3], most * sqrt((double)o.count));
    close_one(&o);
}

TEST(muon_agrees_with_timm_on_tensors_of_all_kinds)
{
    double want[GOLDEN_VALUES];
    char line[64];
    Backend *b = NULL;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 2 }));
    for (int r = 0; r < RULES; r++) {
        snprintf(line, sizeof line, "tensors.%s", rules[r].name);
        REQUIRE(golden_read(FILE_NAME, line, want) == 4 * TENSORS);
        for (int k = 0; k < TENSORS; k++) check_one(b, &rules[r], k, want + 4 * (ptrdiff_t)k);
    }
    backend_destroy(b);
}

TEST(muon_takes_what_timm_takes)
{
    double want[GOLDEN_VALUES];
    REQUIRE(golden_read(FILE_NAME, "taken", want) == TENSORS);
    for (int k = 0; k < TENSORS; k++) {
        const TensorDesc d = shape_of(k);
        CHECK(muon_takes(&d) == (want[k] != 0));
    }
}

/* After two steps: parameter and momentum. */
static void two_steps(int threads, int k, float **out)
{
    Backend *b = NULL;
    One o;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = threads }));
    open_one(&o, b, &rules[1], k);
    for (int step = 0; step < 2; step++) step_one(&o, &rules[1], k, step);
    for (int i = 0; i < 2; i++) {
        out[i] = o.memory[2 * i];
        o.memory[2 * i] = NULL;
    }
    close_one(&o);
    backend_destroy(b);
}

TEST(muon_does_not_depend_on_threads)
{
    for (int k = 0; k < TENSORS; k++) {
        const TensorDesc d = shape_of(k);
        float *alone[2], *team[2];
        two_steps(1, k, alone);
        two_steps(3, k, team);
        for (int i = 0; i < 2; i++) {
            CHECK(memcmp(alone[i], team[i], tensor_plain_bytes(&d)) == 0);
            mem_free(alone[i]);
            mem_free(team[i]);
        }
    }
}

/* ---- layouts and steps that are none ---- */

/* Weights as oneDNN's convolutions want them, with zeros beside: the same bits as of plain ones,
 * and the zeros stay. */
TEST(muon_is_the_same_for_weights_in_blocks)
{
    enum { K = 20, C = 12, COUNT = K * C * 9 };
    static const int64_t dims[] = { K, C, 3, 3 };
    CpuBackend *cpu;
    Backend *b = NULL;
    Stream *stream = NULL;
    float plain[2][COUNT], back[COUNT];
    const Layout *blocks;
    const MuonAttr attr = { 0.9, 1e-7F, true };
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 2 }));
    cpu = (CpuBackend *)b;
    REQUIRE_OK(b->v->stream_create(b, LANE_COMPUTE, &stream));
    REQUIRE_OK(cpu_layout_make(cpu, &blocks, DTYPE_F32, 4, dims, dnnl_OIhw8i8o));
    REQUIRE(blocks->bytes == (size_t)(24 * 16 * 9) * sizeof(float));
    for (int form = 0; form < 2; form++) {
        OpInstance op = { .kind = OP_MUON, .backend = b, .attr = &attr };
        float *memory[2];
        for (int i = 0; i < 2; i++) {
            OpTensor *t = &op.in[MUON_IN_GRAD + i];
            *t = tensor(tensor_desc(DTYPE_F32, 4, dims), NULL);
            if (form) t->layout = blocks;
            if (form) t->bytes = blocks->bytes;
            REQUIRE((memory[i] = mem_alloc_aligned(t->bytes, MEM_ALIGN)) != NULL);
            t->data = memory[i];
            fill(back, COUNT, 7000 + (uint32_t)i, 1);
            REQUIRE_OK(b->v->import_tensor(b, t, back));
        }
        REQUIRE_OK(backend_prepare_op(&op));
        REQUIRE((op.workspace = mem_alloc_aligned(op.workspace_bytes, MEM_ALIGN)) != NULL);
        REQUIRE_OK(b->v->ops[OP_MUON]->bind(&op));
        CHECK_OK(b->v->ops[OP_MUON]->run(&op, stream));
        for (int i = 0; i < 2; i++) {
            double sums[2] = { 0 };
            const OpTensor *t = &op.in[MUON_IN_GRAD + i];
            REQUIRE_OK(b->v->export_tensor(b, t, form ? back : plain[i]));
            for (size_t j = 0; j < t->bytes / sizeof(float); j++)
                sums[0] += fabs((double)memory[i][j]);
            for (int j = 0; j < COUNT; j++) sums[1] += fabs((double)plain[i][j]);
            CHECK_NEAR(sums[0], sums[1], 1e-6 * sums[1]);
            if (form) CHECK(memcmp(back, plain[i], sizeof back) == 0);
            mem_free(memory[i]);
        }
        mem_free(op.workspace);
        backend_release_op(&op);
    }
    b->v->stream_destroy(b, stream);
    backend_destroy(b);
}

/* ---- training a network ---- */

typedef struct Training {
    Network network;
    Config *config;
    Optimizer *optimizer;
    Bucket *buckets;
    int bucket_count;
} Training;

static void open_training(Training *t, const char *nesterov, size_t bucket_bytes)
{
    const char *const sets[] = { "optimizer.name=muon", "optimizer.weight_decay=0.05", nesterov };
    ModelOptions o = golden_options("convnext_tiny_narrow", true, 0.125);
    *t = (Training){ .config = NULL };
    REQUIRE_OK(network_open(&t->network, NETWORK_CPU, "convnext_tiny", &o));
    REQUIRE_OK(network_fill(&t->network));
    REQUIRE_OK(config_load(&t->config, NULL, sets, 3));
    const Program *p = t->network.program;
    REQUIRE_OK(plan_buckets(program_plan(p), program_graph(p), bucket_bytes, bucket_bytes,
                            &t->buckets, &t->bucket_count));
    REQUIRE_OK(optimizer_create(&t->optimizer, t->network.executor, t->network.backend, t->config,
                                t->buckets, t->bucket_count));
}

static double step_training(Training *t, int step)
{
    Executor *x = t->network.executor;
    float scalars[SCALAR_COUNT] = { 0 };
    const double batch = (double)t->network.options.graph.batch,
                 factor = (1 - step / 60.0) * (step % 2 ? 1.5 : 1);
    optimizer_scalars(t->optimizer, 0.002 * factor, step + 1, scalars);
    scalars[SCALAR_GRAD_SCALE] = (float)(1 / batch);
    CHECK_OK(executor_set_record(x, "scalars", scalars));
    CHECK_OK(executor_run(x, t->network.program, NULL));
    for (int k = 0; k < t->bucket_count; k++) CHECK_OK(steps_run(x, TIMELINE_STEP, STEP_UPDATE, k));
    return program_stats(t->network.program)[STATS_LOSS_SUM] / batch;
}

static void close_training(Training *t)
{
    optimizer_destroy(t->optimizer);
    mem_free(t->buckets);
    config_destroy(t->config);
    network_close(&t->network);
}

/* PyTorch's own float32 is off by less than 1e-6. */
static void check_network(const char *name, const char *nesterov)
{
    double want[GOLDEN_VALUES];
    char line[64];
    Training t;
    open_training(&t, nesterov, SIZE_MAX);
    snprintf(line, sizeof line, "network.%s", name);
    REQUIRE(golden_read(FILE_NAME, line, want) == NETWORK_STEPS);
    for (int step = 0; step < NETWORK_STEPS; step++)
        CHECK_NEAR(step_training(&t, step), want[step], 1e-5 * want[step]);
    close_training(&t);
}

TEST(muon_trains_like_timm)
{
    check_network("muon", "optimizer.nesterov=false");
    check_network("muon_nesterov", "optimizer.nesterov=true");
}

/* However gradients are cut; and the plan's workspace is what the run takes. */
TEST(muon_does_not_depend_on_buckets)
{
    Training whole, cut;
    Muon muon = { .count = 0 };
    size_t most = 0;
    open_training(&whole, "optimizer.nesterov=true", SIZE_MAX);
    open_training(&cut, "optimizer.nesterov=true", 20000);
    CHECK(whole.bucket_count == 1 && cut.bucket_count > 5);
    for (int step = 0; step < 2; step++) {
        step_training(&whole, step);
        step_training(&cut, step);
    }
    Executor *x = whole.network.executor;
    CHECK(memcmp(executor_slab(x, SLAB_PARAM), executor_slab(cut.network.executor, SLAB_PARAM),
                 executor_slab_bytes(x, SLAB_PARAM)) == 0);
    const size_t planned = muon_workspace_bytes(x, whole.network.backend, whole.config);
    CHECK_OK(muon_init(&muon, x, whole.network.backend, whole.config, executor_slab(x, SLAB_GRAD),
                       NULL, NULL));
    for (int i = 0; i < muon.count; i++)
        if (muon.ops[i].workspace_bytes > most) most = muon.ops[i].workspace_bytes;
    CHECK(planned > 0 && planned == most);
    muon_deinit(&muon);
    close_training(&cut);
    close_training(&whole);
}
