/* input.c - images u8 N,H,W,C to activations: (v/255 - mean) / std, every step rounded to float32 as torchvision does.
 *
 * A byte has 256 values, so prepare() computes them all, per channel, in exactly that order of operations, and run()
 * looks them up: what is left is the change of layout. A row of an image at a time: it stays in the first-level cache
 * while each channel picks from it. */
#include "base/mem.h"
#include "kernels/cpu/lanes.h"
#include <string.h>

enum { BYTE_VALUES = 256 };

typedef struct InputState {
    float value[OP_MAX_IMAGE_CHANNELS][BYTE_VALUES];
} InputState;

static void input_release(OpInstance *op)
{
    mem_free(op->state);
    op->state = NULL;
}

static Status input_prepare(OpInstance *op)
{
    const InputAttr *attr = op->attr;
    const TensorDesc *images = &op->in[INPUT_IN_IMAGES].desc;
    if (images->rank != 4 || images->dims[3] > OP_MAX_IMAGE_CHANNELS)
        return fail(ERR_INTERNAL, "input: images must be N,H,W,C with at most %d channels", OP_MAX_IMAGE_CHANNELS);
    cpu_decide_plain(&op->in[INPUT_IN_IMAGES]);
    cpu_decide_activation(cpu_backend_of(op), &op->out[INPUT_OUT_X]);
    InputState *state = mem_alloc(sizeof *state);
    if (!state) return ERR_MEMORY;
    for (int64_t c = 0; c < images->dims[3]; c++)
        for (int v = 0; v < BYTE_VALUES; v++) {
            float unit = (float)v / 255.0f;
            state->value[c][v] = (unit - attr->mean[c]) / attr->std[c];
        }
    op->state = state;
    op->implementation = "table";
    return OK;
}

/* One image row of one channel; step: floats from one position to the next. */
static void look_up_row(float *x, int64_t step, const uint8_t *row, int64_t channels, int64_t width,
                        const float *restrict value)
{
    for (int64_t w = 0; w < width; w++) x[w * step] = value[row[w * channels]];
}

static Status input_run(OpInstance *op, Stream *stream)
{
    const InputState *state = op->state;
    const uint8_t *images = op->in[INPUT_IN_IMAGES].data;
    float *x = op->out[INPUT_OUT_X].data;
    CpuView v = cpu_view(&op->out[INPUT_OUT_X]);
    int threads = cpu_team(op, v.n * v.c * v.hw);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v.n * v.h; i++) {
        const uint8_t *row = images + i * v.w * v.c;
        int64_t n = i / v.h, h = i % v.h;
        for (int64_t c = 0; c < v.cb * v.b; c++) {
            float *at = x + ((n * v.cb + c / v.b) * v.hw + h * v.w) * v.b + c % v.b;
            if (c < v.c) look_up_row(at, v.b, row + c, v.c, v.w, state->value[c]);
            else
                for (int64_t w = 0; w < v.w; w++) at[w * v.b] = 0.0f;
        }
    }
    return OK;
}

const OpImpl cpu_input = {
    .prepare = input_prepare, .bind = cpu_bind_nothing, .run = input_run, .release = input_release
};
