/* depthwise.h - the gradient of weights of a convolution with one filter for each channel, by loops
 * of our own. oneDNN has one for windows of three columns alone; its others take such filters as
 * groups of one channel in 16, many times the work. */
#ifndef CONVOY_KERNELS_CPU_DEPTHWISE_H
#define CONVOY_KERNELS_CPU_DEPTHWISE_H
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/view.h"

#define DEPTHWISE_MAX_COLUMNS 7
typedef struct CpuDepthwise {
    CpuView x, y;
    int64_t rows, stride[2], pad[2];
    int64_t width; /* of a row of x with the zeros that windows reach */
    int columns;
} CpuDepthwise;

/* What cpu_depthwise_run finds at address[]. PARTS: one sum for each image, tap and lane; behind
 * them, for each thread, copies of a plane of x and, where they are rows, of dy. */
enum { DEPTHWISE_DW, DEPTHWISE_X, DEPTHWISE_DY, DEPTHWISE_PARTS, DEPTHWISE_COUNT };

bool cpu_depthwise_takes(const ConvProblem *p);
/* parts: layout of PARTS. Weights are plain. */
Status cpu_depthwise_prepare(CpuBackend *b, CpuDepthwise *out, const ConvProblem *p,
                             const Layout **parts);
/* A CpuStepCall; cookie is the CpuDepthwise. The same bits for any number of threads. */
Status cpu_depthwise_run(const void *cookie, void *const *address, int threads);
#endif
