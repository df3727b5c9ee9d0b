/* init.c - first values of parameters and buffers.
 *
 * A tensor's draws are addressed by (seed, its index among parameters and buffers), so they do not
 * depend on which tensors were initialised before, by whom, or on how many ranks; a training and an
 * evaluation graph of one network agree. */
#include "base/rng.h"
#include "models/models.h"
#include <math.h>

enum { PAD_ROW = 1 }; /* of fairseq's dictionaries, and of positions that count behind it */

static uint32_t weight_index(const Graph *g, TensorId id)
{
    uint32_t index = 0;
    for (TensorId k = 0; k < id; k++) {
        const TensorRole role = graph_tensor(g, k)->role;
        index += role == ROLE_PARAM || role == ROLE_BUFFER;
    }
    return index;
}

static void fill_constant(float *out, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++) out[i] = value;
}

static void fill_normal(float *out, int64_t count, double deviation, Rng rng)
{
    for (int64_t i = 0; i < count; i++) out[i] = (float)(deviation * rng_normal(&rng));
}

static void fill_uniform(float *out, int64_t count, double bound, Rng rng)
{
    for (int64_t i = 0; i < count; i++) out[i] = (float)(bound * (2 * rng_uniform(&rng) - 1));
}

/* Filter k of the first C of a convolution K,C,R,S becomes 1 at channel k's middle, else 0. */
static void set_identity(float *out, const int64_t *dims)
{
    const int64_t window = dims[2] * dims[3], filters = dims[0] < dims[1] ? dims[0] : dims[1];
    fill_constant(out, filters * dims[1] * window, 0);
    for (int64_t k = 0; k < filters; k++)
        out[(k * dims[1] + k) * window + dims[2] / 2 * dims[3] + dims[3] / 2] = 1;
}

Status model_init_tensor(const Graph *g, TensorId id, uint64_t seed, float *out)
{
    const GraphTensor *t = graph_tensor(g, id);
    if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER)
        return fail(ERR_INTERNAL, "%s is neither a parameter nor a buffer", t->name);
    const int64_t count = tensor_elements(&t->desc);
    const Rng rng = rng_at(seed, RNG_INIT, weight_index(g, id), 0);
    switch (t->init) {
    case INIT_ZERO:
        fill_constant(out, count, 0);
        break;
    case INIT_ONE:
        fill_constant(out, count, 1);
        break;
    case INIT_INVERSE:
        fill_constant(out, count, (float)(1 / (double)t->fan));
        break;
    case INIT_HE_FAN_OUT:
        fill_normal(out, count, sqrt(2.0 / (double)t->fan), rng);
        break;
    case INIT_NORMAL:
        fill_normal(out, count, 1 / (double)t->fan, rng);
        break;
    case INIT_NORMAL_PADDED:
        fill_normal(out, count, 1 / (double)t->fan, rng);
        if (t->desc.dims[0] > PAD_ROW)
            fill_constant(out + PAD_ROW * t->desc.dims[1], t->desc.dims[1], 0);
        break;
    case INIT_XAVIER:
        fill_uniform(out, count, sqrt(6.0 / (double)t->fan), rng);
        break;
    case INIT_UNIFORM_FAN:
    case INIT_IDENTITY:
    case INIT_WHITEN:
        fill_uniform(out, count, 1 / sqrt((double)t->fan), rng);
        if (t->init == INIT_IDENTITY) set_identity(out, t->desc.dims);
        break;
    }
    return OK;
}
