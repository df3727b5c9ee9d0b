/* Resize and views: identities, bytes of Pillow, geometry of torchvision's transforms,
 * distributions of the draws. */
#include "base/mem.h"
#include "data/augment/augment.h"
#include "data/augment/view.h"
#include "tests/test.h"
#include "tests/tools/shapes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ViewOptions imagenet = { .augment = AUGMENT_IMAGENET, .image_size = 224 };

static void check_window(AugmentPlan p, int width, int height, int x, int y)
{
    CHECK_INT(p.width, width);
    CHECK_INT(p.height, height);
    CHECK_INT(p.window_x, x);
    CHECK_INT(p.window_y, y);
    CHECK(!p.flip);
}

TEST(centre_crop_geometry)
{
    check_window(augment_center(500, 375, 256, 224), 341, 256, 58, 16); /* 58.5 rounds to even */
    check_window(augment_center(375, 500, 256, 224), 256, 341, 16, 58);
    check_window(augment_center(224, 224, 224, 224), 224, 224, 0, 0);
    check_window(augment_center(343, 256, 256, 224), 343, 256, 60, 16); /* 59.5 rounds to even */
    /* padded above 5, below 6; 9.5 -> 10 */
    check_window(augment_center(100, 50, 30, 41), 60, 30, 10, -5);
    check_window(augment_center(1, 1000, 8, 8), 8, 8000, 0, 3996);
    check_window(augment_center(28, 28, 32, 32), 32, 32, 0, 0);
}

/* The wanted bytes are what Pillow 13.0 gives for Image.fromarray(row).resize((3, 1), BILINEAR),
 * and for (16, 1). */
TEST(resize_matches_bytes_of_pillow)
{
    uint8_t row[10], out[16];
    for (int i = 0; i < 10; i++) row[i] = (uint8_t)(10 * i);
    ResizeScratch scratch = { 0 };
    ResizeJob job = { .source = row,
                      .source_stride = 10,
                      .target = out,
                      .target_stride = 16,
                      .pixel_bytes = 1,
                      .channels = 1,
                      .x = { 10, 3, 0, 3 },
                      .y = { 1, 1, 0, 1 } };
    CHECK_OK(resize_image(&job, &scratch));
    static const uint8_t reduced[3] = { 15, 45, 75 };
    CHECK(memcmp(out, reduced, 3) == 0);
    job.x = (ResizeAxis){ 10, 16, 0, 16 };
    CHECK_OK(resize_image(&job, &scratch));
    static const uint8_t enlarged[16] = { 0,  4,  11, 17, 23, 29, 36, 42,
                                          48, 54, 61, 67, 73, 79, 86, 90 };
    CHECK(memcmp(out, enlarged, 16) == 0);
    resize_scratch_free(&scratch);
}

static void fill(uint8_t *pixels, size_t bytes, uint32_t salt)
{
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)((i * 2654435761u + salt * 40503u) >> 13);
}

static void resize_part(const uint8_t *in, int channels, ResizeAxis x, ResizeAxis y, bool flip,
                        uint8_t *out)
{
    ResizeScratch scratch = { 0 };
    ResizeJob job = { .source = in,
                      .source_stride = (size_t)(x.in * channels),
                      .target = out,
                      .target_stride = (size_t)(x.count * channels),
                      .pixel_bytes = channels,
                      .channels = channels,
                      .flip = flip,
                      .x = x,
                      .y = y };
    CHECK_STATUS(resize_image(&job, &scratch), OK);
    resize_scratch_free(&scratch);
}

TEST(parts_and_mirrors_equal_the_whole)
{
    enum { IN_W = 37, IN_H = 23, W = 19, H = 41 };
    static uint8_t in[IN_W * IN_H * 3], whole[W * H * 3], part[W * H * 3];
    fill(in, sizeof in, 1);
    for (int channels = 1; channels <= 3; channels += 2) {
        for (int flip = 0; flip < 2; flip++) {
            ResizeAxis x = { IN_W, W, 4, 9 }, y = { IN_H, H, 11, 17 };
            resize_part(in, channels, (ResizeAxis){ IN_W, W, 0, W }, (ResizeAxis){ IN_H, H, 0, H },
                        false, whole);
            resize_part(in, channels, x, y, flip, part);
            int wrong = 0;
            for (int r = 0; r < y.count; r++)
                for (int k = 0; k < x.count; k++)
                    for (int c = 0; c < channels; c++)
                        wrong +=
                            part[(r * x.count + (flip ? x.count - 1 - k : k)) * channels + c] !=
                            whole[((r + y.first) * W + k + x.first) * channels + c];
            CHECK_INT(wrong, 0);
        }
    }
}

TEST(flat_stays_flat_and_size_stays_same)
{
    static uint8_t in[50 * 40 * 3], out[64 * 64 * 3];
    static const int sizes[] = { 1, 7, 39, 40, 41, 64 };
    for (int value = 0; value < 256; value += 51) {
        memset(in, value, sizeof in);
        for (size_t i = 0; i < 6; i++) {
            int wrong = 0, side = sizes[i];
            resize_part(in, 3, (ResizeAxis){ 50, side, 0, side }, (ResizeAxis){ 40, side, 0, side },
                        false, out);
            for (int k = 0; k < side * side * 3; k++) wrong += out[k] != value;
            CHECK_INT(wrong, 0);
        }
    }
    fill(in, sizeof in, 2);
    resize_part(in, 3, (ResizeAxis){ 50, 50, 0, 50 }, (ResizeAxis){ 40, 40, 0, 40 }, false, out);
    CHECK(memcmp(in, out, 50 * 40 * 3) == 0);
}

/* Every image keeps the flip that it was drawn, and has the other one in odd epochs; where it lies
 * is drawn anew. */
TEST(airbench_view_alternates_flips_and_reflects)
{
    enum { S = 32, IDS = 500 };
    const ViewOptions airbench = { .augment = AUGMENT_AIRBENCH, .image_size = S };
    static uint8_t in[S * S * 3], out[S * S * 3];
    fill(in, sizeof in, 3);
    const Image box = image_packed(in, S, S, 3);
    ViewScratch scratch = { 0 };
    int flips = 0, moved = 0, xs[5] = { 0 }, ys[5] = { 0 };
    for (int64_t id = 0; id < IDS; id++) {
        AugmentPlan p[3];
        for (uint32_t e = 0; e < 3; e++)
            p[e] = augment_draw(&airbench, S, S, S,
                                &(AugmentDraw){ .seed = 4, .epoch = e + 4, .sample = id });
        REQUIRE(abs(p[0].window_x) <= 2 && abs(p[0].window_y) <= 2);
        CHECK(p[0].flip == p[2].flip && p[0].flip != p[1].flip);
        moved += p[0].window_x != p[1].window_x || p[0].window_y != p[1].window_y;
        flips += p[0].flip;
        xs[p[0].window_x + 2]++;
        ys[p[0].window_y + 2]++;
        if (id >= 50) continue;
        CHECK_OK(view_make(&p[0], RESIZE_BILINEAR, &box, 3, &scratch, out));
        int wrong = 0;
        for (int i = 0; i < S * S * 3; i++) {
            int c = i % 3, x = i / 3 % S, y = i / 3 / S + p[0].window_y;
            x = (p[0].flip ? S - 1 - x : x) + p[0].window_x;
            x = x < 0 ? -x : x >= S ? 2 * S - 2 - x : x;
            y = y < 0 ? -y : y >= S ? 2 * S - 2 - y : y;
            wrong += out[i] != in[(y * S + x) * 3 + c];
        }
        CHECK_INT(wrong, 0);
    }
    CHECK_NEAR(flips, IDS / 2, 60);
    CHECK_NEAR(moved, IDS * 24 / 25, 30);
    for (int i = 0; i < 5; i++) {
        CHECK_NEAR(xs[i], IDS / 5, 40);
        CHECK_NEAR(ys[i], IDS / 5, 40);
    }
    view_scratch_free(&scratch);
}

TEST(cifar_view_pads_crops_and_flips)
{
    enum { S = 32 };
    const ViewOptions cifar = { .augment = AUGMENT_CIFAR, .image_size = S };
    static uint8_t in[S * S * 3], out[S * S * 3];
    fill(in, sizeof in, 3);
    const Image box = image_packed(in, S, S, 3);
    ViewScratch scratch = { 0 };
    int flips = 0, xs[9] = { 0 }, ys[9] = { 0 };
    for (int64_t id = 0; id < 900; id++) {
        AugmentPlan p =
            augment_draw(&cifar, S, S, S, &(AugmentDraw){ .seed = 4, .epoch = 1, .sample = id });
        REQUIRE(abs(p.window_x) <= 4 && abs(p.window_y) <= 4);
        flips += p.flip;
        xs[p.window_x + 4]++;
        ys[p.window_y + 4]++;
        if (id >= 50) continue;
        CHECK_OK(view_make(&p, RESIZE_BILINEAR, &box, 3, &scratch, out));
        int wrong = 0;
        for (int i = 0; i < S * S * 3; i++) {
            int c = i % 3, x = i / 3 % S, y = i / 3 / S + p.window_y;
            x = (p.flip ? S - 1 - x : x) + p.window_x;
            bool inside = x >= 0 && x < S && y >= 0 && y < S;
            wrong += out[i] != (inside ? in[(y * S + x) * 3 + c] : 0);
        }
        CHECK_INT(wrong, 0);
    }
    CHECK_NEAR(flips, 450, 60);
    for (int i = 0; i < 9; i++) {
        CHECK_NEAR(xs[i], 100, 40);
        CHECK_NEAR(ys[i], 100, 40);
    }
    view_scratch_free(&scratch);
}

TEST(imagenet_boxes_follow_their_distribution)
{
    enum { DRAWS = 20000, W = 500, H = 400 };
    double area = 0, log_ratio = 0, flips = 0;
    int at_left = 0;
    for (int64_t id = 0; id < DRAWS; id++) {
        AugmentPlan p = augment_draw(&imagenet, W, H, 256,
                                     &(AugmentDraw){ .seed = 8, .epoch = 2, .sample = id });
        REQUIRE(p.box_x >= 0 && p.box_y >= 0 && p.box_x + p.box_width <= W &&
                p.box_y + p.box_height <= H);
        double a = (double)p.box_width * p.box_height / (W * H),
               r = (double)p.box_width / p.box_height;
        CHECK(a > 0.078 && a < 1.01);
        CHECK(r > 0.74 && r < 1.35);
        CHECK(p.width == 224 && p.height == 224 && p.window_x == 0 && p.window_y == 0);
        area += a / DRAWS;
        log_ratio += log(r) / DRAWS;
        flips += p.flip;
        at_left += p.box_x == 0;
    }
    /* References: means of 60,000 boxes of torchvision's get_params on a 500 x 400 image. */
    CHECK_NEAR(area, 0.4534, 0.006);
    CHECK_NEAR(log_ratio, 0.0278, 0.005);
    CHECK_NEAR((double)at_left / DRAWS, 0.0088, 0.005);
    CHECK_NEAR(flips / DRAWS, 0.5, 0.015);
}

/* Not by memcmp: there is padding behind the last field. */
static bool same_plan(const AugmentPlan *a, const AugmentPlan *b)
{
    return a->box_x == b->box_x && a->box_y == b->box_y && a->box_width == b->box_width &&
           a->box_height == b->box_height && a->flip == b->flip && a->window_x == b->window_x &&
           a->window_y == b->window_y;
}

TEST(the_smallest_crop_is_an_option)
{
    enum { DRAWS = 2000, W = 500, H = 400 };
    ViewOptions same = imagenet, large = imagenet, whole = imagenet;
    int changed = 0;
    same.min_crop_area = 0.08;
    large.min_crop_area = 0.5;
    whole.min_crop_area = 1;
    for (int64_t id = 0; id < DRAWS; id++) {
        const AugmentDraw draw = { .seed = 8, .epoch = 2, .sample = id };
        AugmentPlan a = augment_draw(&imagenet, W, H, 256, &draw);
        AugmentPlan b = augment_draw(&same, W, H, 256, &draw);
        AugmentPlan c = augment_draw(&large, W, H, 256, &draw);
        AugmentPlan d = augment_draw(&whole, W, H, 256, &draw);
        CHECK(same_plan(&a, &b));
        changed += !same_plan(&a, &c);
        CHECK((double)c.box_width * c.box_height > 0.49 * W * H);
        CHECK((double)d.box_width * d.box_height > 0.99 * W * H);
    }
    CHECK(changed > DRAWS / 2);
}

TEST(impossible_ratios_fall_back_to_the_centre)
{
    AugmentDraw draw = { .seed = 1, .epoch = 0, .sample = 0 };
    AugmentPlan wide = augment_draw(&imagenet, 3000, 9, 256, &draw);
    CHECK_INT(wide.box_height, 9);
    CHECK_INT(wide.box_width, 12);
    CHECK_INT(wide.box_x, 1494);
    AugmentPlan tall = augment_draw(&imagenet, 9, 3001, 256, &draw);
    CHECK_INT(tall.box_height, 12);
    CHECK_INT(tall.box_y, 1494);
    AugmentPlan pixel = augment_draw(&imagenet, 1, 1, 256, &draw);
    CHECK(pixel.box_width == 1 && pixel.box_height == 1);
}

TEST(draws_depend_on_seed_epoch_and_sample_only)
{
    AugmentDraw base = { .seed = 1, .epoch = 2, .sample = 3 };
    AugmentPlan a = augment_draw(&imagenet, 400, 300, 256, &base);
    AugmentPlan b = augment_draw(&imagenet, 400, 300, 256, &base);
    CHECK(a.box_x == b.box_x && a.box_y == b.box_y && a.box_width == b.box_width &&
          a.flip == b.flip);
    const AugmentDraw others[] = { { .seed = 2, .epoch = 2, .sample = 3 },
                                   { .seed = 1, .epoch = 3, .sample = 3 },
                                   { .seed = 1, .epoch = 2, .sample = 4 } };
    for (int i = 0; i < 3; i++) {
        b = augment_draw(&imagenet, 400, 300, 256, &others[i]);
        CHECK(a.box_x != b.box_x || a.box_y != b.box_y || a.box_width != b.box_width);
    }
}

TEST(interpolation_is_drawn_for_each_view)
{
    int bicubic = 0, mirrored_too = 0;
    for (int64_t sample = 0; sample < 4000; sample++) {
        const AugmentDraw draw = { .seed = 3, .epoch = 2, .sample = sample };
        CHECK_INT(augment_filter(INTERPOLATION_BILINEAR, &draw), RESIZE_BILINEAR);
        CHECK_INT(augment_filter(INTERPOLATION_BICUBIC, &draw), RESIZE_BICUBIC);
        const bool is_bicubic = augment_filter(INTERPOLATION_RANDOM, &draw) == RESIZE_BICUBIC;
        bicubic += is_bicubic;
        mirrored_too += is_bicubic && augment_draw(&imagenet, 300, 200, 0, &draw).flip;
    }
    CHECK_NEAR(bicubic / 4000.0, 0.5, 0.03);
    CHECK_NEAR(mirrored_too / 4000.0, 0.25, 0.03); /* independent of the flip */
}
