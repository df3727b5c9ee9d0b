/* test_fuse_own.c - patterns that our own kernels do in one pass: where they are found, and that
 * the bits are those without. */
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include "tests/tools/plan_check.h"
#include <stdio.h>
#include <string.h>

static bool take_pools(void *cookie, const Fusion *f)
{
    (void)cookie;
    return strncmp(f->name, "pool", 4) == 0;
}

static bool take_one(void *cookie, const Fusion *f)
{
    return strcmp(f->name, cookie) == 0;
}

static Graph *fused(const char *model, const ModelOptions *o, const char *only)
{
    char name[32];
    Graph *g = NULL;
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true,
                               .takes = only ? take_one : take_pools,
                               .cookie = name };
    if (only) snprintf(name, sizeof name, "%s", only);
    CHECK_OK(model_build(&g, model_find(model), o));
    CHECK_OK(graph_fuse(g, &fuse));
    graph_check_order(g);
    return g;
}

static void check_counts(Graph *g, int norms, int pools, int gradients)
{
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM), norms);
    CHECK_INT(graph_count_kind(g, OP_BN_POOL), pools);
    CHECK_INT(graph_count_kind(g, OP_POOL2D), 1 - pools);
    CHECK_INT(graph_count_kind(g, OP_BN_POOL_BWD), gradients);
    CHECK_INT(graph_count_kind(g, OP_POOL2D_BWD), 1 - gradients);
    graph_destroy(g);
}

TEST(the_norm_of_a_stem_is_pooled_at_once)
{
    const ModelOptions o = network_narrow(2, 32);
    check_counts(fused("resnet18", &o, NULL), 19, 1, 1);
    check_counts(fused("resnet18", &o, "pool"), 19, 1, 0);
    check_counts(fused("resnet18", &o, "pool gradient"), 20, 0, 1);
}

/* Statistics from elsewhere, and none. */
TEST(norms_over_ranks_and_frozen_ones_are_left_to_themselves)
{
    ModelOptions ranks = network_narrow(2, 32), frozen = ranks;
    ranks.graph.bn_ranks = 2;
    frozen.graph.bn_frozen = true;
    check_counts(fused("resnet18", &ranks, NULL), 20, 0, 0);
    check_counts(fused("resnet18", &frozen, NULL), 20, 0, 0);
}

/* The stem trains no more, and its statistics do: there is a norm, and no gradient of it. */
TEST(a_stem_without_a_gradient_is_pooled_at_once)
{
    ModelOptions o = network_narrow(2, 32);
    o.graph.freeze = "bn1";
    Graph *g = fused("resnet18", &o, NULL);
    CHECK_INT(graph_count_kind(g, OP_BN_POOL), 1);
    CHECK_INT(graph_count_kind(g, OP_BN_POOL_BWD) + graph_count_kind(g, OP_POOL2D_BWD), 0);
    graph_destroy(g);
}

/* ResNet-18: eight blocks, each with an end; of ResNet-50's sixteen as many. */
static void check_signs(const char *model, const ModelOptions *o, int blocks)
{
    Graph *g = fused(model, o, "signs");
    CHECK_INT(graph_count_kind(g, OP_BN_SIGNS), blocks);
    CHECK_INT(graph_count_kind(g, OP_BN_SIGNS_BWD), blocks);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        if (n->kind != OP_BN_SIGNS_BWD) continue;
        const GraphTensor *t = graph_tensor(g, n->in[BN_SIGNS_BWD_IN_SIGNS]);
        CHECK(t->desc.dtype == DTYPE_U8 && t->producer < i);
        CHECK(graph_node(g, t->producer)->kind == OP_BN_SIGNS);
    }
    graph_destroy(g);
}

TEST(the_ends_of_blocks_keep_signs)
{
    ModelOptions o = network_narrow(2, 32);
    check_signs("resnet18", &o, 8);
    check_signs("resnet50", &o, 16);
    check_signs("efficientnet_b0", &o, 0); /* no ReLU there */
    o.graph.bn_ranks = 2;
    check_signs("resnet18", &o, 0);
    o.graph.bn_ranks = 0;
    o.graph.bn_frozen = true;
    check_signs("resnet18", &o, 0);
}

static bool take_ends(void *cookie, const Fusion *f)
{
    (void)cookie;
    return strcmp(f->name, "signs") == 0 || strcmp(f->name, "shortcut") == 0;
}

/* Of ResNet-18 three shortcuts have a norm, of ResNet-50 four. */
TEST(the_ends_of_blocks_normalise_their_shortcuts)
{
    static const struct {
        const char *model;
        int blocks, shortcuts;
    } rows[] = { { "resnet18", 8, 3 }, { "resnet50", 16, 4 } };
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true, .takes = take_ends };
    const ModelOptions o = network_narrow(2, 32);
    for (int i = 0; i < 2; i++) {
        Graph *g = NULL;
        REQUIRE_OK(model_build(&g, model_find(rows[i].model), &o));
        REQUIRE_OK(graph_fuse(g, &fuse));
        graph_check_order(g);
        CHECK_INT(graph_count_kind(g, OP_BN_SIGNS), rows[i].blocks);
        CHECK_INT(graph_count_kind(g, OP_BN_STATISTICS), rows[i].shortcuts);
        graph_destroy(g);
        g = fused(rows[i].model, &o, "shortcut"); /* not without signs */
        CHECK_INT(graph_count_kind(g, OP_BN_STATISTICS), 0);
        graph_destroy(g);
    }
}

#if CONVOY_CUDA
static void check_bits(const Network *a, const Network *b, const char *name, TensorId x, TensorId y)
{
    double *left = NULL, *right = NULL;
    int64_t counts[2] = { 0, 0 };
    CHECK_OK(network_read(a, x, &left, &counts[0]));
    CHECK_OK(network_read(b, y, &right, &counts[1]));
    const bool same = left && right && counts[0] == counts[1] &&
                      memcmp(left, right, (size_t)counts[0] * sizeof *left) == 0;
    test_check(same, __FILE__, __LINE__, name);
    mem_free(left);
    mem_free(right);
}

/* Loss, statistics and all gradients: to the bit. */
static void check_device(NetworkBackend plain, NetworkBackend fusing, const char *model, int signs)
{
    const ModelOptions o = network_narrow(6, 48);
    Network n[2];
    double loss[2];
    if (!cuda_is_there()) return;
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(network_open(&n[i], i ? fusing : plain, model, &o));
        REQUIRE_OK(network_fill(&n[i]));
        REQUIRE_OK(network_run(&n[i], 1, &loss[i]));
    }
    const Graph *g = program_graph(n[0].program), *h = program_graph(n[1].program);
    CHECK_INT(graph_count_kind(g, OP_BN_POOL) + graph_count_kind(g, OP_BN_POOL_BWD), 0);
    CHECK_INT(graph_count_kind(h, OP_BN_POOL), 1);
    CHECK_INT(graph_count_kind(h, OP_BN_POOL_BWD), 1);
    CHECK_INT(graph_count_kind(h, OP_BN_SIGNS), signs);
    CHECK_INT(graph_count_kind(h, OP_BN_SIGNS_BWD), signs);
    CHECK_INT(graph_count_kind(h, OP_BN_STATISTICS), signs ? 3 : 0);
    CHECK_OK(plan_check(program_plan(n[1].program), h));
    CHECK(loss[0] == loss[1]);
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        const TensorId other = graph_find(h, t->name);
        check_bits(&n[0], &n[1], t->name, t->role == ROLE_PARAM ? t->grad : id,
                   t->role == ROLE_PARAM ? graph_tensor(h, other)->grad : other);
    }
    for (int i = 0; i < 2; i++) network_close(&n[i]);
}

TEST(cuda_pools_norms_and_keeps_signs_with_the_same_bits)
{
    check_device(NETWORK_CUDA_BF16, NETWORK_CUDA_BF16_FUSED, "resnet18", 8);
    check_device(NETWORK_CUDA_FP32, NETWORK_CUDA_FP32_FUSED, "resnet18", 0);
}

/* A choice of cuDNN for norms is kept. */
TEST(cuda_leaves_these_norms_to_cudnn)
{
    const ModelOptions o = network_narrow(2, 32);
    const KernelMode modes[] = { KERNELS_OWN, KERNELS_CUDNN };
    if (!cuda_is_there()) return;
    for (int i = 0; i < 2; i++) {
        const CudaOptions with = { .precision = PRECISION_BF16,
                                   .fuse = FUSE_ALL,
                                   .batchnorm = modes[i] };
        Backend *b = NULL;
        Graph *g = NULL;
        REQUIRE_OK(backend_cuda_create(&b, &with));
        const FuseOptions fuse = { .takes = b->v->fusion.takes, .cookie = b };
        REQUIRE_OK(model_build(&g, model_find("resnet18"), &o));
        CHECK_OK(graph_fuse(g, &fuse));
        CHECK_INT(graph_count_kind(g, OP_BN_POOL), modes[i] == KERNELS_OWN);
        CHECK_INT(graph_count_kind(g, OP_BN_POOL_BWD), modes[i] == KERNELS_OWN);
        CHECK_INT(graph_count_kind(g, OP_BN_SIGNS), modes[i] == KERNELS_OWN ? 8 : 0);
        graph_destroy(g);
        backend_destroy(b);
    }
}
#endif
