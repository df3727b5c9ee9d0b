/* image_write.c - libjpeg-turbo and libspng as encoders. Test code: an error of the libraries is a
 * broken test and aborts. */
#include "tests/tools/image_write.h"
#include "base/mem.h"
#include <spng.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#define HEADER_ROOM 65536

static void set_colours(struct jpeg_compress_struct *info, const JpegSettings *s)
{
    info->input_components = s->channels;
    info->in_color_space = s->channels == 1 ? JCS_GRAYSCALE : s->channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, s->quality, TRUE);
    if (s->channels == 4) jpeg_set_colorspace(info, s->ycck ? JCS_YCCK : JCS_CMYK);
    int factor = s->channels == 3 && s->subsample ? 2 : 1;
    info->comp_info[0].h_samp_factor = s->h_sampling ? s->h_sampling : factor;
    info->comp_info[0].v_samp_factor = s->v_sampling ? s->v_sampling : factor;
    info->restart_in_rows = s->restart_rows;
    info->optimize_coding = s->optimize ? TRUE : FALSE;
    info->arith_code = s->arithmetic ? TRUE : FALSE;
    if (s->progressive) jpeg_simple_progression(info);
}

Status image_encode_jpeg(const uint8_t *pixels, int width, int height, const JpegSettings *s,
                         uint8_t **out, size_t *bytes)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    size_t stride = (size_t)width * (size_t)s->channels;
    unsigned long size = 2 * (unsigned long)stride * (unsigned long)height + HEADER_ROOM;
    uint8_t *buffer = mem_alloc(size);
    uint8_t *row = mem_alloc(stride); /* the library's row pointers are not const */
    unsigned char *written = buffer;
    if (!buffer || !row) return ERR_MEMORY;
    info.err = jpeg_std_error(&errors); /* prints and exits on error */
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &written, &size);
    info.image_width = (JDIMENSION)width;
    info.image_height = (JDIMENSION)height;
    set_colours(&info, s);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW rows[1] = { row };
        memcpy(row, pixels + info.next_scanline * stride, stride);
        jpeg_write_scanlines(&info, rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    mem_free(row);
    ASSERT(written == buffer); /* else the library had to allocate a larger one */
    *out = buffer;
    *bytes = size;
    return OK;
}

typedef struct Sink {
    uint8_t *data;
    size_t bytes, capacity;
} Sink;

static int sink_write(spng_ctx *png, void *user, void *data, size_t length)
{
    (void)png;
    Sink *sink = user;
    if (sink->bytes + length > sink->capacity) return SPNG_IO_ERROR;
    memcpy(sink->data + sink->bytes, data, length);
    sink->bytes += length;
    return 0;
}

static void set_palette(spng_ctx *png, const PngSettings *s)
{
    struct spng_plte palette = { .n_entries = (uint32_t)s->palette_entries };
    for (int i = 0; i < s->palette_entries; i++)
        palette.entries[i] = (struct spng_plte_entry){ .red = s->palette[3 * i],
                                                       .green = s->palette[3 * i + 1],
                                                       .blue = s->palette[3 * i + 2] };
    ASSERT(spng_set_plte(png, &palette) == 0);
}

Status image_encode_png(const uint8_t *rows, size_t row_bytes, int width, int height,
                        const PngSettings *s, uint8_t **out, size_t *bytes)
{
    size_t total = row_bytes * (size_t)height;
    Sink sink = { .capacity = 2 * total + HEADER_ROOM };
    if (!(sink.data = mem_alloc(sink.capacity))) return ERR_MEMORY;
    struct spng_ihdr header = { .width = (uint32_t)width,
                                .height = (uint32_t)height,
                                .bit_depth = (uint8_t)s->bit_depth,
                                .color_type = (uint8_t)s->colour_type };
    spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
    ASSERT(png != NULL);
    ASSERT(spng_set_png_stream(png, sink_write, &sink) == 0);
    ASSERT(spng_set_ihdr(png, &header) == 0);
    if (s->colour_type == SPNG_COLOR_TYPE_INDEXED) set_palette(png, s);
    ASSERT(spng_encode_image(png, rows, total, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) == 0);
    spng_ctx_free(png);
    *out = sink.data;
    *bytes = sink.bytes;
    return OK;
}
