/* sample_tokens.c - sequences of tokens: their ids, what of them is masked, and where they lie.
 *
 * A sequence does not know those before it in its batch. So it is first made at place index *
 * tokens of the fields, with what is needed of it later in the fields that come to hold something
 * else: its tokens in starts, its second text's begin in the last element of its part of where, the
 * words to be found in order. The thread that takes the batch moves all together and fills the
 * rest: microseconds, as it is a walk over the ids and one sort of them. */
#include "data/load/sample_maker.h"
#include "data/source/source_fairseq.h"
#include "data/tokens/mask.h"
#include <string.h>

enum { DIGIT = 256 }; /* of the radix sort */

typedef struct Fields { /* of a batch; see loader_layout */
    int32_t *ids, *where, *starts, *order, *segments, *rows, *labels;
} Fields;

static BatchLayout lay_out_tokens(const LoaderOptions *o)
{
    BatchLayout layout = { .count = 0 };
    const size_t batch = (size_t)o->batch, places = batch * (size_t)o->tokens;
    const size_t labels = o->masked > 0 ? (size_t)o->masked : batch, bytes = sizeof(int32_t);
    batch_layout_add(&layout, "ids", places, bytes);
    batch_layout_add(&layout, "where", 2 * places, bytes);
    batch_layout_add(&layout, "starts", batch + 1, bytes);
    batch_layout_add(&layout, "order", places, bytes);
    if (o->segments) batch_layout_add(&layout, "segments", places, bytes);
    if (o->masked > 0) batch_layout_add(&layout, "rows", labels, bytes);
    batch_layout_add(&layout, "labels", labels, bytes);
    return layout;
}

static Fields find_fields(const BatchLayout *layout, void *block)
{
    return (Fields){ .ids = batch_layout_at(layout, block, "ids"),
                     .where = batch_layout_at(layout, block, "where"),
                     .starts = batch_layout_at(layout, block, "starts"),
                     .order = batch_layout_at(layout, block, "order"),
                     .segments = batch_layout_at(layout, block, "segments"),
                     .rows = batch_layout_at(layout, block, "rows"),
                     .labels = batch_layout_at(layout, block, "labels") };
}

static Status make_tokens(const SampleTask *t)
{
    const Fields f = find_fields(t->layout, t->block);
    const int64_t at = t->index * t->o->tokens;
    f.starts[t->index + 1] = 0;
    if (t->o->masked == 0) f.labels[t->index] = -1;
    if (!t->sample) return OK;
    const FairseqSource *s = source_fairseq_of(t->source);
    const MaskDraw draw = { t->draw.seed, t->training, (uint32_t)t->draw.epoch,
                            (uint32_t)t->draw.sample };
    int64_t second;
    const int64_t tokens = source_fairseq_tokens(s, t->draw.sample, &second);
    memcpy(f.ids + at, t->sample->file.bytes, (size_t)tokens * sizeof *f.ids);
    f.starts[t->index + 1] = (int32_t)tokens;
    f.where[2 * at] = (int32_t)second;
    if (t->o->masked > 0)
        mask_apply(&s->o, s->dictionary->words, s->dictionary->mask, &draw, tokens, f.ids + at,
                   f.order + at);
    else f.labels[t->index] = t->source->kind->label(t->source, t->draw.sample);
    return OK;
}

/* ---- the whole batch ---- */

/* Moves sequence i, which was made at its own place, to where the one before ends. */
static void move_sequence(const LoaderOptions *o, const Fields *f, int64_t i, int64_t *masked)
{
    const int64_t from = i * o->tokens, to = f->starts[i], tokens = f->starts[i + 1];
    const int32_t second = f->where[2 * from];
    memmove(f->ids + to, f->ids + from, (size_t)tokens * sizeof *f->ids);
    for (int64_t j = 0; j < tokens; j++) {
        if (f->segments) f->segments[to + j] = j >= second;
        if (o->masked == 0 || f->order[from + j] < 0) continue;
        ASSERT(*masked < o->masked);
        f->labels[*masked] = f->order[from + j];
        f->rows[(*masked)++] = (int32_t)(to + j);
    }
    f->starts[i + 1] += (int32_t)to;
}

/* One pass of a stable radix sort: places from[count] by a digit of their ids. */
static void sort_by_digit(const int32_t *ids, const int32_t *from, int64_t count, int shift,
                          int32_t *to)
{
    int32_t next[DIGIT] = { 0 }, sum = 0;
    for (int64_t i = 0; i < count; i++) next[ids[from[i]] >> shift & (DIGIT - 1)]++;
    for (int d = 0; d < DIGIT; d++) {
        const int32_t n = next[d];
        next[d] = sum;
        sum += n;
    }
    for (int64_t i = 0; i < count; i++) to[next[ids[from[i]] >> shift & (DIGIT - 1)]++] = from[i];
}

/* spare: room for count. */
static void sort_places(const int32_t *ids, int64_t count, int32_t *spare, int32_t *order)
{
    int32_t bits = 0;
    for (int64_t i = 0; i < count; i++) {
        order[i] = (int32_t)i;
        bits |= ids[i];
    }
    /* two digits each, so it ends in order */
    for (int shift = 0; shift < 32 && (shift == 0 || bits >> shift); shift += 16) {
        sort_by_digit(ids, order, count, shift, spare);
        sort_by_digit(ids, spare, count, shift + 8, order);
    }
}

static void place_sequence(const Fields *f, int64_t i)
{
    for (int32_t at = f->starts[i]; at < f->starts[i + 1]; at++) {
        f->where[2 * at] = (int32_t)i;
        f->where[2 * at + 1] = at - f->starts[i];
    }
}

static void join_tokens(const LoaderOptions *o, Batch *batch, int64_t first, int64_t epoch)
{
    (void)first;
    (void)epoch;
    const Fields f = find_fields(batch->layout, batch->block);
    const int64_t places = o->batch * o->tokens;
    f.starts[0] = 0;
    for (int64_t i = 0; i < o->batch; i++) move_sequence(o, &f, i, &batch->masked);
    batch->tokens = f.starts[o->batch];
    sort_places(f.ids, batch->tokens, f.where, f.order);
    for (int64_t i = 0; i < o->batch; i++) place_sequence(&f, i);
    for (int64_t i = batch->tokens; i < places; i++) {
        f.ids[i] = f.where[2 * i] = -1;
        f.where[2 * i + 1] = 0;
        f.order[i] = (int32_t)i;
        if (f.segments) f.segments[i] = 0;
    }
    for (int64_t i = batch->masked; i < o->masked; i++) f.rows[i] = f.labels[i] = -1;
}

const SampleMaker sample_tokens = { lay_out_tokens, make_tokens, join_tokens };
