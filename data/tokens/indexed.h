/* indexed.h - the tokens of a text in fairseq's binary files: NAME.idx and NAME.bin, then NAME1,
 * NAME2, ... as long as there are any, one behind the other.
 *
 * Two formats: fairseq's "mmap" (MMIDIDX) and "lazy" or "cached" (TNTIDX, ids one too large). Both
 * files are checked whole before anything of them is used: sizes, offsets, every token. The .bin
 * stays mapped. */
#ifndef CONVOY_DATA_TOKENS_INDEXED_H
#define CONVOY_DATA_TOKENS_INDEXED_H
#include "data/tokens/blocks.h"
#include "data/tokens/dictionary.h"

typedef struct Indexed Indexed;
/* prefix: DIR/NAME. Tells blocks, which were begun, all sentences, and ends them. ERR_DATA names
 * the file. d is borrowed until it returns. */
Status indexed_open(Indexed **out, const char *prefix, const Dictionary *d, Blocks *blocks);
void indexed_close(Indexed *x);            /* NULL ok */
int64_t indexed_unknown(const Indexed *x); /* tokens that are <unk> */
/* Tokens first .. first + count - 1 of the text. ERR_IO if the file is not there any more. */
Status indexed_read(const Indexed *x, int64_t first, int64_t count, int32_t *out);
#endif
