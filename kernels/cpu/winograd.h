/* winograd.h - 3x3 convolutions of stride 1 and padding 1 in f32 by Winograd's F(4x4,3x3): a tile
 * of 4x4 results takes 36 products where the direct sum takes 144 (Lavin and Gray, "Fast Algorithms
 * for Convolutional Neural Networks", arXiv:1509.09308).
 *
 * With g a window of 3x3 weights, d a tile of 6x6 pixels and y its 4x4 results, all three
 * directions are one bilinear form,
 *
 *   y = A' [ (G g G') . (B' d B) ] A
 *   dx: the same with windows turned round and the channels' roles exchanged
 *   dg = G' [ sum over tiles of (A dy A') . (B' d B) ] G
 *
 * and what is a product of numbers there is one of matrices, over channels, or over tiles for dg.
 * Points of the interpolation are 0, +-5/8, +-3/2 and infinity: by measurement the rounding errors
 * are half of those with the usual 0, +-1, +-2.
 *
 * A sum is taken in an order that the shape gives alone, so that results have the same bits for any
 * number of threads. A NaN or an infinity reaches more results of the tiles that read it than in a
 * direct sum. */
#ifndef CONVOY_KERNELS_CPU_WINOGRAD_H
#define CONVOY_KERNELS_CPU_WINOGRAD_H
#include "kernels/cpu/conv2d.h"

typedef struct CpuWinograd {
    int64_t n, h, w; /* images and their size */
    /* Channels, rounded up to whole blocks. The padding holds zeros, and stays zero. */
    int64_t read, made;        /* of what is convolved, and of the result */
    int64_t c, k;              /* of the weights */
    int64_t filters;           /* k without the padding */
    int64_t lanes;             /* of a block of channels */
    int64_t down, across;      /* tiles of an image */
    int64_t tiles, block;      /* of all images, and how many at a time */
    int64_t u_step, tile_step; /* floats from one of the 36 products to the next, of weights and of
                                * a block of tiles */
    const struct WinogradLoops *loops; /* for the blocks of channels here */
    ConvDirection direction;
    bool shared; /* all threads work on one block at a time */
    bool add;    /* the result is added to y */
    ActKind act;
} CpuWinograd;

/* Whether p is computed this way. The shape alone decides: with few tiles the direct sum is as
 * fast, because transforming the weights takes as long for few tiles as for many. */
bool cpu_winograd_takes(const CpuBackend *b, const ConvProblem *p);
/* How the weights lie. */
Status cpu_winograd_weights(CpuBackend *b, const ConvGeometry *g, const Layout **out);
/* Adds the step that computes p. xwy: x, w and y in their layouts; the direction decides which of
 * them is the result. bias NULL: none. out must live as long as the steps. */
Status cpu_winograd_add(CpuBackend *b, CpuSteps *s, CpuWinograd *out, const ConvProblem *p,
                        const CpuOperand xwy[3], const CpuOperand *bias);

/* ---- winograd_lanes.c, for winograd.c: what one thread does, by vectors ---- */

enum { WINOGRAD_POINTS = 36, WINOGRAD_OUT = 4 };

typedef struct WinogradLoops {
    int64_t rows; /* tiles at a time of `convolve`: blocks are a multiple of it */
    /* Tiles first .. first + count of x, of channel blocks from .. to, to tiles: [point][channel
     * block][tile of the block][lane]. pixels: 6x6 by B, else 4x4 of a gradient by A. Tiles behind
     * count up to a multiple of rows get zero. */
    void (*read_tiles)(const CpuWinograd *w, const float *x, int64_t channels, float *tiles,
                       int64_t first, int64_t count, int64_t from, int64_t to, bool pixels);
    /* Results of tiles first .. first + count, of made blocks from .. to. bias may be NULL. */
    void (*write_tiles)(const CpuWinograd *w, const float *tiles, const float *bias, float *y,
                        int64_t first, int64_t count, int64_t from, int64_t to);
    /* Of pairs of blocks of made channels: u is [point][pair][read channel][2][lane]. */
    void (*read_weights)(const CpuWinograd *w, const float *weights, float *u, int64_t from,
                         int64_t to);
    /* The gradient of weights, of blocks of k, from u: [point][c][k]. */
    void (*write_weights)(const CpuWinograd *w, const float *u, float *dw, int64_t from,
                          int64_t to);
    /* to = tiles times weights, over read channels, of points from .. to. */
    void (*convolve)(const CpuWinograd *w, const float *tiles, const float *u, float *sums,
                     int64_t count, int64_t from, int64_t to);
    /* u = the sums over tiles, of one point and c from .. to; with add they are added to u. */
    void (*correlate)(const CpuWinograd *w, const float *x, const float *dy, float *u,
                      int64_t count, int64_t from, int64_t to, bool add);
} WinogradLoops;
extern const WinogradLoops winograd_loops_8, winograd_loops_16; /* floats of a channel block */
#endif
