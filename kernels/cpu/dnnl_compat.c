/* dnnl_compat.c - the two versions of oneDNN's C interface, one block each.
 *
 * Backward convolutions need a forward primitive descriptor as a hint. It is made with layouts of oneDNN's choice and
 * thrown away: for convolutions the hint only proves that a forward exists. */
#include "kernels/cpu/dnnl_compat.h"
#include <string.h>

static const char *implementation_name(const_dnnl_primitive_desc_t pd)
{
    const char *info = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&info) != dnnl_success) return "";
    return info ? info : "";
}

static dnnl_status_t make_attr(dnnl_primitive_attr_t *out)
{
    dnnl_status_t st = dnnl_primitive_attr_create(out);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return st;
}

#if DNNL_VERSION_MAJOR == 2

CompatDescRef compat_desc_ref(const CompatDesc *d)
{
    return &d->handle;
}

dnnl_status_t compat_desc_make(CompatDesc *out, int rank, const int64_t *dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&out->handle, rank, dims, dnnl_f32, tag);
}

dnnl_status_t compat_desc_window(CompatDesc *out, const CompatDesc *parent, const int64_t *dims, const int64_t *offsets)
{
    return dnnl_memory_desc_init_submemory(&out->handle, &parent->handle, dims, offsets);
}

dnnl_status_t compat_desc_query(CompatDesc *out, const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(pd, what, 0);
    if (!d) return dnnl_invalid_arguments;
    out->handle = *d;
    return dnnl_success;
}

void compat_desc_free(CompatDesc *d)
{
    (void)d;
}

bool compat_desc_equal(const CompatDesc *a, const CompatDesc *b)
{
    return dnnl_memory_desc_equal(&a->handle, &b->handle) != 0;
}

size_t compat_desc_bytes(const CompatDesc *d)
{
    return dnnl_memory_desc_get_size(&d->handle);
}

void compat_desc_dims(const CompatDesc *d, int *rank, dnnl_dims_t dims)
{
    *rank = d->handle.ndims;
    memcpy(dims, d->handle.dims, sizeof(dnnl_dims_t));
}

static dnnl_status_t describe_conv(dnnl_convolution_desc_t *desc, const CompatConv *c)
{
    const dnnl_memory_desc_t *x = &c->x->handle, *w = &c->w->handle, *y = &c->y->handle;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    switch (c->direction) {
    case CONV_FORWARD:
        return dnnl_convolution_forward_desc_init(desc, dnnl_forward_training, direct, x, w, NULL, y, c->stride,
                                                  c->pad_before, c->pad_after);
    case CONV_BWD_DATA:
        return dnnl_convolution_backward_data_desc_init(desc, direct, x, w, y, c->stride, c->pad_before, c->pad_after);
    case CONV_BWD_WEIGHTS:
        return dnnl_convolution_backward_weights_desc_init(desc, direct, x, w, NULL, y, c->stride, c->pad_before,
                                                           c->pad_after);
    case CONV_DIRECTION_COUNT:
        break;
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t first_accepted(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const CompatConv *c,
                                    const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                    bool (*accept)(const char *info))
{
    dnnl_convolution_desc_t desc;
    dnnl_status_t st = describe_conv(&desc, c);
    dnnl_primitive_desc_iterator_t it = NULL;
    if (st == dnnl_success) st = dnnl_primitive_desc_iterator_create(&it, &desc, attr, engine, hint);
    while (st == dnnl_success) {
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        if (!pd) {
            st = dnnl_out_of_memory;
        } else if (accept(implementation_name(pd))) {
            *out = pd;
            break;
        } else {
            dnnl_primitive_desc_destroy(pd);
            st = dnnl_primitive_desc_iterator_next(it);
        }
    }
    if (it) dnnl_primitive_desc_iterator_destroy(it);
    return st == dnnl_iterator_ends ? dnnl_unimplemented : st;
}

#else /* oneDNN 3 */

CompatDescRef compat_desc_ref(const CompatDesc *d)
{
    return d->handle;
}

dnnl_status_t compat_desc_make(CompatDesc *out, int rank, const int64_t *dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(&out->handle, rank, dims, dnnl_f32, tag);
}

dnnl_status_t compat_desc_window(CompatDesc *out, const CompatDesc *parent, const int64_t *dims, const int64_t *offsets)
{
    return dnnl_memory_desc_create_submemory(&out->handle, parent->handle, dims, offsets);
}

dnnl_status_t compat_desc_query(CompatDesc *out, const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(pd, what, 0);
    if (!d) return dnnl_invalid_arguments;
    return dnnl_memory_desc_clone(&out->handle, d);
}

void compat_desc_free(CompatDesc *d)
{
    if (d->handle) dnnl_memory_desc_destroy(d->handle);
    d->handle = NULL;
}

bool compat_desc_equal(const CompatDesc *a, const CompatDesc *b)
{
    return dnnl_memory_desc_equal(a->handle, b->handle) != 0;
}

size_t compat_desc_bytes(const CompatDesc *d)
{
    return dnnl_memory_desc_get_size(d->handle);
}

void compat_desc_dims(const CompatDesc *d, int *rank, dnnl_dims_t dims)
{
    int32_t n = 0;
    dnnl_dims_t *borrowed = NULL;
    memset(dims, 0, sizeof(dnnl_dims_t));
    if (dnnl_memory_desc_query(d->handle, dnnl_query_ndims_s32, &n) == dnnl_success &&
        dnnl_memory_desc_query(d->handle, dnnl_query_dims, (void *)&borrowed) == dnnl_success)
        memcpy(dims, *borrowed, (size_t)n * sizeof(int64_t)); /* only n entries are promised to exist */
    *rank = (int)n;
}

static dnnl_status_t describe_conv(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const CompatConv *c,
                                   const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    const_dnnl_memory_desc_t x = c->x->handle, w = c->w->handle, y = c->y->handle;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const dnnl_dims_t dilation = { 0, 0 };
    switch (c->direction) {
    case CONV_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, direct, x, w, NULL, y,
                                                              c->stride, dilation, c->pad_before, c->pad_after, attr);
    case CONV_BWD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(out, engine, direct, x, w, y, c->stride, dilation,
                                                                    c->pad_before, c->pad_after, hint, attr);
    case CONV_BWD_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, direct, x, w, NULL, y, c->stride, dilation, c->pad_before, c->pad_after, hint, attr);
    case CONV_DIRECTION_COUNT:
        break;
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t first_accepted(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const CompatConv *c,
                                    const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                    bool (*accept)(const char *info))
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = describe_conv(&pd, engine, c, attr, hint);
    while (st == dnnl_success && !accept(implementation_name(pd))) st = dnnl_primitive_desc_next_impl(pd);
    if (st == dnnl_success) {
        *out = pd;
    } else if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return st == dnnl_last_impl_reached ? dnnl_unimplemented : st;
}

#endif

static bool accept_any(const char *info)
{
    (void)info;
    return true;
}

/* The shape of d with the layout left open. */
static dnnl_status_t open_desc(CompatDesc *out, const CompatDesc *d)
{
    int rank;
    dnnl_dims_t dims;
    compat_desc_dims(d, &rank, dims);
    return compat_desc_make(out, rank, dims, dnnl_format_tag_any);
}

static dnnl_status_t make_hint(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const CompatConv *c,
                               const_dnnl_primitive_attr_t attr)
{
    CompatDesc open[3];
    const CompatDesc *given[3] = { c->x, c->w, c->y };
    memset(open, 0, sizeof open);
    dnnl_status_t st = dnnl_success;
    for (int i = 0; i < 3 && st == dnnl_success; i++) st = open_desc(&open[i], given[i]);
    CompatConv forward = *c;
    forward.direction = CONV_FORWARD;
    forward.x = &open[0];
    forward.w = &open[1];
    forward.y = &open[2];
    if (st == dnnl_success) st = first_accepted(out, engine, &forward, attr, NULL, accept_any);
    for (int i = 0; i < 3; i++) compat_desc_free(&open[i]);
    return st;
}

dnnl_status_t compat_conv_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const CompatConv *conv,
                                 bool (*accept)(const char *info))
{
    *out = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t st = make_attr(&attr);
    if (st == dnnl_success && conv->direction != CONV_FORWARD) st = make_hint(&hint, engine, conv, attr);
    if (st == dnnl_success) st = first_accepted(out, engine, conv, attr, hint, accept);
    if (hint) dnnl_primitive_desc_destroy(hint);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}
