/* test_world_change.c - a run that goes on with another number of ranks: at one global batch every
 * sample of every epoch is seen once, whoever sees it, with the batches that train_plan_make gives
 * each world. */
#include "base/mem.h"
#include "data/data.h"
#include "tests/test.h"
#include "trainer/engine/plan/train_plan.h"
#include <string.h>

enum { IMAGES = 150, GLOBAL_BATCH = 12, EPOCHS = 2, STEPS = IMAGES * EPOCHS / GLOBAL_BATCH };

typedef struct Leg { /* a part of the run on so many ranks */
    int world;
    int64_t from, to;
    int64_t batch, accumulate; /* what train_plan_make should give */
} Leg;

static Dataset *open_data(void)
{
    Dataset *d = NULL;
    DatasetOptions o = { .format = DATA_SYNTHETIC,
                         .role = DATA_TRAIN,
                         .synthetic_images = IMAGES,
                         .synthetic_classes = 5 };
    CHECK_OK(dataset_open(&d, &o));
    return d;
}

static TrainPlan plan_for(const Leg *leg)
{
    TrainPlan p = { 0 };
    Config *c = NULL;
    const char *sets[] = { "train.batch_mode=global", "train.global_batch=12",
                           "train.batch_per_rank=4" };
    CHECK_OK(config_load(&c, NULL, sets, 3));
    if (c) CHECK_OK(train_plan_make(&p, c, leg->world, IMAGES));
    config_destroy(c);
    CHECK_INT(p.batch, leg->batch);
    CHECK_INT(p.accumulate, leg->accumulate);
    CHECK_INT(p.global_batch, GLOBAL_BATCH);
    return p;
}

/* Adds what one rank sees to seen[epoch * IMAGES + id]; order: the step at which. */
static void count_rank(const Dataset *d, const Leg *leg, const TrainPlan *p, int rank, int *seen)
{
    LoaderOptions o = { .view.image_size = 8,
                        .view.channels = 3,
                        .seed = 3,
                        .threads = 1,
                        .slots = 3,
                        .batch = p->batch,
                        .rank = rank,
                        .world = leg->world,
                        .global_batch = p->global_batch,
                        .first_step = leg->from,
                        .last_step = leg->to };
    Loader *l = NULL;
    Batch b;
    bool more = false;
    REQUIRE_OK(loader_create(&l, d, &o));
    for (;;) {
        REQUIRE_OK(loader_next(l, &b, &more, NULL));
        if (!more) break;
        int64_t first =
            b.step * GLOBAL_BATCH + rank * (GLOBAL_BATCH / leg->world) + b.micro * p->batch;
        for (int64_t i = 0; i < b.count; i++)
            seen[(first + i) / IMAGES * IMAGES + b.sample_ids[i]]++;
        loader_release(l, &b);
    }
    loader_destroy(l);
}

TEST(every_sample_is_seen_once_over_4_2_and_3_ranks)
{
    /* in mid-epoch */
    static const Leg legs[] = { { 4, 0, 5, 3, 1 }, { 2, 5, 14, 3, 2 }, { 3, 14, STEPS, 4, 1 } };
    int seen[EPOCHS * IMAGES] = { 0 }, twice = 0, never = 0;
    Dataset *d = open_data();
    REQUIRE(d != NULL);
    for (size_t i = 0; i < sizeof legs / sizeof legs[0]; i++) {
        TrainPlan p = plan_for(&legs[i]);
        REQUIRE(p.batch > 0);
        for (int rank = 0; rank < legs[i].world; rank++) count_rank(d, &legs[i], &p, rank, seen);
    }
    for (int i = 0; i < EPOCHS * IMAGES; i++) {
        twice += seen[i] > 1;
        never += seen[i] == 0;
    }
    CHECK_INT(twice, 0);
    CHECK_INT(never, 0);
    dataset_close(d);
}
