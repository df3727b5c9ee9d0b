/* test_recompute.c - networks that make results of forward again instead of keeping them: loss,
 * statistics and gradients have the bits of those that keep them, in less memory. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
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
    { "vit_b_16", of_attention, 64, 0.9, 0.5 },
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

static void check_way(NetworkBackend backend, int row, Recompute how, double share)
{
    const ModelOptions o = networks[row].options(networks[row].size);
    Network n, kept;
    printf("    %s, %s\n", networks[row].model, recompute_names[how]);
    REQUIRE_OK(network_open(&kept, backend, networks[row].model, &o));
    REQUIRE_OK(network_open_recompute(&n, backend, networks[row].model, &o, how));
    CHECK_OK(plan_check(program_plan(n.program), program_graph(n.program)));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_fill(&kept));
    for (int step = 0; step < 2; step++) { /* the second with other running statistics */
        double loss[2];
        REQUIRE_OK(network_run(&n, 0.125f, &loss[0]));
        REQUIRE_OK(network_run(&kept, 0.125f, &loss[1]));
        CHECK(loss[0] == loss[1]);
        compare_slabs(&n, &kept, SLAB_GRAD);
        compare_slabs(&n, &kept, SLAB_BUFFER);
    }
    if (!test_check(activations(&n) <= share * activations(&kept), __FILE__, __LINE__,
                    networks[row].model))
        printf("    %.3f of the memory\n", activations(&n) / activations(&kept));
    network_close(&n);
    network_close(&kept);
}

static void check_networks(NetworkBackend backend)
{
    for (int i = 0; i < (int)(sizeof networks / sizeof *networks); i++) {
        check_way(backend, i, RECOMPUTE_NORMS, networks[i].norms);
        check_way(backend, i, RECOMPUTE_BLOCKS, networks[i].blocks);
    }
}

TEST(what_is_made_again_has_the_same_bits)
{
    check_networks(NETWORK_CPU);
}

TEST(what_is_made_again_in_bf16_has_the_same_bits)
{
    check_networks(NETWORK_CPU_BF16);
}

TEST(what_cuda_makes_again_has_the_same_bits)
{
    static const NetworkBackend backends[] = { NETWORK_CUDA_FP32, NETWORK_CUDA_BF16,
                                               NETWORK_CUDA_FP16_FUSED, NETWORK_CUDA_BF16_FUSED };
    if (!cuda_is_there()) return;
    for (int i = 0; i < (int)(sizeof backends / sizeof *backends); i++) check_networks(backends[i]);
}
