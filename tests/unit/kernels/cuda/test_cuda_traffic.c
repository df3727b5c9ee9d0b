/* test_cuda_traffic.c - what the CUDA backend's ops say that they move (kernels/cuda/traffic.h)
 * against the memory that their kernels touch on the test double: whole networks, node by node,
 * with every page of a node's tensors closed before each kernel. Of products, for which plain loops
 * stand in, only whether a tensor is touched at all. Only in builds with EMU=1. */
#ifdef CONVOY_EMU
#include "kernels/cuda/cuda.h"
#include "tests/emu/emu.h"
#include "tests/test.h"
#include "tests/tools/network.h"
#include "trainer/engine/exec/program_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANGES_MAX = OP_MAX_INPUTS + OP_MAX_OUTPUTS + 1, PAGE = 4096 };

/* Memory of one or, where one lies over another, several tensors; bytes of it that are moved. */
typedef struct Range {
    const char *name;
    const void *data;
    size_t bytes;
    double reads, writes;
    int watch;
} Range;

typedef struct Node {
    Network *network;
    OpInstance *op;
    OpTraffic traffic;
    Range ranges[RANGES_MAX];
    int count;
    Range workspace;
} Node;

static Range *range_of(Node *n, const void *data, size_t bytes)
{
    for (int i = 0; i < n->count; i++)
        if (n->ranges[i].data == data) return &n->ranges[i];
    n->ranges[n->count] = (Range){ .data = data, .bytes = bytes };
    return &n->ranges[n->count++];
}

static bool is_weights(const OpTensor *t)
{
    return t->layout && (t->layout->format == CUDA_KRSC || t->layout->format == CUDA_MATRIX ||
                         t->layout->format == CUDA_KRSC_GROUPED);
}

static void add_tensor(Node *n, const OpTensor *t, const OpPasses *p, const char *name, bool input)
{
    const CudaBackend *b = cuda_backend(n->op);
    const void *data = t->data;
    size_t bytes = t->bytes;
    if (t->desc.rank == 0) return;
    if (input && is_weights(t) && n->op->kind != OP_EMBED && n->op->kind != OP_EMBED_BWD &&
        b->compute != DTYPE_F32) {
        data = cuda_compute_copy(b, t);
        bytes /= 2;
        CHECK(data != NULL);
    }
    Range *r = range_of(n, data, bytes);
    r->name = name;
    r->reads += p->reads * (double)t->bytes;
    r->writes += p->writes * (double)t->bytes;
}

static void run_node(const Node *n)
{
    Backend *b = n->network->backend;
    Stream *stream = executor_stream(n->network->executor);
    CHECK_OK(b->v->ops[n->op->kind]->run(n->op, stream));
    CHECK_OK(b->v->stream_wait(b, stream));
}

/* A part of a tensor that is read is rows of it, and other pages than just as many. */
static bool is_near(double touched, double said, double watched)
{
    const double passes = watched > 0 ? said / watched : 0;
    if (fabs(passes - floor(passes + 0.5)) > 1e-6) return touched >= said;
    return fabs(touched - said) < 1;
}

/* A weight gradient that goes with others: the last of the row writes all of them. */
static bool is_staged(const Node *n, const Range *r)
{
    return strcmp(r->name, "dw") == 0 && n->network->backend->v->device->staging_bytes(n->op) > 0;
}

/* What two kernels write, each its channels of every row: page by page it looks written twice. */
static bool is_written_in_parts(const Node *n, const Range *r)
{
    return n->op->kind == OP_ATTENTION_BWD && strcmp(r->name, "dqkv") == 0;
}

static int check_range(const Node *n, const Range *r)
{
    const EmuTouched t = emu_touched(r->watch);
    const double share = (double)t.watched / (double)r->bytes, reads = r->reads * share,
                 writes = r->writes * share * (is_written_in_parts(n, r) ? 2 : 1),
                 watched = (double)t.watched;
    if (t.watched == 0) return 0;
    const bool right =
        is_staged(n, r)      ? (double)t.read < reads + 1 && (double)t.written < writes + 1
        : n->traffic.product ? (reads > 0) == (t.read > 0) && (writes > 0) == (t.written > 0)
                             : is_near((double)t.read, reads, watched) &&
                                   is_near((double)t.written, writes, watched);
    if (test_check(right, __FILE__, __LINE__, r->name)) return 1;
    printf("    %s %s: of %zu bytes it says %.2f read and %.2f written, touched were %.2f and "
           "%.2f\n",
           op_name(n->op->kind), r->name, t.watched, reads / watched, writes / watched,
           (double)t.read / watched, (double)t.written / watched);
    return 1;
}

/* Pieces of it are smaller than tensors, and share pages. */
static void check_workspace(const Node *n)
{
    const EmuTouched t = emu_touched(n->workspace.watch);
    const double touched = (double)(t.read + t.written),
                 said = n->traffic.other_bytes * (double)t.watched / (double)n->op->workspace_bytes;
    if (n->traffic.product || t.watched < 3 * PAGE) return;
    if (test_check(fabs(touched - said) <= 0.1 * said + 3 * PAGE, __FILE__, __LINE__, "workspace"))
        return;
    printf("    %s: says %.0f bytes of a workspace of %zu, touched %.0f\n", op_name(n->op->kind),
           said, n->op->workspace_bytes, touched);
}

/* Ranges of which enough pages were watched. */
static int check_node(Network *network, int index)
{
    Node n = { .network = network, .op = &network->program->nodes[index] };
    const OpDef *def = op_def(n.op->kind);
    int checked = 0;
    const double all = program_node_traffic(network->program, index, &n.traffic);
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        add_tensor(&n, &n.op->in[i], &n.traffic.in[i], def->in_names[i], true);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        add_tensor(&n, &n.op->out[i], &n.traffic.out[i], def->out_names[i], false);
    double sum = n.traffic.other_bytes;
    for (int i = 0; i < n.count; i++) sum += n.ranges[i].reads + n.ranges[i].writes;
    CHECK_NEAR(sum, all, 1e-9 * all);
    for (int i = 0; i < n.count; i++)
        n.ranges[i].watch = emu_watch(n.ranges[i].data, n.ranges[i].bytes);
    n.workspace.watch = emu_watch(n.op->workspace, n.op->workspace_bytes);
    run_node(&n);
    for (int i = 0; i < n.count; i++) checked += check_range(&n, &n.ranges[i]);
    check_workspace(&n);
    emu_watch_end();
    return checked;
}

/* Ops whose tensors must be among those that were watched, OP_COUNT at the end. */
typedef struct Wanted {
    OpKind own[8], products[8];
} Wanted;

static void check_wanted(const OpKind *kinds, const int *checked)
{
    for (int i = 0; kinds[i] != OP_COUNT; i++)
        test_check(checked[kinds[i]] > 0, __FILE__, __LINE__, op_name(kinds[i]));
}

static void check_network(NetworkBackend backend, const char *model, const ModelOptions *o,
                          const Wanted *wanted)
{
    Network n;
    int own[OP_COUNT] = { 0 }, products[OP_COUNT] = { 0 };
    REQUIRE_OK(network_open(&n, backend, model, o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_run(&n, 0.125f, NULL)); /* tensors hold what nodes leave there */
    for (int i = 0; i < graph_node_count(program_graph(n.program)); i++) {
        OpTraffic t;
        program_node_traffic(n.program, i, &t);
        (t.product ? products : own)[n.program->nodes[i].kind] += check_node(&n, i);
    }
    check_wanted(wanted->own, own);
    check_wanted(wanted->products, products);
    network_close(&n);
}

static const Wanted of_resnet = {
    { OP_INPUT, OP_BATCHNORM, OP_POOL2D, OP_POOL2D_BWD, OP_BATCHNORM_BWD, OP_COUNT },
    { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS, OP_COUNT }
};

TEST(traffic_of_resnet)
{
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_BF16, "resnet50", &o, &of_resnet);
}

TEST(traffic_in_f32)
{
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_FP32, "resnet18", &o, &of_resnet);
}

TEST(traffic_of_frozen_norms)
{
    static const Wanted wanted = { { OP_BATCHNORM, OP_BATCHNORM_BWD, OP_COUNT }, { OP_COUNT } };
    ModelOptions o = network_narrow(8, 64);
    o.graph.bn_frozen = true;
    check_network(NETWORK_CUDA_BF16, "resnet18", &o, &wanted);
}

TEST(traffic_of_fused_resnet)
{
    static const Wanted wanted = { { OP_BN_BWD_APPLY, OP_BN_POOL_BWD, OP_COUNT },
                                   { OP_CONV2D_STATS, OP_CONV2D_BWD_DATA_NORM,
                                     OP_CONV2D_BWD_WEIGHTS_NORM, OP_COUNT } };
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_FP16_FUSED, "resnet50", &o, &wanted);
}

TEST(traffic_of_stems_pooled_and_ends_of_blocks_with_signs)
{
    static const Wanted wanted = { { OP_BN_POOL, OP_BN_POOL_BWD, OP_BN_SIGNS, OP_BN_SIGNS_BWD,
                                     OP_BN_STATISTICS, OP_COUNT },
                                   { OP_COUNT } };
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_BF16_FUSED, "resnet18", &o, &wanted);
}

/* Its depthwise convolutions are our own kernels, the others products. */
TEST(traffic_of_efficientnet)
{
    static const Wanted wanted = { { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS, OP_GATE,
                                     OP_GATE_BWD, OP_BATCHNORM_BWD, OP_COUNT },
                                   { OP_CONV2D, OP_COUNT } };
    const ModelOptions o = network_narrow(32, 32);
    check_network(NETWORK_CUDA_BF16, "efficientnet_b0", &o, &wanted);
}
TEST(traffic_of_convnext)
{
    static const Wanted wanted = {
        { OP_LAYERNORM, OP_LAYERNORM_BWD, OP_ACTIVATION, OP_ACTIVATION_BWD, OP_ADD, OP_COUNT },
        { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS, OP_COUNT }
    };
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_BF16, "convnext_tiny", &o, &wanted);
}
TEST(traffic_of_convnext_v2)
{
    static const Wanted wanted = { { OP_LAYERNORM, OP_GRN, OP_GRN_BWD, OP_COUNT },
                                   { OP_CONV2D, OP_COUNT } };
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_BF16, "convnextv2_atto", &o, &wanted);
}
TEST(traffic_of_vit)
{
    static const Wanted wanted = { { OP_TOKENS, OP_TOKENS_BWD, OP_ATTENTION, OP_ATTENTION_BWD,
                                     OP_LAYERNORM, OP_LAYERNORM_BWD, OP_ACTIVATION_BWD, OP_COUNT },
                                   { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_CONV2D_BWD_WEIGHTS,
                                     OP_COUNT } };
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_BF16, "vit_b_16", &o, &wanted);
}

/* As many words as places. */
static ModelOptions of_text(int64_t masked)
{
    ModelOptions o = { .width = 1, .layers = 1, .dropout = 0.1, .attention_dropout = 0.1 };
    o.graph = (GraphOptions){ .batch = 4,
                              .tokens = 64,
                              .words = 256,
                              .classes = masked ? 256 : 10,
                              .masked = masked,
                              .training = true };
    return o;
}

TEST(traffic_of_roberta)
{
    static const Wanted wanted = { { OP_EMBED, OP_EMBED_BWD, OP_PICK, OP_PICK_BWD, OP_DROP,
                                     OP_ATTENTION, OP_ATTENTION_BWD, OP_COUNT },
                                   { OP_LINEAR, OP_LINEAR_BWD_WEIGHTS, OP_COUNT } };
    const ModelOptions o = of_text(64);
    check_network(NETWORK_CUDA_BF16, "roberta_tiny", &o, &wanted);
}

/* The words' gradient is the embedding's alone; segments have one too. */
TEST(traffic_of_bert_that_classifies)
{
    static const Wanted wanted = { { OP_EMBED, OP_EMBED_BWD, OP_ATTENTION, OP_ATTENTION_BWD,
                                     OP_COUNT },
                                   { OP_CONV2D, OP_CONV2D_BWD_DATA, OP_COUNT } };
    const ModelOptions o = of_text(0);
    check_network(NETWORK_CUDA_FP32, "bert_tiny", &o, &wanted);
}

TEST(traffic_of_cudnns_attention)
{
    static const Wanted wanted = { { OP_TOKENS, OP_LAYERNORM, OP_COUNT },
                                   { OP_ATTENTION, OP_ATTENTION_BWD, OP_COUNT } };
    const ModelOptions o = network_narrow(8, 64);
    check_network(NETWORK_CUDA_BF16_FUSED, "vit_b_16", &o, &wanted);
}

TEST(traffic_of_cudnns_attention_with_masks)
{
    static const Wanted wanted = { { OP_EMBED, OP_COUNT },
                                   { OP_ATTENTION, OP_ATTENTION_BWD, OP_COUNT } };
    const ModelOptions o = of_text(64);
    check_network(NETWORK_CUDA_BF16_FUSED, "roberta_tiny", &o, &wanted);
}
#else
typedef int test_cuda_traffic_has_nothing_to_test_here;
#endif
