/* depthwise.c - see depthwise.h. Which kernel runs, over which grid. */
#include "kernels/cuda/depthwise.h"
#include "base/mem.h"

enum { VECTOR_BYTES = 16, PLACES_MAX = 1 << 30, MAX_GRID_Y = 65535, MIN_ROUNDS = 4 };

struct Depthwise {
    ConvPass pass;
    DepthwiseShape shape;
    const void *a, *b;
    void *out, *workspace;
};

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Kernels count the vectors of an image in 32 bits. PLACES_MAX leaves room in an int for a step of
 * the grid past the last place. One column more: a gather may have one beside the image. */
static bool fits(int64_t n, int64_t rows, int64_t columns, int64_t vectors)
{
    return rows * columns <= INT32_MAX / 2 / vectors && n <= PLACES_MAX / (rows * (columns + 1));
}

bool depthwise_takes(const ConvShape *s)
{
    const Conv2dAttr *a = &s->attr;
    const int64_t channels = VECTOR_BYTES / (int64_t)dtype_bytes(s->io);
    /* padding below the kernel's size: turned around for the gradient, it must not be negative */
    return a->groups == s->c && s->k == s->c && s->c % channels == 0 && s->r == s->s &&
           (s->r == 3 || s->r == 5) && a->stride_h == a->stride_w &&
           (a->stride_h == 1 || a->stride_h == 2) && a->pad_top < s->r && a->pad_left < s->s &&
           fits(s->n, s->h, s->w, s->c / channels) && fits(s->n, s->p, s->q, s->c / channels);
}

/* rows: of what is written, strips to each; slots: places that a block works on at a time. Enough
 * blocks to fill the device, but none with less than a few rounds: each loads its filters, or
 * writes a part, once. */
static void make_grid(DepthwiseShape *k, int64_t rows, int64_t strips, int64_t slots,
                      int64_t resident)
{
    k->places = (int)(k->n * rows * strips);
    k->by_strips = fast_div_make((uint32_t)strips);
    k->by_rows = fast_div_make((uint32_t)rows);
    k->tiles = (int)divide_up(k->vectors, DEPTHWISE_LANES);
    /* no more blocks than the device holds at once */
    int64_t most = divide_up(k->places, slots * MIN_ROUNDS), splits = resident / k->tiles;
    if (splits > most) splits = most;
    k->splits = (int)(splits < 1 ? 1 : splits > MAX_GRID_Y ? MAX_GRID_Y : splits);
}

static void read_and_write(DepthwiseShape *k, int64_t h, int64_t w, int64_t p, int64_t q)
{
    k->h = (int)h;
    k->w = (int)w;
    k->p = (int)p;
    k->q = (int)q;
}

static void shape_data(DepthwiseShape *k, const ConvShape *s, ConvPass pass, int sm_count)
{
    int strip = DEPTHWISE_STRIP(k->stride), beside = 0;
    if (pass == CONV_FORWARD) read_and_write(k, s->h, s->w, s->p, s->q);
    else read_and_write(k, s->p, s->q, s->h, s->w);
    if (pass == CONV_BWD_DATA && k->stride == 1) {
        k->turned = true;
        k->pad_h = k->kernel_size - 1 - k->pad_h;
        k->pad_w = k->kernel_size - 1 - k->pad_w;
    } else if (pass == CONV_BWD_DATA) {
        k->gathers = true;
        strip = DEPTHWISE_GATHER_STRIP;
        beside = k->pad_w % 2; /* columns of the first strip that are left of the image */
    }
    make_grid(k, k->p, divide_up(k->q + beside, strip), DEPTHWISE_THREADS / DEPTHWISE_LANES,
              (int64_t)sm_count * DEPTHWISE_BLOCKS);
}

static void shape_weights(DepthwiseShape *k, const ConvShape *s, int sm_count)
{
    read_and_write(k, s->h, s->w, s->p, s->q);
    make_grid(k, k->p, divide_up(k->q, DEPTHWISE_STRIP(k->stride)),
              DEPTHWISE_DEPTH(k->kernel_size) * 32 / DEPTHWISE_LANES,
              (int64_t)sm_count * DEPTHWISE_BWD_BLOCKS(k->kernel_size));
}

Status depthwise_create(Depthwise **out, const CudaBackend *b, ConvPass pass, const ConvShape *s,
                        bool accumulate)
{
    Depthwise *d = *out = mem_calloc(1, sizeof *d);
    ASSERT(depthwise_takes(s));
    if (!d) return ERR_MEMORY;
    d->pass = pass;
    d->shape =
        (DepthwiseShape){ .dtype = s->io,
                          .n = (int)s->n,
                          .vectors = (int)(s->c * (int64_t)dtype_bytes(s->io) / VECTOR_BYTES),
                          .kernel_size = (int)s->r,
                          .stride = s->attr.stride_h,
                          .pad_h = s->attr.pad_top,
                          .pad_w = s->attr.pad_left,
                          .accumulate = accumulate };
    if (pass == CONV_BWD_WEIGHTS) shape_weights(&d->shape, s, b->sm_count);
    else shape_data(&d->shape, s, pass, b->sm_count);
    return OK;
}

void depthwise_destroy(Depthwise *d)
{
    mem_free(d);
}

size_t depthwise_workspace(const Depthwise *d)
{
    const DepthwiseShape *k = &d->shape;
    if (d->pass != CONV_BWD_WEIGHTS) return 0;
    const size_t channels =
        (size_t)k->tiles * DEPTHWISE_LANES * VECTOR_BYTES / dtype_bytes(k->dtype);
    return (size_t)k->splits * (size_t)(k->kernel_size * k->kernel_size) * channels * sizeof(float);
}

const char *depthwise_name(const Depthwise *d)
{
    static const char *const names[CONV_PASS_COUNT] = { [CONV_FORWARD] = "depthwise_nhwc",
                                                        [CONV_BWD_DATA] = "depthwise_nhwc_data",
                                                        [CONV_BWD_WEIGHTS] =
                                                            "depthwise_nhwc_weights" };
    return names[d->pass];
}

void depthwise_bind(Depthwise *d, const void *a, const void *b, void *out, void *workspace)
{
    d->a = a;
    d->b = b;
    d->out = out;
    d->workspace = workspace;
}

Status depthwise_run(const Depthwise *d, cudaStream_t stream)
{
    if (d->pass == CONV_BWD_WEIGHTS)
        TRY_CUDA(
            cuda_launch_depthwise_bwd_weights(&d->shape, d->a, d->b, d->workspace, d->out, stream));
    else TRY_CUDA(cuda_launch_depthwise(&d->shape, d->b, d->a, d->out, stream));
    return OK;
}
