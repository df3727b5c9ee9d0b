/* cudnn_host.h - a library that stands for cuDNN: it does what the documentation of the backend API
 * says of each operation, takes the graph that was made last apart and runs it on the host, number
 * by number. Behind the end of a ragged sequence it reads NaN, and a product writes there unless it
 * is told not to. */
#ifndef CONVOY_TESTS_TOOLS_CUDNN_HOST_H
#define CONVOY_TESTS_TOOLS_CUDNN_HOST_H
#include "kernels/cuda/cudnn/cudnn_plan.h"

enum { CUDNN_HOST_ENGINE = 77 }; /* the number of its one engine */

typedef struct CudnnHost {
    size_t version, workspace_an_image; /* that it has, and that its engine asks for */
    int64_t longest;                    /* positions of a ragged tensor */
    int runs;
} CudnnHost;
extern CudnnHost cudnn_host; /* to be changed and read while it is open */

/* One at a time. b: a backend of which nothing but the context c and a limit of 1 MiB is there. */
void cudnn_host_open(CudaBackend *b, CudnnContext *c, int64_t longest);
void cudnn_host_close(CudnnContext *c);
#endif
