/* view.h - activations in channel blocks (cpu.h), as kernels see them. */
#ifndef CONVOY_KERNELS_CPU_VIEW_H
#define CONVOY_KERNELS_CPU_VIEW_H
#include "kernels/cpu/cpu.h"

/* Sets an undecided tensor (bytes == 0) to its activation layout, or to plain for ranks below 4. */
void cpu_view_decide(CpuBackend *b, OpTensor *t);
/* For an activation of other height and width than model: decides t to have the channel blocks of
 * model, or checks it. */
Status cpu_view_decide_like(OpTensor *t, const OpTensor *model, const OpInstance *op);

/* How a kernel sees an activation: [n][cb][hw][b]. b is 1 for plain N,C,H,W; rows of C are images
 * of one pixel. ASSERTs that it is one of these. */
typedef struct CpuView {
    int64_t n, c, cb, h, w, hw, b;
} CpuView;
CpuView cpu_view(const OpTensor *t);
/* Channels of a block that exist: b, or fewer in the last one. */
int64_t cpu_view_channels(const CpuView *view, int64_t block);
#endif
