/* The demo's pictures must need a look at the shape: colour alone must not tell their classes
 * apart. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/shapes.h"
#include <string.h>

#define TRAIN_EACH 60
#define VAL_EACH   40
#define NOMINAL    40

static void mean_colour(int label, uint32_t number, double out[3])
{
    int width, height;
    shapes_size(1, label, number, NOMINAL, &width, &height);
    size_t pixels = (size_t)width * (size_t)height;
    uint8_t *image = mem_alloc(pixels * 3);
    REQUIRE(image != NULL);
    shapes_draw(1, label, number, width, height, image);
    for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (size_t i = 0; i < pixels; i++) sum += image[3 * i + (size_t)c];
        out[c] = sum / (double)pixels;
    }
    mem_free(image);
}

static int nearest(double means[SHAPES_CLASSES][3], const double colour[3])
{
    int best = 0;
    double best_distance = 1e30;
    for (int k = 0; k < SHAPES_CLASSES; k++) {
        double distance = 0;
        for (int c = 0; c < 3; c++)
            distance += (means[k][c] - colour[c]) * (means[k][c] - colour[c]);
        if (distance < best_distance) {
            best_distance = distance;
            best = k;
        }
    }
    return best;
}

TEST(mean_colour_does_not_tell_classes_apart)
{
    double means[SHAPES_CLASSES][3] = { { 0 } }, colour[3];
    for (int k = 0; k < SHAPES_CLASSES; k++) {
        for (uint32_t i = 0; i < TRAIN_EACH; i++) {
            mean_colour(k, i, colour);
            for (int c = 0; c < 3; c++) means[k][c] += colour[c] / TRAIN_EACH;
        }
    }
    int right = 0;
    for (int k = 0; k < SHAPES_CLASSES; k++) {
        for (uint32_t i = 0; i < VAL_EACH; i++) {
            mean_colour(k, 1000000 + i, colour);
            right += nearest(means, colour) == k;
        }
    }
    CHECK(right < 0.4 * SHAPES_CLASSES * VAL_EACH);
}

TEST(pictures_repeat_and_vary)
{
    enum { SIDE = 24, BYTES = SIDE * SIDE * 3 };
    static uint8_t a[BYTES], b[BYTES];
    shapes_draw(1, 2, 3, SIDE, SIDE, a);
    shapes_draw(1, 2, 3, SIDE, SIDE, b);
    CHECK(memcmp(a, b, BYTES) == 0);
    shapes_draw(1, 2, 4, SIDE, SIDE, b);
    CHECK(memcmp(a, b, BYTES) != 0);
    shapes_draw(2, 2, 3, SIDE, SIDE, b);
    CHECK(memcmp(a, b, BYTES) != 0);
    int widths = 0, first = 0, width, height;
    shapes_size(1, 0, 0, 64, &first, &height);
    for (uint32_t i = 1; i < 20; i++) {
        shapes_size(1, 0, i, 64, &width, &height);
        widths += width != first;
        CHECK(width >= 30 && width <= 100 && height >= 30 && height <= 100);
    }
    CHECK(widths > 10);
}
