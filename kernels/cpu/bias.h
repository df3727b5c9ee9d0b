/* bias.h - the gradient of a convolution's bias: db[k] = sum over n, p, q of dy[n,k,p,q]. */
#ifndef CONVOY_KERNELS_CPU_BIAS_H
#define CONVOY_KERNELS_CPU_BIAS_H
#include "kernels/cpu/steps.h"
#include "kernels/cpu/view.h"

typedef struct CpuBias {
    CpuView y;
    bool adds; /* to what db holds */
} CpuBias;

/* What cpu_bias_run finds at address[]. PARTS: a sum for each image and channel. */
enum { BIAS_DB, BIAS_DY, BIAS_PARTS, BIAS_COUNT };

/* parts: layout of PARTS. */
Status cpu_bias_prepare(CpuBackend *b, CpuBias *out, const OpTensor *dy, bool adds,
                        const Layout **parts);
/* A CpuStepCall; cookie is the CpuBias. The same bits for any number of threads. */
Status cpu_bias_run(const void *cookie, void *const *address, int threads);
#endif
