/* dnnl_compat.c - the two versions of oneDNN's C interface, one block each.
 *
 * Backward convolutions need a forward primitive descriptor as a hint. It is made with layouts of
 * oneDNN's choice and thrown away: for convolutions the hint only proves that a forward exists. */
#include "kernels/cpu/dnnl_compat.h"
#include <string.h>

static const char *implementation_name(const_dnnl_primitive_desc_t pd)
{
    const char *info = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&info) != dnnl_success)
        return "";
    return info ? info : "";
}

static dnnl_prop_kind_t forward_kind(const CompatConv *c)
{
    return c->bias ? dnnl_forward_inference : dnnl_forward_training;
}

/* cells holds the padded dimensions; what the blocks take of them is divided away. */
static void divide_by_blocks(CompatTiles *t)
{
    for (int i = 0; i < t->blocks; i++) t->cells[t->block_of[i]] /= t->block_size[i];
}

#if DNNL_VERSION_MAJOR == 2

CompatDescRef dnnl_compat_desc_ref(const CompatDesc *d)
{
    return &d->handle;
}

dnnl_status_t dnnl_compat_desc_make(CompatDesc *out, dnnl_data_type_t type, int rank,
                                    const int64_t *dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&out->handle, rank, dims, type, tag);
}

dnnl_status_t dnnl_compat_desc_submemory(CompatDesc *out, const CompatDesc *parent,
                                         const int64_t *dims, const int64_t *offsets)
{
    return dnnl_memory_desc_init_submemory(&out->handle, &parent->handle, dims, offsets);
}

dnnl_status_t dnnl_compat_desc_query(CompatDesc *out, const_dnnl_primitive_desc_t pd,
                                     dnnl_query_t what)
{
    const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(pd, what, 0);
    if (!d) return dnnl_invalid_arguments;
    out->handle = *d;
    return dnnl_success;
}

void dnnl_compat_desc_free(CompatDesc *d)
{
    (void)d;
}

bool dnnl_compat_desc_equal(const CompatDesc *a, const CompatDesc *b)
{
    return dnnl_memory_desc_equal(&a->handle, &b->handle) != 0;
}

size_t dnnl_compat_desc_bytes(const CompatDesc *d)
{
    return dnnl_memory_desc_get_size(&d->handle);
}

void dnnl_compat_desc_dims(const CompatDesc *d, int *rank, dnnl_dims_t dims)
{
    *rank = d->handle.ndims;
    memcpy(dims, d->handle.dims, sizeof(dnnl_dims_t));
}

dnnl_data_type_t dnnl_compat_desc_type(const CompatDesc *d)
{
    return d->handle.data_type;
}

dnnl_status_t dnnl_compat_desc_tiles(const CompatDesc *d, CompatTiles *out)
{
    const dnnl_blocking_desc_t *b = &d->handle.format_desc.blocking;
    if (d->handle.format_kind != dnnl_blocked) return dnnl_unimplemented;
    *out = (CompatTiles){ .rank = d->handle.ndims, .blocks = b->inner_nblks };
    memcpy(out->cells, d->handle.padded_dims, sizeof out->cells);
    memcpy(out->strides, b->strides, sizeof out->strides);
    memcpy(out->block_size, b->inner_blks, sizeof out->block_size);
    memcpy(out->block_of, b->inner_idxs, sizeof out->block_of);
    divide_by_blocks(out);
    return dnnl_success;
}

static dnnl_status_t append_add(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t eltwise, float alpha,
                                    float beta)
{
    return dnnl_post_ops_append_eltwise(ops, 1, eltwise, alpha, beta);
}

static dnnl_status_t describe_conv(dnnl_convolution_desc_t *desc, const CompatConv *c)
{
    const dnnl_memory_desc_t *x = &c->x->handle, *w = &c->w->handle, *y = &c->y->handle;
    const dnnl_memory_desc_t *bias = c->bias ? &c->bias->handle : NULL;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    switch (c->direction) {
    case CONV_FORWARD:
        return dnnl_convolution_forward_desc_init(desc, forward_kind(c), direct, x, w, bias, y,
                                                  c->stride, c->pad_before, c->pad_after);
    case CONV_BWD_DATA:
        return dnnl_convolution_backward_data_desc_init(desc, direct, x, w, y, c->stride,
                                                        c->pad_before, c->pad_after);
    case CONV_BWD_WEIGHTS:
        return dnnl_convolution_backward_weights_desc_init(desc, direct, x, w, NULL, y, c->stride,
                                                           c->pad_before, c->pad_after);
    case CONV_DIRECTION_COUNT:
        break;
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t first_accepted(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                    const CompatConv *c, const_dnnl_primitive_attr_t attr,
                                    const_dnnl_primitive_desc_t hint,
                                    bool (*accept)(const char *info))
{
    dnnl_convolution_desc_t desc;
    dnnl_status_t st = describe_conv(&desc, c);
    dnnl_primitive_desc_iterator_t it = NULL;
    if (st == dnnl_success)
        st = dnnl_primitive_desc_iterator_create(&it, &desc, attr, engine, hint);
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

static dnnl_status_t create_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                   const CompatDesc *left, const CompatDesc *right,
                                   const CompatDesc *out, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t st =
        dnnl_matmul_desc_init(&desc, &left->handle, &right->handle, NULL, &out->handle);
    return st == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL) : st;
}

#else /* oneDNN 3 */

CompatDescRef dnnl_compat_desc_ref(const CompatDesc *d)
{
    return d->handle;
}

dnnl_status_t dnnl_compat_desc_make(CompatDesc *out, dnnl_data_type_t type, int rank,
                                    const int64_t *dims, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(&out->handle, rank, dims, type, tag);
}

dnnl_status_t dnnl_compat_desc_submemory(CompatDesc *out, const CompatDesc *parent,
                                         const int64_t *dims, const int64_t *offsets)
{
    return dnnl_memory_desc_create_submemory(&out->handle, parent->handle, dims, offsets);
}

dnnl_status_t dnnl_compat_desc_query(CompatDesc *out, const_dnnl_primitive_desc_t pd,
                                     dnnl_query_t what)
{
    const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(pd, what, 0);
    if (!d) return dnnl_invalid_arguments;
    return dnnl_memory_desc_clone(&out->handle, d);
}

void dnnl_compat_desc_free(CompatDesc *d)
{
    if (d->handle) dnnl_memory_desc_destroy(d->handle);
    d->handle = NULL;
}

bool dnnl_compat_desc_equal(const CompatDesc *a, const CompatDesc *b)
{
    return dnnl_memory_desc_equal(a->handle, b->handle) != 0;
}

size_t dnnl_compat_desc_bytes(const CompatDesc *d)
{
    return dnnl_memory_desc_get_size(d->handle);
}

void dnnl_compat_desc_dims(const CompatDesc *d, int *rank, dnnl_dims_t dims)
{
    int32_t n = 0;
    dnnl_dims_t *borrowed = NULL;
    memset(dims, 0, sizeof(dnnl_dims_t));
    if (dnnl_memory_desc_query(d->handle, dnnl_query_ndims_s32, &n) == dnnl_success &&
        dnnl_memory_desc_query(d->handle, dnnl_query_dims, (void *)&borrowed) == dnnl_success)
        /* only n entries are promised to exist */
        memcpy(dims, *borrowed, (size_t)n * sizeof(int64_t));
    *rank = (int)n;
}

dnnl_data_type_t dnnl_compat_desc_type(const CompatDesc *d)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    (void)dnnl_memory_desc_query(d->handle, dnnl_query_data_type, &type);
    return type;
}

dnnl_status_t dnnl_compat_desc_tiles(const CompatDesc *d, CompatTiles *out)
{
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    int32_t rank = 0, blocks = 0;
    /* borrowed; of each only as many entries are promised to exist as there are dimensions, or
     * blocks */
    dnnl_dims_t *cells = NULL, *strides = NULL, *sizes = NULL, *of = NULL;
    const struct {
        dnnl_query_t what;
        void *to;
    } questions[] = { { dnnl_query_format_kind, &kind },
                      { dnnl_query_ndims_s32, &rank },
                      { dnnl_query_padded_dims, (void *)&cells } };
    const struct {
        dnnl_query_t what;
        void *to;
    } of_blocked[] = { { dnnl_query_strides, (void *)&strides },
                       { dnnl_query_inner_nblks_s32, &blocks },
                       { dnnl_query_inner_blks, (void *)&sizes },
                       { dnnl_query_inner_idxs, (void *)&of } };
    dnnl_status_t st = dnnl_success;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0] && st == dnnl_success; i++)
        st = dnnl_memory_desc_query(d->handle, questions[i].what, questions[i].to);
    if (st == dnnl_success && kind != dnnl_blocked) return dnnl_unimplemented;
    for (size_t i = 0; i < sizeof of_blocked / sizeof of_blocked[0] && st == dnnl_success; i++)
        st = dnnl_memory_desc_query(d->handle, of_blocked[i].what, of_blocked[i].to);
    if (st != dnnl_success) return st;
    *out = (CompatTiles){ .rank = (int)rank, .blocks = (int)blocks };
    memcpy(out->cells, *cells, (size_t)rank * sizeof(int64_t));
    memcpy(out->strides, *strides, (size_t)rank * sizeof(int64_t));
    memcpy(out->block_size, *sizes, (size_t)blocks * sizeof(int64_t));
    memcpy(out->block_of, *of, (size_t)blocks * sizeof(int64_t));
    divide_by_blocks(out);
    return dnnl_success;
}

static dnnl_status_t append_add(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t eltwise, float alpha,
                                    float beta)
{
    return dnnl_post_ops_append_eltwise(ops, eltwise, alpha, beta);
}

static dnnl_status_t describe_conv(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                   const CompatConv *c, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t hint)
{
    const_dnnl_memory_desc_t x = c->x->handle, w = c->w->handle, y = c->y->handle;
    const_dnnl_memory_desc_t bias = c->bias ? c->bias->handle : NULL;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const dnnl_dims_t dilation = { 0, 0 };
    switch (c->direction) {
    case CONV_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(out, engine, forward_kind(c), direct,
                                                              x, w, bias, y, c->stride, dilation,
                                                              c->pad_before, c->pad_after, attr);
    case CONV_BWD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, direct, x, w, y, c->stride, dilation, c->pad_before, c->pad_after, hint,
            attr);
    case CONV_BWD_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, direct, x, w, NULL, y, c->stride, dilation, c->pad_before, c->pad_after,
            hint, attr);
    case CONV_DIRECTION_COUNT:
        break;
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t first_accepted(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                    const CompatConv *c, const_dnnl_primitive_attr_t attr,
                                    const_dnnl_primitive_desc_t hint,
                                    bool (*accept)(const char *info))
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = describe_conv(&pd, engine, c, attr, hint);
    while (st == dnnl_success && !accept(implementation_name(pd)))
        st = dnnl_primitive_desc_next_impl(pd);
    if (st == dnnl_success) {
        *out = pd;
    } else if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    return st == dnnl_last_impl_reached ? dnnl_unimplemented : st;
}

static dnnl_status_t create_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                   const CompatDesc *left, const CompatDesc *right,
                                   const CompatDesc *out, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, left->handle, right->handle, NULL,
                                             out->handle, attr);
}

#endif

static dnnl_status_t set_post_ops(dnnl_primitive_attr_t attr, const CompatConv *c)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t st = dnnl_post_ops_create(&ops);
    if (st == dnnl_success && c->add) st = append_add(ops);
    if (st == dnnl_success && c->eltwise != dnnl_alg_kind_undef)
        st = append_eltwise(ops, c->eltwise, c->alpha, c->beta);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(attr, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    return st;
}

static dnnl_status_t make_attr(dnnl_primitive_attr_t *out, const CompatConv *c)
{
    dnnl_status_t st = dnnl_primitive_attr_create(out);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (st == dnnl_success && c->bias) st = set_post_ops(*out, c);
    return st;
}

bool dnnl_compat_accept_any(const char *info)
{
    (void)info;
    return true;
}

static dnnl_status_t make_hint(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                               const CompatConv *c, const_dnnl_primitive_attr_t attr)
{
    CompatDesc open[3];
    const CompatDesc *given[3] = { c->x, c->w, c->y };
    memset(open, 0, sizeof open);
    dnnl_status_t st = dnnl_success;
    /* layouts are left open; gradients of weights may be wider than the weights of any forward */
    for (int i = 0; i < 3 && st == dnnl_success; i++) {
        int rank;
        dnnl_dims_t dims;
        dnnl_compat_desc_dims(given[i], &rank, dims);
        st = dnnl_compat_desc_make(&open[i], dnnl_compat_desc_type(c->x), rank, dims,
                                   dnnl_format_tag_any);
    }
    CompatConv forward = *c;
    forward.direction = CONV_FORWARD;
    forward.x = &open[0];
    forward.w = &open[1];
    forward.y = &open[2];
    if (st == dnnl_success)
        st = first_accepted(out, engine, &forward, attr, NULL, dnnl_compat_accept_any);
    for (int i = 0; i < 3; i++) dnnl_compat_desc_free(&open[i]);
    return st;
}

dnnl_status_t dnnl_compat_conv_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                      const CompatConv *conv, bool (*accept)(const char *info))
{
    *out = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t st = make_attr(&attr, conv);
    if (st == dnnl_success && conv->direction != CONV_FORWARD)
        st = make_hint(&hint, engine, conv, attr);
    if (st == dnnl_success) st = first_accepted(out, engine, conv, attr, hint, accept);
    if (hint) dnnl_primitive_desc_destroy(hint);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

dnnl_status_t dnnl_compat_matmul_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                        const CompatDesc *left, const CompatDesc *right,
                                        const CompatDesc *out, bool (*accept)(const char *info))
{
    *pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t st = make_attr(&attr, &(CompatConv){ .bias = NULL });
    if (st == dnnl_success) st = create_matmul(pd, engine, left, right, out, attr);
    if (attr) dnnl_primitive_attr_destroy(attr);
    if (st != dnnl_success || accept(implementation_name(*pd))) return st;
    dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
    return dnnl_unimplemented;
}
