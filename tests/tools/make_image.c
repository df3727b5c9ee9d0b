/* make_image.c - one picture in a form that make_shapes does not write: make_image KIND FILE. For
 * tests/e2e.
 *
 * KIND: cmyk, ycck, grey, progressive (JPEG), png, png-grey, png-alpha. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/tools/image_write.h"
#include "tests/tools/shapes.h"
#include <stdio.h>
#include <string.h>

enum { SIDE = 48, MAX_CHANNELS = 4, SEED = 1, LABEL = 3 };

typedef struct KindRow {
    const char *name;
    int channels;
    bool is_png;
    JpegSettings jpeg;
    PngSettings png;
} KindRow;

static const KindRow kinds[] = {
    { "cmyk", 4, false, { .channels = 4, .quality = 90 }, { 0 } },
    { "ycck", 4, false, { .channels = 4, .quality = 90, .ycck = true }, { 0 } },
    { "grey", 1, false, { .channels = 1, .quality = 90 }, { 0 } },
    { "progressive", 3, false, { .channels = 3, .quality = 90, .progressive = true }, { 0 } },
    { "png", 3, true, { 0 }, { .colour_type = 2, .bit_depth = 8 } },
    { "png-grey", 1, true, { 0 }, { .colour_type = 0, .bit_depth = 8 } },
    { "png-alpha", 4, true, { 0 }, { .colour_type = 6, .bit_depth = 8 } },
};

static const KindRow *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

/* The shape in the first channels, 255 in a fourth one. */
static void fill(uint8_t *out, int channels)
{
    uint8_t rgb[SIDE * SIDE * 3];
    shapes_draw(SEED, LABEL, 0, SIDE, SIDE, rgb);
    for (int i = 0; i < SIDE * SIDE; i++)
        for (int c = 0; c < channels; c++) out[i * channels + c] = c < 3 ? rgb[i * 3 + c] : 255;
}

static Status make(const KindRow *kind, const char *path)
{
    uint8_t pixels[SIDE * SIDE * MAX_CHANNELS], *bytes = NULL;
    size_t size = 0;
    fill(pixels, kind->channels);
    Status status = kind->is_png
                        ? image_encode_png(pixels, (size_t)SIDE * (size_t)kind->channels, SIDE,
                                           SIDE, &kind->png, &bytes, &size)
                        : image_encode_jpeg(pixels, SIDE, SIDE, &kind->jpeg, &bytes, &size);
    if (status == OK) status = fs_write_atomic(path, bytes, size);
    mem_free(bytes);
    return status;
}

int main(int argc, char **argv)
{
    const KindRow *kind = argc == 3 ? find_kind(argv[1]) : NULL;
    Status status =
        kind ? make(kind, argv[2])
             : fail(ERR_USAGE, "usage: make_image KIND FILE; the kinds are in make_image.c");
    if (status != OK) fprintf(stderr, "make_image: %s\n", status_message());
    return status_exit_code(status);
}
