/* test_memory.c - what a run is said to take before it runs: every image counts, and the largest
 * batch is the largest. That runs take what was said is for tests/e2e/memory.sh. */
#include "tests/test.h"
#include "trainer/engine/session/memory.h"
#include "trainer/engine/session/session_open.h"
#include <stdio.h>

typedef struct Planned {
    Config *config;
    Comm *comm;
    Session session;
} Planned;

static void open_plan(Planned *p, const char *model, int64_t batch)
{
    char name[64], images[64];
    const char *const sets[] = { name,
                                 images,
                                 "model.classes=7",
                                 "data.format=synthetic",
                                 "data.synthetic_images=100000",
                                 "data.val=generated",
                                 "data.image_size=32",
                                 "data.threads=1",
                                 "device.backend=cpu",
                                 "device.threads=1" };
    *p = (Planned){ .config = NULL };
    snprintf(name, sizeof name, "model.name=%s", model);
    snprintf(images, sizeof images, "train.batch_per_rank=%lld", (long long)batch);
    REQUIRE_OK(config_load(&p->config, NULL, sets, sizeof sets / sizeof sets[0]));
    REQUIRE_OK(comm_self_create(&p->comm));
    REQUIRE_OK(session_open_plan(&p->session, p->config, p->comm, SESSION_TRAIN));
}

static void close_plan(Planned *p)
{
    session_close(&p->session);
    comm_destroy(p->comm);
    config_destroy(p->config);
}

static size_t bytes_of(const char *model, int64_t batch)
{
    Planned p;
    open_plan(&p, model, batch);
    const MemoryReport r = memory_report(&p.session);
    size_t sum = 0;
    for (int i = 0; i < MEMORY_ITEM_COUNT; i++) sum += r.bytes[i];
    CHECK(sum == r.total && r.device == 0);
    CHECK(r.bytes[MEMORY_ACTIVATIONS] <= r.activations_naive);
    close_plan(&p);
    return r.total;
}

static int64_t largest(Planned *p, size_t budget)
{
    int64_t batch = -1;
    CHECK_OK(memory_largest_batch(&p->session, budget, &batch));
    return batch;
}

static void check_model(const char *model)
{
    static const int64_t batches[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 31, 32, 100, 1000 };
    Planned p;
    open_plan(&p, model, 4);
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        const size_t bytes = bytes_of(model, batches[i]);
        CHECK_INT(largest(&p, bytes), batches[i]);
        CHECK_INT(largest(&p, bytes - 1), batches[i] - 1);
    }
    CHECK_INT(largest(&p, 1), 0);
    close_plan(&p);
}

/* What keys of averages add to a plan: copies of parameters and of statistics, and both again in
 * rank 0's staging. */
TEST(averaged_copies_are_planned)
{
    static const struct {
        const char *key;
        size_t params, buffers;
    } rows[] = { { "ema.decay=0", 0, 0 },
                 { "ema.half_life=9", 1, 1 },
                 { "optimizer.lookahead=timm", 1, 0 },
                 { "optimizer.lookahead=airbench", 1, 1 } };
    size_t staging = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Planned p;
        open_plan(&p, "resnet20", 4);
        REQUIRE_OK(config_override(p.config, &rows[i].key, 1));
        const MemoryReport r = memory_report(&p.session);
        CHECK_INT(r.bytes[MEMORY_AVERAGES], r.bytes[MEMORY_PARAMS] * rows[i].params +
                                                r.bytes[MEMORY_BUFFERS] * rows[i].buffers);
        if (i == 0) staging = r.bytes[MEMORY_CHECKPOINT];
        CHECK((r.bytes[MEMORY_CHECKPOINT] > staging) == (rows[i].params > 0));
        close_plan(&p);
    }
}

TEST(the_largest_batch_is_the_last_that_fits)
{
    check_model("mlp");
    check_model("resnet20");
}
