/* source_fairseq.h - what sequences of tokens have beyond other samples. A sample's bytes are its
 * ids, int32_t, unmasked. */
#ifndef CONVOY_DATA_SOURCE_SOURCE_FAIRSEQ_H
#define CONVOY_DATA_SOURCE_SOURCE_FAIRSEQ_H
#include "data/source/source.h"
#include "data/tokens/blocks.h"
#include "data/tokens/dictionary.h"

typedef struct FairseqSource {
    Source base;
    TokenOptions o; /* tokens is set */
    Dictionary *dictionary;
    struct Indexed *text[2]; /* [1]: NULL, or the second text of each pair */
    Blocks blocks[2];
    /* classification: a class for each sequence; NULL: words are to be found */
    int32_t *labels;
    Dictionary *label_words;
    int64_t tokens;    /* of all sequences, with <s> and separators, truncated */
    int64_t truncated; /* sequences */
    char *name;        /* for messages */
} FairseqSource;

/* NULL: a source of images. */
const FairseqSource *source_fairseq_of(const Source *s);
/* Tokens of a sample. second: where its second text begins; their number where there is none. */
int64_t source_fairseq_tokens(const FairseqSource *s, int64_t id, int64_t *second);
#endif
