/* conv2d_choose.c - picks the oneDNN primitive of a convolution, and leaves out work on padding.
 *
 * CHOICE. oneDNN lists its implementations fastest first, but only those that take the layouts it
 * is asked about, down to a reference implementation that takes all and is a thousand times slower.
 * So layouts are asked about in the order of what they cost us: as the tensors lie, then with
 * weights as the primitive likes them, then with activations reordered to N,H,W,C and to N,C,H,W,
 * for which there is an implementation by matrix multiplication. The first answer that is not a
 * reference wins. Where there is none for bf16, which is so on every CPU without AVX-512, the f32
 * convolution of the same numbers takes its place: slow, and as exact.
 *
 * CROP. In the last stage of a ResNet on small images a 3x3 window meets a 1x1 image: eight of nine
 * taps only ever see padding. Taps at the rim of the window that meet no pixel at any position are
 * left out; the result is the same sum. */
#include "base/log.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/winograd.h"
#include <stdio.h>
#include <string.h>

ConvGeometry conv2d_geometry(const Conv2dAttr *a, const TensorDesc *x, const TensorDesc *w,
                             const TensorDesc *y)
{
    ConvGeometry g = { .w_rank = a->groups > 1 ? 5 : 4,
                       .stride = { a->stride_h, a->stride_w },
                       .pad_before = { a->pad_top, a->pad_left },
                       .pad_after = { a->pad_bottom, a->pad_right } };
    memcpy(g.x, x->dims, sizeof g.x);
    memcpy(g.y, y->dims, sizeof g.y);
    int64_t *d = g.w;
    if (a->groups > 1) *d++ = a->groups;
    *d++ = w->dims[0] / a->groups;
    memcpy(d, &w->dims[1], 3 * sizeof *d);
    return g;
}

/* The range of taps of one axis that meet a pixel at some position; false if there is nothing to
 * crop. */
static bool live_taps(int64_t kernel_size, int64_t size, int64_t positions, int64_t stride,
                      int64_t pad, int64_t *first, int64_t *last)
{
    *first = kernel_size;
    *last = -1;
    for (int64_t tap = 0; tap < kernel_size; tap++)
        for (int64_t p = 0; p < positions; p++) {
            int64_t at = p * stride + tap - pad;
            if (at < 0 || at >= size) continue;
            if (tap < *first) *first = tap;
            *last = tap;
            break;
        }
    return *last >= 0 && *last - *first + 1 < kernel_size;
}

ConvGeometry conv2d_crop(const ConvGeometry *full)
{
    ConvGeometry g = *full;
    for (int axis = 0; axis < 2; axis++) {
        int64_t *kernel_size = &g.w[g.w_rank - 2 + axis], first, last;
        if (!live_taps(*kernel_size, g.x[2 + axis], g.y[2 + axis], g.stride[axis],
                       g.pad_before[axis], &first, &last))
            continue;
        int64_t before = g.pad_before[axis] - first,
                after = g.pad_after[axis] - (*kernel_size - 1 - last);
        /* windows that lie in the padding as a whole; not worth a formula */
        if (before < 0 || after < 0) continue;
        g.pad_before[axis] = before;
        g.pad_after[axis] = after;
        g.first_tap[axis] = first;
        *kernel_size = last - first + 1;
        g.cropped = true;
    }
    return g;
}

static bool accept_fast(const char *info)
{
    return !strstr(info, "ref");
}

/* oneDNN 2.6's depthwise convolution for SSE4.1 crashes where it adds to y and channels end within
 * a block. */
static bool accept_fast_sum(const char *info)
{
    return accept_fast(info) && !strstr(info, "jit_dw:sse41");
}

enum { BF16_BLOCK = 16 };

/* Of fewer channels than a block oneDNN's gradient of weights with AVX-512 in bf16 writes behind
 * its scratchpad or sums wrongly, where one tap has a stride (2.6.3 and 3.2). Over images of five
 * positions its y and dx of one tap are wrong from the second image on, if there are more than 64
 * filters (2.6.3 without AVX-512's own bf16). */
static bool accept_no_bf16_1x1(const char *info)
{
    return accept_fast(info) && !strstr(info, "jit_bf16_1x1");
}

/* Of one filter for each channel: those for it alone. oneDNN 3.2 lists others, as groups of one
 * channel in many times the work, before its own for a gradient with a stride. */
static bool accept_depthwise(const char *info)
{
    return accept_fast_sum(info) && strstr(info, "dw");
}

/* What oneDNN calls the descriptors of x, w and y in each direction. */
static const dnnl_query_t queries[CONV_DIRECTION_COUNT][3] = {
    [CONV_FORWARD] = { dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md },
    [CONV_BWD_DATA] = { dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md },
    [CONV_BWD_WEIGHTS] = { dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md },
};

static void set_epilogue(CompatConv *conv, const ConvEpilogue *e)
{
    static const struct {
        dnnl_alg_kind_t eltwise;
        float alpha, beta;
    } acts[ACT_COUNT] = {
        [ACT_NONE] = { dnnl_alg_kind_undef, 1 },
        /* With a slope that vanishes beside any sum: without one oneDNN makes zero of a NaN too,
         * and a network that is broken would look sound. */
        [ACT_RELU] = { dnnl_eltwise_relu, 1e-30f },
        [ACT_SILU] = { dnnl_eltwise_swish, 1 },
        [ACT_HARD_SWISH] = { dnnl_eltwise_hardswish, 1.0f / 6, 0.5f },
    };
    ASSERT(e->act == ACT_NONE ||
           acts[e->act].eltwise !=
               dnnl_alg_kind_undef); /* shape inference lets no other activation through */
    conv->bias = &e->bias->desc;
    conv->add = e->add;
    conv->eltwise = acts[e->act].eltwise;
    conv->alpha = acts[e->act].alpha;
    conv->beta = acts[e->act].beta;
}

/* Asks for one combination of layouts; *found says whether there is an acceptable
 * implementation. */
static Status ask(CpuBackend *b, const ConvProblem *p, const Layout *w,
                  bool (*accept)(const char *info), ConvChoice *out, bool *found)
{
    const ConvGeometry *g = p->geometry;
    CompatConv conv = {
        .direction = p->direction, .x = &p->x->desc, .w = &w->desc, .y = &p->y->desc
    };
    memcpy(conv.stride, g->stride, sizeof conv.stride);
    memcpy(conv.pad_before, g->pad_before, sizeof conv.pad_before);
    memcpy(conv.pad_after, g->pad_after, sizeof conv.pad_after);
    if (p->epilogue) set_epilogue(&conv, p->epilogue);
    dnnl_status_t st = dnnl_compat_conv_create(&out->pd, b->engine->engine, &conv, accept);
    *found = st == dnnl_success;
    if (st == dnnl_unimplemented) return OK;
    TRY(cpu_dnnl_status(st, "convolution"));
    const dnnl_query_t *q = queries[p->direction];
    Status made = cpu_layout_of_primitive(b, &out->x, out->pd, q[0]);
    if (made == OK) made = cpu_layout_of_primitive(b, &out->w, out->pd, q[1]);
    if (made == OK) made = cpu_layout_of_primitive(b, &out->y, out->pd, q[2]);
    const char *name = NULL;
    if (made == OK)
        made = cpu_dnnl_status(
            dnnl_primitive_desc_query(out->pd, dnnl_query_impl_info_str, 0, (void *)&name), "name");
    if (made == OK) made = cpu_layout_keep_name(b, &out->implementation, name);
    if (made != OK) dnnl_primitive_desc_destroy(out->pd);
    return made;
}

/* Says once that a convolution will be slow; a few products (one pixel of one channel) are not
 * worth a word. */
static void warn_slow(CpuBackend *b, const ConvGeometry *g, const char *implementation)
{
    const double worth_a_word = 1e6;
    double products = 1;
    for (int i = 0; i < g->w_rank; i++) products *= (double)g->w[i];
    products *= (double)(g->y[0] * g->y[2] * g->y[3]);
    if (b->engine->warned_slow || products < worth_a_word) return;
    b->engine->warned_slow = true;
    log_warning("oneDNN has only a slow reference implementation (%s) for a convolution",
                implementation);
}

/* Without references. */
static Status choose_fast(CpuBackend *b, const ConvProblem *problem, ConvChoice *out, bool *found)
{
    static const dnnl_format_tag_t activations[] = { dnnl_format_tag_undef /* as they lie */,
                                                     dnnl_nhwc, dnnl_nchw };
    const ConvGeometry *g = problem->geometry;
    const bool sums = problem->epilogue && problem->epilogue->add,
               wrong = problem->direction == CONV_BWD_WEIGHTS ? g->x[1] < BF16_BLOCK
                                                              : g->y[2] * g->y[3] == 5;
    bool (*const fast)(const char *info) = wrong  ? accept_no_bf16_1x1
                                           : sums ? accept_fast_sum
                                                  : accept_fast;
    bool (*const accepts[])(const char *info) = { accept_depthwise, fast };
    /* gradients of weights are f32, whatever x and y are */
    const DType w_type = problem->direction == CONV_BWD_WEIGHTS ? DTYPE_F32 : problem->x->type;
    const Layout *open;
    *found = false;
    TRY(cpu_layout_make(b, &open, w_type, g->w_rank, g->w, dnnl_format_tag_any));
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        ConvProblem p = *problem;
        if (activations[i] != dnnl_format_tag_undef) {
            TRY(cpu_layout_make(b, &p.x, p.x->type, 4, g->x, activations[i]));
            TRY(cpu_layout_make(b, &p.y, p.y->type, 4, g->y, activations[i]));
        }
        for (int a = conv2d_depthwise(g) ? 0 : 1; a < 2; a++) {
            if (p.w && p.w->type == w_type) TRY(ask(b, &p, p.w, accepts[a], out, found));
            if (!*found) TRY(ask(b, &p, open, accepts[a], out, found));
            if (*found) return OK;
        }
    }
    return OK;
}

Status conv2d_choose(CpuBackend *b, const ConvProblem *problem, ConvChoice *out)
{
    const ConvGeometry *g = problem->geometry;
    ConvProblem p = *problem;
    const Layout *open;
    bool found;
    *out = (ConvChoice){ 0 };
    if (cpu_winograd_takes(b, &p)) {
        *out =
            (ConvChoice){ .x = p.x, .y = p.y, .winograd = true, .implementation = "winograd 4x4" };
        return cpu_winograd_weights(b, g, &out->w);
    }
    TRY(choose_fast(b, &p, out, &found));
    if (cpu_depthwise_takes(&p) && !(found && strstr(out->implementation, "dw"))) {
        dnnl_primitive_desc_destroy(out->pd);
        *out = (ConvChoice){ .x = p.x, .y = p.y, .implementation = "depthwise" };
        return cpu_layout_plain(b, &out->w, g->w_rank, g->w);
    }
    if (found) {
        Status st = conv2d_choose_product(b, &p, out);
        if (st != OK) dnnl_primitive_desc_destroy(out->pd);
        return st;
    }
    if (p.x->type == DTYPE_BF16) {
        TRY(cpu_layout_widened(b, &p.x, p.x));
        TRY(cpu_layout_widened(b, &p.y, p.y));
        TRY(conv2d_choose(b, &p, out));
        char name[128];
        snprintf(name, sizeof name, "emulated %s", out->implementation);
        out->emulated = true;
        Status st = cpu_layout_keep_name(b, &out->implementation, name);
        if (st != OK) dnnl_primitive_desc_destroy(out->pd);
        return st;
    }
    TRY(cpu_layout_make(b, &open, DTYPE_F32, g->w_rank, g->w, dnnl_format_tag_any));
    TRY(cpu_layout_make(b, &p.x, DTYPE_F32, 4, g->x, dnnl_nchw));
    TRY(cpu_layout_make(b, &p.y, DTYPE_F32, 4, g->y, dnnl_nchw));
    TRY(ask(b, &p, open, dnnl_compat_accept_any, out, &found));
    if (!found) return fail(ERR_INTERNAL, "oneDNN has no implementation of this convolution");
    warn_slow(b, g, out->implementation);
    return OK;
}
