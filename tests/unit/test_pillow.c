/* Decoding and views against Pillow, byte for byte: tests/golden/images holds small files of many kinds and the
 * checksums of what Pillow made of them, see scripts/make_pillow_golden.py. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/decode.h"
#include "data/view.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

#define FOLDER "tests/golden/images/"
enum { RESIZE = 37, MOST_BYTES = 64 * 64 * 3 };

typedef struct View { /* one line of views.txt */
    char file[64], kind[16];
    int channels;
    AugmentPlan plan;
    uint32_t crc;
} View;

static bool parse(const char *line, View *v)
{
    AugmentPlan *p = &v->plan;
    int flip = 0;
    int fields = sscanf(line, "%63s %d %15s %d %d %d %d %d %d %d %d %d %d %x", v->file, &v->channels, v->kind,
                        &p->box_x, &p->box_y, &p->box_width, &p->box_height, &p->width, &p->height, &p->window_x,
                        &p->window_y, &p->size, &flip, &v->crc);
    p->flip = flip != 0;
    return fields == 14;
}

static void check_same_plan(const AugmentPlan *got, const AugmentPlan *want)
{
    CHECK_INT(got->width, want->width);
    CHECK_INT(got->height, want->height);
    CHECK_INT(got->window_x, want->window_x);
    CHECK_INT(got->window_y, want->window_y);
}

/* The checksum of our bytes for the view. */
static uint32_t crc_of(const View *v, Decoder *decoder, ViewScratch *scratch)
{
    static uint8_t out[MOST_BYTES];
    char path[128];
    uint8_t *bytes = NULL;
    size_t size = 0;
    ImageView image = { 0 };
    snprintf(path, sizeof path, FOLDER "%s", v->file);
    CHECK_OK(fs_read_file(path, &bytes, &size));
    Status status = decoder_decode(decoder, bytes, size, v->channels, &image);
    mem_free(bytes);
    CHECK_OK(status);
    if (status != OK) return 0;
    size_t channels = (size_t)v->channels;
    if (!strcmp(v->kind, "raw"))
        return str_crc32c(0, image.pixels, (size_t)image.width * (size_t)image.height * channels);
    AugmentPlan centre = augment_center(image.width, image.height, RESIZE, v->plan.size);
    if (!strcmp(v->kind, "center")) check_same_plan(&centre, &v->plan);
    size_t total = (size_t)v->plan.size * (size_t)v->plan.size * channels;
    ASSERT(total <= sizeof out);
    PixelBox box = image_as_box(&image);
    CHECK_OK(view_make(&v->plan, RESIZE_BILINEAR, &box, v->channels, scratch, out));
    return str_crc32c(0, out, total);
}

TEST(decoded_pixels_and_views_are_pillows)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int views = 0;
    Decoder *decoder = NULL;
    ViewScratch scratch = { 0 };
    REQUIRE_OK(fs_read_file(FOLDER "views.txt", &text, &bytes));
    REQUIRE_OK(decoder_create(&decoder));
    const char *line = strchr((const char *)text, '\n'); /* the first one says who made it */
    for (; line && line[1]; line = strchr(line + 1, '\n'), views++) {
        View v;
        REQUIRE(parse(line + 1, &v));
        if (crc_of(&v, decoder, &scratch) == v.crc) continue;
        fprintf(stderr, "differs: %.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        CHECK(!"the bytes of Pillow");
    }
    CHECK_INT(views, 22 * 2 * 7);
    decoder_destroy(decoder);
    view_scratch_free(&scratch);
    mem_free(text);
}
