/* test_blur.c - blurs (POOL_BLUR, POOL_BLUR_REFLECT): their values against PyTorch's, and where the
 * three kinds of model.blurpool have them. Gradients are tests/ops's and test_golden.c's. */
#include "kernels/cpu/view.h"
#include "tests/test.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include <string.h>

/* Runs a pooling of x[n][c][5][5] = 0 .. 24, every image and channel alike, on the CPU; y plain. */
static void blur(Backend *backend, const Pool2dAttr *attr, int64_t channels, float *y)
{
    const int64_t dims[] = { 2, channels, 5, 5 };
    OpInstance op = { .kind = OP_POOL2D, .backend = backend, .attr = attr };
    OpTensor *x = &op.in[POOL_IN_X], *out = &op.out[POOL_OUT_Y];
    float values[2 * 40 * 25];
    Stream *stream;
    for (int i = 0; i < 2 * channels * 25; i++) values[i] = (float)(i % 25);
    x->desc = tensor_desc(DTYPE_F32, 4, dims);
    const TensorDesc *in[OP_MAX_INPUTS] = { &x->desc };
    const bool wanted[OP_MAX_OUTPUTS] = { true };
    TensorDesc outputs[OP_MAX_OUTPUTS] = { { 0 } };
    REQUIRE_OK(op_infer(OP_POOL2D, attr, in, wanted, outputs));
    out->desc = outputs[POOL_OUT_Y];
    cpu_view_decide((CpuBackend *)backend, x);
    REQUIRE_OK(backend_prepare_op(&op));
    REQUIRE_OK(backend->v->alloc(backend, x->bytes, &x->data));
    REQUIRE_OK(backend->v->alloc(backend, out->bytes, &out->data));
    REQUIRE_OK(backend->v->alloc(backend, op.workspace_bytes, &op.workspace));
    REQUIRE_OK(backend->v->import_tensor(backend, x, values));
    REQUIRE_OK(backend->v->stream_create(backend, LANE_COMPUTE, &stream));
    CHECK_OK(backend->v->ops[op.kind]->bind(&op));
    CHECK_OK(backend->v->ops[op.kind]->run(&op, stream));
    CHECK_OK(backend->v->export_tensor(backend, out, y));
    backend->v->stream_destroy(backend, stream);
    backend->v->free(backend, x->data);
    backend->v->free(backend, out->data);
    backend->v->free(backend, op.workspace);
    backend_release_op(&op);
}

/* What torch.nn.functional.conv2d and timm.layers.BlurPool2d make of it; sixteenths are exact. */
TEST(blurs_have_pytorchs_values)
{
    static const float ffcv[] = { 1.125f, 2,     2.75f, 3.5f,  3,      4,      6,      7,  8,
                                  6.5f,   7.75f, 11,    12,    13,     10.25f, 11.5f,  16, 17,
                                  18,     14,    10.5f, 14.5f, 15.25f, 16,     12.375f };
    static const float timm[] = { 3, 4.5f, 6, 10.5f, 12, 13.5f, 18, 19.5f, 21 };
    static const struct {
        Pool2dAttr attr;
        const float *want;
        int count;
    } rows[] = { { { POOL_BLUR, 3, 3, 1, 1, 1, 1 }, ffcv, 25 },
                 { { POOL_BLUR_REFLECT, 3, 3, 2, 2, 1, 1 }, timm, 9 } };
    static const int64_t channels[] = { 1, 8, 40 }; /* plain, and in blocks */
    Backend *backend;
    float y[2 * 40 * 25];
    REQUIRE_OK(backend_cpu_create(&backend, &(CpuOptions){ .threads = 2 }));
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 3; c++) {
            blur(backend, &rows[r].attr, channels[c], y);
            for (int i = 0; i < 2 * channels[c] * rows[r].count; i++)
                CHECK(y[i] == rows[r].want[i % rows[r].count]);
        }
    backend_destroy(backend);
}

/* Nodes "NAME.blur" of a network, by the words of `names`. */
static void check_blurs(const char *model, BlurPool kind, const char *const *names, int stride)
{
    ModelOptions o = network_narrow(2, 64);
    Graph *g = NULL;
    int count = 0, blurs = 0;
    int64_t plain;
    o.width = 1;
    REQUIRE_OK(model_build(&g, model_find(model), &o));
    plain = graph_parameter_elements(g);
    graph_destroy(g);
    o.blurpool = kind;
    REQUIRE_OK(model_build(&g, model_find(model), &o));
    CHECK_INT(graph_parameter_elements(g), plain);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        const Pool2dAttr *a = n->attr;
        if (n->kind != OP_POOL2D || n->phase != PHASE_FORWARD || a->kind == POOL_MAX) continue;
        CHECK(a->kind == (kind == BLURPOOL_TIMM ? POOL_BLUR_REFLECT : POOL_BLUR));
        CHECK_INT(a->stride_h, strcmp(n->name, "maxpool.blur") == 0 ? 2 : stride);
        if (names[count]) CHECK_STR(n->name, names[count++]);
        blurs++;
    }
    CHECK(names[count] == NULL);
    CHECK_INT(blurs, count);
    graph_destroy(g);
}

TEST(blurs_are_where_each_kind_has_them)
{
    static const char *const none[] = { NULL },
                             *const ffcv[] = { "layer2.0.conv2.blur",
                                               "layer2.0.downsample.0.blur",
                                               "layer3.0.conv2.blur",
                                               "layer3.0.downsample.0.blur",
                                               "layer4.0.conv2.blur",
                                               "layer4.0.downsample.0.blur",
                                               NULL },
                             *const composer[] = { "maxpool.blur",
                                                   "layer2.0.conv2.blur",
                                                   "layer2.0.downsample.0.blur",
                                                   "layer3.0.conv2.blur",
                                                   "layer3.0.downsample.0.blur",
                                                   "layer4.0.conv2.blur",
                                                   "layer4.0.downsample.0.blur",
                                                   NULL },
                             *const timm[] = { "maxpool.blur", "layer2.0.conv2.blur",
                                               "layer3.0.conv2.blur", "layer4.0.conv2.blur", NULL },
                             *const cifar[] = { "layer2.0.conv1.blur", "layer3.0.conv1.blur",
                                                NULL };
    check_blurs("resnet50", BLURPOOL_NONE, none, 1);
    check_blurs("resnet50", BLURPOOL_FFCV, ffcv, 1);
    check_blurs("resnext50_32x4d", BLURPOOL_COMPOSER, composer, 1);
    check_blurs("wide_resnet50_2", BLURPOOL_TIMM, timm, 2);
    check_blurs("resnet20", BLURPOOL_FFCV, cifar, 1);
    check_blurs("resnet20", BLURPOOL_TIMM, cifar, 2);
}

TEST(blurs_that_cannot_be_are_refused)
{
    ModelOptions o = network_narrow(2, 64);
    Graph *g = NULL;
    o.blurpool = BLURPOOL_FFCV;
    CHECK_STATUS(model_build(&g, model_find("efficientnet_b0"), &o), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "model.blurpool");
    o.blurpool = BLURPOOL_TIMM;
    o.graph.height = o.graph.width = 8; /* one pixel from layer2 on */
    CHECK_STATUS(model_build(&g, model_find("resnet18"), &o), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "cannot be mirrored");
}
