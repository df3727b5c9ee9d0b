/* The way of an image on one thread: the same view with and without our Huffman decoder and seek
 * indices, the indices that a store keeps, and what is said of bad files. */
#include "base/mem.h"
#include "data/decode/decode_check.h"
#include "data/decode/decoder.h"
#include "data/decode/seek_index.h"
#include "data/load/worker.h"
#include "tests/test.h"
#include "tests/tools/image_write.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH = 300, HEIGHT = 260, SIZE = 64, VIEW_BYTES = SIZE * SIZE * 3, IMAGES = 3 };

typedef struct Memory { /* a source of files in memory */
    Source base;
    uint8_t *files[IMAGES];
    size_t sizes[IMAGES];
} Memory;

static void describe(const Source *s, int64_t id, char *out, size_t bytes)
{
    (void)s;
    snprintf(out, bytes, "memory/%lld", (long long)id);
}

static const SourceKind memory_kind = { .name = "memory", .describe = describe };

static Memory make_memory(void)
{
    static uint8_t pixels[WIDTH * HEIGHT * 3];
    Memory m = { .base = { .kind = &memory_kind, .images = IMAGES } };
    for (int k = 0; k < IMAGES; k++) {
        for (int i = 0; i < WIDTH * HEIGHT * 3; i++)
            pixels[i] = (uint8_t)(i / 3 % WIDTH + k * (i / 900) + (i * 2654435761u >> 26));
        JpegSettings s = {
            .channels = 3, .quality = 90, .subsample = k == 1, .progressive = k == 2
        };
        CHECK_OK(image_encode_jpeg(pixels, WIDTH, HEIGHT, &s, &m.files[k], &m.sizes[k]));
    }
    return m;
}

static void free_memory(Memory *m)
{
    for (int k = 0; k < IMAGES; k++) mem_free(m->files[k]);
}

static Status show(Worker *w, const Memory *m, int64_t id, const ViewOptions *o, uint32_t epoch,
                   uint8_t *out)
{
    Sample sample = source_file_sample(m->files[id], m->sizes[id], 0);
    AugmentDraw draw = { .seed = 7, .epoch = epoch, .sample = id };
    return worker_show(w, &m->base, id, &sample, o, &draw, out);
}

TEST(every_way_shows_the_same_view)
{
    static uint8_t want[VIEW_BYTES], got[VIEW_BYTES];
    Memory m = make_memory();
    Worker *w = NULL, *plain = NULL;
    SeekStore *seeks = NULL;
    bool fast_works = false; /* not where the program was built for another libjpeg */
    REQUIRE_OK(decode_check_fast(&fast_works));
    REQUIRE_OK(seek_store_create(&seeks, IMAGES, (size_t)4 << 20));
    REQUIRE_OK(worker_create(&w, seeks));
    REQUIRE_OK(worker_create(&plain, NULL));
    ViewOptions stock = { .image_size = SIZE, .channels = 3, .augment = AUGMENT_IMAGENET };
    ViewOptions fast = stock;
    stock.decoder = HUFFMAN_STOCK;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        for (int64_t id = 0; id < IMAGES; id++) {
            stock.interpolation = fast.interpolation = (Interpolation)(epoch % 3);
            CHECK_OK(show(plain, &m, id, &stock, epoch, want));
            CHECK_OK(show(w, &m, id, &fast, epoch, got));
            CHECK(memcmp(want, got, VIEW_BYTES) == 0);
            size_t bytes = 0;
            /* none: progressive */
            CHECK((seek_store_get(seeks, id, &bytes) != NULL) == (fast_works && id != 2));
        }
    }
    WorkerTimes times = worker_times(w);
    CHECK_INT(times.fast, fast_works ? 20 * 2 : 0);
    CHECK_INT(times.left, 0);
    worker_destroy(plain);
    worker_destroy(w);
    seek_store_destroy(seeks);
    free_memory(&m);
}

TEST(a_steady_worker_allocates_nothing)
{
    static uint8_t out[VIEW_BYTES];
    Memory m = make_memory();
    Worker *w = NULL;
    REQUIRE_OK(worker_create(&w, NULL));
    ViewOptions o = { .image_size = SIZE, .channels = 3, .augment = AUGMENT_IMAGENET };
    ViewOptions whole = { .image_size = SIZE, .eval_resize = SIZE, .channels = 3 };
    for (int64_t id = 0; id < IMAGES; id++) {
        CHECK_OK(show(w, &m, id, &whole, 0, out));
        for (uint32_t epoch = 0; epoch < 100; epoch++) CHECK_OK(show(w, &m, id, &o, epoch, out));
    }
    int64_t before = mem_allocation_count();
    for (uint32_t epoch = 0; epoch < 100; epoch++)
        for (int64_t id = 0; id < IMAGES; id++) CHECK_OK(show(w, &m, id, &o, epoch, out));
    CHECK_INT(mem_allocation_count() - before, 0);
    worker_destroy(w);
    free_memory(&m);
}

/* The same answer for every crop, also for crops that lie above what is missing. */
TEST(a_file_that_is_cut_short_is_bad_for_every_crop)
{
    static uint8_t out[VIEW_BYTES];
    Memory m = make_memory();
    Worker *w = NULL;
    REQUIRE_OK(worker_create(&w, NULL));
    ViewOptions o = { .image_size = SIZE, .channels = 3, .augment = AUGMENT_IMAGENET };
    for (int64_t id = 0; id < IMAGES; id++) {
        size_t whole = m.sizes[id];
        for (uint32_t epoch = 0; epoch < 40; epoch++) {
            m.sizes[id] = epoch % 2 ? whole - 2 : whole - whole / 10;
            o.decoder = epoch % 4 < 2 ? HUFFMAN_STOCK : HUFFMAN_FAST;
            CHECK_STATUS(show(w, &m, id, &o, epoch, out), ERR_DATA);
            CHECK_CONTAINS(status_message(), "memory/");
            CHECK_CONTAINS(status_message(), "truncated");
        }
    }
    worker_destroy(w);
    free_memory(&m);
}

/* The library meets it only where it has read the picture to the end. */
TEST(a_file_with_a_marker_of_no_meaning_is_bad_for_every_crop)
{
    static uint8_t out[VIEW_BYTES];
    Memory m = make_memory();
    Worker *w = NULL;
    REQUIRE_OK(worker_create(&w, NULL));
    ViewOptions o = { .image_size = SIZE, .channels = 3, .augment = AUGMENT_IMAGENET };
    for (int64_t id = 0; id < IMAGES; id++) {
        memcpy(m.files[id] + m.sizes[id] - m.sizes[id] / 10, "\xff\x5a", 2);
        for (uint32_t epoch = 0; epoch < 40; epoch++) {
            o.decoder = epoch % 2 ? HUFFMAN_STOCK : HUFFMAN_FAST;
            CHECK_STATUS(show(w, &m, id, &o, epoch, out), ERR_DATA);
            CHECK_CONTAINS(status_message(), "memory/");
            CHECK_CONTAINS(status_message(), "0x5a");
        }
    }
    worker_destroy(w);
    free_memory(&m);
}

TEST(replay_refuses_a_box_outside_the_image)
{
    static uint8_t out[VIEW_BYTES];
    Memory m = make_memory();
    Worker *w = NULL;
    REQUIRE_OK(worker_create(&w, NULL));
    ViewOptions o = { .channels = 3 };
    AugmentPlan plan = { .box_x = 10,
                         .box_width = WIDTH,
                         .box_height = 5,
                         .width = SIZE,
                         .height = SIZE,
                         .size = SIZE };
    Sample sample = source_file_sample(m.files[0], m.sizes[0], 0);
    CHECK_STATUS(worker_replay(w, &sample, &plan, &o, out), ERR_DATA);
    CHECK_CONTAINS(status_message(), "exceeds the image of 300 x 260 pixels");
    plan.box_x = INT32_MAX;
    CHECK_STATUS(worker_replay(w, &sample, &plan, &o, out), ERR_DATA);
    plan.box_x = 0;
    plan.box_y = -3;
    CHECK_STATUS(worker_replay(w, &sample, &plan, &o, out), ERR_DATA);
    CHECK_CONTAINS(status_message(), "exceeds the image");
    plan.box_y = 0;
    int *const windows[] = { &plan.window_x, &plan.window_y };
    for (int i = 0; i < 4; i++) {
        const int far = i % 2 ? -(1 << 30) : 1 << 30;
        *windows[i / 2] = far;
        CHECK_OK(worker_replay(w, &sample, &plan, &o, out));
        *windows[i / 2] = far + (far > 0 ? 1 : -1);
        CHECK_STATUS(worker_replay(w, &sample, &plan, &o, out), ERR_DATA);
        CHECK_CONTAINS(status_message(), "the window is more than 1073741824 pixels away");
        *windows[i / 2] = 0;
    }
    CHECK_OK(worker_replay(w, &sample, &plan, &o, out));
    worker_destroy(w);
    free_memory(&m);
}

TEST(seek_store_keeps_what_fits)
{
    SeekStore *s = NULL;
    size_t bytes = 0;
    uint8_t index[4000];
    REQUIRE_OK(seek_store_create(&s, 1000, ((size_t)3 << 20) + 4096));
    CHECK_INT(seek_store_step(s), SEEK_INDEX_ROWS_ONLY);
    CHECK(seek_store_get(s, 7, &bytes) == NULL);
    for (int64_t id = 0; id < 1000; id++) {
        memset(index, (int)(id % 251), sizeof index);
        seek_store_put(s, id, index, sizeof index);
        memset(index, 255, sizeof index);
        if (seek_store_get(s, id, &bytes)) seek_store_put(s, id, index, 17); /* not replaced */
    }
    int64_t kept = 0;
    for (int64_t id = 0; id < 1000; id++) {
        const uint8_t *got = seek_store_get(s, id, &bytes);
        if (!got) continue;
        kept++;
        CHECK(bytes == sizeof index && got[0] == id % 251 && got[bytes - 1] == id % 251);
    }
    CHECK(kept > 500 && kept < 800); /* of about 750 that fit into 3 MiB */
    CHECK_INT(seek_store_bytes(s), kept * (int64_t)sizeof index);
    seek_store_destroy(s);
}
