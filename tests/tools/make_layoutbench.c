/* make_layoutbench.c - the measurement behind the CPU backend's choice of activation layout:
 * forward, data gradient and weight gradient of ResNet-50's and ResNet-20's convolutions in channel
 * blocks and in N,H,W,C, each in turn.
 *
 *     build/make_layoutbench [THREADS]
 *
 * Prints milliseconds per pass summed over a training step's layers, weighted by how often each
 * occurs; the better of several runs. Reorders that an implementation would need are not counted:
 * what counts is where a step stays. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cpu/conv2d.h"
#include <stdio.h>
#include <string.h>

#define RUNS 4

typedef struct Layer {
    int64_t n, c, h, k, r, stride, times; /* square images and windows, padding r/2 */
} Layer;

static const Layer resnet50[] = {
    { 16, 64, 56, 64, 1, 1, 1 },    { 16, 64, 56, 64, 3, 1, 3 },     { 16, 64, 56, 256, 1, 1, 4 },
    { 16, 256, 56, 64, 1, 1, 2 },   { 16, 256, 56, 128, 1, 1, 1 },   { 16, 128, 56, 128, 3, 2, 1 },
    { 16, 128, 28, 512, 1, 1, 4 },  { 16, 256, 56, 512, 1, 2, 1 },   { 16, 512, 28, 128, 1, 1, 3 },
    { 16, 128, 28, 128, 3, 1, 3 },  { 16, 512, 28, 256, 1, 1, 1 },   { 16, 256, 28, 256, 3, 2, 1 },
    { 16, 256, 14, 1024, 1, 1, 6 }, { 16, 512, 28, 1024, 1, 2, 1 },  { 16, 1024, 14, 256, 1, 1, 5 },
    { 16, 256, 14, 256, 3, 1, 5 },  { 16, 1024, 14, 512, 1, 1, 1 },  { 16, 512, 14, 512, 3, 2, 1 },
    { 16, 512, 7, 2048, 1, 1, 3 },  { 16, 1024, 14, 2048, 1, 2, 1 }, { 16, 2048, 7, 512, 1, 1, 2 },
    { 16, 512, 7, 512, 3, 1, 2 },
};
static const Layer resnet20[] = {
    { 128, 16, 32, 16, 3, 1, 6 }, { 128, 16, 32, 32, 3, 2, 1 }, { 128, 32, 16, 32, 3, 1, 5 },
    { 128, 32, 16, 64, 3, 2, 1 }, { 128, 64, 8, 64, 3, 1, 5 },
};

static const char *const direction_names[CONV_DIRECTION_COUNT] = { "forward", "backward data",
                                                                   "backward weights" };
static const int args[CONV_DIRECTION_COUNT][3] = {
    [CONV_FORWARD] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
    [CONV_BWD_DATA] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST },
    [CONV_BWD_WEIGHTS] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST },
};

static ConvGeometry geometry_of(const Layer *l)
{
    Conv2dAttr a = { .stride_h = (int)l->stride, .stride_w = (int)l->stride, .groups = 1 };
    a.pad_top = a.pad_bottom = a.pad_left = a.pad_right = (int)(l->r / 2);
    int64_t p = (l->h + 2 * (l->r / 2) - l->r) / l->stride + 1;
    int64_t x[] = { l->n, l->c, l->h, l->h }, w[] = { l->k, l->c, l->r, l->r },
            y[] = { l->n, l->k, p, p };
    TensorDesc xd = tensor_desc(DTYPE_F32, 4, x), wd = tensor_desc(DTYPE_F32, 4, w),
               yd = tensor_desc(DTYPE_F32, 4, y);
    return conv2d_geometry(&a, &xd, &wd, &yd);
}

static Status time_steps(CpuBackend *b, CpuSteps *s, OpInstance *op, double *best_s)
{
    Stream *stream = NULL;
    TRY(b->base.v->stream_create(&b->base, LANE_COMPUTE, &stream));
    Status status = cpu_steps_bind(s, op);
    for (int i = 0; i < RUNS && status == OK; i++) {
        double start = clock_s();
        status = cpu_steps_run(s, b->threads, stream);
        if (status == OK) status = b->base.v->stream_wait(&b->base, stream);
        double seconds = clock_s() - start;
        if (i == 1 || (i > 1 && seconds < *best_s)) *best_s = seconds;
    }
    b->base.v->stream_destroy(&b->base, stream);
    return status;
}

/* One pass of one layer with activations in tag (undef: the backend's own blocks). */
static Status time_layer(CpuBackend *b, const Layer *l, ConvDirection direction,
                         dnnl_format_tag_t tag, double *best_s)
{
    ConvGeometry g = geometry_of(l);
    ConvProblem problem = { .direction = direction, .geometry = &g };
    ConvChoice choice;
    CpuSteps steps = { 0 };
    OpInstance op = { .backend = &b->base };
    TRY(cpu_layout_make(b, &problem.x, DTYPE_F32, 4, g.x, tag));
    TRY(cpu_layout_make(b, &problem.y, DTYPE_F32, 4, g.y, tag));
    TRY(conv2d_choose(b, &problem, &choice));
    const Layout *layouts[] = { choice.x, choice.w, choice.y };
    CpuOperand operands[3];
    for (int i = 0; i < 3; i++) operands[i] = cpu_steps_operand_in(i, layouts[i]);
    Status status = cpu_steps_add_primitive(b, &steps, choice.pd, 3, args[direction], operands);
    for (int i = 0; i < 3 && status == OK; i++)
        status = b->base.v->alloc(&b->base, layouts[i]->bytes, &op.in[i].data);
    if (status == OK && steps.workspace_bytes)
        status = b->base.v->alloc(&b->base, steps.workspace_bytes, &op.workspace);
    if (status == OK) status = time_steps(b, &steps, &op, best_s);
    cpu_steps_release(&steps);
    for (int i = 0; i < 3; i++) b->base.v->free(&b->base, op.in[i].data);
    b->base.v->free(&b->base, op.workspace);
    return status;
}

static Status compare(CpuBackend *b, const char *name, const Layer *layers, int count)
{
    dnnl_format_tag_t blocked = b->block == 16 ? dnnl_nChw16c : dnnl_nChw8c;
    printf("%-10s %-18s %12s %12s %8s\n", name, "ms per step", "blocks", "N,H,W,C", "ratio");
    for (int d = 0; d < CONV_DIRECTION_COUNT; d++) {
        double sums[2] = { 0 };
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < 2; k++) {
                double s = 0;
                TRY(time_layer(b, &layers[i], (ConvDirection)d, k == 0 ? blocked : dnnl_nhwc, &s));
                sums[k] += s * (double)layers[i].times * 1e3;
            }
        }
        printf("%-10s %-18s %12.2f %12.2f %8.3f\n", "", direction_names[d], sums[0], sums[1],
               sums[1] / sums[0]);
    }
    return OK;
}

static Status run(int64_t threads)
{
    Backend *b = NULL;
    TRY(backend_cpu_create(&b, &(CpuOptions){ .threads = (int)threads }));
    char text[256];
    b->v->describe(b, text, sizeof text);
    printf("%s\n", text);
    Status status =
        compare((CpuBackend *)b, "resnet50", resnet50, sizeof resnet50 / sizeof *resnet50);
    if (status == OK)
        status = compare((CpuBackend *)b, "resnet20", resnet20, sizeof resnet20 / sizeof *resnet20);
    backend_destroy(b);
    return status;
}

int main(int argc, char **argv)
{
    int64_t threads = 0;
    if (argc > 1 && !str_to_i64(argv[1], &threads)) {
        fprintf(stderr, "usage: make_layoutbench [THREADS]\n");
        return 64;
    }
    Status status = run(threads);
    if (status != OK) fprintf(stderr, "make_layoutbench: %s\n", status_message());
    return status_exit_code(status);
}
