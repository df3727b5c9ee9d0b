/* Evaluation of several views: the logits of an image, of its mirror image and of moved ones are
 * averaged before the loss. */
#include "kernels/backend.h"
#include "models/models.h"
#include "tests/test.h"
#include "trainer/engine/exec/executor.h"
#include <math.h>

enum { IMAGES = 5, SIZE = 8, CLASSES = 10, BYTES = IMAGES * SIZE * SIZE * 3 };

typedef struct Net {
    Executor *executor;
    Program *program;
} Net;

static Status make_net(Net *n, Backend *b, int views)
{
    ModelOptions o = { .width = 1,
                       .graph = { .batch = IMAGES,
                                  .channels = 3,
                                  .height = SIZE,
                                  .width = SIZE,
                                  .classes = CLASSES,
                                  .views = views } };
    Graph *g = NULL;
    for (int c = 0; c < 3; c++) o.graph.std[c] = 0.5F;
    TRY(model_build(&g, model_find("mlp"), &o));
    TRY(executor_create(&n->executor, b));
    TRY(executor_add(n->executor, g, false, &n->program));
    TRY(executor_commit(n->executor));
    return executor_init_states(n->executor, 7);
}

static void run(const Net *n, Backend *b, const uint8_t *images, const int32_t *labels,
                float *logits)
{
    const OpTensor *t = program_tensor(n->program, graph_logits(program_graph(n->program)));
    REQUIRE_OK(program_set_input(n->program, "images", images));
    REQUIRE_OK(program_set_input(n->program, "labels", labels));
    REQUIRE_OK(executor_run(n->executor, n->program, NULL));
    if (logits) REQUIRE_OK(b->v->export_tensor(b, t, logits));
}

static double loss_of(const float *a, const float *b, int32_t label)
{
    double sum = 0;
    for (int k = 0; k < CLASSES; k++) sum += exp(((double)a[k] + (double)b[k]) / 2);
    return log(sum) - ((double)a[label] + (double)b[label]) / 2;
}

TEST(two_views_average_their_logits)
{
    static uint8_t images[BYTES], mirrored[BYTES];
    const int32_t labels[IMAGES] = { 1, 9, 0, -1, 4 };
    float logits[IMAGES][CLASSES], other[IMAGES][CLASSES];
    Backend *b = NULL;
    Net one, two;
    double want = 0;
    for (int i = 0; i < BYTES; i++) {
        int pixel = i / 3, x = pixel % SIZE;
        images[i] = (uint8_t)((uint32_t)i * 2654435761u >> 13);
        mirrored[(pixel - x + SIZE - 1 - x) * 3 + i % 3] = images[i];
    }
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    REQUIRE_OK(make_net(&one, b, 1));
    REQUIRE_OK(make_net(&two, b, 2));
    run(&one, b, mirrored, labels, &other[0][0]);
    run(&one, b, images, labels, &logits[0][0]);
    double single = program_stats(one.program)[STATS_LOSS_SUM];
    for (int n = 0; n < IMAGES; n++)
        want += labels[n] >= 0 ? loss_of(logits[n], other[n], labels[n]) : 0;
    run(&two, b, images, labels, NULL);
    CHECK_NEAR(program_stats(two.program)[STATS_LOSS_SUM], want, 1e-5 * want);
    CHECK_INT((int64_t)program_stats(two.program)[STATS_IMAGES], 4);
    CHECK(fabs(single - want) > 1e-4 * want);
    run(&two, b, mirrored, labels, NULL);
    /* the same pair of views */
    CHECK_NEAR(program_stats(two.program)[STATS_LOSS_SUM], want, 1e-5 * want);
    executor_destroy(one.executor);
    executor_destroy(two.executor);
    backend_destroy(b);
}

/* The image moved by (d, d), what comes in reflected without the edge itself twice; mirrored after
 * that. */
static void make_view(const uint8_t *images, int d, bool mirror, uint8_t *out)
{
    for (int i = 0; i < BYTES; i++) {
        const int pixel = i / 3, n = pixel / (SIZE * SIZE);
        int y = pixel / SIZE % SIZE + d, x = mirror ? SIZE - 1 - pixel % SIZE : pixel % SIZE;
        x += d;
        y = y < 0 ? -y : y >= SIZE ? 2 * SIZE - 2 - y : y;
        x = x < 0 ? -x : x >= SIZE ? 2 * SIZE - 2 - x : x;
        out[i] = images[((n * SIZE + y) * SIZE + x) * 3 + i % 3];
    }
}

TEST(six_views_average_their_logits_by_weight)
{
    static const int moves[] = { 0, -1, 1 };
    static uint8_t images[BYTES], view[BYTES];
    static double mean[IMAGES][CLASSES];
    const int32_t labels[IMAGES] = { 1, 9, 0, -1, 4 };
    float logits[IMAGES][CLASSES];
    Backend *b = NULL;
    Net one, six;
    double want = 0;
    for (int i = 0; i < BYTES; i++) images[i] = (uint8_t)((uint32_t)i * 2654435761u >> 13);
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    REQUIRE_OK(make_net(&one, b, VIEWS_ONE));
    REQUIRE_OK(make_net(&six, b, VIEWS_SHIFTED));
    for (int v = 0; v < 6; v++) {
        make_view(images, moves[v / 2], v % 2 == 1, view);
        run(&one, b, view, labels, &logits[0][0]);
        for (int n = 0; n < IMAGES; n++)
            for (int k = 0; k < CLASSES; k++)
                mean[n][k] += (v < 2 ? 0.25 : 0.125) * (double)logits[n][k];
    }
    for (int n = 0; n < IMAGES; n++) {
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += exp(mean[n][k]);
        want += labels[n] >= 0 ? log(sum) - mean[n][labels[n]] : 0;
    }
    run(&six, b, images, labels, NULL);
    CHECK_NEAR(program_stats(six.program)[STATS_LOSS_SUM], want, 1e-6 * want);
    CHECK_INT((int64_t)program_stats(six.program)[STATS_IMAGES], 4);
    executor_destroy(one.executor);
    executor_destroy(six.executor);
    backend_destroy(b);
}
