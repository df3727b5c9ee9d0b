/* test_activation.c - each activation works forward and backward, alone and behind a batch norm, in
 * the reference, on every backend and in ONNX, or is refused by its name. That backends compute
 * what the reference does is checked by tests/ops, whose families take all activations too
 * (act=*). */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include "kernels/cpu/cpu_math.h"
#include "kernels/ref/ref.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "trainer/engine/files/onnx.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

TEST(each_has_a_name_of_its_own)
{
    for (int a = 0; a < ACT_COUNT; a++) {
        const char *name = op_act((ActKind)a)->name;
        REQUIRE(name && name[0]);
        for (int b = 0; b < a; b++) CHECK(strcmp(name, op_act((ActKind)b)->name) != 0);
    }
}

/* By the formulas of torch.nn.functional.gelu, approximate "none" and "tanh", worked out apart. */
TEST(gelu_is_torchs)
{
    static const double rows[][3] = {
        { -3, -0.00404969409489031, -0.0036373920817729943 },
        { -1, -0.158655253931457, -0.158808009391723 },
        { 0.5, 0.345731230637007, 0.34571400982514394 },
        { 2, 1.95449973610364, 1.95459769408777 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_NEAR(ref_activate(ACT_GELU, rows[i][0]), rows[i][1], 1e-12);
        CHECK_NEAR(ref_activate(ACT_GELU_TANH, rows[i][0]), rows[i][2], 1e-12);
    }
}

/* As torch computes them where they bend: at x, y and slope. */
TEST(hard_ones_are_torchs)
{
    static const struct {
        ActKind act;
        double x, y, slope;
    } rows[] = {
        { ACT_RELU6, 0, 0, 0 },        { ACT_RELU6, 3, 3, 1 },
        { ACT_RELU6, 6, 6, 0 },        { ACT_RELU6, 7, 6, 0 },
        { ACT_HARD_SWISH, -3, 0, 0 },  { ACT_HARD_SWISH, -2, -1 / 3.0, -1 / 6.0 },
        { ACT_HARD_SWISH, 0, 0, 0.5 }, { ACT_HARD_SWISH, 3, 3, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_NEAR(ref_activate(rows[i].act, rows[i].x), rows[i].y, 1e-12);
        CHECK_NEAR(ref_activate_bwd(rows[i].act, 1, rows[i].x), rows[i].slope, 1e-12);
    }
}

TEST(slopes_end_at_0_and_1_far_from_0)
{
    static const float far[] = { 14, 40, 1e12f, 1e20f, INFINITY };
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        CHECK_NEAR((double)cpu_gelu_slope(far[i]), 1, 1e-6);
        CHECK_NEAR((double)cpu_gelu_slope(-far[i]), 0, 1e-6);
        CHECK_NEAR((double)cpu_gelu_tanh_slope(far[i]), 1, 1e-6);
        CHECK_NEAR((double)cpu_gelu_tanh_slope(-far[i]), 0, 1e-6);
    }
    CHECK(isnan(cpu_gelu_slope(NAN)) && isnan(cpu_gelu_tanh_slope(NAN)));
}

/* ---- backends ---- */

typedef union Attr {
    ActivationAttr activation;
    BatchNormAttr norm;
    Conv2dBnAttr conv;
} Attr;

/* An op with an activation and, where it is wanted and the op has one, a residual. */
static OpInstance instance(Backend *b, OpKind kind, ActKind act, bool residual, Attr *attr)
{
    const TensorDesc x = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 2, 8, 4, 4 }),
                     w = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 8, 8, 1, 1 }),
                     vector = tensor_desc(DTYPE_F32, 1, (int64_t[]){ 8 }),
                     saved = tensor_desc(DTYPE_F32, 2, (int64_t[]){ 2, 8 });
    OpInstance op = { .kind = kind, .backend = b, .attr = attr };
    const OpDef *def = op_def(kind);
    memset(attr, 0, sizeof *attr);
    if (kind == OP_ACTIVATION || kind == OP_ACTIVATION_BWD) attr->activation.act = act;
    else if (kind == OP_CONV2D_BN)
        attr->conv = (Conv2dBnAttr){ .conv = { 1, 1, 0, 0, 0, 0, 1 }, .eps = 1e-5f, .act = act };
    else attr->norm = (BatchNormAttr){ 1e-5f, 0.1f, BN_TRAIN, act, 0 };
    for (int i = 0; i < op_inputs(def); i++) {
        const char *name = def->in_names[i];
        const bool image = strchr("xyd", name[0]) != NULL;
        if (strcmp(name, "dy2?") == 0 || strcmp(name, "sums?") == 0) continue;
        if ((strcmp(name, "y?") == 0 || strcmp(name, "residual?") == 0) && !residual) continue;
        op.in[i].desc = image || name[0] == 'r' ? x : vector;
        if (strncmp(name, "running", 7) == 0) op.in[i].desc = vector;
        if (strcmp(name, "saved") == 0) op.in[i].desc = saved;
        if (strcmp(name, "w") == 0) op.in[i].desc = w;
    }
    return op;
}

/* Inference and, where the backend has the op, preparation: both go well, or the first says no by
 * the activation's name. */
static void check_op(Backend *b, OpKind kind, ActKind act, bool residual, bool may_refuse)
{
    Attr attr;
    OpInstance op = instance(b, kind, act, residual, &attr);
    const OpDef *def = op_def(kind);
    const TensorDesc *in[OP_MAX_INPUTS];
    TensorDesc out[OP_MAX_OUTPUTS] = { { .rank = 0 } };
    bool wanted[OP_MAX_OUTPUTS] = { false };
    for (int i = 0; i < OP_MAX_INPUTS; i++) in[i] = op.in[i].desc.rank ? &op.in[i].desc : NULL;
    for (int i = 0; i < op_outputs(def); i++)
        wanted[i] = residual || strcmp(def->out_names[i], "dresidual?") != 0;
    if (op_infer(kind, &attr, in, wanted, out) != OK) {
        CHECK(may_refuse);
        CHECK_CONTAINS(status_message(), op_act(act)->name);
        return;
    }
    for (int i = 0; i < op_outputs(def); i++) op.out[i].desc = out[i];
    if (!b->v->ops[kind]) return;
    for (int i = 0; i < OP_MAX_INPUTS && b->v->device == NULL; i++) /* made by earlier nodes */
        if (op.in[i].desc.rank != 0 && strchr("xydr", def->in_names[i][0]))
            op.in[i].bytes =
                tensor_plain_bytes(&op.in[i].desc) * (strcmp(b->v->name, "ref") ? 1 : 2);
    CHECK_OK(backend_prepare_op(&op));
    backend_release_op(&op);
}

static void check_backend(Backend *b)
{
    static const OpKind normed[] = { OP_BATCHNORM, OP_BATCHNORM_BWD, OP_BN_BWD_SUMS, OP_BN_APPLY,
                                     OP_CONV2D_BN };
    for (int a = 0; a < ACT_COUNT; a++) {
        const ActKind act = (ActKind)a;
        check_op(b, OP_ACTIVATION, act, false, false);
        check_op(b, OP_ACTIVATION_BWD, act, false, false);
        for (size_t i = 0; i < sizeof normed / sizeof normed[0]; i++) {
            const bool taken =
                normed[i] == OP_CONV2D_BN ? op_act(act)->folded : op_act(act)->normed;
            check_op(b, normed[i], act, false, !taken);
            check_op(b, normed[i], act, true, !taken || !op_act(act)->by_sign);
        }
    }
    backend_destroy(b);
}

TEST(reference_takes_each_or_names_it)
{
    Backend *b;
    REQUIRE_OK(backend_ref_create(&b));
    check_backend(b);
}

TEST(cpu_takes_each_or_names_it)
{
    Backend *b;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    check_backend(b);
}

TEST(cuda_takes_each_or_names_it)
{
    Backend *b;
    if (!cuda_is_there()) return;
    REQUIRE_OK(backend_cuda_create(&b, &(CudaOptions){ .precision = PRECISION_FP32 }));
    check_backend(b);
}

/* Seconds of the fastest of twelve calls, on one thread, of values that lie in the cache; infinity
 * where the op is refused. */
static double fastest(Backend *b, OpKind kind, ActKind act)
{
    enum { COUNT = 32768, CALLS = 12 };
    static float values[3][COUNT];
    const TensorDesc x = tensor_desc(DTYPE_F32, 4, (int64_t[]){ 1, 32, 32, 32 });
    ActivationAttr attr = { .act = act };
    OpInstance op = { .kind = kind, .backend = b, .attr = &attr };
    const int inputs = op_inputs(op_def(kind));
    double best = INFINITY;
    for (int i = 0; i < COUNT; i++) values[0][i] = values[1][i] = (float)(i % 41 - 20) / 4;
    for (int i = 0; i <= inputs; i++) {
        OpTensor *t = i < inputs ? &op.in[i] : &op.out[0];
        *t = (OpTensor){ .desc = x, .bytes = sizeof values[0], .data = values[i] };
    }
    if (backend_prepare_op(&op) != OK) return INFINITY;
    for (int i = 0; i < CALLS; i++) {
        const double start = clock_s();
        CHECK_OK(b->v->ops[kind]->run(&op, NULL));
        const double took = clock_s() - start;
        best = took < best ? took : best;
    }
    backend_release_op(&op);
    return best;
}

/* A loop that gcc makes no vector code of takes 12 times SiLU's; one vector code takes 1 to 3. */
TEST(none_is_slow_on_the_cpu)
{
    Backend *b;
    REQUIRE_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    const double silu = fastest(b, OP_ACTIVATION, ACT_SILU);
    for (int act = 0; act < ACT_COUNT; act++) {
        CHECK(fastest(b, OP_ACTIVATION, (ActKind)act) < 6 * silu);
        CHECK(fastest(b, OP_ACTIVATION_BWD, (ActKind)act) < 6 * silu);
    }
    backend_destroy(b);
}

/* ---- ONNX: the exported nodes, worked out for one number ---- */

enum { MAX_VALUES = 64, FIELD_GRAPH = 7, FIELD_NODE = 1, FIELD_INITIALIZER = 5 };

typedef struct Text {
    const uint8_t *at, *end;
} Text;
typedef struct Values {
    Text name[MAX_VALUES];
    double value[MAX_VALUES];
    int count;
} Values;

static uint64_t take_varint(Text *t)
{
    uint64_t value = 0;
    for (int shift = 0; t->at < t->end; shift += 7) {
        value |= (uint64_t)(*t->at & 127) << shift;
        if (*t->at++ < 128) break;
    }
    return value;
}

/* The next field's number; its bytes, if it has a length, go to out. 0: none left. */
static int take_field(Text *t, Text *out)
{
    if (t->at >= t->end) return 0;
    const uint64_t key = take_varint(t);
    *out = (Text){ t->at, t->at };
    if ((key & 7) == 0) (void)take_varint(t);
    else if ((key & 7) == 5) t->at += 4;
    else {
        const uint64_t bytes = take_varint(t);
        *out = (Text){ t->at, t->at + bytes };
        t->at += bytes;
    }
    return (int)(key >> 3);
}

static bool is_text(Text t, const char *word)
{
    const size_t n = (size_t)(t.end - t.at);
    return n == strlen(word) && memcmp(t.at, word, n) == 0;
}

static const double *find_value(const Values *v, Text name)
{
    for (int i = 0; i < v->count; i++)
        if (v->name[i].end - v->name[i].at == name.end - name.at &&
            memcmp(v->name[i].at, name.at, (size_t)(name.end - name.at)) == 0)
            return &v->value[i];
    return NULL;
}

static void set_value(Values *v, Text name, double value)
{
    REQUIRE(v->count < MAX_VALUES);
    v->name[v->count] = name;
    v->value[v->count++] = value;
}

static void take_initializer(Values *v, Text t)
{
    Text field, name = { NULL, NULL }, raw = { NULL, NULL };
    for (int number; (number = take_field(&t, &field));) {
        if (number == 8) name = field;
        if (number == 9) raw = field;
    }
    float value;
    if (raw.end - raw.at != sizeof value) return; /* weights */
    memcpy(&value, raw.at, sizeof value);
    set_value(v, name, (double)value);
}

static double apply_node(Text type, double a, double b)
{
    if (is_text(type, "Identity")) return a;
    if (is_text(type, "Relu")) return a > 0 ? a : 0;
    if (is_text(type, "Sigmoid")) return 1 / (1 + exp(-a));
    if (is_text(type, "Erf")) return erf(a);
    if (is_text(type, "Tanh")) return tanh(a);
    if (is_text(type, "Mul")) return a * b;
    if (is_text(type, "Add")) return a + b;
    if (is_text(type, "Min")) return fmin(a, b);
    if (is_text(type, "HardSigmoid")) return fmin(fmax(a / 6 + 0.5, 0), 1);
    CHECK(!"a known node");
    return 0;
}

/* Works a node out if its inputs are known. False at the pooling behind the activation, whose input
 * is then in *y. */
static bool take_node(Values *v, Text t, double *y)
{
    Text field, type = { NULL, NULL }, output = { NULL, NULL };
    const double *in[2] = { NULL, NULL };
    int inputs = 0;
    for (int number; (number = take_field(&t, &field));) {
        if (number == 1 && inputs < 2) in[inputs++] = find_value(v, field);
        if (number == 2) output = field;
        if (number == 4) type = field;
    }
    CHECK(in[0] && (inputs < 2 || in[1]));
    if (!in[0] || (inputs == 2 && !in[1])) return false;
    *y = *in[0];
    if (is_text(type, "GlobalAveragePool")) return false;
    set_value(v, output, apply_node(type, *in[0], inputs < 2 ? 0 : *in[1]));
    return true;
}

/* What the exported network makes of images that are all x, in front of its pooling. */
static double evaluate_file(Text file, double x)
{
    static const uint8_t images[] = "images";
    Values v = { .count = 0 };
    Text graph, field;
    double y = NAN;
    while (take_field(&file, &graph) != FIELD_GRAPH && file.at < file.end) continue;
    Text nodes = graph;
    for (int number; (number = take_field(&graph, &field));)
        if (number == FIELD_INITIALIZER) take_initializer(&v, field);
    set_value(&v, (Text){ images, images + sizeof images - 1 }, x);
    while (take_field(&nodes, &field) == FIELD_NODE && take_node(&v, field, &y)) continue;
    return y;
}

/* images - activation - pooling: no weights, so no file of them. */
static void check_export(ActKind act)
{
    GraphOptions o = { .batch = 1, .channels = 1, .height = 1, .width = 1, .classes = 1 };
    Config *config = NULL;
    char path[1200];
    uint8_t *data;
    size_t bytes;
    o.std[0] = 1;
    REQUIRE_OK(config_load(&config, NULL, NULL, 0));
    CheckpointModel m = { .def = model_find("mlp"), .config = config, .classes = 1 };
    REQUIRE_OK(graph_create(&m.graph));
    graph_set_options(m.graph, &o);
    const TensorId y = graph_activation(m.graph, "act", graph_images(m.graph, &o), act);
    graph_softmax_xent(m.graph, graph_global_avgpool(m.graph, "pool", y));
    snprintf(path, sizeof path, "%s/act.onnx", test_scratch());
    REQUIRE_OK(onnx_export(&m, path, false));
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    for (double x = -6; x <= 6; x += 0.375)
        CHECK_NEAR(evaluate_file((Text){ data, data + bytes }, x), ref_activate(act, x), 1e-6);
    mem_free(data);
    graph_destroy(m.graph);
    config_destroy(config);
}

TEST(onnx_has_each)
{
    for (int act = 0; act < ACT_COUNT; act++) check_export((ActKind)act);
}

/* ---- networks: backward reads what the derivative needs ---- */

TEST(backward_reads_what_the_slope_needs)
{
    for (int act = 0; act < ACT_COUNT; act++) {
        GraphOptions o = {
            .batch = 2, .channels = 1, .height = 1, .width = 1, .classes = 2, .training = true
        };
        Graph *g;
        o.std[0] = 1;
        REQUIRE_OK(graph_create(&g));
        graph_set_options(g, &o);
        const TensorId x = graph_linear(g, "fc", graph_images(g, &o), 2),
                       y = graph_activation(g, "act", x, (ActKind)act);
        graph_softmax_xent(g, y);
        REQUIRE_OK(graph_append_backward(g));
        for (int i = 0; i < graph_node_count(g); i++)
            if (graph_node(g, i)->kind == OP_ACTIVATION_BWD)
                CHECK_INT(graph_node(g, i)->in[ACTIVATION_BWD_IN_Y],
                          op_act((ActKind)act)->by_sign ? y : x);
        graph_destroy(g);
    }
}
