/* embed.c - words to a canvas, by tiles of places, whose rows of the tables are then read whole;
 * and the gradients of the tables, by channel blocks, whose part of dy stays in cache. A row is
 * summed by one thread in a fixed order, whatever the team. */
#include "kernels/cpu/view.h"
#include <string.h>

enum { TILE = 16 }; /* places */

/* Tables, ids and sums are plain. */
static Status need_plain(const OpInstance *op, OpTensor *t)
{
    if (t->desc.rank == 0) return OK;
    cpu_decide_plain(t);
    return t->layout ? fail(ERR_INTERNAL, "%s: a table is not plain", op_name(op->kind)) : OK;
}

typedef struct Tables {
    const float *words, *positions, *segments; /* NULL: none */
    const int32_t *ids, *where, *segment_ids;
    int offset;
} Tables;

/* Channels of a position, and zero in lanes past C. */
CPU_INLINE void embed_block(void *y, int64_t channels, int64_t width, const float *word,
                            const float *position, const float *segment, DType type)
{
    for (int64_t c = 0; c < channels; c++) {
        const float sum = word[c] + position[c];
        cpu_lanes_store(y, c, segment ? sum + segment[c] : sum, type);
    }
    for (int64_t c = channels; c < width; c++) cpu_lanes_store(y, c, 0, type);
}

CPU_CLONES static void embed_places(const OpTensor *y, const Tables *from, int64_t first,
                                    int64_t last)
{
    const CpuView v = cpu_view(y);
    const int64_t width = v.rows ? v.c : v.b;
    for (int64_t c = 0; c < v.c; c += width) {
        const int64_t channels = v.c - c < width ? v.c - c : width;
        for (int64_t t = first; t < last; t++) {
            void *to = cpu_lanes_at_out(y->data, cpu_view_at(&v, 0, c, t), v.type);
            const int64_t id = from->ids[t];
            if (id < 0) {
                memset(to, 0, (size_t)width * dtype_bytes(v.type));
                continue;
            }
            const float *word = from->words + id * v.c + c,
                        *position =
                            from->positions + (from->where[2 * t + 1] + from->offset) * v.c + c,
                        *segment =
                            from->segments ? from->segments + from->segment_ids[t] * v.c + c : NULL;
            if (v.type == DTYPE_F32)
                embed_block(to, channels, width, word, position, segment, DTYPE_F32);
            else embed_block(to, channels, width, word, position, segment, DTYPE_BF16);
        }
    }
}

static Status prepare_embed(OpInstance *op)
{
    for (int i = 0; i <= EMBED_IN_SEGMENT_IDS; i++) TRY(need_plain(op, &op->in[i]));
    cpu_view_decide(cpu_backend_of(op), &op->out[EMBED_OUT_Y]);
    return OK;
}

static void run_embed(OpInstance *op)
{
    const OpTensor *y = &op->out[EMBED_OUT_Y];
    const Tables from = { .words = op->in[EMBED_IN_WORDS].data,
                          .positions = op->in[EMBED_IN_POSITIONS].data,
                          .segments = op->in[EMBED_IN_SEGMENTS].data,
                          .ids = op->in[EMBED_IN_IDS].data,
                          .where = op->in[EMBED_IN_WHERE].data,
                          .segment_ids = op->in[EMBED_IN_SEGMENT_IDS].data,
                          .offset = ((const EmbedAttr *)op->attr)->offset };
    const int64_t places = y->desc.dims[2];
    const int threads = cpu_team(op, tensor_elements(&y->desc));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < places; t += TILE)
        embed_places(y, &from, t, t + TILE < places ? t + TILE : places);
}

/* ---- gradients ---- */

/* A table of gradients: rows of all channels. */
typedef struct Sums {
    float *to;
    int64_t rows;
    bool adds;
} Sums;

typedef struct Backward {
    const OpTensor *dy;
    CpuView v;
    const int32_t *ids, *order, *starts, *segment_ids;
    int64_t places, sequences;
    int offset;
    Sums words, positions, segments;
} Backward;

typedef struct Block { /* of channels */
    int64_t first;
    int channels;
    double sum[CPU_LANES];
} Block;

CPU_INLINE void add_lanes(double *sum, const void *dy, int channels, DType type)
{
#pragma omp simd
    for (int c = 0; c < channels; c++) sum[c] += (double)cpu_lanes_load(dy, c, type);
}

CPU_INLINE void add_place(const Backward *b, Block *k, int64_t place)
{
    const void *dy = cpu_lanes_at(b->dy->data, cpu_view_at(&b->v, 0, k->first, place), b->v.type);
    if (b->v.type != DTYPE_F32) add_lanes(k->sum, dy, k->channels, DTYPE_BF16);
    else if (k->channels == CPU_LANES) add_lanes(k->sum, dy, CPU_LANES, DTYPE_F32);
    else if (k->channels == CPU_HALF_LANES) add_lanes(k->sum, dy, CPU_HALF_LANES, DTYPE_F32);
    else add_lanes(k->sum, dy, k->channels, DTYPE_F32);
}

/* The sum goes into a row of a table, and begins anew. */
CPU_INLINE void end_row(const Backward *b, Block *k, const Sums *s, int64_t row)
{
    float *to = s->to + row * b->v.c + k->first;
    for (int c = 0; c < k->channels; c++) {
        to[c] = s->adds ? to[c] + (float)k->sum[c] : (float)k->sum[c];
        k->sum[c] = 0;
    }
}

static int32_t id_of(const Backward *b, int64_t i)
{
    return b->ids[b->order[i]];
}

/* Runs of one id that begin in [first,last) of the order. Rows of no place are zero already. */
CPU_CLONES static void sum_words(const Backward *b, Block *k, int64_t first, int64_t last)
{
    while (first > 0 && first < last && id_of(b, first) == id_of(b, first - 1)) first++;
    for (int64_t i = first; i < last && id_of(b, i) >= 0;) {
        const int32_t id = id_of(b, i);
        for (; i < b->places && id_of(b, i) == id; i++) add_place(b, k, b->order[i]);
        end_row(b, k, &b->words, id);
    }
}

CPU_CLONES static void sum_positions(const Backward *b, Block *k)
{
    for (int64_t row = 0; row < b->positions.rows; row++) {
        const int64_t position = row - b->offset;
        for (int64_t n = 0; position >= 0 && n < b->sequences; n++)
            if (b->starts[n] + position < b->starts[n + 1])
                add_place(b, k, b->starts[n] + position);
        end_row(b, k, &b->positions, row);
    }
}

CPU_CLONES static void sum_segments(const Backward *b, Block *k)
{
    for (int64_t row = 0; row < b->segments.rows; row++) {
        for (int64_t t = 0; t < b->starts[b->sequences]; t++)
            if (b->segment_ids[t] == row) add_place(b, k, t);
        end_row(b, k, &b->segments, row);
    }
}

/* Part `part` of the words, and with the first part the other tables, of a channel block. */
static void sum_block(const Backward *b, int64_t block, int part, int parts)
{
    Block k = { .first = block * b->v.b, .channels = (int)cpu_view_channels(&b->v, block) };
    int64_t first, last;
    cpu_share(b->places, part, parts, &first, &last);
    if (b->words.to) sum_words(b, &k, first, last);
    if (part > 0) return;
    sum_positions(b, &k);
    if (b->segments.to) sum_segments(b, &k);
}

static Status prepare_bwd(OpInstance *op)
{
    TRY(cpu_require_decided(&op->in[EMBED_BWD_IN_DY], op));
    for (int i = EMBED_BWD_IN_IDS; i <= EMBED_BWD_IN_SO_FAR; i++) TRY(need_plain(op, &op->in[i]));
    for (int i = 0; i <= EMBED_BWD_OUT_DSEGMENTS; i++) TRY(need_plain(op, &op->out[i]));
    return OK;
}

static Sums sums_of(const OpInstance *op, int slot)
{
    const OpTensor *t = &op->out[slot];
    return (Sums){ .to = t->desc.rank ? t->data : NULL,
                   .rows = t->desc.dims[0],
                   .adds = op->accumulate };
}

/* Rows of words that no place has. */
static void clear_words(const OpInstance *op, const OpTensor *dwords)
{
    const int threads = cpu_team(op, tensor_elements(&dwords->desc));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        int64_t first, last;
        cpu_share((int64_t)dwords->bytes, part, threads, &first, &last);
        memset((char *)dwords->data + first, 0, (size_t)(last - first));
    }
}

static void run_embed_bwd(OpInstance *op)
{
    const OpTensor *dy = &op->in[EMBED_BWD_IN_DY], *dwords = &op->out[EMBED_BWD_OUT_DWORDS],
                   *so_far = &op->in[EMBED_BWD_IN_SO_FAR];
    Backward b = { .dy = dy,
                   .v = cpu_view(dy),
                   .ids = op->in[EMBED_BWD_IN_IDS].data,
                   .order = op->in[EMBED_BWD_IN_ORDER].data,
                   .starts = op->in[EMBED_BWD_IN_STARTS].data,
                   .segment_ids = op->in[EMBED_BWD_IN_SEGMENT_IDS].data,
                   .places = dy->desc.dims[2],
                   .sequences = op->in[EMBED_BWD_IN_STARTS].desc.dims[0] - 1,
                   .offset = ((const EmbedAttr *)op->attr)->offset,
                   .words = sums_of(op, EMBED_BWD_OUT_DWORDS),
                   .positions = sums_of(op, EMBED_BWD_OUT_DPOSITIONS),
                   .segments = sums_of(op, EMBED_BWD_OUT_DSEGMENTS) };
    if (so_far->desc.rank) b.words = (Sums){ .to = so_far->data, .adds = true };
    else if (b.words.to && !op->accumulate) clear_words(op, dwords);
    const int threads = cpu_team(op, tensor_elements(&dy->desc)),
              parts = threads > b.v.cb ? (int)((threads + b.v.cb - 1) / b.v.cb) : 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < b.v.cb * parts; i++) sum_block(&b, i / parts, (int)(i % parts), parts);
}

CPU_LOOPS(cpu_embed, "rows", prepare_embed, run_embed);
CPU_LOOPS(cpu_embed_bwd, "runs", prepare_bwd, run_embed_bwd);
