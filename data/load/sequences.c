/* sequences.c - see sequences.h. */
#include "data/load/sequences.h"
#include "data/load/dataset_internal.h"
#include "data/load/sampler.h"
#include "data/source/source_fairseq.h"
#include "data/tokens/indexed.h"
#include "data/tokens/mask.h"

bool sequences_facts(const Dataset *d, SequenceFacts *out)
{
    const FairseqSource *s = source_fairseq_of(d->source);
    *out = (SequenceFacts){ 0 };
    if (!s) return false;
    const Blocks *b = s->blocks;
    *out = (SequenceFacts){ .dictionary = s->dictionary,
                            .options = s->o,
                            .classified = s->labels != NULL,
                            .pairs = s->text[1] != NULL,
                            .sentences = b[0].sentences + b[1].sentences,
                            .text_tokens = b[0].tokens + b[1].tokens,
                            .unknown = s->text[0] ? indexed_unknown(s->text[0]) : 0,
                            .sequences = s->base.images,
                            .tokens = s->tokens,
                            .too_long = b[0].too_long,
                            .too_long_tokens = b[0].too_long_tokens + b[0].too_long,
                            .truncated = s->truncated };
    if (out->pairs) out->unknown += indexed_unknown(s->text[1]);
    return true;
}

int64_t sequences_tokens(const Dataset *d, int64_t id, int64_t *start)
{
    const FairseqSource *s = source_fairseq_of(d->source);
    int64_t second;
    ASSERT(s && id >= 0 && id < s->base.images);
    if (start) *start = s->blocks[0].start[id];
    return source_fairseq_tokens(s, id, &second);
}

SequenceCounts sequences_count(const Dataset *d, uint64_t seed, int64_t first, int64_t count)
{
    const FairseqSource *s = source_fairseq_of(d->source);
    const int64_t all = d->source->images;
    const bool training = d->role == DATA_TRAIN;
    SequenceCounts sum = { .sequences = count };
    ASSERT(s);
    for (int64_t at = first; at < first + count; at++) {
        const int64_t id = training ? sampler_id(seed, all, at) : at;
        const int64_t tokens = sequences_tokens(d, id, NULL);
        const MaskDraw draw = { seed, training, (uint32_t)(at / all), (uint32_t)id };
        sum.tokens += tokens;
        if (!s->labels) sum.masked += mask_count(s->o.mask, tokens, &draw);
    }
    return sum;
}
