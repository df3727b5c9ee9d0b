/* test_whiten.c - filters that whiten patches, against torch.linalg.eigh's of the same images
 * (scripts/golden/make_whiten_golden.py), and what they are for. */
#include "base/mem.h"
#include "models/whiten.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include <math.h>

enum { IMAGES = 20, SIDE = 16, CHANNELS = 3, N = 12 };
static const float mean[] = { 0.4914F, 0.4822F, 0.4465F },
                   deviation[] = { 0.2470F, 0.2435F, 0.2616F };

static int byte(uint32_t stream, int index)
{
    return (int)floor(network_uniform(stream, (uint32_t)index) * 256);
}

/* Blocks of 4 x 3 pixels of their own brightness, grain upon them, and less of both with each
 * channel. */
static void make_image(int n, uint8_t *out)
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int c = 0; c < CHANNELS; c++) {
                const int block = byte(11, (n * SIDE + y / 3) * SIDE + x / 4),
                          grain = byte(12, ((n * SIDE + y) * SIDE + x) * CHANNELS + c);
                out[(y * SIDE + x) * CHANNELS + c] =
                    (uint8_t)((block * (6 - c) + grain * (1 + c)) / 8);
            }
}

static void make_filters(float *out)
{
    uint8_t image[SIDE * SIDE * CHANNELS];
    Whiten *w = NULL;
    REQUIRE_OK(whiten_create(&w, CHANNELS, 2, 2));
    for (int n = 0; n < IMAGES; n++) {
        make_image(n, image);
        whiten_add(w, image, SIDE, SIDE, mean, deviation);
    }
    CHECK_OK(whiten_filters(w, out));
    whiten_destroy(w);
}

/* Eigenvectors have no sign: torch's are turned as ours are. */
TEST(filters_are_torchs)
{
    double want[GOLDEN_VALUES];
    float got[2 * N * N];
    make_filters(got);
    REQUIRE(golden_read("whiten", "filters", want) == N * N);
    for (int k = 0; k < N; k++) {
        double dot = 0, largest = 0;
        for (int i = 0; i < N; i++) {
            dot += (double)got[k * N + i] * want[k * N + i];
            largest = fmax(largest, fabs(want[k * N + i]));
        }
        for (int i = 0; i < N; i++) {
            CHECK_NEAR((double)got[k * N + i], copysign(1, dot) * want[k * N + i], 2e-6 * largest);
            CHECK(got[(N + k) * N + i] == -got[k * N + i]);
        }
    }
}

/* Over all patches what the filters make has second moments value / (value + eps): 1 but for what
 * the images hardly have. */
TEST(filtered_patches_are_white)
{
    static double moments[N][N];
    uint8_t image[SIDE * SIDE * CHANNELS];
    float filters[2 * N * N];
    int64_t patches = 0;
    make_filters(filters);
    for (int n = 0; n < IMAGES; n++) {
        make_image(n, image);
        for (int y = 0; y + 1 < SIDE; y++)
            for (int x = 0; x + 1 < SIDE; x++, patches++) {
                double made[N] = { 0 };
                for (int k = 0; k < N; k++)
                    for (int i = 0; i < N; i++) {
                        const int c = i / 4, at = (y + i % 4 / 2) * SIDE + x + i % 2;
                        const double v = image[at * CHANNELS + c] / 255.0;
                        made[k] += (double)filters[k * N + i] *
                                   ((v - (double)mean[c]) / (double)deviation[c]);
                    }
                for (int i = 0; i < N; i++)
                    for (int j = 0; j < N; j++) moments[i][j] += made[i] * made[j];
            }
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            CHECK_NEAR(moments[i][j] / (double)patches, i == j ? 1 : 0, i == j ? 0.05 : 1e-4);
}

TEST(images_without_a_patch)
{
    const uint8_t pixel[] = { 1, 2, 3 };
    float filters[2 * N * N];
    Whiten *w = NULL;
    REQUIRE_OK(whiten_create(&w, CHANNELS, 2, 2));
    whiten_add(w, pixel, 1, 1, mean, deviation);
    CHECK_STATUS(whiten_filters(w, filters), ERR_DATA);
    whiten_destroy(w);
}

/* All alike: one direction, and nothing in the others, which are not divided by zero. */
TEST(images_of_one_colour)
{
    static const uint8_t image[SIDE * SIDE * CHANNELS] = { 0 };
    float filters[2 * N * N];
    double norm = 0;
    Whiten *w = NULL;
    REQUIRE_OK(whiten_create(&w, CHANNELS, 2, 2));
    whiten_add(w, image, SIDE, SIDE, mean, deviation);
    CHECK_OK(whiten_filters(w, filters));
    for (int i = 0; i < 2 * N * N; i++) CHECK(isfinite(filters[i]));
    for (int i = 0; i < N; i++) norm += (double)filters[N + i] * (double)filters[N + i];
    CHECK_NEAR(sqrt(norm), 1 / sqrt(5e-4), 1e-3);
    whiten_destroy(w);
}
