/* fast_scan.h - puts our Huffman decoder (entropy.h) in the place of libjpeg's, for the scans that
 * it can read.
 *
 * libjpeg keeps the inverse transform, upsampling, colours and cropping; it calls an entropy
 * decoder once for each MCU, through a table of functions. libjpeg-turbo 2.x and 3.x are known to
 * do so as this file expects, whichever of them it was built with: elsewhere, or if a picture
 * decoded both ways differs at start-up, nothing is ever installed. */
#ifndef CONVOY_DATA_DECODE_FAST_SCAN_H
#define CONVOY_DATA_DECODE_FAST_SCAN_H
#include "data/decode/image.h"
#include "data/decode/seek_index.h"
#include <stdbool.h>
#include <stdio.h> /* jpeglib.h uses FILE and does not include it */

#include <jpeglib.h>

typedef struct FastScan FastScan; /* one per decoder */
bool fast_scan_is_built_in(void); /* false: nothing is ever installed */
Status fast_scan_create(FastScan **out);
void fast_scan_destroy(FastScan *f); /* NULL ok */
void fast_scan_trim(FastScan *f, size_t limit_bytes);

/* After jpeg_start_decompress and jpeg_crop_scanline, before the first row. *installed: whether it
 * took the scan; if it later finds the scan odd it calls error_exit, and fast_scan_is_odd says so.
 * file was given to jpeg_mem_src; index: of it, or NULL. left: the column at which
 * jpeg_crop_scanline begins, or 0. index_step: 0, or that of a seek index to be made on the way.
 * ERR_MEMORY. */
Status fast_scan_install(FastScan *f, j_decompress_ptr info, const EncodedImage *file,
                         const SeekIndex *index, int left, int index_step, bool *installed);
bool fast_scan_is_odd(const FastScan *f);

/* After an install with an index_step and any number of rows: the index; *bytes 0 where the scan
 * has none. Borrowed until the next install. */
void fast_scan_index(FastScan *f, const EncodedImage *file, const uint8_t **index, size_t *bytes);
#endif
