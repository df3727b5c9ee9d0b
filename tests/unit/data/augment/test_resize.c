/* The resize: every set of kernels makes the same bytes, from any part of the source and into any
 * part of the output, and writes and reads nothing else. What the bytes have to be, test_pillow.c
 * knows. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/augment/resize.h"
#include "data/augment/resize_kernels.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { MARGIN = 64, CANARY = 0xa5, JOBS = 1500 };

static int between(Rng *rng, int low, int high)
{
    return low + (int)rng_below(rng, (uint64_t)(high - low + 1));
}

/* One time in four the same size, else small, or anything up to most. */
static ResizeAxis random_axis(Rng *rng, int most)
{
    ResizeAxis a = { .in = between(rng, 1, between(rng, 0, 1) ? 12 : most) };
    a.out = between(rng, 0, 3) ? between(rng, 1, between(rng, 0, 1) ? 12 : most) : a.in;
    a.count = between(rng, 1, a.out);
    a.first = between(rng, 0, a.out - a.count);
    return a;
}

static ResizeJob random_job(Rng *rng)
{
    ResizeJob job = { .x = random_axis(rng, 300), .y = random_axis(rng, 60) };
    job.channels = between(rng, 0, 3) ? 3 : 1;
    job.pixel_bytes = job.channels == 3 && between(rng, 0, 2) ? 4 : job.channels;
    job.flip = between(rng, 0, 1) == 1;
    job.filter = (ResizeFilter)between(rng, 0, RESIZE_FILTER_COUNT - 1);
    job.target_stride = (size_t)(job.x.count * job.channels + between(rng, 0, 5));
    return job;
}

/* A source that holds what the job needs and not a byte more, with the extremes that make a resize
 * overshoot. */
static uint8_t *make_source(Rng *rng, ResizeJob *job)
{
    int right, bottom;
    resize_needs(&job->x, job->filter, &job->source_x, &right);
    resize_needs(&job->y, job->filter, &job->source_y, &bottom);
    CHECK(job->source_x >= 0 && right <= job->x.in && job->source_y >= 0 && bottom <= job->y.in);
    size_t width = (size_t)(right - job->source_x), height = (size_t)(bottom - job->source_y);
    job->source_stride = width * (size_t)job->pixel_bytes;
    size_t bytes = job->source_stride * height;
    uint8_t *source = mem_alloc(bytes); /* exactly, so that the sanitizer sees one byte too many */
    int kind = between(rng, 0, 2);
    for (size_t i = 0; source && i < bytes; i++)
        source[i] = (uint8_t)(kind ? rng_u32(rng) : rng_u32(rng) % 2 ? 255 : 0);
    job->source = source;
    return source;
}

/* The target with canaries around and between; returns to caller. */
static uint8_t *run(const ResizeKernels *kernels, ResizeJob job, ResizeScratch *scratch,
                    size_t *bytes)
{
    *bytes = 2 * MARGIN + job.target_stride * (size_t)job.y.count;
    uint8_t *block = mem_alloc(*bytes);
    if (!block) return NULL;
    memset(block, CANARY, *bytes);
    job.target = block + MARGIN;
    CHECK_OK(resize_image_with(kernels, &job, scratch));
    return block;
}

static bool canaries_live(const ResizeJob *job, const uint8_t *block, size_t bytes)
{
    size_t width = (size_t)(job->x.count * job->channels);
    for (size_t i = 0; i < bytes; i++) {
        bool inside =
            i >= MARGIN && i < bytes - MARGIN && (i - MARGIN) % job->target_stride < width;
        if (!inside && block[i] != CANARY) return false;
    }
    return true;
}

static void compare_kernels(const ResizeKernels *kernels)
{
    ResizeScratch scratch = { 0 };
    for (uint32_t i = 0; i < JOBS; i++) {
        Rng rng = rng_at(1, RNG_TEST, i, 0);
        ResizeJob job = random_job(&rng);
        uint8_t *source = make_source(&rng, &job);
        size_t bytes = 0;
        uint8_t *want = run(&resize_kernels_portable, job, &scratch, &bytes);
        uint8_t *got = run(kernels, job, &scratch, &bytes);
        REQUIRE(source && want && got);
        bool same = memcmp(want, got, bytes) == 0 && canaries_live(&job, got, bytes);
        mem_free(source);
        mem_free(want);
        mem_free(got);
        if (same) continue;
        fprintf(stderr,
                "job %u, %s: filter %d, %d channels in %d bytes, flip %d, x %d to %d (%d + %d), y "
                "%d to %d\n",
                i, kernels->name, (int)job.filter, job.channels, job.pixel_bytes, job.flip,
                job.x.in, job.x.out, job.x.first, job.x.count, job.y.in, job.y.out);
        CHECK(!"the bytes of the portable kernels");
        break;
    }
    resize_scratch_free(&scratch);
}

TEST(portable_kernels_write_nothing_else)
{
    compare_kernels(&resize_kernels_portable); /* with itself: the canaries */
}

TEST(avx2_makes_the_portable_bytes)
{
    if (resize_kernels_avx2()) compare_kernels(resize_kernels_avx2());
    else test_skip("this processor has no AVX2");
}

TEST(avx512_makes_the_portable_bytes)
{
    if (resize_kernels_avx512()) compare_kernels(resize_kernels_avx512());
    else test_skip("this processor has no AVX-512 with VNNI");
}

/* Any window of the output is that part of the whole output. */
TEST(a_window_is_a_part_of_the_whole)
{
    ResizeScratch scratch = { 0 };
    for (uint32_t i = 0; i < 200; i++) {
        Rng rng = rng_at(2, RNG_TEST, i, 0);
        ResizeJob part = random_job(&rng), whole = part;
        size_t bytes, part_bytes, c = (size_t)part.channels;
        whole.x.first = whole.y.first = 0;
        whole.x.count = whole.x.out;
        whole.y.count = whole.y.out;
        whole.target_stride = (size_t)whole.x.out * c;
        uint8_t *source = make_source(&rng, &whole);
        part.source = whole.source;
        part.source_stride = whole.source_stride;
        part.source_x = whole.source_x;
        part.source_y = whole.source_y;
        uint8_t *want = run(&resize_kernels_portable, whole, &scratch, &bytes);
        uint8_t *got = run(&resize_kernels_portable, part, &scratch, &part_bytes);
        REQUIRE(source && want && got);
        size_t left = (size_t)(part.flip ? part.x.out - part.x.first - part.x.count : part.x.first);
        bool same = true;
        for (size_t y = 0; y < (size_t)part.y.count; y++)
            same = same && memcmp(got + MARGIN + y * part.target_stride,
                                  want + MARGIN + ((size_t)part.y.first + y) * whole.target_stride +
                                      left * c,
                                  (size_t)part.x.count * c) == 0;
        CHECK(same);
        mem_free(source);
        mem_free(want);
        mem_free(got);
    }
    resize_scratch_free(&scratch);
}
