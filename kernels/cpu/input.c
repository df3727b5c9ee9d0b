/* input.c - images u8 N,H,W,C to activations: (v/255 - mean) / std, every step rounded to float32
 * as torchvision does; erased, mixed with the neighbour, mirrored and moved where that is asked
 * for.
 *
 * A byte has 256 values, so prepare() computes them all, per channel, in exactly that order of
 * operations, and run() looks them up: what is left is the change of layout. A row of an image at a
 * time: it stays in the first-level cache while each channel picks from it. Mixing looks up in two
 * further tables, of products with lambda and with the rest, so that only their sum is left and
 * every rounding is where op.h says. */
#include "base/mem.h"
#include "kernels/cpu/view.h"
#include "kernels/erase_noise.h"
#include <string.h>

enum { BYTE_VALUES = 256 };

typedef struct Table {
    float of[OP_MAX_IMAGE_CHANNELS][BYTE_VALUES];
} Table;
typedef struct InputState {
    Table value;
    Table own, other; /* of this run: value times lambda, times the rest */
} InputState;

/* One row of an image, as it is looked up. */
typedef struct Source {
    const uint8_t *row;
    const Table *table;
    int64_t erased, erased_end; /* columns that are zero, or noise */
    const int32_t *box;         /* NULL: zero */
    EraseMode erase;
    int y;
    float share; /* that table is multiplied by */
} Source;

/* What a run does to images beyond looking them up. */
typedef struct InputAugment {
    const uint8_t *images;
    const int32_t *boxes; /* NULL: nothing is erased */
    const float *mix;     /* NULL: nothing is mixed */
    EraseMode erase;
    InputState *state;
    CpuView v;
    int64_t count; /* of images; behind them come their other views */
} InputAugment;

static Status input_prepare(OpInstance *op)
{
    const InputAttr *attr = op->attr;
    const TensorDesc *images = &op->in[INPUT_IN_IMAGES].desc;
    if (images->rank != 4 || images->dims[3] > OP_MAX_IMAGE_CHANNELS)
        return fail(ERR_INTERNAL, "input: images must be N,H,W,C with at most %d channels",
                    OP_MAX_IMAGE_CHANNELS);
    for (int i = INPUT_IN_IMAGES; i <= INPUT_IN_MIX; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    cpu_view_decide(cpu_backend_of(op), &op->out[INPUT_OUT_X]);
    InputState *state = mem_alloc(sizeof *state);
    if (!state) return ERR_MEMORY;
    for (int64_t c = 0; c < images->dims[3]; c++)
        for (int v = 0; v < BYTE_VALUES; v++) {
            float unit = (float)v / 255.0f;
            state->value.of[c][v] = (unit - attr->mean[c]) / attr->std[c];
        }
    op->state = state;
    return OK;
}

/* One image row of one channel, from element `at` of x on; step: from one position to the next. */
CPU_INLINE void look_up(void *x, int64_t at, int64_t step, const uint8_t *row, int64_t channels,
                        int64_t width, const float *restrict value, DType type)
{
    for (int64_t w = 0; w < width; w++)
        cpu_lanes_store(x, at + w * step, value[row[w * channels]], type);
}

static void look_up_row(const CpuView *v, void *x, int64_t at, const uint8_t *row,
                        const float *value)
{
    if (v->type == DTYPE_F32) look_up(x, at, v->step, row, v->c, v->w, value, DTYPE_F32);
    else look_up(x, at, v->step, row, v->c, v->w, value, DTYPE_BF16);
}

/* Channels that lie in memory: in blocks also those past the last, which are zero. */
static int64_t stored_channels(const CpuView *v)
{
    return v->rows ? v->c : v->cb * v->b;
}

static void zero_row(const CpuView *v, void *x, int64_t at)
{
    for (int64_t w = 0; w < v->w; w++) cpu_lanes_store(x, at + w * v->step, 0.0f, v->type);
}

/* ---- treated images ---- */

static Source source_of(const InputAugment *t, int64_t n, int64_t h, const Table *table,
                        float share)
{
    Source s = { .row = t->images + (n * t->v.h + h) * t->v.w * t->v.c,
                 .table = table,
                 .erase = t->erase,
                 .y = (int)h,
                 .share = share };
    const int32_t *box = t->boxes ? t->boxes + n * ERASE_COUNT : NULL;
    if (!box || h < box[ERASE_TOP] || h >= box[ERASE_TOP] + box[ERASE_HEIGHT]) return s;
    s.erased = box[ERASE_LEFT];
    s.erased_end = s.erased + box[ERASE_WIDTH];
    if (t->erase != ERASE_CONST) s.box = box;
    return s;
}

static float erased_at(const Source *s, int64_t w, int64_t c)
{
    if (!s->box) return 0.0f;
    volatile float v = s->share * erase_noise_at(s->box, s->erase, (int)c, s->y, (int)w);
    return v; /* volatile: rounded, whatever it is added to */
}

static inline float pick(const Source *s, int64_t w, int64_t c, int64_t channels)
{
    return w >= s->erased && w < s->erased_end ? erased_at(s, w, c)
                                               : s->table->of[c][s->row[w * channels + c]];
}

/* Columns [from, to) of one channel of a row: a, and b added to it unless it is NULL. */
static void write_columns(const InputAugment *t, const Source *a, const Source *b, int64_t from,
                          int64_t to, int64_t c, void *x, int64_t at)
{
    for (int64_t w = from; w < to; w++) {
        float v = pick(a, w, c, t->v.c);
        if (b) v += pick(b, w, c, t->v.c);
        cpu_lanes_store(x, at + w * t->v.step, v, t->v.type);
    }
}

static void write_mixed(const InputAugment *t, int64_t n, int64_t h, int64_t c, void *x, int64_t at)
{
    const float *mix = t->mix;
    const bool box = mix[MIX_BOX] != 0;
    const Table *own = box ? &t->state->value : &t->state->own,
                *other = box ? &t->state->value : &t->state->other;
    const Source a = source_of(t, n, h, own, box ? 1.0f : mix[MIX_LAMBDA]),
                 b = source_of(t, op_input_neighbour(n, t->count), h, other,
                               box ? 1.0f : mix[MIX_REST]);
    if (!box) {
        write_columns(t, &a, &b, 0, t->v.w, c, x, at);
        return;
    }
    const bool crossed = h >= (int64_t)mix[MIX_TOP] && h < (int64_t)mix[MIX_BOTTOM];
    const int64_t left = crossed ? (int64_t)mix[MIX_LEFT] : t->v.w,
                  right = crossed ? (int64_t)mix[MIX_RIGHT] : left;
    write_columns(t, &a, NULL, 0, left, c, x, at);
    write_columns(t, &b, NULL, left, right, c, x, at);
    write_columns(t, &a, NULL, right, t->v.w, c, x, at);
}

static void write_view(const InputAugment *t, int64_t n, int64_t h, int64_t c, void *x, int64_t at)
{
    const CpuView *v = &t->v;
    const int view = (int)(n / t->count);
    const int64_t from_h = op_input_view_from(view, h, v->h), image = n % t->count;
    const uint8_t *row = t->images + (image * v->h + from_h) * v->w * v->c + c;
    const float *value = t->state->value.of[c];
    for (int64_t w = 0; w < v->w; w++) {
        const int64_t column = op_input_mirrored(view) ? v->w - 1 - w : w;
        cpu_lanes_store(x, at + w * v->step,
                        value[row[op_input_view_from(view, column, v->w) * v->c]], v->type);
    }
}

static void write_row(const InputAugment *t, int64_t n, int64_t h, int64_t c, void *x, int64_t at)
{
    if (n >= t->count) {
        write_view(t, n, h, c, x, at);
    } else if (t->mix) {
        write_mixed(t, n, h, c, x, at);
    } else {
        const Source own = source_of(t, n, h, &t->state->value, 1.0f);
        write_columns(t, &own, NULL, 0, t->v.w, c, x, at);
    }
}

static void scale_tables(InputState *state, int64_t channels, const float *mix)
{
    if (!mix || mix[MIX_BOX] != 0) return;
    for (int64_t c = 0; c < channels; c++)
        for (int v = 0; v < BYTE_VALUES; v++) {
            state->own.of[c][v] = state->value.of[c][v] * mix[MIX_LAMBDA];
            state->other.of[c][v] = state->value.of[c][v] * mix[MIX_REST];
        }
}

static void run_treated(OpInstance *op, void *x)
{
    const InputAttr *attr = op->attr;
    const InputAugment t = { .images = op->in[INPUT_IN_IMAGES].data,
                             .erase = attr->erase,
                             .boxes = op->in[INPUT_IN_ERASE].data,
                             .mix = op->in[INPUT_IN_MIX].data,
                             .state = op->state,
                             .v = cpu_view(&op->out[INPUT_OUT_X]),
                             .count = op->in[INPUT_IN_IMAGES].desc.dims[0] };
    const CpuView v = t.v;
    int threads = cpu_team(op, v.n * v.c * v.hw);
    scale_tables(t.state, v.c, t.mix);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * v.h; i++) {
        int64_t n = i / v.h, h = i % v.h;
        for (int64_t c = 0; c < stored_channels(&v); c++) {
            const int64_t at = cpu_view_at(&v, n, c, h * v.w);
            if (c < v.c) write_row(&t, n, h, c, x, at);
            else zero_row(&v, x, at);
        }
    }
}

static void input_run(OpInstance *op)
{
    const InputState *state = op->state;
    const uint8_t *images = op->in[INPUT_IN_IMAGES].data;
    void *x = op->out[INPUT_OUT_X].data;
    CpuView v = cpu_view(&op->out[INPUT_OUT_X]);
    int threads = cpu_team(op, v.n * v.c * v.hw);
    const InputAttr *attr = op->attr;
    if (attr->views > VIEWS_ONE || op->in[INPUT_IN_ERASE].desc.rank != 0 ||
        op->in[INPUT_IN_MIX].desc.rank != 0) {
        run_treated(op, x);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * v.h; i++) {
        const uint8_t *row = images + i * v.w * v.c;
        int64_t n = i / v.h, h = i % v.h;
        for (int64_t c = 0; c < stored_channels(&v); c++) {
            const int64_t at = cpu_view_at(&v, n, c, h * v.w);
            if (c < v.c) look_up_row(&v, x, at, row + c, state->value.of[c]);
            else zero_row(&v, x, at);
        }
    }
}

CPU_LOOPS(cpu_input, "table", input_prepare, input_run);
