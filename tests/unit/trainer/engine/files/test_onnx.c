/* test_onnx.c - exported networks are whole: what a node takes was made before it, weights are in
 * the order that ONNX wants, and nothing is there that nothing uses. Whether ONNX Runtime answers
 * as PyTorch does is for scripts/bench/check_export.py. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/wire.h"
#include "kernels/blur.h"
#include "tests/test.h"
#include "trainer/engine/files/onnx.h"
#include <stdio.h>
#include <string.h>

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_TYPE = 4 };
enum { TENSOR_DIMS = 1, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1 };
enum { PATH_BYTES = 1200, NAME_BYTES = 160, VALUES_MAX = 2000, INPUTS_MAX = 8 };

/* ---- what is exported ---- */

typedef struct Draft {
    CheckpointModel model;
    SafeTensor *tensors;
    int count;
} Draft;

/* An evaluation network with weights that differ from each other. */
/* Weights for the graph that is there. */
static void draft_fill(Draft *d);

static void draft_make(Draft *d, const char *name, BlurPool blurpool)
{
    ModelOptions o = { .width = 0.25, .blurpool = blurpool };
    o.graph = (GraphOptions){
        .batch = 1, .channels = 3, .height = 32, .width = 32, .classes = 7, .std = { 1, 1, 1 }
    };
    *d = (Draft){ .model = { .def = model_find(name), .classes = 7 } };
    REQUIRE_OK(config_load(&d->model.config, NULL, NULL, 0));
    REQUIRE_OK(model_build(&d->model.graph, d->model.def, &o));
    draft_fill(d);
}

/* The network of a configuration, whole. */
static void draft_make_of(Draft *d, const char *name)
{
    *d = (Draft){ .model = { .def = model_find(name), .classes = 7 } };
    REQUIRE_OK(config_load(&d->model.config, NULL, NULL, 0));
    d->model.config->data.image_size = d->model.def->input.size;
    d->model.config->model.in_channels = d->model.def->input.channels;
    REQUIRE_OK(checkpoint_model_graph(&d->model.graph, &d->model, 7, 1, 0));
    draft_fill(d);
}

static void draft_fill(Draft *d)
{
    char path[PATH_BYTES];
    const Graph *g = d->model.graph;
    d->tensors = mem_calloc((size_t)graph_tensor_count(g), sizeof *d->tensors);
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        float *values = mem_alloc(tensor_plain_bytes(&t->desc));
        for (int64_t i = 0; i < tensor_elements(&t->desc); i++) values[i] = (float)(id + 1000 * i);
        d->tensors[d->count++] = (SafeTensor){ t->name, t->desc, values };
    }
    snprintf(path, sizeof path, "%s/weights.safetensors", test_scratch());
    REQUIRE_OK(safetensors_write(path, d->tensors, d->count, NULL, 0));
    REQUIRE_OK(safetensors_open(&d->model.file, path));
}

static void draft_free(Draft *d)
{
    for (int i = 0; i < d->count; i++) mem_free((void *)(uintptr_t)d->tensors[i].data);
    mem_free(d->tensors);
    checkpoint_model_close(&d->model);
}

static const SafeTensor *weight(const Draft *d, const char *name)
{
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->tensors[i].name, name) == 0) return &d->tensors[i];
    return NULL;
}

/* ---- what is in the file ---- */

typedef struct Value { /* that a node can take */
    char name[NAME_BYTES];
    bool used;
} Value;

typedef struct Reader {
    const Draft *draft;
    Value values[VALUES_MAX];
    int count, weights, norms, convolutions;
} Reader;

static void copy_text(char out[NAME_BYTES], WireReader text)
{
    snprintf(out, NAME_BYTES, "%.*s", (int)(text.end - text.p), (const char *)text.p);
}

static void add_value(Reader *r, const char *name)
{
    REQUIRE(r->count < VALUES_MAX && name[0] != '\0');
    for (int i = 0; i < r->count; i++) CHECK(strcmp(r->values[i].name, name) != 0);
    snprintf(r->values[r->count++].name, NAME_BYTES, "%s", name);
}

static void use_value(Reader *r, const char *name)
{
    bool known = false;
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->values[i].name, name) != 0) continue;
        r->values[i].used = known = true;
    }
    if (!test_check(known, __FILE__, __LINE__, "an input is known")) printf("    '%s'\n", name);
}

/* A weight has its shape and its bytes; what else is there is a constant. */
static void take_initializer(Reader *r, WireReader m)
{
    char name[NAME_BYTES] = "";
    WireReader raw = { NULL, NULL };
    int64_t elements = 1;
    for (WireField f; m.p < m.end;) {
        REQUIRE(wire_read_field(&m, &f));
        if (f.number == TENSOR_DIMS) elements *= (int64_t)f.value;
        if (f.number == TENSOR_NAME) copy_text(name, f.inside);
        if (f.number == TENSOR_RAW) raw = f.inside;
    }
    add_value(r, name);
    const SafeTensor *t = weight(r->draft, name);
    if (!t) return;
    const size_t bytes = tensor_plain_bytes(&t->desc);
    CHECK_INT(elements, tensor_elements(&t->desc));
    CHECK((size_t)(raw.end - raw.p) == bytes && memcmp(raw.p, t->data, bytes) == 0);
    r->weights++;
}

/* In ONNX's order: x, scale, bias, mean, variance. */
static void check_norm(Reader *r, char inputs[][NAME_BYTES], int count)
{
    static const char *const names[] = { "weight", "bias", "running_mean", "running_var" };
    char want[NAME_BYTES + 16];
    const char *dot = strrchr(inputs[1], '.');
    REQUIRE(count == 5 && dot != NULL);
    for (int i = 0; i < 4; i++) {
        snprintf(want, sizeof want, "%.*s.%s", (int)(dot - inputs[1]), inputs[1], names[i]);
        CHECK_STR(inputs[1 + i], want);
    }
    r->norms++;
}

static void take_node(Reader *r, WireReader m)
{
    char type[NAME_BYTES] = "", output[NAME_BYTES] = "", inputs[INPUTS_MAX][NAME_BYTES];
    int count = 0;
    for (WireField f; m.p < m.end;) {
        REQUIRE(wire_read_field(&m, &f) && count < INPUTS_MAX);
        if (f.number == NODE_INPUT) copy_text(inputs[count++], f.inside);
        if (f.number == NODE_OUTPUT) copy_text(output, f.inside);
        if (f.number == NODE_TYPE) copy_text(type, f.inside);
    }
    for (int i = 0; i < count; i++) use_value(r, inputs[i]);
    if (strcmp(type, "BatchNormalization") == 0) check_norm(r, inputs, count);
    if (strcmp(type, "Conv") == 0) { /* of a blur the weights are a constant */
        CHECK((count == 2 || (count == 3 && weight(r->draft, inputs[2]) != NULL)) &&
              (weight(r->draft, inputs[1]) != NULL || strncmp(inputs[1], "extra", 5) == 0));
        r->convolutions++;
    }
    add_value(r, output);
}

/* Hands every field of the graph with this number to `take`. */
static void each(Reader *r, WireReader graph, uint32_t number, void (*take)(Reader *, WireReader))
{
    for (WireField f; graph.p < graph.end;) {
        REQUIRE(wire_read_field(&graph, &f));
        if (f.number == number) take(r, f.inside);
    }
}

static void take_input(Reader *r, WireReader m)
{
    char name[NAME_BYTES];
    for (WireField f; m.p < m.end;) {
        REQUIRE(wire_read_field(&m, &f));
        if (f.number != VALUE_NAME) continue;
        copy_text(name, f.inside);
        add_value(r, name);
    }
}

static void take_graph(Reader *r, WireReader graph)
{
    each(r, graph, GRAPH_INPUT, take_input);
    each(r, graph, GRAPH_INITIALIZER, take_initializer);
    each(r, graph, GRAPH_NODE, take_node);
}

static int norms_of(const Graph *g)
{
    int norms = 0;
    for (int i = 0; i < graph_node_count(g); i++) norms += graph_node(g, i)->kind == OP_BATCHNORM;
    return norms;
}

static int convolutions_of(const Graph *g)
{
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const Pool2dAttr *pool = graph_node(g, i)->attr;
        count += graph_node(g, i)->kind == OP_CONV2D ||
                 (graph_node(g, i)->kind == OP_POOL2D && blur_is(pool->kind));
    }
    return count;
}

static void check_model(const char *name, BlurPool blurpool)
{
    Draft d;
    char path[PATH_BYTES];
    uint8_t *data = NULL;
    size_t bytes;
    draft_make(&d, name, blurpool);
    snprintf(path, sizeof path, "%s/%s.onnx", test_scratch(), name);
    REQUIRE_OK(onnx_export(&d.model, path, false));
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    Reader *r = mem_calloc(1, sizeof *r);
    r->draft = &d;
    each(r, (WireReader){ data, data + bytes }, MODEL_GRAPH, take_graph);
    CHECK_INT(r->weights, d.count);
    CHECK_INT(r->norms, norms_of(d.model.graph));
    CHECK_INT(r->convolutions, convolutions_of(d.model.graph));
    /* nothing uses the answer, and all else is used */
    for (int i = 0; i < r->count; i++)
        CHECK_INT(r->values[i].used, strcmp(r->values[i].name, "logits") != 0);
    CHECK(r->count > 0 && strcmp(r->values[r->count - 1].name, "logits") == 0);
    mem_free(r);
    mem_free(data);
    draft_free(&d);
}

TEST(exported_networks_are_whole)
{
    static const char *const names[] = { "mlp",
                                         "resnet20",
                                         "resnet50",
                                         "efficientnet_b0",
                                         "convnext_tiny",
                                         "convnextv2_atto",
                                         "airbench94",
                                         "mobilenet_v2",
                                         "mobilenet_v3_small",
                                         "resnet50d",
                                         "regnet_y_400mf",
                                         "deit_tiny_patch16_224" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_model(names[i], BLURPOOL_NONE);
    check_model("resnet18", BLURPOOL_FFCV);
    check_model("resnet18", BLURPOOL_COMPOSER);
    check_model("resnet20", BLURPOOL_TIMM);
}

/* Whether the file of a network has a dimension of that name. */
static bool has_dimension(const char *model, const char *name)
{
    Draft d;
    char path[PATH_BYTES];
    uint8_t *data = NULL;
    size_t bytes = 0;
    draft_make_of(&d, model);
    snprintf(path, sizeof path, "%s/%s.onnx", test_scratch(), model);
    CHECK_OK(onnx_export(&d.model, path, true));
    CHECK_OK(fs_read_file(path, &data, &bytes));
    const bool found = data && memmem(data, bytes, name, strlen(name)) != NULL;
    CHECK(data && memmem(data, bytes, "Cast", 4) != NULL);
    mem_free(data);
    draft_free(&d);
    return found;
}

/* TensorFlow's padding follows the size; positions are of one; and so are pixels as features. */
TEST(height_and_width_are_free_where_nothing_depends_on_them)
{
    static const char *const any[] = { "resnet20", "efficientnet_b0", "mobilenet_v2",
                                       "regnet_y_400mf" },
                             *const one[] = { "tf_efficientnet_b0", "deit_tiny_patch16_224",
                                              "mlp" };
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        (void)test_check(has_dimension(any[i], "height"), __FILE__, __LINE__, any[i]);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        (void)test_check(!has_dimension(one[i], "height"), __FILE__, __LINE__, one[i]);
}
