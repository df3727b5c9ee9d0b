/* Decoding and views against Pillow, byte for byte: tests/golden/images holds small files of many
 * kinds and the checksums of what Pillow made of them, see scripts/golden/make_pillow_golden.py.
 * Every way to a view has to give them. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/augment/view.h"
#include "data/decode/decoder.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

#define FOLDER "tests/golden/images/"
enum { RESIZE = 37, MOST_BYTES = 64 * 64 * 3, FILES = 28, VIEWS = 11 };

typedef struct View { /* one line of views.txt */
    char file[64], kind[16], filter[16];
    int channels;
    AugmentPlan plan;
    uint32_t crc;
} View;

typedef struct Tools {
    Decoder *decoder;
    ViewScratch scratch;
    ByteBuf index;
} Tools;

static bool parse(const char *line, View *v)
{
    AugmentPlan *p = &v->plan;
    int flip = 0;
    int fields =
        sscanf(line, "%63s %d %15s %15s %d %d %d %d %d %d %d %d %d %d %x", v->file, &v->channels,
               v->kind, v->filter, &p->box_x, &p->box_y, &p->box_width, &p->box_height, &p->width,
               &p->height, &p->window_x, &p->window_y, &p->size, &flip, &v->crc);
    p->flip = flip != 0;
    p->reflect = false;
    return fields == 15;
}

static void check_same_plan(const AugmentPlan *got, const AugmentPlan *want)
{
    CHECK_INT(got->width, want->width);
    CHECK_INT(got->height, want->height);
    CHECK_INT(got->window_x, want->window_x);
    CHECK_INT(got->window_y, want->window_y);
}

/* The checksum of the whole decoded image. */
static uint32_t crc_of_whole(const View *v, Tools *t, const EncodedImage *file)
{
    Image image = { 0 };
    CHECK_OK(decoder_decode(t->decoder, file->bytes, file->size, v->channels, &image));
    return crc32c_update(0, image.pixels, image_bytes(&image));
}

/* The checksum of the view, of which only the part that it needs is decoded. */
static uint32_t crc_of_view(const View *v, Tools *t, const EncodedImage *file)
{
    static uint8_t out[MOST_BYTES];
    int width = 0, height = 0;
    Image pixels = { 0 };
    ResizeFilter filter = strcmp(v->filter, "bicubic") == 0 ? RESIZE_BICUBIC : RESIZE_BILINEAR;
    size_t total = (size_t)v->plan.size * (size_t)v->plan.size * (size_t)v->channels;
    ASSERT(total <= sizeof out);
    CHECK_OK(decoder_open(t->decoder, file, &width, &height));
    AugmentPlan centre = augment_center(width, height, RESIZE, v->plan.size);
    if (strcmp(v->kind, "center") == 0) check_same_plan(&centre, &v->plan);
    ImageBox needed = view_needs(&v->plan, filter);
    CHECK_OK(decoder_read(t->decoder, &needed, &pixels));
    CHECK_OK(view_make(&v->plan, filter, &pixels, v->channels, &t->scratch, out));
    return crc32c_update(0, out, total);
}

static bool check_view(const View *v, Tools *t)
{
    static const char *const ways[] = { "libjpeg", "fast", "with an index" };
    char path[128];
    uint8_t *bytes = NULL;
    EncodedImage file = { 0 };
    size_t index_bytes = 0;
    bool good = true;
    snprintf(path, sizeof path, FOLDER "%s", v->file);
    CHECK_OK(fs_read_file(path, &bytes, &file.size));
    file.bytes = bytes;
    CHECK_OK(decoder_build_seek_index(t->decoder, bytes, file.size, 2, &t->index, &index_bytes));
    for (int way = 0; way < 3; way++) {
        decoder_use_stock(t->decoder, way == 0);
        file.seek = way == 2 && index_bytes ? t->index.data : NULL;
        file.seek_bytes = file.seek ? index_bytes : 0;
        uint32_t crc =
            strcmp(v->kind, "raw") == 0 ? crc_of_whole(v, t, &file) : crc_of_view(v, t, &file);
        if (crc == v->crc) continue;
        fprintf(stderr, "differs, %s: ", ways[way]);
        good = false;
    }
    mem_free(bytes);
    return good;
}

TEST(decoded_pixels_and_views_are_pillows)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int views = 0;
    Tools t = { 0 };
    REQUIRE_OK(fs_read_file(FOLDER "views.txt", &text, &bytes));
    REQUIRE_OK(decoder_create(&t.decoder));
    const char *line = strchr((const char *)text, '\n'); /* the first one says who made it */
    for (; line && line[1]; line = strchr(line + 1, '\n'), views++) {
        View v;
        REQUIRE(parse(line + 1, &v));
        if (check_view(&v, &t)) continue;
        fprintf(stderr, "%.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        CHECK(!"the bytes of Pillow");
    }
    CHECK_INT(views, FILES * 2 * VIEWS);
    decoder_destroy(t.decoder);
    view_scratch_free(&t.scratch);
    byte_buf_free(&t.index);
    mem_free(text);
}
