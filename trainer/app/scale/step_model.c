/* step_model.c - see step_model.h. */
#include "trainer/app/scale/step_model.h"

#include "base/mem.h"
#include "models/models.h"
#include "trainer/engine/plan/progressive.h"
#include "trainer/engine/train/reducer.h"
#include <math.h>
#include <stdio.h>

static Status build_step_model(Graph **out, const Config *c, const ModelDef *def)
{
    const int64_t size = progressive_image_size(c, progressive_stage_count(c) - 1);
    ModelOptions o = config_model_options(c, size, -1);
    o.graph.training = true;
    o.graph.views = 1;
    return model_build(out, def, &o);
}

/* Adds the parameters' gradients that node makes, or completes, in the order of their slab. done:
 * FLOPs up to and with it. */
static void add_gradients(StepModel *m, const Graph *g, int node, double done)
{
    const GraphNode *n = graph_node(g, node);
    for (int k = 0; k < OP_MAX_OUTPUTS + OP_MAX_INPUTS; k++) {
        const TensorId id = k < OP_MAX_OUTPUTS ? n->out[k] : n->in[k - OP_MAX_OUTPUTS];
        const GraphTensor *t = id == TENSOR_NONE ? NULL : graph_tensor(g, id);
        if (t && t->role == ROLE_GRAD && t->last_writer == node)
            m->gradients[m->count++] =
                (Gradient){ .elements = (double)tensor_elements(&t->desc), .ready = done };
    }
}

static Status list_gradients(StepModel *m, const Graph *g)
{
    double done = 0, total = graph_flops(g, PHASE_FORWARD) + graph_flops(g, PHASE_BACKWARD);
    m->gradients = mem_calloc((size_t)graph_tensor_count(g), sizeof *m->gradients);
    if (!m->gradients) return ERR_MEMORY;
    m->operations = graph_node_count(g);
    for (int i = 0; i < graph_node_count(g); i++) {
        const OpKind kind = graph_node(g, i)->kind;
        if (kind == OP_BATCHNORM || kind == OP_BATCHNORM_BWD) m->norms++;
        done += graph_node_flops(g, i);
        add_gradients(m, g, i, done / total);
    }
    for (int i = 0; i < graph_tensor_count(g); i++)
        if (graph_tensor(g, i)->role == ROLE_BUFFER)
            m->statistics += (double)tensor_elements(&graph_tensor(g, i)->desc);
    return OK;
}

static Status list_network(StepModel *m, const Config *c, const char *network)
{
    const ModelDef *def = model_find(network);
    Config local = *c; /* shares its strings */
    Graph *g FREED_BY(graph_destroy_at) = NULL;
    char name[128], near[MODEL_SUGGESTION_BYTES];
    if (!def) {
        model_suggest(network, near, sizeof near);
        return fail(ERR_USAGE, "unknown network %s%s", network, near);
    }
    snprintf(name, sizeof name, "%s", network);
    local.model.name = name;
    m->tokens = def->text ? c->data.tokens : 0;
    TRY(build_step_model(&g, &local, def));
    Status status = list_gradients(m, g);
    if (c->model.bn != BN_CHOICE_SYNC) m->norms = 0;
    m->norm_ranks = c->model.bn_group;
    return status;
}

Status step_model_create_like(StepModel *out, const Config *c, const char *network)
{
    *out =
        (StepModel){ .bucket_mb = c->comm.bucket_mb, .first_bucket_mb = c->comm.first_bucket_mb };
    Status status = list_network(out, c, network);
    if (status != OK) step_model_destroy(out);
    return status;
}

Status step_model_create(StepModel *out, const Config *c)
{
    return step_model_create_like(out, c, c->model.name);
}

void step_model_destroy(StepModel *m)
{
    mem_free(m->gradients);
    *m = (StepModel){ 0 };
}

bool step_model_next_bucket(const StepModel *m, StepBucket *b)
{
    double total = 0;
    size_t cap, first_cap;
    int i = b->gradients;
    if (i == m->count) return false;
    for (int k = 0; k < m->count; k++) total += m->gradients[k].elements * sizeof(float);
    reducer_caps((size_t)total, m->bucket_mb, m->first_bucket_mb, &cap, &first_cap);
    const double most = (double)(i == 0 ? first_cap : cap) / sizeof(float);
    b->elements = 0;
    do b->elements += m->gradients[i++].elements;
    while (i < m->count && b->elements + m->gradients[i].elements <= most);
    b->ready = m->gradients[i - 1].ready;
    b->gradients = i;
    return true;
}

double step_model_compute_s(const StepModel *m, double images, double images_per_s,
                            double rate_images)
{
    const double fixed_s = m->operations * m->terms.operation_s + m->terms.fixed_s;
    const double rest_s = rate_images / images_per_s - fixed_s;
    return rest_s > 0 ? fixed_s + images * rest_s / rate_images : (double)NAN;
}

/* The largest of n normal deviates, on average (Blom's score of the last one). */
static double normal_maximum(int64_t n)
{
    const double share = ((double)n - 0.375) / ((double)n + 0.25);
    double low = 0, high = 8;
    if (n <= 1) return 0;
    while (high - low > 1e-9) {
        double middle = (low + high) / 2;
        if (0.5 * erfc(-middle / sqrt(2)) < share) low = middle;
        else high = middle;
    }
    return low;
}

/* Seconds for which computation waits for the sums of batch norms over ranks. */
static double norms_s(const StepModel *m, const Fabric *f, int64_t ranks)
{
    const int64_t group = m->norm_ranks > 0 && m->norm_ranks < ranks ? m->norm_ranks : ranks;
    if (m->norms == 0) return 0;
    return m->norms * fabric_allreduce_s(f, 2 * m->statistics * sizeof(float) / m->norms, group);
}

/* Seconds of one sum of all gradients and statistics. */
static double whole_sum_s(const StepModel *m, const Fabric *f, int64_t ranks, double element_bytes)
{
    double bytes = m->statistics * sizeof(float);
    for (int i = 0; i < m->count; i++) bytes += m->gradients[i].elements * element_bytes;
    return fabric_allreduce_s(f, bytes, ranks);
}

/* Sums bucket by bucket, from when each is there; returns when the last one ends. */
static double sum_buckets(const StepModel *m, const Fabric *f, int64_t ranks, double element_bytes,
                          double backward_s, StepTime *t)
{
    StepBucket b = { 0 };
    double end_s = 0;
    while (step_model_next_bucket(m, &b)) {
        double sum_s = fabric_allreduce_s(f, b.elements * element_bytes, ranks);
        if (b.gradients == m->count && m->statistics > 0)
            sum_s += fabric_allreduce_s(f, m->statistics * sizeof(float), ranks);
        end_s = fmax(end_s, b.ready * backward_s) + sum_s;
        t->allreduce_s += sum_s;
        t->buckets++;
    }
    return end_s;
}

StepTime step_model_predict(const StepModel *m, const Fabric *f, double compute_s, int64_t ranks,
                            double element_bytes)
{
    StepTime t = { .compute_s = compute_s };
    const double slowest_s =
        compute_s * (1 + m->terms.spread * normal_maximum(ranks)) + norms_s(m, f, ranks);
    if (m->terms.no_overlap) {
        t.buckets = 1;
        t.allreduce_s = whole_sum_s(m, f, ranks, element_bytes);
        t.step_s = slowest_s + t.allreduce_s;
    } else t.step_s = fmax(slowest_s, sum_buckets(m, f, ranks, element_bytes, slowest_s, &t));
    t.efficiency = compute_s / t.step_s;
    return t;
}
