/* first_weights.c - see first_weights.h. */
#include "trainer/engine/train/first_weights.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/whiten.h"
#include "trainer/engine/files/checkpoint.h"
#include "trainer/engine/files/learnt.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/files/weights.h"
#include "trainer/engine/session/augment_options.h"

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
        log_info("%s: initialised to whiten the patches of %lld training images",
                 executor_state_name(s->executor, index), (long long)m.images);
    whiten_destroy(m.whiten);
    mem_free(filters);
    return status == OK ? OK : fail_note(status, "%s", s->config->data.train);
}

/* The row there of each class here, as far as both are known. */
static Status match_rows(HeadRows *rows, ClassesBy *by, const Session *s, const ClassList *theirs)
{
    const ClassList own = dataset_class_list(s->train, "data.train");
    const Status status = class_list_match(rows->from, by, &own, theirs);
    bool same = status == OK && own.count == theirs->count;
    const bool unlike = !same && *by == CLASSES_BY_PLACE;
    for (int c = 0; same && c < own.count; c++) same = rows->from[c] == c;
    /* rows of classes that no set has (model.classes) stay those of the same network */
    for (int64_t c = unlike ? 0 : own.count; c < s->classes && !same; c++) rows->from[c] = -1;
    return status;
}

static void say(const HeadRows *rows, ClassesBy by, const Session *s, const char *path)
{
    static const char *const ways[] = { [CLASSES_BY_NUMBER] = "number",
                                        [CLASSES_BY_NAME] = "name",
                                        [CLASSES_BY_PLACE] =
                                            "position, because only one side has names" };
    const bool other_number = rows->there != s->classes;
    bool same = !rows->known || (!other_number && by != CLASSES_BY_PLACE);
    for (int64_t c = 0; rows->known && c < s->classes; c++) same = same && rows->from[c] == c;
    const ClassList own = dataset_class_list(s->train, "data.train");
    if (!rows->known && rows->taken > 0) class_list_tell_order(&own, path);
    if (!rows->known && rows->taken > 0 && dataset_named_classes(s->train) &&
        dataset_classes(s->train) < s->classes)
        log_warning("%s: its %lld classes have no names, the %d of data.train have; they are "
                    "matched by position, which is wrong after the first one missing in data.train",
                    path, (long long)s->classes, dataset_classes(s->train));
    if (rows->fresh.length > 0)
        log_info("weights from %s; layers that it does not have start from scratch: %s", path,
                 rows->fresh.text);
    else if (rows->taken == 0)
        log_info("weights from %s; the last layer, which has %s, starts from scratch", path,
                 other_number ? "another number of classes" : "other classes");
    else if (same) log_info("weights from %s", path);
    else
        log_info("weights from %s; in the last layer %d classes are matched by %s, %lld start from "
                 "scratch",
                 path, rows->taken, ways[by], (long long)s->classes - rows->taken);
}

/* Whether a file's classes are words, or this network's are: then they are the dictionary's, which
 * is the same, or a head of another task's. */
static bool same_words(const Session *s, const SafeFile *file)
{
    const char *words = safetensors_metadata(file, "words");
    return config_is_masked(s->config) || (config_is_text(s->config) && (!words || !words[0]));
}

static Status restore_from(const Session *s, SafeFile *file, const char *path)
{
    const Graph *g = program_graph(s->first);
    const ModelDef *def = model_find(s->config->model.name);
    Learnt learnt;
    const size_t classes = (size_t)s->classes;
    HeadRows rows = { .from = mem_alloc(classes * sizeof *rows.from) };
    ClassesBy by = CLASSES_UNKNOWN;
    Status status = learnt_open(&learnt, file, path);
    if (!rows.from) status = ERR_MEMORY;
    if (status == OK) status = learnt_check_words(&learnt, s->train);
    rows.known = learnt.names && !same_words(s, file);
    for (size_t c = 0; rows.from && c < classes; c++) rows.from[c] = (int)c;
    if (status == OK && rows.known) status = match_rows(&rows, &by, s, &learnt.list);
    if (status == OK) status = weights_narrow(file, g, def, s->config->model.init_weights, path);
    if (status == OK) status = weights_restore(s->executor, g, def, file, path, &rows);
    if (status == OK) say(&rows, by, s, path);
    learnt_close(&learnt);
    str_free(&rows.fresh);
    mem_free(rows.from);
    return status;
}

static Status restore(const Session *s, const char *word)
{
    SafeFile *file = NULL;
    CheckpointMeta meta;
    char *path = NULL;
    if (!fs_exists(word))
        return fail(ERR_DATA,
                    "model.init: %s does not exist; it takes a .safetensors or .pth file or "
                    "the folder of a run, and downloads nothing",
                    word);
    Status status = run_source_checkpoint(&path, word);
    if (status == OK) status = weights_open(&file, path);
    if (status == OK && weights_are_checkpoint(file)) {
        safetensors_close(file);
        status = checkpoint_open(&file, &meta, path);
    }
    if (status == OK) status = restore_from(s, file, path);
    safetensors_close(file);
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
