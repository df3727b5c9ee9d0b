/* conv2d_product.c - gradients of a convolution in rows of bf16 as one matrix product. With P
 * positions of y, T taps of the window:
 *
 *   dw[K, TC] = dy[P, K]^T patches[P, TC]     patches: the pixels under the window at a position
 *   dx[P, C] = dy[P, K] w[K, C]               of one tap alone
 *
 * Where the window is one tap without a stride, patches is x as it lies. oneDNN's convolutions
 * reduce dw row by row of the image, of which short ones leave an AMX tile (32 positions) mostly
 * empty, and with a stride they are at best half as fast as without one; 2.6.3's for dx of one tap,
 * which are not by its product ("brg"), take twice as long as one. Padding is multiplied too: a NaN
 * or infinity in dy reaches every tap that meets padding at its position, where a convolution
 * leaves it out. */
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/dnnl.h"
#include <stdio.h>
#include <string.h>

enum { SHORT_ROW = 8 }; /* positions: a quarter of a tile */

static int64_t taps_of(const ConvGeometry *g)
{
    return g->w[2] * g->w[3];
}

static bool is_strided(const ConvGeometry *g)
{
    return g->stride[0] > 1 || g->stride[1] > 1;
}

static bool is_padded(const ConvGeometry *g)
{
    return g->pad_before[0] || g->pad_before[1] || g->pad_after[0] || g->pad_after[1];
}

/* own: oneDNN's implementation of it as a convolution. */
static bool pays(const ConvProblem *p, const char *own)
{
    const ConvGeometry *g = p->geometry;
    if (!p->x->rows || !p->y->rows || p->x->type != DTYPE_BF16 || g->w_rank != 4) return false;
    if (p->direction == CONV_BWD_WEIGHTS) return taps_of(g) == 1 || g->y[3] < SHORT_ROW;
    return p->direction == CONV_BWD_DATA && taps_of(g) == 1 && !is_padded(g) &&
           (is_strided(g) || !strstr(own, "brg"));
}

typedef struct Shapes { /* of the product: out = left right */
    const Layout *left, *right, *out;
} Shapes;

static Status shapes_of(CpuBackend *b, ConvDirection direction, const ConvGeometry *g, Shapes *out)
{
    const int64_t positions = g->y[0] * g->y[2] * g->y[3], k = g->w[0],
                  columns = taps_of(g) * g->w[1];
    if (direction == CONV_BWD_WEIGHTS) {
        TRY(cpu_layout_make(b, &out->left, DTYPE_BF16, 2, (int64_t[]){ k, positions }, dnnl_ba));
        TRY(cpu_layout_make(b, &out->right, DTYPE_BF16, 2, (int64_t[]){ positions, columns },
                            dnnl_ab));
        return cpu_layout_make(b, &out->out, DTYPE_F32, 2, (int64_t[]){ k, columns }, dnnl_ab);
    }
    TRY(cpu_layout_make(b, &out->left, DTYPE_BF16, 2, (int64_t[]){ positions, k }, dnnl_ab));
    TRY(cpu_layout_make(b, &out->right, DTYPE_BF16, 2, (int64_t[]){ k, columns }, dnnl_ab));
    return cpu_layout_make(b, &out->out, DTYPE_BF16, 2, (int64_t[]){ positions, columns }, dnnl_ab);
}

static bool accept_amx(const char *info)
{
    return strstr(info, "amx") != NULL;
}

Status conv2d_choose_product(CpuBackend *b, const ConvProblem *p, ConvChoice *choice)
{
    const ConvGeometry *g = p->geometry;
    dnnl_primitive_desc_t pd = NULL;
    const char *own = NULL;
    char name[128];
    Shapes s;
    if (b->products == CPU_USE_NONE || !choice->pd || !pays(p, choice->implementation)) return OK;
    TRY(shapes_of(b, p->direction, g, &s));
    dnnl_status_t st = dnnl_compat_matmul_create(
        &pd, b->engine->engine, &s.left->desc, &s.right->desc, &s.out->desc,
        b->products == CPU_USE_EVERY ? dnnl_compat_accept_any : accept_amx);
    if (st == dnnl_unimplemented) return OK;
    TRY(cpu_dnnl_status(st, "matrix product"));
    Status made = cpu_dnnl_status(
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&own), "name");
    if (made == OK) {
        snprintf(name, sizeof name, "matmul %s", own);
        made = cpu_layout_keep_name(b, &choice->implementation, name);
    }
    /* [K][R][S][C], which of one tap is the plain layout */
    if (made == OK)
        made = cpu_layout_make(b, &choice->w,
                               p->direction == CONV_BWD_WEIGHTS ? DTYPE_F32 : DTYPE_BF16, 4, g->w,
                               taps_of(g) == 1 ? dnnl_nchw : dnnl_nhwc);
    if (made != OK) {
        dnnl_primitive_desc_destroy(pd);
        return made;
    }
    dnnl_primitive_desc_destroy(choice->pd);
    choice->pd = pd;
    choice->x = p->x;
    choice->y = p->y;
    choice->product = true;
    return OK;
}

/* ---- patches ---- */

enum { MOVE_TO, MOVE_FROM, MOVE_COUNT }; /* what the calls find at address[] */

/* The patches of row p of image n. */
static void gather_row(const ConvGeometry *g, uint16_t *to, const uint16_t *x, int64_t n, int64_t p)
{
    const int64_t c = g->w[1];
    for (int64_t q = 0; q < g->y[3]; q++)
        for (int64_t r = 0; r < g->w[2]; r++)
            for (int64_t s = 0; s < g->w[3]; s++, to += c) {
                const int64_t h = p * g->stride[0] + r - g->pad_before[0],
                              w = q * g->stride[1] + s - g->pad_before[1];
                if (h < 0 || h >= g->x[2] || w < 0 || w >= g->x[3])
                    memset(to, 0, (size_t)c * sizeof *to);
                else memcpy(to, x + ((n * g->x[2] + h) * g->x[3] + w) * c, (size_t)c * sizeof *to);
            }
}

static Status gather(const void *cookie, void *const *address, int threads)
{
    const ConvGeometry *g = cookie;
    const int64_t rows = g->y[0] * g->y[2], row = g->y[3] * taps_of(g) * g->w[1];
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < rows; i++)
        gather_row(g, (uint16_t *)address[MOVE_TO] + i * row, address[MOVE_FROM], i / g->y[2],
                   i % g->y[2]);
    return OK;
}

/* One tap's dx from that at the positions of dy; zero between. */
static Status scatter(const void *cookie, void *const *address, int threads)
{
    const ConvGeometry *g = cookie;
    const int64_t c = g->w[1], rows = g->x[0] * g->x[2], row = g->x[3] * c;
    const size_t bytes = (size_t)c * sizeof(uint16_t);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < rows; i++) {
        uint16_t *to = (uint16_t *)address[MOVE_TO] + i * row;
        const int64_t n = i / g->x[2], h = i % g->x[2];
        const uint16_t *from = address[MOVE_FROM];
        memset(to, 0, (size_t)row * sizeof *to);
        if (h % g->stride[0]) continue;
        from += (n * g->y[2] + h / g->stride[0]) * g->y[3] * c;
        for (int64_t q = 0; q < g->y[3]; q++)
            memcpy(to + q * g->stride[1] * c, from + q * c, bytes);
    }
    return OK;
}

static CpuOperand as(CpuOperand operand, const Layout *layout)
{
    operand.layout = layout;
    return operand;
}

Status conv2d_add_product(CpuBackend *b, CpuSteps *s, ConvDirection direction,
                          const ConvGeometry *g, dnnl_primitive_desc_t pd, CpuOperand x,
                          CpuOperand w, CpuOperand y)
{
    static const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
    Shapes shape;
    Status st = shapes_of(b, direction, g, &shape);
    if (st != OK) {
        dnnl_primitive_desc_destroy(pd);
        return st;
    }
    const bool moves = taps_of(g) > 1 || is_strided(g) || is_padded(g);
    const bool weights = direction == CONV_BWD_WEIGHTS;
    const CpuOperand patches =
        moves ? cpu_steps_operand_workspace(s, weights ? shape.right : shape.out) : x;
    const CpuOperand forth[MOVE_COUNT] = { [MOVE_TO] = patches, [MOVE_FROM] = x },
                     back[MOVE_COUNT] = { [MOVE_TO] = x, [MOVE_FROM] = patches },
                     operands[] = { as(y, shape.left), as(weights ? patches : w, shape.right),
                                    as(weights ? w : patches, shape.out) };
    if (moves && weights) cpu_steps_add_call(s, gather, g, MOVE_COUNT, forth);
    TRY(cpu_steps_add_primitive(b, s, pd, 3, args, operands));
    if (moves && !weights) cpu_steps_add_call(s, scatter, g, MOVE_COUNT, back);
    return OK;
}
