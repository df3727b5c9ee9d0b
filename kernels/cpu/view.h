/* view.h - activations in channel blocks (cpu.h), as kernels see them. */
#ifndef CONVOY_KERNELS_CPU_VIEW_H
#define CONVOY_KERNELS_CPU_VIEW_H
#include "kernels/cpu/lanes.h"

/* Sets an undecided tensor (bytes == 0) to its activation layout, or to plain for ranks below 4. */
void cpu_view_decide(CpuBackend *b, OpTensor *t);
/* For an activation of other height and width than model: decides t to have the channel blocks of
 * model, or checks it. */
Status cpu_view_decide_like(OpTensor *t, const OpTensor *model, const OpInstance *op);

/* How a kernel sees an activation: n images of cb channel blocks of hw positions of b channels. In
 * blocks the memory is [n][cb][hw][b], b is 1 for plain N,C,H,W. Rows, [n][hw][c], are seen as
 * blocks of CPU_LANES channels, of which the last has what is left: nothing is padded. ASSERTs that
 * the layout is one of these. */
typedef struct CpuView {
    int64_t n, c, cb, h, w, hw, b;
    /* in elements: of an image; from a channel block of an image to the next; from a position to
     * the next */
    int64_t image, block_step, step;
    DType type; /* DTYPE_F32 or DTYPE_BF16; DTYPE_U8 of window indices */
    bool rows;
} CpuView;
CpuView cpu_view(const OpTensor *t);
/* Channels of a block that exist: b, or fewer in the last one. */
int64_t cpu_view_channels(const CpuView *view, int64_t block);
/* Elements from the start of a tensor to one of them. */
int64_t cpu_view_at(const CpuView *view, int64_t n, int64_t c, int64_t position);
/* Elements from the start of a tensor to channel block plane % cb of image plane / cb. */
int64_t cpu_view_plane(const CpuView *view, int64_t plane);

/* A strip: what of one image a kernel takes at a time. In blocks it is one of them, contiguous:
 * steps of CPU_LANES elements, where lane l is of channel l % b, and behind them `rest` single
 * ones. Of rows it is all positions of as many channels as CPU_STRIP and enough strips for the team
 * allow, so that memory is read nearly as it lies: a step is a position, and rest is 0. */
enum { CPU_STRIP = 1024 };
typedef struct CpuStrip {
    int64_t n, first, channels;  /* image; first channel, and how many that exist */
    int64_t at;                  /* elements from the start of the tensor */
    int64_t steps, stride, rest; /* a step is `lanes` elements */
    int lanes;
} CpuStrip;
/* Strips of an image. */
int64_t cpu_view_strips(const CpuView *view, int threads);
/* Strip i % strips of image i / strips. */
CpuStrip cpu_view_strip(const CpuView *view, int64_t strips, int64_t i);
/* Writes value to the lanes of the c-th channel of a strip, of at least CPU_LANES. */
void cpu_view_fill(const CpuView *view, float *lanes, int64_t c, float value);
/* Sum over the lanes of the c-th channel of a strip, in a fixed order. */
double cpu_view_sum(const CpuView *view, const double *lanes, int64_t c);
#endif
