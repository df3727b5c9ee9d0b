/* jpeg_decoder.c - libjpeg-turbo behind functions that return a Status.
 *
 * Errors: libjpeg reports them by a callback that must not return, so error_exit jumps back into
 * the function of this file that called the library. Nothing is allocated by us across the jump
 * that would be lost, and locals that are read after it do not change between setjmp and longjmp.
 * Warnings do not stop the decoder: like Pillow we accept them, except that the data ended before
 * the picture, after which libjpeg paints grey.
 *
 * Good or bad. The verdict is Pillow's, which it finds by decoding all of a file: bad is what the
 * library calls an error, up to the end marker, and what ends before all rows are there. Where a
 * picture is read in part, the library does not see that. But it takes no code of a scan for an
 * error, and goes on behind it at the next marker, whatever it has left out or made up before. So a
 * file whose scan is followed by the end marker is good; so is one with a seek index; any other is
 * decoded whole when it is opened (judge). A file of several scans is consumed whole before the
 * first row comes, so there the library's own answer is that of the file.
 *
 * Parts. The library cuts columns at MCU borders and skips rows; it does that exactly if one column
 * more is asked for on each side (the smooth upsampling of chroma looks there), rows are skipped
 * once and from row 0, and the rest is aborted. Samplings that no camera makes are decoded whole.
 *
 * Settings are the library's defaults (exact integer DCT, smooth chroma upsampling), which are
 * Pillow's too, so pixels are equal. Grey files stay grey (1 channel). Limits stop decompression
 * bombs: pixels, memory, and the number of scans of a progressive file.
 *
 * The Huffman codes of ordinary files are read by our own decoder (fast_scan.h). A scan that it
 * finds odd is decoded again by the library alone, so what happens to damaged files is always what
 * the library does with them. */
#include "data/decode/jpeg_decoder.h"
#include "base/mem.h"
#include "data/decode/fast_scan.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>

#define MAX_SCANS         200
#define MAX_LIBRARY_BYTES (1L << 30)
#define ROWS_PER_READ     16
/* What Pillow hands to the library at a time: whether the last row comes out of a file without an
 * end can depend on it. */
#define PILLOW_BYTES ((size_t)1 << 16)
/* smooth upsampling is wrong where chroma has fewer than three columns left */
#define LEAST_COLUMNS 32

struct JpegDecoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf on_error;
    bool cut_short; /* the data ended before the image did */
    Status status;  /* of an error that is not the file's */
    char reason[JMSG_LENGTH_MAX];
    EncodedImage file; /* between open and read */
    SeekIndex seek;    /* of it, where indexed */
    bool indexed;
    size_t shown; /* bytes of it that the library has been given by judge */
    FastScan *fast;
    bool stock; /* never use it */
    JpegDecoderCounts counts;
    int index_step;       /* of indices to be made; 0: none */
    const uint8_t *index; /* of the file that was read last; fast's */
    size_t index_bytes;
};

static void error_exit(j_common_ptr common)
{
    JpegDecoder *j = common->client_data;
    /* Says nothing about the file: a picture over MAX_LIBRARY_BYTES gets JERR_NO_BACKING_STORE
     * instead. */
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
    Status status = fast_scan_create(&j->fast);
    if (status == OK) *out = j;
    else jpeg_decoder_destroy(j);
    return status;
}

void jpeg_decoder_destroy(JpegDecoder *j)
{
    if (!j) return;
    jpeg_destroy_decompress(&j->info);
    fast_scan_destroy(j->fast);
    mem_free(j);
}

void jpeg_decoder_trim(JpegDecoder *j, size_t limit_bytes)
{
    fast_scan_trim(j->fast, limit_bytes);
}

void jpeg_decoder_use_stock(JpegDecoder *j, bool stock)
{
    j->stock = stock;
}

void jpeg_decoder_make_index(JpegDecoder *j, int step)
{
    j->index_step = step;
}

void jpeg_decoder_index(const JpegDecoder *j, const uint8_t **index, size_t *bytes)
{
    *index = j->index;
    *bytes = j->index_bytes;
}

JpegDecoderCounts jpeg_decoder_counts(const JpegDecoder *j)
{
    return j->counts;
}

/* Pillow's arithmetic: Adobe writes CMYK inverted and Pillow takes every CMYK JPEG as such, so here
 * 255 means no ink. In place, to pixels of bytes (3 or 4). */
static void cmyk_to_rgb(uint8_t *pixels, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *in = pixels + 4 * i;
        int not_black = in[3], rgb[3];
        for (int c = 0; c < 3; c++) {
            int product = (255 - in[c]) * not_black + 128;
            rgb[c] = not_black - (((product >> 8) + product) >> 8);
        }
        for (size_t c = 0; c < 3; c++) pixels[bytes * i + c] = (uint8_t)(rgb[c] < 0 ? 0 : rgb[c]);
    }
}

/* ---- markers ---- */

enum { TEM = 0x01, SOF0 = 0xc0, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc, RST0 = 0xd0, RST7 = 0xd7 };
enum { SOI = 0xd8, EOI = 0xd9, SOS = 0xda };

/* Where the code of the next marker lies, from at on; bytes: nowhere. Found as libjpeg does: 0xff,
 * perhaps several, and a byte that is neither 0xff nor 0; what lies before is passed over. */
static size_t find_marker(const uint8_t *data, size_t at, size_t bytes)
{
    while (at + 1 < bytes) {
        const uint8_t *mark = memchr(data + at, 0xff, bytes - 1 - at);
        if (!mark) break;
        at = (size_t)(mark - data) + 1;
        if (data[at] != 0 && data[at] != 0xff) return at;
    }
    return bytes;
}

/* Of a frame header, SOF0 to SOF15. */
static bool is_frame(int code)
{
    return (code & 0xf0) == SOF0 && code != DHT && code != JPG && code != DAC;
}

static bool has_no_length(uint8_t code)
{
    return code == TEM || (code >= RST0 && code <= SOI);
}

/* Is the frame of a lossless kind (SOF3, 7, 11, 15)? */
static bool is_lossless(const uint8_t *file, size_t bytes)
{
    for (size_t at = find_marker(file, 0, bytes); at + 2 < bytes;
         at = find_marker(file, at, bytes)) {
        uint8_t code = file[at++];
        if (code == SOS || code == EOI) return false;
        if (is_frame(code)) return (code & 3) == 3;
        if (!has_no_length(code)) at += (size_t)file[at] << 8 | file[at + 1];
    }
    return false;
}

/* Is the first marker behind a scan header, but for restart markers, the end of the image? Then the
 * library decodes the scan and all that it reads after it without an error, whatever the codes are.
 * Reads a file of usual size in a few microseconds. */
static bool end_follows(const uint8_t *scan, size_t bytes)
{
    size_t at = find_marker(scan, 0, bytes);
    while (at < bytes && scan[at] >= RST0 && scan[at] <= RST7)
        at = find_marker(scan, at + 1, bytes);
    return at < bytes && scan[at] == EOI;
}

/* ---- the header ---- */

/* The library's object is made anew for each file: one that is kept hands the tables of a file to
 * the next one that has none, so what a damaged file gives would depend on its predecessor. Under
 * the caller's setjmp. */
static void create_object(JpegDecoder *j)
{
    j->info.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = error_exit;
    j->errors.emit_message = emit_message;
    j->errors.output_message = output_message;
    j->info.client_data = j;
    jpeg_create_decompress(&j->info);
    j->info.mem->max_memory_to_use = MAX_LIBRARY_BYTES;
    j->progress.progress_monitor = watch_scans;
    j->info.progress = &j->progress;
}

/* Under the caller's setjmp. */
static void read_header(JpegDecoder *j)
{
    struct jpeg_decompress_struct *info = &j->info;
    if (is_lossless(j->file.bytes, j->file.size))
        give_up(j, ERR_DATA, "a lossless JPEG; only lossy JPEG is supported");
    create_object(j);
    jpeg_mem_src(info, j->file.bytes, (unsigned long)j->file.size);
    jpeg_read_header(info, TRUE);
    if (image_check_size(info->image_width, info->image_height) != OK)
        give_up(j, ERR_DATA, status_message());
    if (info->num_components != 1 && info->num_components != 3 && info->num_components != 4)
        give_up(j, ERR_DATA, "a JPEG must have 1, 3 or 4 components");
}

/* ---- Pillow's verdict ----
 *
 * The library is given the file as Pillow gives it, piece by piece and with no end marker made up
 * at the end of the data, and does what it does there. */

static boolean show_no_more(j_decompress_ptr info)
{
    (void)info;
    return FALSE; /* the library returns and is called again */
}

static void pass_over(j_decompress_ptr info, long count)
{
    const JpegDecoder *j = info->client_data;
    struct jpeg_source_mgr *from = info->src;
    size_t left = (size_t)(j->file.bytes + j->file.size - from->next_input_byte),
           step = (size_t)count < left ? (size_t)count : left; /* count > 0 */
    from->next_input_byte += step;
    from->bytes_in_buffer = step < from->bytes_in_buffer ? from->bytes_in_buffer - step : 0;
}

/* Arithmetic decoding cannot wait for more data: from the header on it gets all, which Pillow does
 * not give it. */
static void show_more(JpegDecoder *j)
{
    struct jpeg_source_mgr *from = j->info.src;
    size_t left = j->file.size - j->shown, at = (size_t)(from->next_input_byte - j->file.bytes);
    if (left == 0) give_up(j, ERR_DATA, "the JPEG data is truncated");
    j->shown += left < PILLOW_BYTES || j->info.arith_code ? left : PILLOW_BYTES;
    from->bytes_in_buffer = at < j->shown ? j->shown - at : 0;
}

/* Under the caller's setjmp. The object is of no use afterwards. */
static void judge(JpegDecoder *j)
{
    struct jpeg_decompress_struct *info = &j->info;
    create_object(j);
    jpeg_mem_src(info, j->file.bytes, (unsigned long)j->file.size);
    info->src->fill_input_buffer = show_no_more;
    info->src->skip_input_data = pass_over;
    info->src->bytes_in_buffer = j->shown = 0;
    while (jpeg_read_header(info, TRUE) == JPEG_SUSPENDED) show_more(j);
    if (info->arith_code && j->shown < j->file.size) show_more(j);
    while (!jpeg_start_decompress(info)) show_more(j);
    JSAMPARRAY row =
        info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE,
                                info->output_width * (JDIMENSION)info->output_components, 1);
    while (info->output_scanline < info->output_height)
        if (jpeg_read_scanlines(info, row, 1) == 0) show_more(j);
    /* What has all rows may lack the end. A second frame header is an error even where it is
     * incomplete: libjpeg-turbo 2 asks for all of it first. */
    if (!jpeg_finish_decompress(info) && is_frame(info->unread_marker))
        give_up(j, ERR_DATA, "the JPEG data is truncated");
}

/* Under the caller's setjmp. */
static void open_file(JpegDecoder *j)
{
    const EncodedImage *file = &j->file;
    j->indexed = false;
    read_header(j);
    if (jpeg_has_multiple_scans(&j->info)) return;
    j->indexed = !j->stock &&
                 seek_index_view(&j->seek, file->seek, file->seek_bytes, file->bytes, file->size);
    if (j->indexed || end_follows(j->info.src->next_input_byte, j->info.src->bytes_in_buffer))
        return;
    jpeg_destroy_decompress(&j->info);
    judge(j);
    jpeg_destroy_decompress(&j->info);
    read_header(j);
}

static Status give_reason(JpegDecoder *j)
{
    jpeg_destroy_decompress(&j->info);
    return fail(j->status, "%s", j->reason);
}

Status jpeg_decoder_open(JpegDecoder *j, const EncodedImage *file, int *width, int *height)
{
    jpeg_destroy_decompress(&j->info); /* of the file before */
    j->file = *file;
    j->index_bytes = 0;
    j->cut_short = false;
    j->status = ERR_DATA;
    if (setjmp(j->on_error)) return give_reason(j);
    open_file(j);
    *width = (int)j->info.image_width;
    *height = (int)j->info.image_height;
    return OK;
}

/* ---- the pixels ---- */

/* Samplings for which parts equal the whole: one component, or chroma at most halved each way, or
 * quartered across. */
static bool can_crop(const struct jpeg_decompress_struct *info)
{
    static const struct {
        int h, v;
    } known[] = { { 1, 1 }, { 2, 1 }, { 2, 2 }, { 1, 2 }, { 4, 1 } };
    const jpeg_component_info *c = info->comp_info;
    if (info->num_components == 1) return true;
    for (int i = 1; i < info->num_components; i++) {
        bool as_first = i == 3 && c[i].h_samp_factor == c[0].h_samp_factor &&
                        c[i].v_samp_factor == c[0].v_samp_factor;
        if (!as_first && (c[i].h_samp_factor != 1 || c[i].v_samp_factor != 1)) return false;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (c[0].h_samp_factor == known[i].h && c[0].v_samp_factor == known[i].v) return true;
    return false;
}

/* An incomplete progressive file is smoothed by its surroundings, which a part does not have. */
static bool is_smoothed(const struct jpeg_decompress_struct *info)
{
    for (int c = 0; info->coef_bits && c < info->num_components; c++)
        for (int i = 0; i < DCTSIZE2; i++)
            if (info->coef_bits[c][i] != 0) return true;
    return false;
}

/* Cuts columns to those of the box and a few more; returns the first. */
static int crop_columns(struct jpeg_decompress_struct *info, const ImageBox *box)
{
    int width = (int)info->output_width, left = box->x - 1, right = box->x + box->width + 1;
    if (right < left + LEAST_COLUMNS) right = left + LEAST_COLUMNS;
    if (right > width) right = width;
    if (left > right - LEAST_COLUMNS) left = right - LEAST_COLUMNS;
    if (left < 0) left = 0;
    JDIMENSION first = (JDIMENSION)left, count = (JDIMENSION)(right - left);
    if (count == info->output_width) return 0;
    jpeg_crop_scanline(info, &first, &count);
    return (int)first;
}

/* Rows 0 .. rows - 1 from where the library stands. With keep false all go to the same place. */
static void read_rows(JpegDecoder *j, int rows, size_t row_bytes, bool keep, uint8_t *pixels)
{
    JSAMPROW row[ROWS_PER_READ];
    for (int done = 0; done < rows;) {
        int wanted = rows - done < ROWS_PER_READ ? rows - done : ROWS_PER_READ;
        for (int i = 0; i < wanted; i++)
            row[i] = pixels + (keep ? (size_t)(done + i) * row_bytes : 0);
        done += (int)jpeg_read_scanlines(&j->info, row, (JDIMENSION)wanted);
    }
}

static void choose_colours(struct jpeg_decompress_struct *info, bool packed)
{
    static const J_COLOR_SPACE spaces[2][5] = {
        { [1] = JCS_GRAYSCALE, [3] = JCS_EXT_RGBX, [4] = JCS_CMYK },
        { [1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK },
    };
    info->out_color_space = spaces[packed][info->num_components];
}

/* Under the setjmp of read_once. The first column that was decoded is returned. */
static int decode_box(JpegDecoder *j, const ImageBox *box, bool packed, ByteBuf *pixels)
{
    struct jpeg_decompress_struct *info = &j->info;
    bool installed = false;
    int first = 0;
    choose_colours(info, packed);
    jpeg_start_decompress(info);
    if (j->cut_short) give_up(j, ERR_DATA, "the JPEG data is truncated");
    bool crop = can_crop(info) && !is_smoothed(info);
    if (crop) first = crop_columns(info, box);
    size_t row_bytes = (size_t)info->output_width * (size_t)info->output_components;
    Status status = byte_buf_reserve(pixels, row_bytes * (size_t)(box->height + 1));
    if (status == OK && !j->stock)
        status = fast_scan_install(j->fast, info, &j->file, j->indexed ? &j->seek : NULL, first,
                                   j->index_step, &installed);
    if (status != OK) give_up(j, status, status_message());
    j->counts.fast += installed;
    if (crop && box->y > 0) jpeg_skip_scanlines(info, (JDIMENSION)box->y);
    else read_rows(j, box->y, row_bytes, false, pixels->data);
    read_rows(j, box->height, row_bytes, true, pixels->data);
    if (installed && j->index_step) fast_scan_index(j->fast, &j->file, &j->index, &j->index_bytes);
    return first;
}

static Status read_once(JpegDecoder *j, const ImageBox *box, bool packed, ByteBuf *pixels,
                        Image *out)
{
    if (setjmp(j->on_error)) return give_reason(j);
    int first = decode_box(j, box, packed, pixels);
    int bytes = j->info.output_components;
    size_t width = j->info.output_width;
    if (j->info.num_components == 4) {
        bytes = packed ? 3 : 4;
        cmyk_to_rgb(pixels->data, width * (size_t)box->height, (size_t)bytes);
    }
    *out = (Image){ .pixels = pixels->data + (size_t)(box->x - first) * (size_t)bytes,
                    .stride = width * (size_t)bytes,
                    .channels = bytes == 1 ? 1 : 3,
                    .pixel_bytes = bytes,
                    .box = *box };
    jpeg_destroy_decompress(&j->info); /* the rest of the file is not looked at */
    return OK;
}

Status jpeg_decoder_read(JpegDecoder *j, const ImageBox *box, bool packed, ByteBuf *pixels,
                         Image *out)
{
    *out = (Image){ .channels = 3, .pixel_bytes = 3, .box = *box };
    if (box->width == 0 || box->height == 0) {
        jpeg_destroy_decompress(&j->info);
        return OK;
    }
    ASSERT(box->x >= 0 && box->y >= 0 && box->x + box->width <= (int)j->info.image_width &&
           box->y + box->height <= (int)j->info.image_height);
    int64_t installed = j->counts.fast;
    Status status = read_once(j, box, packed, pixels, out);
    if (status == OK || installed == j->counts.fast || !fast_scan_is_odd(j->fast)) return status;
    int width, height;
    bool stock = j->stock;
    EncodedImage file = j->file;
    j->counts.left++;
    j->stock = true;
    status = jpeg_decoder_open(j, &file, &width, &height);
    if (status == OK) status = read_once(j, box, packed, pixels, out);
    j->stock = stock;
    return status;
}
