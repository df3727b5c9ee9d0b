/* fast_scan.c - between libjpeg's decompressor and entropy.c.
 *
 * libjpeg-turbo does not install the header that declares its table of functions, so LibraryEntropy
 * is that table as 2.x and 3.x call it. Nothing else of the library's insides is looked at.
 *
 * libjpeg asks for MCUs in order, with no place to put them where it skips rows. Nothing is decoded
 * for those, nor for MCUs left or right of the crop: their numbers are only counted, and
 * entropy_decode finds its way to the next one that matters. */
#include "data/decode/fast_scan.h"
#include "base/mem.h"
#include "data/decode/entropy.h"
#include <string.h>

#include <jerror.h>

#define MAX_INDEXED_BYTES ((size_t)1 << 28)

enum {
    LIBRARY_IS_KNOWN = LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 &&
                       LIBJPEG_TURBO_VERSION_NUMBER < 4000000 && BITS_IN_JSAMPLE == 8
};

/* 2.x has a flag in the third place, 3.x two functions for lossless files and then the flag; the
 * flag has to be 0, and files that are lossless are not for us. */
typedef struct LibraryEntropy {
    void (*start_pass)(j_decompress_ptr info);
    boolean (*decode_mcu)(j_decompress_ptr info, JBLOCKROW *blocks);
    void (*zero[3])(void);
} LibraryEntropy;

struct FastScan {
    LibraryEntropy shown; /* first: what libjpeg sees */
    Entropy *entropy;
    int mcu, column, columns;
    int first_column, last_column; /* of the crop */
    bool odd;
    ByteBuf index; /* being made where index_bytes is not 0 */
    size_t index_bytes;
};

static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW *blocks)
{
    FastScan *f = (FastScan *)(void *)info->entropy;
    int column = f->column, mcu = f->mcu++;
    f->column = column + 1 == f->columns ? 0 : column + 1;
    if (!blocks || column < f->first_column || column > f->last_column) return TRUE;
    if (!entropy_decode(f->entropy, mcu, blocks[0])) {
        f->odd = true;
        ERREXIT(info, JERR_BAD_PROGRESSION); /* never shown: the image is decoded again */
    }
    return TRUE;
}

static void start_pass(j_decompress_ptr info)
{
    (void)info;
}

static bool is_plain(j_decompress_ptr info)
{
    return !info->progressive_mode && !info->arith_code && info->data_precision == 8 &&
           info->restart_interval == 0 && info->comps_in_scan == info->num_components &&
           (info->num_components == 1 || info->num_components == 3) &&
           info->blocks_in_MCU <= ENTROPY_MAX_BLOCKS && info->Ss == 0 && info->Se == DCTSIZE2 - 1 &&
           info->Ah == 0 && info->Al == 0;
}

static bool set_code(FastScan *f, EntropyKind kind, int slot, const JHUFF_TBL *table)
{
    EntropyCode code;
    if (slot < 0 || slot >= ENTROPY_SLOTS || !table) return false;
    memcpy(code.counts, table->bits, sizeof code.counts);
    memcpy(code.symbols, table->huffval, sizeof code.symbols);
    code.counts[0] = 0;
    return entropy_set_code(f->entropy, kind, slot, &code);
}

/* Tables and layout of the scan; false if it is not for us. */
static bool describe(FastScan *f, j_decompress_ptr info, EntropyLayout *l)
{
    if (!is_plain(info)) return false;
    *l = (EntropyLayout){ .columns = (int)info->MCUs_per_row,
                          .rows = (int)info->MCU_rows_in_scan,
                          .blocks = info->blocks_in_MCU,
                          .components = info->num_components };
    for (int i = 0; i < l->blocks; i++) l->component[i] = (uint8_t)info->MCU_membership[i];
    for (int c = 0; c < l->components; c++) {
        int dc = info->cur_comp_info[c]->dc_tbl_no, ac = info->cur_comp_info[c]->ac_tbl_no;
        if (!set_code(f, ENTROPY_DC, dc,
                      dc >= 0 && dc < NUM_HUFF_TBLS ? info->dc_huff_tbl_ptrs[dc] : NULL))
            return false;
        if (!set_code(f, ENTROPY_AC, ac,
                      ac >= 0 && ac < NUM_HUFF_TBLS ? info->ac_huff_tbl_ptrs[ac] : NULL))
            return false;
        l->slot[ENTROPY_DC][c] = (uint8_t)dc;
        l->slot[ENTROPY_AC][c] = (uint8_t)ac;
    }
    return true;
}

/* left: the first pixel of a row that the library gives, at the left of an MCU. */
static void install(FastScan *f, j_decompress_ptr info, const EntropyLayout *l, int left)
{
    int mcu_width = DCTSIZE * (l->components == 1 ? 1 : info->max_h_samp_factor);
    f->mcu = f->column = 0;
    f->columns = l->columns;
    f->first_column = left / mcu_width;
    f->last_column = (left + (int)info->output_width - 1) / mcu_width;
    f->shown = (LibraryEntropy){ .start_pass = start_pass, .decode_mcu = decode_mcu };
    info->entropy = (struct jpeg_entropy_decoder *)(void *)&f->shown;
}

Status fast_scan_install(FastScan *f, j_decompress_ptr info, const EncodedImage *file,
                         const SeekIndex *index, int left, int index_step, bool *installed)
{
    EntropyLayout layout;
    *installed = f->odd = false;
    f->index_bytes = 0;
    if (!LIBRARY_IS_KNOWN || !describe(f, info, &layout)) return OK;
    TRY(entropy_begin(f->entropy, &layout, info->src->next_input_byte, info->src->bytes_in_buffer,
                      index));
    if (!index && index_step && file->size <= MAX_INDEXED_BYTES)
        TRY(entropy_start_record(f->entropy, index_step, &f->index, &f->index_bytes));
    install(f, info, &layout, left);
    *installed = true;
    return OK;
}

void fast_scan_index(FastScan *f, const EncodedImage *file, const uint8_t **index, size_t *bytes)
{
    *bytes = 0;
    if (f->odd || !f->index_bytes || !entropy_finish_record(f->entropy, file->bytes, file->size))
        return;
    *index = f->index.data;
    *bytes = f->index_bytes;
    f->index_bytes = 0;
}

bool fast_scan_is_odd(const FastScan *f)
{
    return f->odd;
}

bool fast_scan_is_built_in(void)
{
    return LIBRARY_IS_KNOWN;
}

Status fast_scan_create(FastScan **out)
{
    *out = mem_calloc(1, sizeof **out);
    if (!*out) return ERR_MEMORY;
    Status status = entropy_create(&(*out)->entropy);
    if (status == OK) return OK;
    fast_scan_destroy(*out);
    *out = NULL;
    return status;
}

void fast_scan_destroy(FastScan *f)
{
    if (!f) return;
    entropy_destroy(f->entropy);
    byte_buf_free(&f->index);
    mem_free(f);
}

void fast_scan_trim(FastScan *f, size_t limit_bytes)
{
    entropy_trim(f->entropy, limit_bytes);
    byte_buf_trim(&f->index, limit_bytes);
}
