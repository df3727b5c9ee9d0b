/* recode_jpeg.c - libjpeg's transcoding interface behind a function that returns a Status.
 *
 * As in jpeg_decoder.c an error jumps back to the function that set the point, and what is read
 * after the jump lies in a struct that outlives it. Any warning counts as damage here: a file that
 * is not perfect stays as it is. */
#include "data/decode/recode_jpeg.h"
#include "base/mem.h"
#include "data/decode/image.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#include <jerror.h>

#define MAX_SCANS         200
#define MAX_LIBRARY_BYTES (1L << 30)
#define FIRST_BYTES       ((size_t)256 << 10)

typedef struct Recoder {
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_destination_mgr to;
    jmp_buf on_error;
    ByteBuf *buf;
    size_t written;
    bool done;
    Status status;
} Recoder;

static void give_up(j_common_ptr common)
{
    Recoder *r = common->client_data;
    if (common->err->msg_code == JERR_OUT_OF_MEMORY)
        r->status = fail(ERR_MEMORY, "libjpeg: out of memory");
    longjmp(r->on_error, 1);
}

static void take_message(j_common_ptr common, int level)
{
    if (level < 0) give_up(common);
}

static void no_output(j_common_ptr common)
{
    (void)common;
}

static void watch_scans(j_common_ptr common)
{
    Recoder *r = common->client_data;
    if (r->in.input_scan_number > MAX_SCANS) longjmp(r->on_error, 1);
}

/* ---- destination: a buffer that grows ---- */

static void offer_room(Recoder *r, size_t least)
{
    r->status = byte_buf_reserve(r->buf, r->written + least);
    if (r->status != OK) longjmp(r->on_error, 1);
    r->to.next_output_byte = r->buf->data + r->written;
    r->to.free_in_buffer = r->buf->capacity - r->written;
}

static void begin_output(j_compress_ptr out)
{
    offer_room(out->client_data, FIRST_BYTES);
}

static boolean more_room(j_compress_ptr out) /* called when the buffer is full to the end */
{
    Recoder *r = out->client_data;
    r->written = r->buf->capacity;
    offer_room(r, r->buf->capacity);
    return TRUE;
}

static void end_output(j_compress_ptr out)
{
    Recoder *r = out->client_data;
    r->written = r->buf->capacity - r->to.free_in_buffer;
}

/* ---- the work; all of it under the setjmp below ---- */

static void recode(Recoder *r, const uint8_t *data, size_t size)
{
    jpeg_create_decompress(&r->in);
    r->in.mem->max_memory_to_use = MAX_LIBRARY_BYTES;
    r->progress.progress_monitor = watch_scans;
    r->in.progress = &r->progress;
    jpeg_mem_src(&r->in, data, (unsigned long)size);
    jpeg_read_header(&r->in, TRUE);
    if (!r->in.progressive_mode || image_check_size(r->in.image_width, r->in.image_height) != OK)
        return;
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&r->in);
    jpeg_create_compress(&r->out);
    r->out.dest = &r->to;
    jpeg_copy_critical_parameters(&r->in, &r->out);
    r->out.optimize_coding = TRUE;
    r->out.scan_info = NULL; /* one scan: baseline */
    r->out.num_scans = 0;
    jpeg_write_coefficients(&r->out, coefficients);
    jpeg_finish_compress(&r->out);
    r->done = true;
}

Status recode_jpeg_to_baseline(const uint8_t *data, size_t size, ByteBuf *out, size_t *bytes)
{
    *bytes = 0;
    if (size < 3 || memcmp(data, "\xff\xd8\xff", 3) != 0) return OK;
    Recoder *r FREED = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->buf = out;
    r->in.err = r->out.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = give_up;
    r->errors.emit_message = take_message;
    r->errors.output_message = no_output;
    r->in.client_data = r->out.client_data = r;
    r->to.init_destination = begin_output;
    r->to.empty_output_buffer = more_room;
    r->to.term_destination = end_output;
    if (!setjmp(r->on_error)) recode(r, data, size);
    jpeg_destroy_compress(&r->out);
    jpeg_destroy_decompress(&r->in);
    if (r->done) *bytes = r->written;
    return r->status;
}
