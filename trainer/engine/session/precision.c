/* precision.c - see precision.h.
 *
 * WHAT AUTO TAKES ON THE CPU (docs/developing/decisions.md). With oneDNN 2.6.3 a convolution on AMX
 * needs 1/2.7 of its time in f32, one that AVX-512 computes in bf16 1/0.6 of it (measured,
 * ResNet-50), and what is no product as long as in f32: per value that it writes what a step spends
 * on FLOPS_A_VALUE of forward convolutions (95 by ResNet-50's nodes in f32, 81 by
 * EfficientNet-B0's). AMX takes 0.44 and less of EfficientNet-B0 and MobileNetV3-L, which lose in
 * bf16, and of MobileNetV2, which gains 7 %; 0.54 and more of the others that were timed, which are
 * as fast or faster: AMX_SHARE_MIN is between. On Zen 5 MobileNetV3-S has the least, 0.30, and
 * gains more than a tenth: AMD_SHARE_MIN. */
#include "trainer/engine/session/precision.h"
#include <stdio.h>

#define BF16_CAPABILITY 80
#define AMX_SHARE_MIN   0.5
#define AMD_SHARE_MIN   0.25
#define FLOPS_A_VALUE   90
/* A tile holds 32 input channels of 16 positions, and 16 filters: half full it still gains. */
#define AMX_CHANNELS_MIN 16

/* Linear layers are not: their rounded factors are multiplied in f32 (kernels/cpu/linear.c). */
static bool taken_by_amx(const Graph *g, const GraphNode *n)
{
    if (n->kind == OP_ATTENTION) return true;
    const Conv2dAttr *conv = n->kind == OP_CONV2D ? n->attr : NULL;
    if (!conv || conv->groups != 1) return false;
    const TensorDesc *w = &graph_tensor(g, n->in[CONV_IN_W])->desc;
    return w->dims[0] >= AMX_CHANNELS_MIN && w->dims[1] >= AMX_CHANNELS_MIN;
}

/* In FLOPs of forward convolutions. */
static double work_of(const Graph *g, int index)
{
    const GraphNode *n = graph_node(g, index);
    if (n->kind == OP_CONV2D || n->kind == OP_LINEAR || n->kind == OP_ATTENTION)
        return graph_node_flops(g, index);
    return FLOPS_A_VALUE * (double)tensor_elements(&graph_tensor(g, n->out[0])->desc);
}

double precision_amx_share(const Graph *g)
{
    double taken = 0, all = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        if (graph_node(g, i)->phase != PHASE_FORWARD) continue;
        all += work_of(g, i);
        if (taken_by_amx(g, graph_node(g, i))) taken += work_of(g, i);
    }
    return all > 0 ? taken / all : 0;
}

Status precision_network_share(double *out, const Config *c)
{
    const ModelOptions o = config_model_options(c, c->data.image_size, -1);
    Graph *g = NULL;
    TRY(model_build(&g, model_find(c->model.name), &o));
    *out = precision_amx_share(g);
    graph_destroy(g);
    return OK;
}

/* What auto takes, and why. */
static Precision pick(const PrecisionFacts *f, char *why, size_t why_bytes)
{
    const bool fast = f->cpu >= CPU_BF16_AMD, amx = f->cpu == CPU_BF16_AMX,
               gains = f->amx_share >= (amx ? AMX_SHARE_MIN : AMD_SHARE_MIN);
    why[0] = '\0';
    if (f->cuda) return f->capability >= BF16_CAPABILITY ? PRECISION_BF16 : PRECISION_FP16;
    if (fast)
        snprintf(why, why_bytes, ": %s %s %.0f %% of the work%s", amx ? "AMX" : "AVX-512",
                 gains ? "takes" : "would take", 100 * f->amx_share, gains ? "" : ", too little");
    else
        snprintf(why, why_bytes, ": %s CPU has no fast bf16",
                 f->other_rank ? "another rank's" : "this");
    return fast && gains ? PRECISION_BF16 : PRECISION_FP32;
}

static Status check_cuda(const PrecisionFacts *f, Precision p)
{
    const bool needs_80 = p == PRECISION_BF16 || p == PRECISION_TF32;
    if (!needs_80 || f->capability >= BF16_CAPABILITY) return OK;
    return fail(ERR_ENV,
                "train.precision: %s is not supported by this GPU (compute capability %d.%d); use "
                "fp16 or fp32",
                precision_names[p], f->capability / 10, f->capability % 10);
}

static Status check_cpu(const PrecisionFacts *f, Precision p)
{
    if (p == PRECISION_TF32 || p == PRECISION_FP16)
        return fail(ERR_ENV, "train.precision: %s is not supported on the CPU; use fp32 or bf16",
                    precision_names[p]);
    if (p != PRECISION_BF16 || f->cpu != CPU_BF16_NONE || f->emulate) return OK;
    return fail(ERR_ENV,
                "train.precision: bf16 is not supported by %s CPU; it requires AVX-512 (fast with "
                "AMX or on AMD); use fp32 (device.emulate is for tests)",
                f->other_rank ? "another rank's" : "this");
}

Status precision_choose(PrecisionChoice *out, const PrecisionFacts *f)
{
    char why[64];
    const bool named = f->wanted != CONFIG_OTHER, kept = !named && f->kept != CONFIG_OTHER;
    const Precision best = pick(f, why, sizeof why);
    *out = (PrecisionChoice){ .precision = named  ? (Precision)f->wanted
                                           : kept ? (Precision)f->kept
                                                  : best };
    if (kept && out->precision != best) snprintf(why, sizeof why, ", as when this run started");
    if (!named) snprintf(out->why, sizeof out->why, ", train.precision is auto%s", why);
    Status status = (f->cuda ? check_cuda : check_cpu)(f, out->precision);
    if (status != OK)
        return kept ? fail_note(status, "this run started with it (train.precision_auto)") : status;
    if (f->cuda || out->precision != PRECISION_BF16) return OK;
    if (f->cpu == CPU_BF16_NONE)
        snprintf(out->why, sizeof out->why, ", device.emulate: slow, for tests");
    else if (f->cpu < CPU_BF16_AMD)
        out->warning = "train.precision: bf16 is slower than fp32 on this CPU";
    return OK;
}
