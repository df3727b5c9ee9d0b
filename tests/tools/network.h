/* network.h - a whole network on a backend, for tests: built, filled by a counter formula, run.
 *
 * The formula (Murmur3's finaliser over stream * 2654435761 + index) is the one of
 * scripts/golden/make_golden.py, so a golden file needs to hold results only. A tensor's stream is
 * a hash of its name. */
#ifndef CONVOY_TESTS_TOOLS_NETWORK_H
#define CONVOY_TESTS_TOOLS_NETWORK_H
#include "models/models.h"
#include "trainer/engine/exec/executor.h"

typedef struct Network {
    Backend *backend;
    Executor *executor;
    Program *program;
    ModelOptions options;
    uint8_t *images; /* NULL of a network of text */
    int32_t *labels;
    int32_t *text;   /* all its inputs but the labels */
    void *copies[8]; /* of inputs, on a device */
    int copy_count;
} Network;

/* uniform in [0,1) at (stream, index) */
double network_uniform(uint32_t stream, uint32_t index);

uint32_t network_stream(const char *name); /* FNV-1a */

/* Those of CUDA need a device (or its test double). FUSED: with all fusions that there are. */
typedef enum NetworkBackend {
    NETWORK_CPU,
    NETWORK_CPU_FUSED,
    NETWORK_CPU_BF16,
    NETWORK_REF,
    NETWORK_REF_FUSED,
    NETWORK_CUDA_FP32,
    NETWORK_CUDA_TF32,
    NETWORK_CUDA_BF16,
    NETWORK_CUDA_FP16,
    NETWORK_CUDA_FP16_FUSED, /* from here on cuDNN's attention too */
    NETWORK_CUDA_FP32_FUSED,
    NETWORK_CUDA_BF16_FUSED
} NetworkBackend;
/* For training with an eighth of the channels, 10 classes and label smoothing. Batch norm over few
 * values turns rounding into noise: batch and size must leave the last stage a dozen or so per
 * channel. */
ModelOptions network_narrow(int64_t batch, int64_t size);
/* Builds model_name on the backend and commits it; images and labels come from the formula. Of
 * text, every sequence has options.tokens words, all of them other ones if there are enough. */
Status network_open(Network *n, NetworkBackend backend, const char *model_name,
                    const ModelOptions *o);
Status network_open_recompute(Network *n, NetworkBackend backend, const char *model_name,
                              const ModelOptions *o, Recompute recompute);
void network_close(Network *n);
/* Element index of a tensor of this shape, by the formula. */
float network_value(const TensorDesc *desc, const char *name, double gamma, int64_t index);
/* Fills parameters and buffers by the formula. */
Status network_fill(Network *n);
/* The same with the norms' weights times gamma. */
Status network_fill_gamma(Network *n, double gamma);
/* Images of another stream of the formula; on host memory alone. */
void network_draw_images(Network *n, uint32_t stream);
/* Runs the program once; grad_scale goes to SCALAR_GRAD_SCALE. *loss_sum (may be NULL) gets the sum
 * of losses. */
Status network_run(Network *n, float grad_scale, double *loss_sum);
/* Copies a tensor of the program to plain doubles; mem_free. */
Status network_read(const Network *n, TensorId id, double **out, int64_t *count);
#endif
