/* test_memory.c - what a run is said to take before it runs: every image counts, and the largest
 * batch is the largest. That runs take what was said is for tests/e2e/memory.sh. */
#include "tests/test.h"
#include "trainer/session/memory.h"
#include "trainer/session/session_open.h"
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

TEST(the_largest_batch_is_the_last_that_fits)
{
    check_model("mlp");
    check_model("resnet20");
}
