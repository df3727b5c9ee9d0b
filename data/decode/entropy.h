/* entropy.h - Huffman decoding of a baseline JPEG scan, from any MCU on. Knows nothing of libjpeg.
 *
 * The scan holds all components, interleaved, without restart markers. Coefficients are made only
 * for the MCUs that are asked for; of those before them only the lengths of symbols are looked at,
 * and a seek index (seek_index.h) makes even that unnecessary. Whatever is odd - an invalid code, a
 * coefficient beyond the block, data that end early - is not interpreted here: the answer is false,
 * and the caller decodes the image with libjpeg, which knows what to do. */
#ifndef CONVOY_DATA_DECODE_ENTROPY_H
#define CONVOY_DATA_DECODE_ENTROPY_H
#include "base/byte_buf.h"
#include "data/decode/seek_index.h"
#include <stdbool.h>

#define ENTROPY_MAX_BLOCKS 10 /* of an MCU; the standard's limit */
#define ENTROPY_COMPONENTS 3
#define ENTROPY_SLOTS      4 /* tables of a kind */

typedef enum EntropyKind { ENTROPY_DC, ENTROPY_AC, ENTROPY_KINDS } EntropyKind;

typedef struct EntropyCode { /* as in a DHT segment */
    uint8_t counts[17];      /* [1 .. 16] codes of that many bits */
    uint8_t symbols[256];
} EntropyCode;

typedef struct EntropyLayout {
    int columns, rows; /* MCUs of the scan */
    int blocks;        /* of an MCU */
    int components;
    uint8_t component[ENTROPY_MAX_BLOCKS];           /* of each block */
    uint8_t slot[ENTROPY_KINDS][ENTROPY_COMPONENTS]; /* which tables a component uses */
} EntropyLayout;

typedef struct Entropy Entropy; /* one per thread */
Status entropy_create(Entropy **out);
void entropy_destroy(Entropy *e); /* NULL ok */
void entropy_trim(Entropy *e, size_t limit_bytes);

/* False: these lengths make no code, or symbols that baseline does not have. The same tables again
 * cost nothing. */
bool entropy_set_code(Entropy *e, EntropyKind kind, int slot, const EntropyCode *code);

/* data starts behind the scan header and is borrowed until the scan has been read; it ends at the
 * first marker or with bytes. index: NULL or one that seek_index_view has accepted for this scan.
 * ERR_MEMORY. */
Status entropy_begin(Entropy *e, const EntropyLayout *layout, const uint8_t *data, size_t bytes,
                     const SeekIndex *index);

/* Decodes MCU number mcu (row by row; not before the one of the last call) into layout->blocks
 * blocks of 64 coefficients in natural order, which the caller has set to 0. After false nothing
 * more may be read. */
bool entropy_decode(Entropy *e, int mcu, int16_t (*blocks)[64]);

/* Makes a seek index (seek_index.h) on the way: start after entropy_begin without an index; out is
 * borrowed until finish, which walks the rest of the scan of that file. ERR_MEMORY; false where the
 * scan is odd. */
Status entropy_start_record(Entropy *e, int step, ByteBuf *out, size_t *bytes);
bool entropy_finish_record(Entropy *e, const uint8_t *file, size_t size);
#endif
