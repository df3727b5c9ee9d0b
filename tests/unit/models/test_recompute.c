/* test_recompute.c - networks that make results of forward again instead of keeping them: loss,
 * statistics and gradients have the bits of those that keep them, in less memory. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include "tests/tools/plan_check.h"
#include <stdio.h>
#include <string.h>

/* Without dropout, which not all have. */
static ModelOptions of_plain(int64_t size)
{
    return network_narrow(4, size);
}

static ModelOptions of_drops(int64_t size)
{
    ModelOptions o = network_narrow(4, size);
    o.stochastic_depth = o.dropout = 0.3;
    return o;
}

static ModelOptions of_attention(int64_t size)
{
    ModelOptions o = of_drops(size);
    o.attention_dropout = 0.1;
    return o;
}

static ModelOptions of_frozen_norms(int64_t size)
{
    ModelOptions o = of_drops(size);
    o.graph.bn_frozen = true;
    return o;
}

static ModelOptions of_text(int64_t masked)
{
    ModelOptions o = { .width = 1, .layers = 3, .dropout = 0.1, .attention_dropout = 0.1 };
    o.graph = (GraphOptions){ .batch = 4,
                              .tokens = 64,
                              .words = 256,
                              .classes = masked ? 256 : 10,
                              .masked = masked,
                              .training = true };
    return o;
}

/* Activations of none's that norms and blocks may take. */
static const struct {
    const char *model;
    ModelOptions (*options)(int64_t size);
    int64_t size;
    double norms, blocks;
} networks[] = {
    { "resnet50", of_drops, 64, 0.85, 0.6 },
    { "resnet18", of_drops, 64, 0.95, 0.8 },
    { "resnet20", of_plain, 32, 0.9, 0.5 },
    { "resnet50", of_frozen_norms, 64, 0.85, 0.6 },
    { "efficientnet_b0", of_drops, 64, 0.9, 0.7 },
    { "efficientnet_v2_s", of_drops, 64, 0.9, 0.6 },
    { "mobilenet_v2", of_plain, 64, 0.9, 0.8 },
    { "mobilenet_v3_small", of_plain, 64, 0.95, 0.8 },
    { "regnet_y_400mf", of_plain, 64, 0.95, 0.7 },
    { "convnext_tiny", of_drops, 64, 0.9, 0.7 },
    { "convnextv2_atto", of_drops, 64, 0.9, 0.7 },
    { "deit_tiny_patch16_224", of_attention, 48, 0.9, 0.5 },
    { "airbench94", of_plain, 32, 1, 1 },
    { "roberta_tiny", of_text, 32, 0.95, 0.8 },
    { "bert_tiny", of_text, 0, 0.95, 0.8 },
};

static void compare_slabs(const Network *n, const Network *kept, Slab slab)
{
    const size_t bytes = executor_slab_bytes(kept->executor, slab);
    CHECK_INT((long long)executor_slab_bytes(n->executor, slab), (long long)bytes);
    if (bytes == 0) return;
    const int64_t count = (int64_t)(bytes / sizeof(float));
    const Network *const both[] = { n, kept };
    float *values[2];
    for (int i = 0; i < 2; i++) {
        const OpTensor t = { .desc = tensor_desc(DTYPE_F32, 1, &count),
                             .bytes = bytes,
                             .data = executor_slab(both[i]->executor, slab) };
        values[i] = mem_alloc(bytes);
        REQUIRE(values[i]);
        CHECK_OK(both[i]->backend->v->export_tensor(both[i]->backend, &t, values[i]));
    }
    CHECK(memcmp(values[0], values[1], bytes) == 0);
    for (int i = 0; i < 2; i++) mem_free(values[i]);
}

static double activations(const Network *n)
{
    return (double)executor_slab_bytes(n->executor, SLAB_ACTIVATION);
}

static void check_step(Network n[RECOMPUTE_COUNT])
{
    double loss[RECOMPUTE_COUNT];
    for (int how = 0; how < RECOMPUTE_COUNT; how++) {
        REQUIRE_OK(network_run(&n[how], 0.125f, &loss[how]));
        CHECK(loss[how] == loss[0]);
        if (how == 0) continue;
        compare_slabs(&n[how], &n[0], SLAB_GRAD);
        compare_slabs(&n[how], &n[0], SLAB_BUFFER);
    }
}

/* shares: of none's activations that the others may take. */
static void check_network(NetworkBackend backend, int row, const double shares[RECOMPUTE_COUNT])
{
    const char *model = networks[row].model;
    const ModelOptions o = networks[row].options(networks[row].size);
    Network n[RECOMPUTE_COUNT];
    for (int how = 0; how < RECOMPUTE_COUNT; how++) {
        REQUIRE_OK(network_open_recompute(&n[how], backend, model, &o, (Recompute)how));
        CHECK_OK(plan_check(program_plan(n[how].program), program_graph(n[how].program)));
        REQUIRE_OK(network_fill(&n[how]));
    }
    check_step(n);
    check_step(n); /* with other running statistics */
    for (int how = 1; how < RECOMPUTE_COUNT; how++) {
        const double share = activations(&n[how]) / activations(&n[0]);
        if (!test_check(share <= shares[how], __FILE__, __LINE__, model))
            printf("    %s: %.3f of the memory\n", recompute_names[how], share);
    }
    for (int how = 0; how < RECOMPUTE_COUNT; how++) network_close(&n[how]);
}

static void check_networks(NetworkBackend backend)
{
    for (int i = 0; i < (int)(sizeof networks / sizeof *networks); i++)
        check_network(backend, i, (const double[]){ 1, networks[i].norms, networks[i].blocks });
}

TEST(what_is_made_again_has_the_same_bits)
{
    check_networks(NETWORK_CPU);
}

TEST(what_is_made_again_in_bf16_has_the_same_bits)
{
    check_networks(NETWORK_CPU_BF16);
}

static void check_on_cuda(NetworkBackend backend, const char *model)
{
    static const double shares[] = { 1, 1, 1 };
    if (!cuda_is_there()) return;
    for (int i = 0; i < (int)(sizeof networks / sizeof *networks); i++)
        if (strcmp(networks[i].model, model) == 0) check_network(backend, i, shares);
}

#define ON_CUDA(model, name, backend)                                                              \
    TEST(model##_on_cuda_in_##name##_has_the_same_bits)                                            \
    {                                                                                              \
        check_on_cuda(backend, #model);                                                            \
    }
#define ON_CUDA_EACH(model)                                                                        \
    ON_CUDA(model, fp32, NETWORK_CUDA_FP32)                                                        \
    ON_CUDA(model, bf16, NETWORK_CUDA_BF16)                                                        \
    ON_CUDA(model, fused_fp16, NETWORK_CUDA_FP16_FUSED)                                            \
    ON_CUDA(model, fused_bf16, NETWORK_CUDA_BF16_FUSED)
ON_CUDA_EACH(resnet18)
ON_CUDA_EACH(efficientnet_b0)
ON_CUDA_EACH(deit_tiny_patch16_224)
ON_CUDA_EACH(roberta_tiny)

/* ---- what the graph is ---- */

static Graph *build(const char *model, const ModelOptions *o, Recompute how)
{
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true, .recompute = how };
    Graph *g = NULL;
    CHECK_OK(model_build(&g, model_find(model), o));
    CHECK_OK(graph_fuse(g, &fuse));
    return g;
}

static int count_again(const Graph *g, OpKind kind)
{
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++)
        count += graph_node(g, i)->kind == kind && graph_node(g, i)->again;
    return count;
}

/* Parameters in the order in which their gradients are complete. */
static int list_gradients(const Graph *g, TensorId *out)
{
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++)
        for (TensorId id = 0; id < graph_tensor_count(g); id++)
            if (graph_tensor(g, id)->role == ROLE_GRAD && graph_tensor(g, id)->last_writer == i)
                out[count++] = graph_tensor(g, id)->grad_of;
    return count;
}

/* The next node that is no copy reads what this one makes, or a copy before it does. */
static bool is_due(const Graph *g, int copy)
{
    for (int i = copy + 1; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            for (int out = 0; out < OP_MAX_OUTPUTS; out++)
                if (n->in[k] != TENSOR_NONE && n->in[k] == graph_node(g, copy)->out[out])
                    return true;
        if (!n->again) return false;
    }
    return false;
}

static void check_copies(const Graph *kept, const Graph *g, int norms)
{
    enum { PARAMS_MAX = 512 };
    static TensorId order[2][PARAMS_MAX];
    const int params = list_gradients(kept, order[0]);
    CHECK_INT(list_gradients(g, order[1]), params);
    CHECK(memcmp(order[0], order[1], (size_t)params * sizeof *order[0]) == 0);
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM), norms);
    CHECK_INT(graph_count_kind(g, OP_BN_SUMS), norms);
    CHECK_NEAR(graph_product_flops(g), graph_product_flops(kept), 0);
    CHECK_INT(graph_flops(g, PHASE_FORWARD) == graph_flops(kept, PHASE_FORWARD), 1);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        if (!n->again) continue;
        CHECK(n->phase == PHASE_BACKWARD && n->kind != OP_BATCHNORM && n->kind != OP_BN_SUMS);
        if (!test_check(is_due(g, i), __FILE__, __LINE__, n->name)) break;
    }
}

/* Of several ranks, whose sums are made once. */
TEST(statistics_are_made_once_and_gradients_in_their_order)
{
    ModelOptions o = network_narrow(4, 224);
    o.graph.bn_ranks = 2;
    Graph *kept = build("resnet50", &o, RECOMPUTE_NONE),
          *norms = build("resnet50", &o, RECOMPUTE_NORMS),
          *blocks = build("resnet50", &o, RECOMPUTE_BLOCKS);
    check_copies(kept, norms, 53);
    check_copies(kept, blocks, 53);
    CHECK_INT(count_again(kept, OP_BN_APPLY), 0);
    CHECK_INT(count_again(norms, OP_CONV2D), 0);
    /* two of each block, of the ends two of three, and the norms that these add in four */
    CHECK_INT(count_again(norms, OP_BN_APPLY), 2 * 16 + 11 + 4);
    CHECK(count_again(blocks, OP_CONV2D) > 40);
    CHECK(count_again(blocks, OP_CONV2D) < 53); /* the last blocks' results are kept */
    graph_destroy(kept);
    graph_destroy(norms);
    graph_destroy(blocks);
}

TEST(an_evaluation_is_as_it_was)
{
    ModelOptions o = network_narrow(4, 64);
    o.graph.training = false;
    Graph *kept = build("resnet50", &o, RECOMPUTE_NONE),
          *blocks = build("resnet50", &o, RECOMPUTE_BLOCKS);
    CHECK_INT(graph_node_count(blocks), graph_node_count(kept));
    CHECK_INT(graph_tensor_count(blocks), graph_tensor_count(kept));
    graph_destroy(kept);
    graph_destroy(blocks);
}
