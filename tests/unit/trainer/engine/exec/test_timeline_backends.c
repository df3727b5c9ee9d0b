/* test_timeline_backends.c - timelines of networks that a backend has prepared: CUDA's, proved
 * without a device; the CPU's with a lane for weight gradients, which must change no result. */
#include "base/fs.h"
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include "models/models.h"
#include "tests/test.h"
#include "tests/tools/steps.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/train/reducer.h"
#include <string.h>

typedef struct NetSpec {
    const char *name;
    int64_t batch, size, channels, classes;
} NetSpec;

static const NetSpec resnet50 = { "resnet50", 4, 64, 3, 1000 };
static const NetSpec resnet20 = { "resnet20", 8, 32, 3, 10 };
static const NetSpec mlp = { "mlp", 16, 28, 1, 10 };

static Status add_network(Executor *x, const NetSpec *spec, Program **out)
{
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true };
    ModelOptions o = { .width = 1,
                       .graph = { .batch = spec->batch,
                                  .channels = spec->channels,
                                  .height = spec->size,
                                  .width = spec->size,
                                  .classes = spec->classes,
                                  .training = true } };
    for (int c = 0; c < OP_MAX_IMAGE_CHANNELS; c++) o.graph.std[c] = 1;
    Graph *g = NULL;
    TRY(model_build(&g, model_find(spec->name), &o));
    TRY(graph_fuse(g, &fuse));
    return executor_add(x, g, false, out);
}

/* The CUDA backend prepares without a device: its own layouts, scratch and lanes. */
static void check_described(const char *properties, const NetSpec *spec, Precision precision)
{
    const CudaOptions options = { .precision = precision, .properties = properties };
    Backend *b = NULL;
    Executor *x = NULL;
    Program *p = NULL;
    size_t cap, first;
    Bucket *buckets = NULL;
    int bucket_count = 0;
    if (backend_cuda_create(&b, &options) == ERR_ENV) { /* no cuDNN, say */
        test_skip(status_message());
        return;
    }
    REQUIRE(b != NULL);
    REQUIRE_OK(executor_create(&x, b));
    REQUIRE_OK(add_network(x, spec, &p));
    const Plan *plan = program_plan(p);
    CHECK(plan->workspace_bytes[PLAN_SIDE] > 0 || spec->channels == 1);
    CHECK_OK(timeline_check(program_timeline(p, false), program_graph(p), plan));
    reducer_caps(plan->slab_bytes[SLAB_GRAD], 200, 0, &cap, &first);
    REQUIRE_OK(plan_buckets(plan, program_graph(p), cap, first, &buckets, &bucket_count));
    for (int reduce = TIMELINE_REDUCE_NONE; reduce <= TIMELINE_REDUCE_DEVICE; reduce++) {
        const TimelineOptions o = { .events = true,
                                    .step = TIMELINE_STEP,
                                    .reduce = (TimelineReduce)reduce,
                                    .statistics = reduce != TIMELINE_REDUCE_NONE,
                                    .buckets = buckets,
                                    .bucket_count = bucket_count };
        const StepsSpec steps = { .norm = reduce == TIMELINE_REDUCE_DEVICE,
                                  .averages = true,
                                  .statistics = o.statistics };
        Timeline *t = steps_timeline(program_graph(p), plan, &o, &steps);
        CHECK_OK(timeline_check(t, program_graph(p), plan));
        int side = 0;
        for (int i = 0; i < t->count; i++)
            side += t->items[i].kind == TIMELINE_NODE && t->items[i].lane == LANE_WEIGHTS;
        CHECK(side > 0);
        timeline_destroy(t);
    }
    mem_free(buckets);
    executor_destroy(x);
    backend_destroy(b);
}

TEST(timelines_of_the_cuda_backend_are_proved)
{
    uint8_t *properties = NULL;
    size_t bytes = 0;
    if (!backend_cuda_table()) {
        test_skip("built without CUDA");
        return;
    }
    REQUIRE_OK(fs_read_file("configs/gpus/h200.json", &properties, &bytes));
    check_described((const char *)properties, &resnet50, PRECISION_BF16);
    check_described((const char *)properties, &resnet20, PRECISION_FP16);
    check_described((const char *)properties, &mlp, PRECISION_FP32);
    mem_free(properties);
}

/* Gradients of one run on the CPU; *out: mem_free. */
static void take_gradients(const NetSpec *spec, int side_depth, float **out, size_t *bytes)
{
    Backend *b = NULL;
    Executor *x = NULL;
    Program *p = NULL;
    float scalars[SCALAR_COUNT] = { [SCALAR_GRAD_SCALE] = 0.25F };
    const size_t pixels = (size_t)(spec->batch * spec->size * spec->size * spec->channels);
    BatchLayout layout = { .count = 0 };
    batch_layout_add(&layout, "images", 1, pixels);
    batch_layout_add(&layout, "labels", (size_t)spec->batch, sizeof(int32_t));
    uint8_t *block = mem_calloc(1, layout.bytes);
    for (size_t i = 0; i < pixels; i++) block[i] = (uint8_t)(i * 2654435761u >> 13);
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    REQUIRE_OK(executor_create(&x, b));
    executor_configure(x, &(ExecutorOptions){ .side_depth = side_depth });
    REQUIRE_OK(add_network(x, spec, &p));
    REQUIRE_OK(timeline_check(program_timeline(p, false), program_graph(p), program_plan(p)));
    REQUIRE_OK(executor_commit(x));
    REQUIRE_OK(executor_init_states(x, 3));
    REQUIRE_OK(executor_set_record(x, "scalars", scalars));
    RunOptions o = { .layout = &layout, .block = block };
    REQUIRE_OK(executor_run(x, p, &o));
    *bytes = executor_slab_bytes(x, SLAB_GRAD);
    *out = mem_alloc(*bytes);
    memcpy(*out, executor_slab(x, SLAB_GRAD), *bytes);
    executor_destroy(x);
    backend_destroy(b);
    mem_free(block);
}

TEST(a_side_lane_changes_no_result)
{
    size_t plain_bytes = 0, side_bytes = 0;
    float *plain = NULL, *side = NULL;
    take_gradients(&resnet20, 0, &plain, &plain_bytes);
    take_gradients(&resnet20, 2, &side, &side_bytes);
    REQUIRE(plain && side);
    CHECK(plain_bytes == side_bytes && memcmp(plain, side, plain_bytes) == 0);
    mem_free(plain);
    mem_free(side);
}
