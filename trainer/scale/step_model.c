/* step_model.c - see step_model.h. */
#include "trainer/scale/step_model.h"

#include "base/mem.h"
#include "models/models.h"
#include "trainer/config/progressive.h"
#include "trainer/train/reducer.h"
#include <math.h>

#define CLASSES_DEFAULT 1000

static Status build(Graph **out, const Config *c)
{
    const ModelDef *def = model_find(c->model.name);
    const int64_t size = progressive_image_size(c, progressive_stage_count(c) - 1);
    ModelOptions o = { .stem = (Stem)c->model.stem,
                       .blurpool = (BlurPool)c->model.blurpool,
                       .width = 1,
                       .stochastic_depth = c->model.stochastic_depth,
                       .dropout = c->model.dropout };
    ASSERT(def);
    o.graph = (GraphOptions){ .batch = 1,
                              .channels = c->model.in_channels,
                              .height = size,
                              .width = size,
                              .classes = c->model.classes > 0 ? c->model.classes : CLASSES_DEFAULT,
                              .training = true,
                              .views = 1 };
    for (int i = 0; i < c->model.in_channels; i++) o.graph.std[i] = 1;
    return model_build(out, def, &o);
}

/* Adds the parameters' gradients that node makes. done: FLOPs up to and with it. */
static void add_gradients(StepModel *m, const Graph *g, int node, double done)
{
    const GraphNode *n = graph_node(g, node);
    for (int k = 0; k < OP_MAX_OUTPUTS; k++) {
        const GraphTensor *t = n->out[k] == TENSOR_NONE ? NULL : graph_tensor(g, n->out[k]);
        if (t && t->role == ROLE_GRAD)
            m->gradients[m->count++] =
                (Gradient){ .elements = (double)tensor_elements(&t->desc), .ready = done };
    }
}

static Status list_gradients(StepModel *m, const Graph *g)
{
    double done = 0, total = graph_flops(g, PHASE_FORWARD) + graph_flops(g, PHASE_BACKWARD);
    m->gradients = mem_calloc((size_t)graph_tensor_count(g), sizeof *m->gradients);
    if (!m->gradients) return ERR_MEMORY;
    for (int i = 0; i < graph_node_count(g); i++) {
        done += graph_node_flops(g, i);
        add_gradients(m, g, i, done / total);
    }
    for (int i = 0; i < graph_tensor_count(g); i++)
        if (graph_tensor(g, i)->role == ROLE_BUFFER)
            m->statistics += (double)tensor_elements(&graph_tensor(g, i)->desc);
    return OK;
}

Status step_model_create(StepModel *out, const Config *c)
{
    Graph *g = NULL;
    *out =
        (StepModel){ .bucket_mb = c->comm.bucket_mb, .first_bucket_mb = c->comm.first_bucket_mb };
    TRY(build(&g, c));
    Status status = list_gradients(out, g);
    graph_destroy(g);
    if (status != OK) step_model_destroy(out);
    return status;
}

void step_model_destroy(StepModel *m)
{
    mem_free(m->gradients);
    *m = (StepModel){ 0 };
}

StepTime step_model_predict(const StepModel *m, const Fabric *f, double compute_s, int64_t ranks,
                            double element_bytes)
{
    StepTime t = { .compute_s = compute_s };
    double total = 0, bytes = 0, end_s = 0;
    size_t cap, first_cap;
    for (int i = 0; i < m->count; i++) total += m->gradients[i].elements * sizeof(float);
    reducer_caps((size_t)total, m->bucket_mb, m->first_bucket_mb, &cap, &first_cap);
    for (int i = 0; i < m->count; i++) {
        double size = m->gradients[i].elements * sizeof(float);
        bool last = i + 1 == m->count;
        bytes += size;
        double next = last ? 0 : m->gradients[i + 1].elements * sizeof(float);
        if (!last && bytes + next <= (double)(t.buckets == 0 ? first_cap : cap)) continue;
        double sum_s = fabric_allreduce_s(f, bytes / sizeof(float) * element_bytes, ranks);
        if (last && m->statistics > 0)
            sum_s += fabric_allreduce_s(f, m->statistics * sizeof(float), ranks);
        end_s = fmax(end_s, m->gradients[i].ready * compute_s) + sum_s;
        t.allreduce_s += sum_s;
        t.buckets++;
        bytes = 0;
    }
    t.step_s = fmax(compute_s, end_s);
    t.efficiency = compute_s / t.step_s;
    return t;
}
