/* The loader: the stream of the training contract, the same bytes for any threads and ranks,
 * evaluation that counts every image once, and leaving at any moment. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "data/cache/cache.h"
#include "data/data.h"
#include "data/load/ring.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/image_write.h"
#include "tests/tools/loader_run.h"
#include <string.h>

static Dataset *open_synthetic(int64_t images, DataRole role)
{
    Dataset *d = NULL;
    DatasetOptions o = {
        .format = DATA_SYNTHETIC, .role = role, .synthetic_images = images, .synthetic_classes = 7
    };
    CHECK_STATUS(dataset_open(&d, &o), OK);
    return d;
}

/* A checksum of everything that training sees of global step `step`, over all ranks, in stream
 * order. */
static uint32_t step_crc(const Dataset *d, LoaderOptions o, int64_t step)
{
    uint32_t crc = 0;
    int64_t share = o.global_batch / o.world, micros = share / o.batch;
    o.first_step = step;
    o.last_step = step + 1;
    for (o.rank = 0; o.rank < o.world; o.rank++) {
        Loader *l = NULL;
        Batch b;
        bool more = false;
        CHECK_STATUS(loader_create(&l, d, &o), OK);
        for (int64_t m = 0; m < micros; m++) {
            CHECK_STATUS(loader_next(l, &b, &more, NULL), OK);
            CHECK(more && b.step == step && b.micro == m && b.count == o.batch && b.bad == 0);
            if (!more) break;
            size_t n = (size_t)o.batch,
                   image = (size_t)(o.view.image_size * o.view.image_size * o.view.channels);
            const uint8_t *images = loader_field(&b, "images");
            const int32_t *labels = loader_field(&b, "labels");
            /* image by image, so that cuts into batches do not show */
            for (size_t i = 0; i < n; i++) {
                CHECK_INT(labels[i], dataset_label(d, b.sample_ids[i]));
                crc = crc32c_update(crc, images + i * image, image);
                crc = crc32c_update(crc, &b.sample_ids[i], sizeof b.sample_ids[i]);
            }
            loader_release(l, &b);
        }
        CHECK_STATUS(loader_next(l, &b, &more, NULL), OK);
        CHECK(!more);
        loader_destroy(l);
    }
    return crc;
}

TEST(batches_are_the_same_for_any_threads_ranks_and_micro_batches)
{
    tree_write_shapes(test_scratch(), 3, 8, 40);
    Dataset *d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    for (int64_t step = 0; step < 5; step += 2) {
        LoaderOptions o = loader_options(8, 1);
        uint32_t want = step_crc(d, o, step);
        o.threads = 4;
        CHECK_INT(step_crc(d, o, step), want);
        o.slots = 5;
        o.batch = 2;
        CHECK_INT(step_crc(d, o, step), want);
        o.world = 2;
        CHECK_INT(step_crc(d, o, step), want);
        o.batch = 2;
        o.world = 4;
        CHECK_INT(step_crc(d, o, step), want);
        o.readers = 7;
        CHECK_INT(step_crc(d, o, step), want);
        o.read_ahead_bytes = 1; /* nothing fits: samples are handed on one by one */
        CHECK_INT(step_crc(d, o, step), want);
        o.read_ahead_bytes = 8192;
        CHECK_INT(step_crc(d, o, step), want);
        o.seed = 43;
        CHECK(step_crc(d, o, step) != want);
    }
    dataset_close(d);
}

TEST(batches_are_the_same_from_a_cache)
{
    tree_write_shapes(test_scratch(), 3, 8, 40);
    Dataset *d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    LoaderOptions o = loader_options(8, 2);
    uint32_t want[4];
    for (int step = 0; step < 4; step++) want[step] = step_crc(d, o, step);
    for (size_t bytes = 1 << 20; bytes >= 4096; bytes /= 256) { /* room for all, and for a few */
        SampleCache *cache = NULL;
        CacheStats stats;
        REQUIRE_OK(cache_create(&cache, 100 + dataset_images(d), bytes));
        dataset_use_cache(d, DATA_CACHE_RAM, cache, 100);
        for (int step = 0; step < 4; step++) CHECK_INT(step_crc(d, o, step), want[step]);
        cache_stats(cache, &stats);
        CHECK(bytes > 4096 ? stats.samples == 24 && !stats.full
                           : stats.samples > 0 && stats.samples < 24 && stats.full);
        dataset_use_cache(d, DATA_CACHE_NONE, NULL, 0);
        CHECK_INT(step_crc(d, o, 1), want[1]);
        cache_destroy(cache);
    }
    dataset_close(d);
}

TEST(the_stream_is_permutation_after_permutation)
{
    enum { IMAGES = 26, BATCH = 4, STEPS = 20 };
    Dataset *d = open_synthetic(IMAGES, DATA_TRAIN);
    LoaderOptions o = loader_options(BATCH, 2);
    Loader *l = NULL;
    Batch b;
    bool more = false;
    o.view.image_size = 8;
    o.last_step = STEPS;
    REQUIRE_OK(loader_create(&l, d, &o));
    for (int64_t position = 0; position < STEPS * BATCH; position += BATCH) {
        REQUIRE_OK(loader_next(l, &b, &more, NULL));
        REQUIRE(more);
        CHECK_INT(b.step, position / BATCH);
        for (int i = 0; i < BATCH; i++)
            CHECK_INT(b.sample_ids[i], sampler_id(42, IMAGES, position + i));
        loader_release(l, &b);
    }
    CHECK_OK(loader_next(l, &b, &more, NULL));
    CHECK(!more);
    LoaderStats stats;
    loader_stats(l, &stats);
    CHECK_INT(stats.images, STEPS * BATCH);
    CHECK_INT(stats.bad, 0);
    loader_destroy(l);
    dataset_close(d);
}

/* Counts how often each of the images is seen over all ranks. */
static void check_evaluation(int64_t images, int world, int64_t batch)
{
    enum { MOST = 64 };
    int seen[MOST] = { 0 };
    int64_t batches = -1;
    Dataset *d = open_synthetic(images, DATA_VAL);
    LoaderOptions o = loader_options(batch, 2);
    o.world = world;
    o.view.image_size = 8;
    for (o.rank = 0; o.rank < world; o.rank++) {
        Loader *l = NULL;
        Batch b;
        bool more = true;
        int64_t made = 0;
        REQUIRE_OK(loader_create(&l, d, &o));
        for (;; made++) {
            REQUIRE_OK(loader_next(l, &b, &more, NULL));
            if (!more) break;
            int64_t count = 0;
            for (int64_t i = 0; i < batch; i++) {
                int64_t id = b.sample_ids[i];
                CHECK_INT(((const int32_t *)loader_field(&b, "labels"))[i], id < 0 ? -1 : id % 7);
                if (id >= 0) seen[id]++;
                count += id >= 0;
            }
            CHECK_INT(b.count, count);
            CHECK_INT(b.step, made);
            loader_release(l, &b);
        }
        if (batches < 0) batches = made;
        CHECK_INT(made, batches);
        loader_destroy(l);
    }
    for (int64_t i = 0; i < images; i++) CHECK_INT(seen[i], 1);
    dataset_close(d);
}

TEST(evaluation_sees_every_image_once)
{
    check_evaluation(24, 1, 8);
    check_evaluation(23, 1, 8);
    check_evaluation(23, 4, 3);
    check_evaluation(25, 3, 4);
    check_evaluation(2, 4, 5);
    check_evaluation(1, 1, 1);
}

TEST(evaluation_ignores_augmentation)
{
    tree_write_idx(test_scratch(), "t10k", 6, 28, 3, 0);
    Dataset *d = loader_open_data(test_scratch(), DATA_VAL);
    REQUIRE(d != NULL);
    LoaderOptions o = loader_options(6, 1);
    o.view.image_size = 28;
    o.view.eval_resize = 32; /* raw pixels of the right size stay as they are */
    o.view.channels = 1;
    Loader *l = NULL;
    Batch b;
    bool more = false;
    REQUIRE_OK(loader_create(&l, d, &o));
    REQUIRE_OK(loader_next(l, &b, &more, NULL));
    REQUIRE(more);
    int wrong = 0;
    const uint8_t *images = loader_field(&b, "images");
    for (int i = 0; i < 6 * 28 * 28; i++) wrong += images[i] != (uint8_t)(i / 784 * 7 + i % 784);
    CHECK_INT(wrong, 0);
    loader_destroy(l); /* with the batch still held */
    dataset_close(d);
}

/* A row of bits for each image, wider than the set's where the network has more classes. */
TEST(targets_are_the_rows_of_the_images)
{
    const DatasetOptions synthetic = { .format = DATA_SYNTHETIC,
                                       .role = DATA_VAL,
                                       .labels = LABELS_MULTI,
                                       .synthetic_images = 20,
                                       .synthetic_classes = 11 };
    LoaderOptions o = loader_options(6, 2);
    Dataset *d = NULL;
    Loader *l = NULL;
    Batch b;
    bool more = true;
    int64_t seen = 0;
    o.view.image_size = 8;
    o.classes = 18;
    REQUIRE_OK(dataset_open(&d, &synthetic));
    REQUIRE_OK(loader_create(&l, d, &o));
    for (;;) {
        REQUIRE_OK(loader_next(l, &b, &more, NULL));
        if (!more) break;
        const uint8_t *targets = loader_field(&b, "targets");
        const int32_t *labels = loader_field(&b, "labels");
        REQUIRE(targets && labels);
        for (int i = 0; i < 6; i++) {
            const int64_t id = b.sample_ids[i];
            const uint8_t none[2] = { 0, 0 }, *row = id < 0 ? none : dataset_labels(d, id);
            CHECK(memcmp(targets + (size_t)i * 3, row, 2) == 0 && targets[i * 3 + 2] == 0);
            CHECK_INT(labels[i], id < 0 ? -1 : 0);
            seen += id >= 0;
        }
        loader_release(l, &b);
    }
    CHECK_INT(seen, 20);
    loader_destroy(l);
    dataset_close(d);
}

/* Every field of a batch lies aligned and apart from the others. */
TEST(fields_of_a_batch_lie_behind_each_other)
{
    LoaderOptions o = loader_options(3, 1);
    o.view.image_size = 5;
    o.view.policy.erase = 0.5;
    o.mix.mixup = 1;
    const BatchLayout layout = loader_layout(&o);
    static const char *const names[] = { "images", "labels", "erase", "mix" };
    const size_t bytes[] = { 3 * 5 * 5 * 3, 3 * sizeof(int32_t), 3 * sizeof(EraseBox),
                             sizeof(MixValues) };
    REQUIRE(layout.count == 4);
    size_t end = 0;
    for (int i = 0; i < 4; i++) {
        const BatchField *field = &layout.fields[i];
        CHECK_STR(field->name, names[i]);
        CHECK(field->offset >= end && field->offset % MEM_ALIGN == 0);
        CHECK_INT(field->bytes, bytes[i]);
        end = field->offset + field->bytes;
    }
    CHECK_INT(layout.bytes, end);
    char block[1024];
    REQUIRE(end <= sizeof block);
    CHECK(batch_layout_at(&layout, block, "labels") == block + layout.fields[1].offset);
    CHECK(batch_layout_at(&layout, block, "tokens") == NULL);
}

TEST(a_batch_that_no_memory_holds_is_refused)
{
    Dataset *d = open_synthetic(10, DATA_VAL);
    LoaderOptions o = loader_options(INT64_MAX / 2, 1);
    Loader *l = NULL;
    CHECK_STATUS(loader_create(&l, d, &o), ERR_MEMORY);
    CHECK_STR(status_message(), "a batch of 4611686018427387903 images is too large");
    dataset_close(d);
}

TEST(what_was_ready_before_a_failure_is_given_out)
{
    RingOptions o = { .slots = 3, .batch = 1, .block_bytes = 4, .batches = 9 };
    Ring *ring = NULL;
    RingTicket tickets[2];
    bool more = false;
    int slot = -1;
    REQUIRE_OK(ring_create(&ring, &o));
    REQUIRE(ring_take_ticket(ring, &tickets[0]) && ring_take_ticket(ring, &tickets[1]));
    CHECK_INT(ring_ready_slots(ring), 0);
    ring_done(ring, &tickets[0], true, false);
    CHECK_INT(ring_ready_slots(ring), 1);
    ring_fail(ring, ERR_DATA, "the second one");
    CHECK_OK(ring_next(ring, &slot, &more, NULL));
    CHECK(more && slot == 0);
    CHECK_STATUS(ring_next(ring, &slot, &more, NULL), ERR_DATA);
    CHECK(!more);
    CHECK_STR(status_message(), "the second one");
    ring_destroy(ring);
}

TEST(leaving_at_any_moment_does_not_hang)
{
    tree_write_shapes(test_scratch(), 2, 6, 40);
    Dataset *d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    for (int i = 0; i < 60; i++) {
        LoaderOptions o = loader_options(4, 1 + i % 4);
        o.readers = i % 5;
        o.read_ahead_bytes = i % 7 == 0 ? 1 : 0;
        Loader *l = NULL;
        Batch b;
        bool more = false;
        REQUIRE_OK(loader_create(&l, d, &o));
        for (int k = 0; k < i % 6; k++) {
            REQUIRE_OK(loader_next(l, &b, &more, NULL));
            if (i % 3) loader_release(l, &b);
            else if (k == 2) break; /* all slots are held: nothing more may come */
        }
        clock_sleep_s(0.0005 * (i % 5));
        loader_destroy(l);
    }
    dataset_close(d);
}

TEST(steady_state_allocates_nothing)
{
    tree_write_shapes(test_scratch(), 2, 8, 48);
    Dataset *d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    LoaderOptions o = loader_options(8, 1);
    o.view.augment = AUGMENT_CIFAR;
    Loader *l = NULL;
    Batch b;
    bool more = false;
    int64_t before = 0;
    REQUIRE_OK(loader_create(&l, d, &o));
    for (int i = 0; i < 30; i++) {
        if (i == 10) before = mem_allocation_count();
        REQUIRE_OK(loader_next(l, &b, &more, NULL));
        loader_release(l, &b);
    }
    CHECK_INT(mem_allocation_count(), before);
    loader_destroy(l);
    dataset_close(d);
}

typedef struct Counter {
    int allocs, frees;
} Counter;

static void *counting_alloc(void *cookie, size_t bytes)
{
    ((Counter *)cookie)->allocs++;
    return mem_alloc_aligned(bytes, MEM_ALIGN);
}

static void counting_free(void *cookie, void *p)
{
    ((Counter *)cookie)->frees++;
    mem_free(p);
}

TEST(slots_come_from_the_given_allocator)
{
    Counter counter = { 0 };
    Dataset *d = open_synthetic(16, DATA_TRAIN);
    LoaderOptions o = loader_options(4, 1);
    o.slots = 4;
    o.allocator =
        (SlotAllocator){ .alloc = counting_alloc, .free = counting_free, .cookie = &counter };
    CHECK_STATUS(loader_run(d, &o, 3), OK);
    CHECK_INT(counter.allocs, 4);
    CHECK_INT(counter.frees, 4);
    dataset_close(d);
}

TEST(every_failed_allocation_is_reported)
{
    PngSettings rgb = { .colour_type = 2, .bit_depth = 8 };
    static const uint8_t pixels[32 * 32 * 3];
    uint8_t *png = NULL;
    size_t size = 0;
    tree_write_shapes(test_scratch(), 2, 3, 40);
    REQUIRE_OK(image_encode_png(pixels, 32 * 3, 32, 32, &rgb, &png, &size));
    tree_write(test_scratch(), "class1/x.png", png, size);
    mem_free(png);
    for (int64_t n = 1;; n++) {
        Dataset *d = NULL;
        DatasetOptions data = { .path = test_scratch(), .format = DATA_AUTO, .role = DATA_TRAIN };
        LoaderOptions o = loader_options(7, 1);
        /* one batch of every image: no thread works ahead, so every failure meets what is asked
         * for */
        o.last_step = 1;
        int64_t before = mem_allocation_count();
        mem_fail_at(n);
        Status status = dataset_open(&d, &data);
        if (status == OK) status = loader_run(d, &o, 1);
        int64_t used = mem_allocation_count() - before;
        mem_fail_at(0);
        dataset_close(d);
        if (used < n) { /* failure n lies behind the last allocation */
            CHECK_OK(status);
            break;
        }
        CHECK_STATUS(status, ERR_MEMORY);
        REQUIRE(n < 500);
    }
}
