/* session_open.c - see session_open.h: what must hold before anything is computed, on this rank and
 * between ranks. */
#include "trainer/engine/session/session_open.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/session/announce.h"
#include "trainer/engine/session/bind.h"
#include "trainer/engine/session/class_weights.h"
#include "trainer/engine/session/memory.h"
#include <string.h>

enum { CLASSES_NAMED = 8 }; /* in a warning */

static bool is_set(const char *s)
{
    return s && s[0] != '\0';
}

/* ---- datasets: one scan a run, however many ranks ----
 *
 * Rank 0 opens the dataset, which loads its index or scans, and sends the index to the others; each
 * of them looks whether its own path holds the same data, by the bytes of some samples too. Formats
 * without an index (IDX, CIFAR, synthetic) are opened by each rank by itself. */

/* Where data.index says that indexes are kept; *out NULL for nowhere. mem_free. */
static Status index_place(char **out, const Config *c)
{
    const char *wanted = c->data.index;
    const bool beside = strcmp(wanted, "auto") == 0; /* the runs of a project share it */
    StrBuf place = { 0 };
    *out = NULL;
    if (strcmp(wanted, "off") == 0 || (beside && !c->run.dir[0])) return OK;
    char *run = beside ? fs_place(c->run.dir) : NULL;
    if (run) str_printf(&place, "%.*s/index", (int)(strrchr(run, '/') - run), run);
    else if (!beside) str_add(&place, wanted);
    mem_free(run);
    *out = place.text;
    return place.failed || (beside && !place.text)
               ? fail(ERR_MEMORY, "out of memory naming the index")
               : OK;
}

/* A file named by data.index is the training set's; the validation set's lies beside it under a
 * name of its own. */
static void choose_place(char *place, DataRole role)
{
    if (role == DATA_TRAIN || !place || !str_ends_with_nocase(place, ".index")) return;
    char *slash = strrchr(place, '/');
    if (slash) *slash = '\0';
    else memcpy(place, ".", 2);
}

/* Memory for seek indices: none where nothing would use them. */
static size_t seek_bytes(const Config *c)
{
    bool used = c->data.seek_index == SEEK_AUTO && c->data.decoder == HUFFMAN_FAST;
    return used ? (size_t)c->data.seek_index_mb << 20 : 0;
}

static Status open_here(Dataset **out, const DatasetOptions *o, const char *key)
{
    Status status = dataset_open(out, o);
    return status == OK ? OK : fail_note(status, "%s", key);
}

/* Sends rank 0's index to the others. *bytes 0: the format has none. mem_free(*copy), which is NULL
 * on rank 0. */
static Status share_index(const Dataset *mine, Comm *comm, void **copy, size_t *bytes)
{
    const void *index = mine ? dataset_index(mine, bytes) : NULL;
    int64_t count = (int64_t)*bytes;
    *copy = NULL;
    comm_broadcast(comm, &count, sizeof count, 0, "size of the index");
    *bytes = (size_t)count;
    if (count == 0) return OK;
    /* Rank 0 sends from a copy too: broadcast takes memory that may be written. */
    Status status = (*copy = mem_alloc(*bytes)) ? OK : ERR_MEMORY;
    if (status == OK && index) memcpy(*copy, index, *bytes);
    TRY(comm_agree(comm, status));
    comm_broadcast(comm, *copy, *bytes, 0, "index");
    return OK;
}

static Status open_together(Dataset **out, const DatasetOptions *o, const char *key, Comm *comm)
{
    void *copy = NULL;
    size_t bytes = 0;
    TRY(comm_agree(comm, comm->rank == 0 ? open_here(out, o, key) : OK));
    if (comm->world == 1) return OK;
    Status status = share_index(*out, comm, &copy, &bytes);
    if (status == OK && comm->rank != 0) {
        status = bytes ? dataset_open_by_index(out, o, copy, bytes) : dataset_open(out, o);
        if (status != OK) fail_note(status, "%s", key);
    }
    mem_free(copy);
    return comm_agree(comm, status);
}

/* Whether dir is a folder of folders, such as classes, none of which is train or val. */
static bool has_other_folders(const char *dir)
{
    char **names = NULL;
    int64_t count = 0;
    bool found = false;
    if (!fs_is_dir(dir) || fs_holds(dir, "train") || fs_holds(dir, "val")) return false;
    if (fs_list(dir, &names, &count) != OK) return false;
    for (int64_t i = 0; i < count && !found; i++) {
        char *inner = fs_join(dir, names[i]);
        found = inner && fs_is_dir(inner);
        mem_free(inner);
    }
    mem_free(names);
    return found;
}

/* A set that is not there, beside folders that may be classes: what data.dir=DIR would need. */
static Status advise_split(Status status, const char *path)
{
    char *dir = fs_parent(path), *why = mem_strdup(status_message());
    if (dir && why && !fs_exists(path) && has_other_folders(dir))
        status = fail(status,
                      "%s; if the folders in %s are classes, data.val_split=0.1 holds out a "
                      "tenth of the images for validation",
                      why, dir);
    mem_free(dir);
    mem_free(why);
    return status;
}

/* Of generated data. */
static int synthetic_classes(const Config *c)
{
    if (config_is_masked(c)) return 0;
    return c->model.classes > 0 ? (int)c->model.classes : config_is_text(c) ? 2 : 1000;
}

/* Collective and agreed: all ranks return the same status. like: as DatasetOptions has it, on rank
 * 0 at least. */
static Status open_set(Dataset **out, const Config *c, DataRole role, const ClassList *like,
                       Comm *comm)
{
    const DataRole listed = c->data.val_split > 0 ? DATA_TRAIN : role;
    const char *key = listed == DATA_TRAIN ? "data.train" : "data.val";
    const char *path = listed == DATA_TRAIN ? c->data.train : c->data.val;
    char *place = NULL;
    *out = NULL;
    Status status = OK;
    if (!is_set(path) && c->data.format != DATA_SYNTHETIC)
        status = fail(
            ERR_USAGE, "%s is not set; give data.dir=DIR, a folder %s, or %s=DIR", key,
            config_is_text(c) ? "that fairseq-preprocess wrote" : "with train and val in it", key);
    if (status == OK) status = index_place(&place, c);
    choose_place(place, listed);
    DatasetOptions o = { .path = path,
                         .format = c->data.format,
                         .role = role,
                         .labels = c->data.labels,
                         .class_map = c->data.class_map,
                         /* masked words: the dictionaries are compared */
                         .like = config_is_masked(c) ? NULL : like,
                         .val_split = c->data.val_split,
                         .val_split_seed = (uint64_t)c->data.val_split_seed,
                         .synthetic_images = c->data.synthetic_images,
                         .synthetic_classes = synthetic_classes(c),
                         .index = place,
                         .allow_empty = c->data.allow_empty_classes,
                         .seek_bytes = seek_bytes(c),
                         .text = config_token_options(c) };
    status = comm_agree(comm, status);
    if (status == OK) status = open_together(out, &o, key, comm);
    mem_free(place);
    if (status == OK) return OK;
    dataset_close(*out);
    *out = NULL;
    return status == ERR_DATA && !config_is_text(c) ? advise_split(status, path) : status;
}

/* learnt: classes of the training of a checkpoint; 0: not known; the same on all ranks. */
static Status check_classes(const Session *s, int64_t learnt)
{
    int64_t wanted = s->config->model.classes;
    for (int i = 0; i < 2; i++) {
        const Dataset *d = i == 0 ? s->train : s->val;
        if (d && wanted > 0 && wanted < dataset_classes(d))
            return fail(
                ERR_USAGE,
                "%s has %d classes, but the network has %lld (model.classes), without class %s",
                i == 0 ? "data.train" : "data.val", dataset_classes(d), (long long)wanted,
                dataset_class_name(d, (int)wanted));
    }
    if (!s->val) return OK;
    if (s->train && dataset_classes(s->val) > dataset_classes(s->train) && wanted == 0)
        log_warning("data.val has labels up to %d, but data.train has only %d classes; the others "
                    "are never learnt%s",
                    dataset_classes(s->val) - 1, dataset_classes(s->train),
                    dataset_class_images(s->val, 0) == 0 ? "; do labels start at 1?" : "");
    if (s->train || !dataset_named_classes(s->val)) return OK;
    if (wanted == 0 || wanted == dataset_classes(s->val) || learnt == dataset_classes(s->val))
        return OK;
    return fail(ERR_DATA, "data.val has %d %s, but model.classes is %lld; labels would be wrong",
                dataset_classes(s->val), config_is_text(s->config) ? "classes" : "class folders",
                (long long)wanted);
}

/* A network reads images or text, and of text it has the head that the set is for. */
static Status check_kind(Session *s, const Dataset *d)
{
    const Config *c = s->config;
    const char *key = d == s->train ? "data.train" : "data.val";
    SequenceFacts facts;
    const bool text = sequences_facts(d, &facts);
    if (text != config_is_text(c))
        return fail(ERR_DATA, "%s has %s (%s), but %s (model.name) reads %s", key,
                    text ? "text" : "images", dataset_format_name(d), c->model.name,
                    text ? "images" : "text");
    if (text && facts.classified == config_is_masked(c))
        return fail(ERR_DATA,
                    facts.classified ? "%s has labels, which requires model.head: classify"
                    : d == s->train  ? "%s has no labels; set model.head: mlm"
                                     : "%s has no labels, which model.head: classify requires",
                    key);
    if (text) s->words = facts.dictionary->words;
    if (config_is_masked(c) && c->model.classes > 0 && c->model.classes != s->words)
        return fail(ERR_USAGE, "model.classes is %lld, but the dictionary of %s has %lld words",
                    (long long)c->model.classes, key, (long long)s->words);
    return OK;
}

/* Collective. Which sets there are must not depend on the rank. */
static Status open_sets(Session *s, SessionUse use, const ClassList *learnt)
{
    const Config *c = s->config;
    ClassList own;
    bool has_val = is_set(c->data.val) || c->data.val_split > 0 ||
                   (c->data.format == DATA_SYNTHETIC && use == SESSION_EVAL);
    if (!comm_all_equal(s->comm, has_val))
        return fail(ERR_USAGE, "data.val is set on some ranks only");
    if (use == SESSION_TRAIN) {
        TRY(open_set(&s->train, c, DATA_TRAIN, learnt, s->comm));
        TRY(comm_agree(s->comm, check_kind(s, s->train)));
        own = dataset_class_list(s->train, "data.train");
        own.may_lack = c->data.allow_empty_classes;
        if (!config_is_text(c)) own.remedy = " (data.class_map can exclude it)";
        learnt = &own;
    }
    return use == SESSION_EVAL || has_val ? open_set(&s->val, c, DATA_VAL, learnt, s->comm) : OK;
}

static Status check_words(const Session *s)
{
    SequenceFacts train, val;
    if (!s->train || !s->val || !sequences_facts(s->train, &train) ||
        !sequences_facts(s->val, &val))
        return OK;
    return dictionary_check_like(val.dictionary, train.dictionary);
}

static Status count_classes(Session *s, int64_t learnt)
{
    const Config *c = s->config;
    if (s->val) TRY(check_kind(s, s->val));
    TRY(check_words(s));
    TRY(check_classes(s, learnt));
    s->classes = c->model.classes;
    /* IDX files without the last class know fewer */
    for (int i = 0; c->model.classes == 0 && i < 2; i++) {
        const Dataset *d = i == 0 ? s->train : s->val;
        if (d && dataset_classes(d) > s->classes) s->classes = dataset_classes(d);
    }
    return OK;
}

/* ---- programs ---- */

static Status prepare(Session *s)
{
    TRY(device_open(&s->backend, &s->device, s->config, s->threads.compute));
    Status status = session_add_programs(s);
    if (status == OK && s->comm->rank == 0) announce_programs(s);
    /* Trying convolutions out takes memory too, so a batch far too large may fail before it is
     * planned. */
    return status == ERR_MEMORY && s->device.cuda ? memory_check(s, status) : status;
}

/* ---- the same on all ranks ---- */

/* Parameters and buffers in the order and at the places that they have in their slabs, and how they
 * lie there; gradients lie as parameters. */
static uint32_t print_of_states(const Executor *x, const Backend *b)
{
    uint32_t crc = 0;
    for (int i = 0; i < executor_state_count(x); i++) {
        const char *name = executor_state_name(x, i);
        const uint64_t offset = executor_state_offset(x, i);
        const Layout *layout = executor_state(x, i)->layout;
        const uint32_t key = b->v->layout_key ? b->v->layout_key(layout) : 0;
        crc = crc32c_update(crc32c_update(crc, name, strlen(name) + 1), &offset, sizeof offset);
        crc = crc32c_update(crc, &key, sizeof key);
    }
    return crc;
}

/* Slabs are exchanged as they lie in memory, so all ranks must keep tensors alike. */
static Status check_alike(Session *s)
{
    const Backend *b = s->backend;
    const uint32_t states = print_of_states(s->executor, b),
                   library = b->v->fingerprint ? b->v->fingerprint(b) : 0;
    char text[256];
    if (comm_all_equal(s->comm, (int64_t)((uint64_t)library << 32 | states))) return OK;
    b->v->describe(b, text, sizeof text);
    return fail(
        ERR_ENV,
        "the ranks' processors, GPUs or libraries differ (here: %s); use machines of the same kind",
        text);
}

static uint32_t dataset_key(const Dataset *d)
{
    uint32_t crc = 0;
    size_t bytes = 0;
    if (d && dataset_index(d, &bytes)) return 1; /* all ranks have that of rank 0 */
    for (int64_t i = 0; d && i < dataset_images(d); i++) {
        int32_t label = dataset_label(d, i);
        crc = crc32c_update(crc, &label, sizeof label);
    }
    return crc;
}

/* Labels must be the same on all ranks. */
static Status check_same_data(Session *s)
{
    static const char *const keys[] = { "data.train", "data.val" };
    const Dataset *sets[] = { s->train, s->val };
    Status status = OK;
    for (int i = 0; i < 2; i++) {
        const Dataset *d = sets[i];
        if (!d || comm_all_equal(s->comm, dataset_key(d)) || status != OK) continue;
        status =
            fail(ERR_DATA, "%s: the ranks see different samples (%lld in %d classes on rank %d)",
                 keys[i], (long long)dataset_images(d), dataset_classes(d), s->comm->rank);
    }
    return status;
}

static uint32_t print_of_set(const Dataset *d, const SamplePrint prints[DATASET_PRINTS])
{
    const bool multi = dataset_labels(d, 0) != NULL;
    uint32_t crc = crc32c_update(multi, prints, DATASET_PRINTS * sizeof *prints);
    for (int c = 0; c < dataset_classes(d); c++) {
        const int64_t images = dataset_class_images(d, c);
        crc = crc32c_update(crc, &images, sizeof images);
    }
    return crc;
}

/* Names, sizes of containers and labels are the same by now; what the files hold may not be. */
static Status check_same_samples(Session *s)
{
    SamplePrint mine[DATASET_PRINTS] = { 0 }, first[DATASET_PRINTS];
    for (int i = 0; i < 2; i++) {
        const Dataset *d = i == 0 ? s->train : s->val;
        const bool kept = i == 1 && s->train;
        if (!d || (s->comm->world == 1 && !kept)) continue;
        TRY(comm_agree(s->comm, dataset_prints(d, mine)));
        if (kept) s->val_print = print_of_set(d, mine);
        memcpy(first, mine, sizeof first);
        comm_broadcast(s->comm, first, sizeof first, 0, "samples of the dataset");
        Status status = dataset_compare_prints(d, mine, first);
        if (status != OK) fail_note(status, "%s", i == 0 ? "data.train" : "data.val");
        TRY(comm_agree(s->comm, status));
    }
    return OK;
}

/* ---- opening ---- */

/* Smoothing gives every class a little and leaves the label less: a threshold beyond the two would
 * make all targets the same. */
static Status check_targets(const Session *s)
{
    const double threshold = s->config->train.bce_threshold,
                 smoothing = s->config->train.label_smoothing,
                 classes = s->config->data.labels == LABELS_MULTI ? 2 : (double)s->classes,
                 even = smoothing / classes, label = 1 - smoothing + even;
    if (threshold <= 0 || (threshold > even && threshold < label)) return OK;
    return fail(ERR_USAGE,
                "train.bce_threshold: %g is not between %g and %g, the targets of other classes "
                "and of the label with train.label_smoothing",
                threshold, even, label);
}

static Status plan_local(Session *s, SessionUse use, int64_t learnt)
{
    TRY(count_classes(s, learnt));
    if (use == SESSION_TRAIN) TRY(check_targets(s));
    if (use == SESSION_TRAIN)
        return train_plan_make(&s->plan, s->config, s->comm->world, dataset_images(s->train));
    s->plan = (TrainPlan){ .batch = s->config->train.batch_per_rank, .accumulate = 1 };
    return OK;
}

/* What a session is for decides what must hold: any set can be looked at and measured. */
typedef enum Purpose { LOOKS, MEASURES, LEARNS } Purpose;

static Status check_learns(const Session *s)
{
    if (!s->train || dataset_classes(s->train) > 1 || s->config->model.classes > 1 ||
        dataset_labels(s->train, 0))
        return OK;
    return fail(ERR_DATA, "data.train has only one class (%s); training needs at least two",
                dataset_class_name(s->train, 0));
}

static Status check_apart(const Session *s)
{
    const char *file = apart_shared_file(s->train, s->val);
    if (!file) return OK;
    return fail(ERR_DATA,
                "data.val: %s is a file of data.train too; give each set its own folder or file, "
                "or file names with the words train and val (or test), or hold images out by "
                "data.val_split",
                file);
}

/* With several labels per image: warns of classes that no image of the set has. */
static Status check_unseen(const Session *s, const Dataset *d, const char *key, const char *then)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    int64_t lacking = 0;
    if (!d || s->config->data.labels != LABELS_MULTI) return OK;
    for (int c = 0; c < dataset_classes(d); c++)
        if (dataset_class_images(d, c) == 0 && lacking++ < CLASSES_NAMED)
            str_printf(&text, "%s%s", lacking > 1 ? ", " : "", dataset_class_name(d, c));
    if (lacking == dataset_classes(d)) return fail(ERR_DATA, "%s: no image has a label", key);
    if (lacking > 0 && s->comm->rank == 0 && !text.failed)
        log_warning("%s: no image has %lld of %d classes (%s%s); %s", key, (long long)lacking,
                    dataset_classes(d), text.text, lacking > CLASSES_NAMED ? ", ..." : "", then);
    return OK;
}

static Status check_labelled(const Session *s)
{
    TRY(check_unseen(s, s->train, "data.train", "these will not be learnt"));
    return check_unseen(s, s->val, "data.val", "mAP leaves them out");
}

/* learnt: of a checkpoint, on rank 0; NULL: they are not known. */
static Status open_data(Session *s, SessionUse use, const ClassList *learnt, Purpose purpose)
{
    int64_t count = learnt ? learnt->count : 0;
    comm_broadcast(s->comm, &count, sizeof count, 0, "classes");
    TRY(open_sets(s, use, learnt));
    if (purpose == LEARNS) TRY(comm_agree(s->comm, check_learns(s)));
    if (s->train && s->val && s->config->data.val_split <= 0)
        TRY(comm_agree(s->comm, s->comm->rank == 0 ? check_apart(s) : OK));
    if (s->train && s->val && s->comm->rank == 0 && purpose == LEARNS &&
        s->config->data.val_split <= 0 && apart_is_same(s->train, s->val))
        log_warning("data.val is data.train; evaluation will use training images");
    TRY(comm_agree(s->comm, plan_local(s, use, count)));
    if (purpose == LEARNS) TRY(comm_agree(s->comm, check_labelled(s)));
    if (use == SESSION_TRAIN)
        TRY(class_weights_open(&s->class_weights, s->config, s->train, s->classes, s->comm));
    TRY(comm_agree(s->comm, check_same_data(s)));
    return check_same_samples(s);
}

/* What only looks at a plan stays where it is, and says nothing of that. */
static Status open_plan(Session *s, const Config *c, Comm *comm, SessionUse use,
                        const ClassList *learnt, Purpose purpose)
{
    *s = (Session){ .config = c, .comm = comm, .use = use, .recompute = c->train.recompute };
    const double begun_s = clock_s();
    TRY(open_data(s, use, learnt, purpose));
    if (use == SESSION_TRAIN) TRY(teacher_open(&s->teacher, c, s->train, s->classes, comm));
    TRY(cache_share(&s->cache, comm, c, s->train, s->val));
    s->data_s = clock_s() - begun_s;
    const CpuBf16 cpu = device_cpu_bf16(comm);
    TRY(comm_agree(comm, device_choose(&s->device, c, comm->local_rank, cpu)));
    if (s->device.warning && comm->rank == 0) log_warning("%s", s->device.warning);
    if (purpose != LOOKS) TRY(bind_ranks(comm, c, s->device.index));
    TRY(device_query(&s->device, c, comm));
    s->threads = thread_plan_choose(comm, c, s->device.cuda);
    TRY(comm_agree(comm, prepare(s)));
    s->plans_s = clock_s() - begun_s - s->data_s;
    return comm_agree(comm, check_alike(s));
}

Status session_open_plan(Session *s, const Config *c, Comm *comm, SessionUse use)
{
    return open_plan(s, c, comm, use, NULL, LOOKS);
}

static Status open_for(Session *s, const Config *c, Comm *comm, SessionUse use,
                       const ClassList *learnt, Purpose purpose)
{
    *s = (Session){ .config = c, .comm = comm };
    if (use == SESSION_TRAIN) TRY(comm_agree(comm, train_plan_check_norms(c, comm->world)));
    TRY(open_plan(s, c, comm, use, learnt, purpose));
    return comm_agree(comm, memory_check(s, OK));
}

Status session_open(Session *s, const Config *c, Comm *comm, SessionUse use,
                    const ClassList *learnt)
{
    return open_for(s, c, comm, use, learnt, LEARNS);
}

Status session_open_bench(Session *s, const Config *c, Comm *comm, SessionUse use)
{
    return open_for(s, c, comm, use, NULL, MEASURES);
}

Status session_open_data(Session *s, const Config *c, Comm *comm)
{
    *s = (Session){ .config = c, .comm = comm, .stage = progressive_stage_count(c) - 1 };
    TRY(open_data(s, SESSION_TRAIN, NULL, LOOKS));
    TRY(cache_share(&s->cache, comm, c, s->train, s->val));
    /* As training would have them; where what it wants is not here, nothing computes anyway. */
    bool device =
        device_choose(&s->device, c, comm->local_rank, backend_cpu_bf16()) == OK && s->device.cuda;
    TRY(bind_ranks(comm, c, s->device.index));
    s->threads = thread_plan_choose(comm, c, device);
    return OK;
}
