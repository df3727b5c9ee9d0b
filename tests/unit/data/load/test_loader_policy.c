/* The loader with automatic augmentation, erasing, mixing and repeats: the same for any threads and
 * ranks. */
#include "base/crc32c.h"
#include "data/data.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <string.h>

enum { SIZE = 24, GLOBAL = 12 };

static const PolicyOptions policies[] = {
    { .jitter = { 0.4, 0.4, 0.4, 0.1 } },
    { .policy = POLICY_RANDAUGMENT, .ops = 2, .magnitude = 9, .bins = 31 },
    { .policy = POLICY_TRIVIALAUGMENT, .bins = 31, .sampling = SAMPLING_NEAREST },
    { .policy = POLICY_AUTOAUGMENT },
    { .policy = POLICY_AUGMIX, .severity = 3 },
    { .policy = POLICY_RANDAUGMENT_TIMM,
      .ops = 2,
      .magnitude = 9,
      .deviation = 0.5,
      .sampling = SAMPLING_RANDOM },
    { .erase = 0.5 },
};

static LoaderOptions options(const PolicyOptions *policy, int64_t batch, int threads, int world)
{
    return (LoaderOptions){ .view.image_size = SIZE,
                            .view.channels = 3,
                            .view.augment = AUGMENT_IMAGENET,
                            .view.policy = *policy,
                            .mix = { .mixup = 0.2, .cutmix = 1 },
                            .seed = 42,
                            .threads = threads,
                            .slots = 3,
                            .batch = batch,
                            .world = world,
                            .global_batch = GLOBAL,
                            .last_step = 2 };
}

typedef struct Seen { /* of two steps, in stream order */
    uint32_t images, boxes, mix;
    int64_t ids[2 * GLOBAL];
    uint32_t crcs[2 * GLOBAL];
    float lambdas[2 * GLOBAL]; /* of the micro-batch that begins here */
} Seen;

static void see_batch(const Batch *b, int64_t batch, int64_t first, Seen *out)
{
    const EraseBox none = { 0 };
    const uint8_t *images = loader_field(b, "images");
    const EraseBox *erase = loader_field(b, "erase");
    const MixValues *mix = loader_field(b, "mix");
    for (int64_t i = 0; i < batch; i++) {
        int64_t at = b->step * GLOBAL + first + i;
        out->ids[at] = b->sample_ids[i];
        out->crcs[at] = crc32c_update(0, images + i * SIZE * SIZE * 3, SIZE * SIZE * 3);
        out->boxes ^= crc32c_update((uint32_t)at, erase ? &erase[i] : &none, sizeof none);
    }
    out->lambdas[b->step * GLOBAL + first] = mix->lambda;
    out->mix ^= crc32c_update((uint32_t)(b->step * GLOBAL + first), mix, sizeof *mix);
}

static void see(const Dataset *d, LoaderOptions o, Seen *out)
{
    int64_t share = GLOBAL / o.world;
    memset(out, 0, sizeof *out);
    for (o.rank = 0; o.rank < o.world; o.rank++) {
        Loader *l = NULL;
        Batch b;
        bool more = false;
        REQUIRE_OK(loader_create(&l, d, &o));
        for (;;) {
            REQUIRE_OK(loader_next(l, &b, &more, NULL));
            if (!more) break;
            see_batch(&b, o.batch, o.rank * share + b.micro * o.batch, out);
            loader_release(l, &b);
        }
        loader_destroy(l);
    }
    out->images = crc32c_update(0, out->crcs, sizeof out->crcs);
}

static Dataset *open_shapes(void)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = test_scratch(), .format = DATA_AUTO, .role = DATA_TRAIN };
    tree_write_shapes(test_scratch(), 3, 12, 40);
    CHECK_STATUS(dataset_open(&d, &o), OK);
    return d;
}

TEST(policies_give_the_same_bytes_for_any_threads_and_ranks)
{
    const PolicyOptions none = { 0 };
    Dataset *d = open_shapes();
    REQUIRE(d != NULL);
    Seen plain, one, other;
    see(d, options(&none, GLOBAL, 1, 1), &plain);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        bool erases = policies[i].erase > 0;
        see(d, options(&policies[i], GLOBAL, 1, 1), &one);
        CHECK(erases || one.images != plain.images);
        CHECK((one.boxes != plain.boxes) == erases);
        see(d, options(&policies[i], GLOBAL, 4, 1), &other);
        CHECK(other.images == one.images && other.boxes == one.boxes && other.mix == one.mix);
        see(d, options(&policies[i], 3, 2, 2), &other);
        CHECK(other.images == one.images && other.boxes == one.boxes);
    }
    dataset_close(d);
}

/* A micro-batch's mixing depends on where it lies in its step, not on which rank has it. */
TEST(mixing_is_that_of_the_micro_batch)
{
    Dataset *d = open_shapes();
    REQUIRE(d != NULL);
    Seen accumulated, shared, whole;
    see(d, options(&policies[0], 4, 1, 1), &accumulated);
    see(d, options(&policies[0], 4, 1, 3), &shared);
    see(d, options(&policies[0], GLOBAL, 1, 1), &whole);
    CHECK_INT(accumulated.mix, shared.mix);
    CHECK(accumulated.mix != whole.mix);
    CHECK(accumulated.lambdas[0] != accumulated.lambdas[4] &&
          accumulated.lambdas[4] != accumulated.lambdas[8]);
    CHECK(accumulated.lambdas[0] != accumulated.lambdas[GLOBAL]); /* the next step's */
    CHECK(accumulated.lambdas[0] == whole.lambdas[0]);
    dataset_close(d);
}

/* From the first step of that epoch on, wherever a loader begins. */
TEST(mixing_ends_at_its_epoch)
{
    Dataset *d = open_shapes(); /* three steps an epoch */
    REQUIRE(d != NULL);
    for (int64_t first = 4; first < 8; first++) {
        LoaderOptions o = options(&policies[0], GLOBAL, 2, 1);
        Loader *l = NULL;
        Batch b;
        bool more = true;
        o.mix.off_epoch = 2;
        o.first_step = first;
        o.last_step = 9;
        REQUIRE_OK(loader_create(&l, d, &o));
        for (int64_t step = first; step < o.last_step; step++) {
            REQUIRE_OK(loader_next(l, &b, &more, NULL));
            REQUIRE(more && b.step == step);
            const MixValues *mix = loader_field(&b, "mix");
            CHECK((mix->lambda != 1) == (step < 6));
            loader_release(l, &b);
        }
        loader_destroy(l);
    }
    dataset_close(d);
}

TEST(repeats_are_views_of_the_same_samples)
{
    enum { REPEATS = 3, IMAGES = 36, EPOCH = IMAGES / REPEATS };
    Dataset *d = open_shapes();
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), IMAGES);
    LoaderOptions o = options(&policies[1], 4, 2, 1);
    Seen one, two;
    o.repeats = REPEATS;
    see(d, o, &one);
    for (int64_t at = 0; at < 2 * GLOBAL; at++) {
        int64_t step = at / GLOBAL, set = at % GLOBAL % (GLOBAL / REPEATS);
        int64_t distinct = step * (GLOBAL / REPEATS) + set;
        CHECK_INT(one.ids[at],
                  sampler_id(42, IMAGES, distinct / EPOCH * IMAGES + distinct % EPOCH));
        for (int64_t other = step * GLOBAL; other < at; other++)
            CHECK(one.crcs[other] != one.crcs[at]);
    }
    o = options(&policies[1], 2, 3, 3);
    o.repeats = REPEATS;
    see(d, o, &two);
    CHECK_INT(two.images, one.images);
    dataset_close(d);
}
