/* decode_jpeg.c - libjpeg-turbo behind a function that returns a Status.
 *
 * Errors: libjpeg reports them by a callback that must not return, so error_exit jumps back into jpeg_decode_rgb. The
 * jump stays in this file; nothing is allocated by us across it that would be lost, and locals that are read after it
 * do not change between setjmp and longjmp. Warnings do not stop the decoder: like Pillow we accept them, except the
 * one that says the data ended before the last row, after which libjpeg paints grey.
 *
 * Settings are the library's defaults (exact integer DCT, smooth chroma upsampling), which are Pillow's too, so pixels
 * are equal. Grey files stay grey (1 channel) and are replicated where the caller wants 3. Limits stop decompression
 * bombs: pixels, memory, and the number of scans of a progressive file. */
#include "base/mem.h"
#include "data/decode.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h>

#define MAX_SCANS         200
#define MAX_LIBRARY_BYTES (1L << 30)
#define ROWS_PER_READ     16

typedef struct JpegDecoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf on_error;
    bool created;
    bool cut_short; /* the data ended before the image did */
    Status status;  /* of an error that is not the file's */
    char reason[JMSG_LENGTH_MAX];
} JpegDecoder;

static void error_exit(j_common_ptr common)
{
    JpegDecoder *j = common->client_data;
    /* Says nothing about the file: a picture over MAX_LIBRARY_BYTES gets JERR_NO_BACKING_STORE instead. */
    if (common->err->msg_code == JERR_OUT_OF_MEMORY) j->status = ERR_MEMORY;
    common->err->format_message(common, j->reason);
    longjmp(j->on_error, 1);
}

static void emit_message(j_common_ptr common, int level)
{
    JpegDecoder *j = common->client_data;
    if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF) j->cut_short = true;
}

static void output_message(j_common_ptr common)
{
    (void)common; /* the library would print to stderr */
}

_Noreturn static void give_up(JpegDecoder *j, Status status, const char *reason)
{
    j->status = status;
    snprintf(j->reason, sizeof j->reason, "%s", reason);
    longjmp(j->on_error, 1);
}

static void watch_scans(j_common_ptr common)
{
    JpegDecoder *j = common->client_data;
    if (j->info.input_scan_number > MAX_SCANS) give_up(j, ERR_DATA, "JPEG with too many scans");
}

Status jpeg_decoder_create(JpegDecoder **out)
{
    *out = NULL;
    JpegDecoder *j = mem_calloc(1, sizeof *j);
    if (!j) return ERR_MEMORY;
    j->info.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = error_exit;
    j->errors.emit_message = emit_message;
    j->errors.output_message = output_message;
    j->info.client_data = j;
    if (setjmp(j->on_error)) {
        Status status = fail(ERR_MEMORY, "libjpeg: %s", j->reason);
        jpeg_decoder_destroy(j);
        return status;
    }
    jpeg_create_decompress(&j->info);
    j->created = true;
    j->info.mem->max_memory_to_use = MAX_LIBRARY_BYTES;
    j->progress.progress_monitor = watch_scans;
    j->info.progress = &j->progress;
    *out = j;
    return OK;
}

void jpeg_decoder_destroy(JpegDecoder *j)
{
    if (!j) return;
    if (j->created) jpeg_destroy_decompress(&j->info);
    mem_free(j);
}

/* Pillow's arithmetic: Adobe writes CMYK inverted and Pillow takes every CMYK JPEG as such, so here 255 means no ink.
 * In place is not possible backwards, but it is forwards: 3 bytes are written where 4 were read. */
static void cmyk_to_rgb(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *in = pixels + 4 * i;
        int not_black = in[3], rgb[3];
        for (int c = 0; c < 3; c++) {
            int product = (255 - in[c]) * not_black + 128;
            rgb[c] = not_black - (((product >> 8) + product) >> 8);
        }
        for (int c = 0; c < 3; c++) pixels[3 * i + (size_t)c] = (uint8_t)(rgb[c] < 0 ? 0 : rgb[c]);
    }
}

static void read_header(JpegDecoder *j)
{
    struct jpeg_decompress_struct *info = &j->info;
    jpeg_read_header(info, TRUE);
    if (decode_check_size(info->image_width, info->image_height) != OK) give_up(j, ERR_DATA, status_message());
    switch (info->num_components) {
    case 1:
        info->out_color_space = JCS_GRAYSCALE;
        break;
    case 3:
        info->out_color_space = JCS_RGB;
        break;
    case 4:
        info->out_color_space = JCS_CMYK;
        break;
    default:
        give_up(j, ERR_DATA, "JPEG with neither 1, 3 nor 4 components");
    }
}

static void read_rows(JpegDecoder *j, uint8_t *pixels)
{
    struct jpeg_decompress_struct *info = &j->info;
    size_t row_bytes = (size_t)info->output_width * (size_t)info->output_components;
    JSAMPROW rows[ROWS_PER_READ];
    while (info->output_scanline < info->output_height) {
        JDIMENSION left = info->output_height - info->output_scanline;
        JDIMENSION wanted = left < ROWS_PER_READ ? left : ROWS_PER_READ;
        for (JDIMENSION i = 0; i < wanted; i++) rows[i] = pixels + (info->output_scanline + i) * row_bytes;
        jpeg_read_scanlines(info, rows, wanted);
        if (j->cut_short) give_up(j, ERR_DATA, "the JPEG data is cut short");
    }
}

/* All of this runs under the setjmp of jpeg_decode_rgb. */
static void decode_all(JpegDecoder *j, const uint8_t *bytes, size_t size, ByteBuf *pixels)
{
    struct jpeg_decompress_struct *info = &j->info;
    jpeg_mem_src(info, bytes, (unsigned long)size);
    read_header(j);
    jpeg_start_decompress(info);
    size_t total = (size_t)info->output_width * info->output_height * (size_t)info->output_components;
    Status status = buf_reserve(pixels, total);
    if (status != OK) give_up(j, status, status_message());
    read_rows(j, pixels->data);
}

Status jpeg_decode_rgb(JpegDecoder *j, const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view)
{
    j->cut_short = false;
    j->status = ERR_DATA;
    if (setjmp(j->on_error)) {
        jpeg_abort_decompress(&j->info);
        return fail(j->status, "%s", j->reason);
    }
    decode_all(j, bytes, size, pixels);
    *view = (ImageView){ .pixels = pixels->data,
                         .width = (int)j->info.output_width,
                         .height = (int)j->info.output_height,
                         .channels = j->info.output_components };
    if (view->channels == 4) {
        cmyk_to_rgb(pixels->data, (size_t)view->width * (size_t)view->height);
        view->channels = 3;
    }
    jpeg_abort_decompress(&j->info); /* keeps the object for the next image */
    return OK;
}
