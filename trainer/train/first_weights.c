/* first_weights.c - see first_weights.h. */
#include "trainer/train/first_weights.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/whiten.h"
#include "trainer/files/run_source.h"
#include "trainer/files/weights.h"
#include "trainer/session/augment_options.h"

typedef struct Measured {
    Whiten *whiten;
    const GraphOptions *graph;
    int side;
    int64_t images;
} Measured;

/* State of the parameter from index on; -1: none. */
static int next_measured(const Session *s, int index)
{
    for (; index < executor_state_count(s->executor); index++)
        if (executor_state_tensor(s->executor, index)->init == INIT_WHITEN) return index;
    return -1;
}

bool first_weights_needed(const Session *s)
{
    return s->config->model.init[0] || next_measured(s, 0) >= 0;
}

static void take(void *cookie, int64_t index, const uint8_t *pixels)
{
    Measured *m = cookie;
    (void)index;
    whiten_add(m->whiten, pixels, m->side, m->side, m->graph->mean, m->graph->std);
    m->images++;
}

static Status whiten(const Session *s, int index)
{
    const TensorDesc *desc = &executor_state(s->executor, index)->desc;
    const int64_t *d = desc->dims;
    LoaderOptions options = { 0 };
    Measured m = { .graph = graph_options(program_graph(s->first)) };
    float *filters = mem_alloc(tensor_plain_bytes(desc));
    Status status =
        filters ? whiten_create(&m.whiten, (int)d[1], (int)d[2], (int)d[3]) : ERR_MEMORY;
    augment_options_fill(&options, s->config, DATA_VAL);
    m.side = options.view.image_size;
    if (status == OK)
        status = spread_views(s->train, FIRST_WEIGHTS_IMAGES, &options.view, take, &m);
    if (status == OK) status = whiten_filters(m.whiten, filters);
    if (status == OK) status = executor_import_state(s->executor, index, filters);
    if (status == OK)
        log_info("%s: filters that whiten the patches of %lld training images",
                 executor_state_name(s->executor, index), (long long)m.images);
    whiten_destroy(m.whiten);
    mem_free(filters);
    return status == OK ? OK : fail_note(status, "%s", s->config->data.train);
}

static Status restore(const Session *s, const char *word)
{
    SafeFile *file = NULL;
    char *path = NULL;
    bool new_head = false;
    Status status = run_source_checkpoint(&path, word);
    if (status == OK) status = safetensors_open(&file, path);
    if (status == OK)
        status = weights_restore(s->executor, program_graph(s->first),
                                 model_find(s->config->model.name), file, path, true, &new_head);
    safetensors_close(file);
    if (status == OK)
        log_info("weights from %s%s", path,
                 new_head ? "; the last layer, of another number of classes there, starts afresh"
                          : "");
    mem_free(path);
    return status == OK ? OK : fail_note(status, "model.init");
}

Status first_weights_make(const Session *s)
{
    const char *path = s->config->model.init;
    if (path[0]) return restore(s, path);
    for (int i = next_measured(s, 0); i >= 0; i = next_measured(s, i + 1)) TRY(whiten(s, i));
    return OK;
}
