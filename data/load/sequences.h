/* sequences.h - what is known of a dataset of token sequences without reading any: its words, its
 * lengths, and how many tokens a step of training has and masks, on all ranks together. */
#ifndef CONVOY_DATA_LOAD_SEQUENCES_H
#define CONVOY_DATA_LOAD_SEQUENCES_H
#include "data/load/dataset.h"
#include "data/tokens/dictionary.h"

typedef struct SequenceFacts {
    const Dictionary *dictionary;      /* borrowed */
    TokenOptions options;              /* tokens is set */
    bool classified, pairs;            /* labels are classes; sequences are of two texts */
    int64_t sentences, text_tokens;    /* in the files, with </s>; of both texts of pairs */
    int64_t unknown;                   /* of those tokens, <unk> */
    int64_t sequences, tokens;         /* samples; their tokens, with <s> and separators */
    int64_t too_long, too_long_tokens; /* skipped, with <s> */
    int64_t truncated;                 /* samples; classification */
} SequenceFacts;
bool sequences_facts(const Dataset *d, SequenceFacts *out); /* false: a dataset of images */

/* Tokens of sample id, with <s>. *start, NULL ok: where in the files its own tokens begin. */
int64_t sequences_tokens(const Dataset *d, int64_t id, int64_t *start);

typedef struct SequenceCounts {
    int64_t sequences, tokens, masked; /* masked: 0 in a classification */
} SequenceCounts;
/* Training: of positions first .. first + count - 1 of the stream (data.h), which is shuffled; as
 * step k is positions kG .. (k + 1)G - 1 (and LoaderOptions.shift). Evaluation: of these samples.
 * Costs 17 Philox blocks a sequence. */
SequenceCounts sequences_count(const Dataset *d, uint64_t seed, int64_t first, int64_t count);
#endif
