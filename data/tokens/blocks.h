/* blocks.h - the sequences of a text: runs of its tokens, cut as fairseq's TokenBlockDataset cuts
 * them. Sentences are told one by one; blocks that are longer than `most` are left out. */
#ifndef CONVOY_DATA_TOKENS_BLOCKS_H
#define CONVOY_DATA_TOKENS_BLOCKS_H
#include "base/status.h"
#include "data/options.h"

typedef struct Blocks { /* of those that fit; 12 bytes each */
    int64_t count;
    int64_t *start;            /* [count]; in tokens of the text */
    int32_t *length;           /* [count] */
    int64_t sentences, tokens; /* of the text */
    /* left out: blocks and their tokens; the first one's sentence, from 1, and tokens */
    int64_t too_long, too_long_tokens, first_sentence, first_tokens;
    TokenBreak mode;
    int64_t most, at, open; /* of the block that is being filled: start, tokens */
    size_t start_room, length_room;
} Blocks;

/* most 0: no limit, for BREAK_EOS alone. */
void blocks_begin(Blocks *b, TokenBreak mode, int64_t most);
/* The next sentence, its </s> counted. ERR_MEMORY. */
Status blocks_add(Blocks *b, int64_t tokens);
Status blocks_end(Blocks *b);
void blocks_free(Blocks *b); /* of zeros ok */
#endif
