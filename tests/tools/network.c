/* network.c - see network.h. */
#include "tests/tools/network.h"
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include <math.h>
#include <string.h>

#define IMAGE_STREAM 1000003u

double network_uniform(uint32_t stream, uint32_t index)
{
    uint32_t z = index + stream * 2654435761u;
    z ^= z >> 16;
    z *= 0x85ebca6bu;
    z ^= z >> 13;
    z *= 0xc2b2ae35u;
    z ^= z >> 16;
    return (double)z / 4294967296.0;
}

uint32_t network_stream(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

ModelOptions network_narrow(int64_t batch, int64_t size)
{
    ModelOptions o = { .width = 0.125 };
    o.graph = (GraphOptions){ .batch = batch,
                              .channels = 3,
                              .height = size,
                              .width = size,
                              .classes = 10,
                              .training = true,
                              .label_smoothing = 0.1f,
                              .mean = { 0.485f, 0.456f, 0.406f },
                              .std = { 0.229f, 0.224f, 0.225f } };
    return o;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static double formula(const TensorDesc *desc, const char *name, double gamma, double u)
{
    const int64_t *d = desc->dims;
    if (desc->rank == 4) return (2 * u - 1) * sqrt(6.0 / (double)(d[1] * d[2] * d[3]));
    if (desc->rank == 2) return (2 * u - 1) * sqrt(3.0 / (double)d[1]);
    if (ends_with(name, "running_var")) return 0.5 + u;
    if (ends_with(name, "weight")) return gamma * (0.5 + u);
    return 0.2 * u - 0.1;
}

float network_value(const TensorDesc *desc, const char *name, double gamma, int64_t index)
{
    return (float)formula(desc, name, gamma,
                          network_uniform(network_stream(name), (uint32_t)index));
}

/* State index of a tensor name; the executor's order is that of backward, the formula's is that of
 * the graph. */
static int state_index(const Executor *x, const char *name)
{
    for (int i = 0; i < executor_state_count(x); i++) {
        if (strcmp(executor_state_name(x, i), name) == 0) return i;
    }
    return -1;
}

Status network_fill(Network *n)
{
    return network_fill_gamma(n, 1);
}

Status network_fill_gamma(Network *n, double gamma)
{
    const Graph *g = program_graph(n->program);
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        int64_t count = tensor_elements(&t->desc);
        uint32_t stream = network_stream(t->name);
        float *values = mem_alloc((size_t)count * sizeof *values);
        if (!values) return ERR_MEMORY;
        for (int64_t i = 0; i < count; i++)
            values[i] =
                (float)formula(&t->desc, t->name, gamma, network_uniform(stream, (uint32_t)i));
        Status status =
            executor_import_state(n->executor, state_index(n->executor, t->name), values);
        mem_free(values);
        TRY(status);
    }
    return OK;
}

/* Makes an input of the program from host memory, which a device gets a copy of. */
static Status place(Network *n, const char *name, const void *data)
{
    const Graph *g = program_graph(n->program);
    if (!n->backend->v->device) return program_set_input(n->program, name, data);
    void **copy = &n->copies[n->copy_count++];
    OpTensor t = *program_tensor(n->program, graph_input(g, name));
    TRY(n->backend->v->alloc(n->backend, t.bytes, copy));
    t.data = *copy;
    TRY(n->backend->v->import_tensor(n->backend, &t, data));
    return program_set_input(n->program, name, *copy);
}

static int64_t pixel_count(const GraphOptions *o)
{
    return o->batch * o->height * o->width * o->channels;
}

void network_draw_images(Network *n, uint32_t stream)
{
    const int64_t pixels = pixel_count(&n->options.graph);
    for (int64_t i = 0; i < pixels; i++)
        n->images[i] = (uint8_t)floor(network_uniform(stream, (uint32_t)i) * 256);
}

static Status place_text(Network *n, const char *name, const int32_t *data)
{
    return graph_input(program_graph(n->program), name) == TENSOR_NONE ? OK : place(n, name, data);
}

/* Id i stands at place 7 i + 3, in a ring of all places. */
static Status make_text(Network *n)
{
    const GraphOptions *o = &n->options.graph;
    const int64_t places = o->batch * o->tokens;
    n->text = mem_alloc((size_t)(5 * places + o->batch + 1 + o->masked) * sizeof *n->text);
    if (!n->text) return ERR_MEMORY;
    int32_t *ids = n->text, *where = ids + places, *order = where + 2 * places,
            *segments = order + places, *starts = segments + places, *rows = starts + o->batch + 1;
    for (int64_t i = 0; i < places; i++) {
        order[i] = (int32_t)((7 * i + 3) % places);
        ids[order[i]] = (int32_t)(i * (o->words < places ? o->words : places) / places);
        where[2 * i] = (int32_t)(i / o->tokens);
        where[2 * i + 1] = (int32_t)(i % o->tokens);
        segments[i] = where[2 * i + 1] >= o->tokens / 2;
    }
    for (int64_t i = 0; i <= o->batch; i++) starts[i] = (int32_t)(i * o->tokens);
    for (int64_t i = 0; i < o->masked; i++) rows[i] = (int32_t)(i * places / o->masked);
    TRY(place_text(n, "ids", ids));
    TRY(place_text(n, "where", where));
    TRY(place_text(n, "order", order));
    TRY(place_text(n, "segments", segments));
    TRY(place_text(n, "starts", starts));
    return place_text(n, "rows", rows);
}

static Status make_images(Network *n)
{
    n->images = mem_alloc((size_t)pixel_count(&n->options.graph));
    if (!n->images) return ERR_MEMORY;
    network_draw_images(n, IMAGE_STREAM);
    return place(n, "images", n->images);
}

static Status make_inputs(Network *n)
{
    const GraphOptions *o = &n->options.graph;
    const int64_t count = o->masked ? o->masked : o->batch;
    n->labels = mem_alloc((size_t)count * sizeof *n->labels);
    if (!n->labels) return ERR_MEMORY;
    for (int64_t i = 0; i < count; i++) n->labels[i] = (int32_t)((7 * i + 3) % o->classes);
    TRY(place(n, "labels", n->labels));
    return o->tokens ? make_text(n) : make_images(n);
}

static Status open_backend(Network *n, NetworkBackend backend)
{
    static const Precision precisions[] = {
        [NETWORK_CUDA_FP32] = PRECISION_FP32,       [NETWORK_CUDA_TF32] = PRECISION_TF32,
        [NETWORK_CUDA_BF16] = PRECISION_BF16,       [NETWORK_CUDA_FP16] = PRECISION_FP16,
        [NETWORK_CUDA_FP16_FUSED] = PRECISION_FP16, [NETWORK_CUDA_FP32_FUSED] = PRECISION_FP32,
        [NETWORK_CUDA_BF16_FUSED] = PRECISION_BF16
    };
    if (backend == NETWORK_REF || backend == NETWORK_REF_FUSED)
        return backend_ref_create(&n->backend);
    if (backend == NETWORK_CPU)
        return backend_cpu_create(&n->backend, &(CpuOptions){ .fuse = FUSE_NONE });
    if (backend == NETWORK_CPU_FUSED)
        return backend_cpu_create(&n->backend, &(CpuOptions){ .fuse = FUSE_ALL });
    if (backend == NETWORK_CPU_BF16)
        return backend_cpu_create(&n->backend,
                                  &(CpuOptions){ .fuse = FUSE_NONE, .precision = PRECISION_BF16 });
    const bool all = backend >= NETWORK_CUDA_FP16_FUSED;
    const CudaOptions o = { .precision = precisions[backend],
                            .fuse = all ? FUSE_ALL : FUSE_NONE,
                            .attention = all ? KERNELS_CUDNN : KERNELS_OWN };
    return backend_cuda_create(&n->backend, &o);
}

Status network_open(Network *n, NetworkBackend backend, const char *model_name,
                    const ModelOptions *o)
{
    return network_open_recompute(n, backend, model_name, o, RECOMPUTE_NONE);
}

Status network_open_recompute(Network *n, NetworkBackend backend, const char *model_name,
                              const ModelOptions *o, Recompute recompute)
{
    *n = (Network){ .options = *o };
    Graph *g = NULL;
    TRY(open_backend(n, backend));
    FuseOptions fuse = { .add_into_batchnorm_bwd = n->backend->v->fusion.add_into_batchnorm_bwd,
                         .takes = backend == NETWORK_REF ? NULL : n->backend->v->fusion.takes,
                         .cookie = n->backend,
                         .recompute = recompute };
    TRY(executor_create(&n->executor, n->backend));
    TRY(model_build(&g, model_find(model_name), o));
    TRY(graph_fuse(g, &fuse));
    TRY(executor_add(n->executor, g, false, &n->program));
    TRY(executor_commit(n->executor));
    return make_inputs(n);
}

void network_close(Network *n)
{
    executor_destroy(n->executor);
    for (int i = 0; i < n->copy_count; i++) n->backend->v->free(n->backend, n->copies[i]);
    backend_destroy(n->backend);
    mem_free(n->images);
    mem_free(n->labels);
    mem_free(n->text);
}

Status network_run(Network *n, float grad_scale, double *loss_sum)
{
    float scalars[SCALAR_COUNT] = { 0 };
    scalars[SCALAR_GRAD_SCALE] = grad_scale;
    TRY(executor_set_record(n->executor, "scalars", scalars));
    TRY(executor_run(n->executor, n->program, NULL));
    if (loss_sum) *loss_sum = program_stats(n->program)[STATS_LOSS_SUM];
    return OK;
}

Status network_read(const Network *n, TensorId id, double **out, int64_t *count)
{
    const OpTensor *t = program_tensor(n->program, id);
    *count = tensor_elements(&t->desc);
    float *values = mem_alloc((size_t)*count * sizeof *values);
    *out = mem_alloc((size_t)*count * sizeof **out);
    if (!values || !*out) return ERR_MEMORY;
    Status status = n->backend->v->export_tensor(n->backend, t, values);
    for (int64_t i = 0; i < *count; i++) (*out)[i] = (double)values[i];
    mem_free(values);
    return status;
}
