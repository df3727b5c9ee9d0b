/* test_teacher.c - a teacher within its student's graph: where it stands and what it leaves alone,
 * that it says what its own evaluation says, and what the student's step makes of that. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include "tests/tools/plan_check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 4, SIZE = 64, CLASSES = 10 };
static const double temperature = 3, weight = 0.6, smoothing = 0.1;

/* Its statistics stand still, so that its evaluation has the logits of its step. */
static ModelOptions student_options(const Graph *teacher)
{
    ModelOptions o = network_narrow(BATCH, SIZE);
    o.graph.bn_frozen = true;
    o.graph.distill_temperature = (float)temperature;
    o.graph.distill_weight = (float)weight;
    o.teacher = teacher;
    return o;
}

/* Of other images than the student's. */
static ModelOptions teacher_options(void)
{
    ModelOptions o = network_narrow(BATCH, SIZE);
    o.graph.training = false;
    for (int i = 0; i < 3; i++) {
        o.graph.mean[i] = 0.3F + 0.1F * (float)i;
        o.graph.std[i] = 0.5F;
    }
    return o;
}

static Graph *build_teacher(const char *name)
{
    Graph *g = NULL;
    const ModelOptions o = teacher_options();
    CHECK_OK(model_build(&g, model_find(name), &o));
    return g;
}

TEST(a_teacher_stands_before_its_student)
{
    Graph *teacher = build_teacher("resnet50"), *g = NULL, *alone = NULL;
    ModelOptions o = student_options(teacher), without = student_options(NULL);
    REQUIRE(teacher);
    REQUIRE_OK(model_build(&g, model_find("resnet18"), &o));
    REQUIRE_OK(model_build(&alone, model_find("resnet18"), &without));
    const int added = graph_node_count(teacher) - 1; /* all but its loss */
    CHECK_INT(graph_node_count(g), graph_node_count(alone) + added);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        CHECK(n->teacher == (i < added));
        CHECK(n->teacher == (strncmp(n->name, "teacher.", 8) == 0));
        if (n->kind == OP_SOFTMAX_XENT)
            CHECK_INT(graph_node(g, added - 1)->out[0], n->in[XENT_IN_TEACHER]);
    }
    int learnt = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        learnt += t->role == ROLE_TEACHER;
        CHECK(t->role != ROLE_TEACHER || t->grad == TENSOR_NONE);
        if (t->role == ROLE_PARAM) CHECK(strncmp(t->name, "teacher.", 8) != 0);
    }
    CHECK_INT(learnt, 161 + 2 * 53); /* parameters and statistics of a ResNet-50 */
    CHECK_INT(graph_parameter_elements(g), graph_parameter_elements(alone));
    CHECK(graph_find(g, "teacher.layer1.0.conv1.weight") != TENSOR_NONE);
    graph_check_order(g);
    graph_destroy(g);
    graph_destroy(alone);
    graph_destroy(teacher);
}

TEST(other_classes_are_refused)
{
    Graph *teacher = NULL, *g = NULL;
    ModelOptions its = teacher_options();
    its.graph.classes = CLASSES + 1;
    REQUIRE_OK(model_build(&teacher, model_find("resnet18"), &its));
    const ModelOptions o = student_options(teacher);
    CHECK_STATUS(model_build(&g, model_find("resnet18"), &o), ERR_INTERNAL);
    graph_destroy(teacher);
}

/* ---- what they compute ---- */

/* Gives the teacher in n the weights of its own evaluation. */
static void copy_teacher(const Network *n, const Network *own)
{
    char name[160];
    for (int i = 0; i < executor_state_count(own->executor); i++) {
        snprintf(name, sizeof name, "teacher.%s", executor_state_name(own->executor, i));
        const TensorId id = graph_find(program_graph(n->program), name);
        REQUIRE(id != TENSOR_NONE);
        const OpTensor *to = program_tensor(n->program, id);
        float *values = mem_alloc(tensor_plain_bytes(&to->desc));
        REQUIRE(values);
        CHECK_OK(executor_export_state(own->executor, i, values));
        CHECK_OK(n->backend->v->import_tensor(n->backend, to, values));
        mem_free(values);
    }
    CHECK_OK(executor_params_changed(n->executor));
}

static void open_pair(Network *n, Network *own, NetworkBackend backend, const char *teacher,
                      Recompute recompute)
{
    const ModelOptions its = teacher_options();
    Graph *g = build_teacher(teacher);
    REQUIRE(g);
    const ModelOptions o = student_options(g);
    REQUIRE_OK(network_open_recompute(n, backend, "resnet18", &o, recompute));
    graph_destroy(g);
    REQUIRE_OK(network_open(own, backend, teacher, &its));
    REQUIRE_OK(network_fill(n));
    REQUIRE_OK(network_fill(own));
    copy_teacher(n, own);
    CHECK_OK(plan_check(program_plan(n->program), program_graph(n->program)));
}

static double *logits_of(Network *n)
{
    double *out = NULL;
    int64_t count = 0;
    CHECK_OK(network_run(n, 1, NULL));
    CHECK_OK(network_read(n, graph_logits(program_graph(n->program)), &out, &count));
    CHECK_INT((int)count, BATCH * CLASSES);
    return out;
}

/* log_p: the logarithms of the softmax of the logits divided by t. */
static void soften(const double *logits, double t, double log_p[CLASSES])
{
    double most = logits[0], sum = 0;
    for (int k = 1; k < CLASSES; k++) most = fmax(most, logits[k]);
    for (int k = 0; k < CLASSES; k++) sum += exp((logits[k] - most) / t);
    for (int k = 0; k < CLASSES; k++) log_p[k] = (logits[k] - most) / t - log(sum);
}

/* The loss of all images, and the sum over them of its derivative by each logit. */
static double expected(const double *student, const double *teacher, const int32_t *labels,
                       double slopes[CLASSES])
{
    double loss = 0;
    for (int n = 0; n < BATCH; n++) {
        double hard[CLASSES], soft[CLASSES], wanted[CLASSES];
        soften(student + n * CLASSES, 1, hard);
        soften(student + n * CLASSES, temperature, soft);
        soften(teacher + n * CLASSES, temperature, wanted);
        for (int k = 0; k < CLASSES; k++) {
            const double target = (k == labels[n]) * (1 - smoothing) + smoothing / CLASSES;
            loss -= (1 - weight) * target * hard[k];
            loss += weight * temperature * temperature * exp(wanted[k]) * (wanted[k] - soft[k]);
            slopes[k] += (1 - weight) * (exp(hard[k]) - target) +
                         weight * temperature * (exp(soft[k]) - exp(wanted[k]));
        }
    }
    return loss;
}

static void check_step(NetworkBackend backend, const char *teacher, double within)
{
    Network n, own, alone;
    ModelOptions o = student_options(NULL);
    double slopes[CLASSES] = { 0 }, loss = 0, *bias = NULL;
    int64_t count = 0;
    o.graph.training = o.graph.bn_frozen = false;
    open_pair(&n, &own, backend, teacher, RECOMPUTE_NONE);
    REQUIRE_OK(network_open(&alone, backend, "resnet18", &o));
    REQUIRE_OK(network_fill(&alone));
    double *student = logits_of(&alone), *its = logits_of(&own);
    const double want = expected(student, its, n.labels, slopes);
    CHECK_OK(network_run(&n, 1, &loss));
    CHECK_NEAR(loss, want, within * want);
    const Graph *g = program_graph(n.program);
    CHECK_OK(network_read(&n, graph_tensor(g, graph_find(g, "fc.bias"))->grad, &bias, &count));
    for (int k = 0; k < count; k++) CHECK_NEAR(bias[k], slopes[k], within * 4);
    if (backend == NETWORK_CPU_FUSED) CHECK(graph_count_kind(g, OP_CONV2D_BN) > 0);
    mem_free(bias);
    mem_free(student);
    mem_free(its);
    network_close(&alone);
    network_close(&own);
    network_close(&n);
}

TEST(the_loss_is_of_both_networks_evaluations)
{
    check_step(NETWORK_REF, "resnet18", 1e-6);
    check_step(NETWORK_CPU, "resnet50", 1e-5);
    check_step(NETWORK_CPU_FUSED, "resnet50", 1e-5);
    check_step(NETWORK_CPU, "mobilenet_v3_small", 1e-5);
    check_step(NETWORK_CPU_BF16, "resnet50", 0.05);
}

TEST(the_loss_is_of_both_networks_evaluations_on_cuda)
{
    if (!cuda_is_there()) return;
    check_step(NETWORK_CUDA_FP32, "resnet18", 1e-5);
    check_step(NETWORK_CUDA_BF16_FUSED, "resnet18", 0.05);
}

/* What is made again has the same bits, and the teacher is no part of it. */
TEST(recomputing_leaves_the_teacher_alone)
{
    Network n[RECOMPUTE_COUNT], own;
    size_t activations[RECOMPUTE_COUNT];
    for (int how = 0; how < RECOMPUTE_COUNT; how++) {
        open_pair(&n[how], &own, NETWORK_CPU, "resnet18", (Recompute)how);
        network_close(&own);
        CHECK_OK(network_run(&n[how], 1, NULL));
        activations[how] = executor_slab_bytes(n[how].executor, SLAB_ACTIVATION);
        const size_t bytes = executor_slab_bytes(n[0].executor, SLAB_GRAD);
        CHECK(memcmp(executor_slab(n[how].executor, SLAB_GRAD),
                     executor_slab(n[0].executor, SLAB_GRAD), bytes) == 0);
        const Graph *g = program_graph(n[how].program);
        for (int i = 0; i < graph_node_count(g); i++)
            CHECK(!(graph_node(g, i)->again && graph_node(g, i)->teacher));
    }
    CHECK(activations[RECOMPUTE_BLOCKS] < activations[RECOMPUTE_NONE] * 8 / 10);
    for (int how = 0; how < RECOMPUTE_COUNT; how++) network_close(&n[how]);
}

/* A teacher no larger than its student takes room for its logits alone. */
TEST(its_activations_lie_where_the_students_will)
{
    Network n, own, alone;
    const ModelOptions o = student_options(NULL);
    open_pair(&n, &own, NETWORK_CPU, "resnet18", RECOMPUTE_NONE);
    REQUIRE_OK(network_open(&alone, NETWORK_CPU, "resnet18", &o));
    CHECK(executor_slab_bytes(n.executor, SLAB_ACTIVATION) <=
          executor_slab_bytes(alone.executor, SLAB_ACTIVATION) + 4096);
    CHECK_INT((long long)executor_slab_bytes(n.executor, SLAB_PARAM),
              (long long)executor_slab_bytes(alone.executor, SLAB_PARAM));
    CHECK_INT((long long)executor_slab_bytes(n.executor, SLAB_TEACHER),
              (long long)(executor_slab_bytes(own.executor, SLAB_PARAM) +
                          executor_slab_bytes(own.executor, SLAB_BUFFER)));
    network_close(&alone);
    network_close(&own);
    network_close(&n);
}
