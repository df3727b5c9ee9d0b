/* cmd_eval.c - convoy eval RUN|CHECKPOINT|CONFIG: the accuracy of a checkpoint on data.val. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/eval_tables.h"
#include "trainer/app/cmd/unread.h"
#include "trainer/app/log/runlog.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/files/checkpoint_model.h"
#include "trainer/engine/files/foreign_model.h"
#include "trainer/engine/files/learnt.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/files/weights.h"
#include "trainer/engine/plan/averaging.h"
#include "trainer/engine/session/session_open.h"
#include "trainer/engine/train/evaluate.h"
#include "trainer/engine/train/train_state.h"
#include <math.h>
#include <string.h>

static const ArgRow rows[] = {
    { "RUN|CHECKPOINT|CONFIG",
      .help =
          "what to evaluate: the best checkpoint of a run, or its latest; a checkpoint file; or "
          "the run that a config describes",
      .flags = ARG_CONFIG },
    { "--checkpoint", "FILE",
      .help = "evaluate these weights: a checkpoint of the same model, the folder of a run, or "
              "weights of torchvision or timm (.safetensors, .pth)",
      .foreign = "weights pretrained pretrained_path initial_checkpoint resume ckpt ckpt_path "
                 "model_path",
      .flags = ARG_READS },
    ARG_ROW_EMA,
    ARG_ROW_RAW,
    { "--per-class", "FILE",
      .help = "write a CSV file: images and accuracy of each class, or with data.labels: multi its "
              "average precision",
      .flags = ARG_WRITES },
    { "--confusion", "FILE",
      .help =
          "write a CSV file, the confusion matrix: rows are true classes, columns predicted ones",
      .flags = ARG_WRITES },
    { "--gallery", "FILE",
      .help = "write a page (.html): the most confident mistakes with their images, confused "
              "classes, precision, recall and F1 per class, calibration",
      .flags = ARG_WRITES },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

/* ---- what is asked of a checkpoint before any images are opened ---- */

typedef struct EvalRun {
    int64_t classes; /* 0: unknown, as for weights that Convoy did not write */
    Learnt learnt;
    bool foreign; /* the result is none of the run's curve: other weights than those in its
                      * folder, or other images than it evaluates itself, or seen otherwise */
} EvalRun;

/* Keys but for places that say which images are evaluated, and how they are seen. */
static const char *const view_keys[] = {
    "model.in_channels", "data.val_split",        "data.val_split_seed",
    "data.class_map",    "data.image_size",       "data.mean",
    "data.std",          "data.eval_resize",      "data.interpolation",
    "data.tta",          "data.synthetic_images", "data.labels",
};

static bool same_view(const Config *a, const Config *b)
{
    const Config *const both[] = { a, b };
    const char *key;
    for (int i = 0; (i = config_next_difference(both, 2, i, &key)) >= 0; i++)
        for (size_t k = 0; k < sizeof view_keys / sizeof view_keys[0]; k++)
            if (strcmp(key, view_keys[k]) == 0) return false;
    return true;
}

static bool own_images(const Config *c, const Config *run)
{
    const char *here = c->data.val_split > 0 ? c->data.train : c->data.val;
    const char *there = run->data.val_split > 0 ? run->data.train : run->data.val;
    if (run->data.val[0] == '\0' && run->data.val_split == 0) return true;
    return (strcmp(here, there) == 0 || fs_same_file(here, there)) && same_view(c, run);
}

/* Whether path lies in the folder of the run that the result would be a record of. */
static bool own_weights(const Config *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    StrBuf own FREED_BY(str_free) = { 0 };
    str_printf(&own, "%s/checkpoints/%s", c->run.dir, slash ? slash + 1 : path);
    return !own.failed && fs_same_file(own.text, path);
}

/* What the file at path knows of its run; c: how it is to be evaluated. A run without images of its
 * own to evaluate takes any for its own. A damaged file is refused when its weights are loaded, not
 * here. Fails only with ERR_MEMORY. */
static Status ask_run(EvalRun *out, const Config *c, const char *path)
{
    CheckpointModel m FREED_BY(checkpoint_model_close) = { 0 };
    *out = (EvalRun){ .foreign = true };
    TRY(learnt_open_file(&out->learnt, path));
    out->classes = out->learnt.list.count;
    if (checkpoint_model_open(&m, path, 1) != OK) return OK;
    out->foreign = !own_weights(c, path) || !own_images(c, m.config);
    out->classes = m.classes;
    return OK;
}

/* ---- evaluation ---- */

typedef struct Held {
    bool both;   /* averaged weights beside the trained ones, and nobody has said which */
    bool ema;    /* the averaged ones were loaded */
    bool learnt; /* the file says which classes they know */
} Held;

/* Rank 0 reads the file; the session broadcasts what it read. */
static Status load_weights(Session *s, const char *path, WeightsChoice which, CheckpointMeta *meta,
                           Held *held)
{
    SafeFile *file = NULL;
    const char *averages = averaging_traits(s->config, AVERAGE_EMA).prefix;
    const bool again = held->both;
    TRY(weights_open(&file, path));
    Status status = OK;
    if (weights_are_checkpoint(file)) {
        safetensors_close(file);
        TRY(checkpoint_open(&file, meta, path));
        if (strcmp(meta->model, s->config->model.name) != 0)
            status = fail(ERR_DATA, "%s: checkpoint of %s, but model.name is %s", path, meta->model,
                          s->config->model.name);
        if (status == OK) status = weights_check_finite(file, false, path);
        held->both = again || (which == WEIGHTS_OF_BEST && safetensors_has(file, averages));
        if (status == OK)
            status = weights_choose(file, which, s->config->ema.best, path, &held->ema);
        if (status == OK) status = train_state_restore(s->executor, file, path);
        if (status == OK && held->ema && !held->both)
            log_info("%s: using its averaged weights", path);
    } else {
        const ModelDef *def = model_find(s->config->model.name);
        const Graph *g = program_graph(s->eval);
        status = weights_narrow(file, g, def, which, path);
        if (status == OK) status = weights_restore(s->executor, g, def, file, path, NULL);
        if (status == OK) foreign_model_tell_images(s->config, def, file, path);
        const ClassList own = dataset_class_list(s->val, "data.val");
        if (status == OK && !held->learnt) class_list_tell_order(&own, path);
    }
    safetensors_close(file);
    return status;
}

/* The epoch of the step that the checkpoint was taken after, as training's own records count. */
static int64_t epoch_of(const CheckpointMeta *meta)
{
    const int64_t before = meta->images - meta->global_batch;
    return before > 0 && meta->dataset_images > 0 ? before / meta->dataset_images : 0;
}

/* The run folder is only touched once there is a result to add to it, and the result is said in any
 * case: a run that is still being trained holds its folder. */
static Status record(Comm *comm, const Config *c, const EvalRecord *r)
{
    RunLog *log = NULL;
    bool kept = c->run.dir[0] != '\0';
    Status status = runlog_open(&log, kept ? c->run.dir : NULL, comm->rank, NULL);
    if (status == ERR_IO) {
        kept = false;
        log_warning("%s: the result is only printed", status_message());
        status = runlog_open(&log, NULL, comm->rank, NULL);
    }
    status = comm_agree(comm, status);
    if (status == OK) status = comm_agree(comm, runlog_record(log, RECORD_EVAL, r));
    runlog_close(log);
    if (status == OK && kept && r->foreign)
        log_info("%s: recorded, but convoy report does not plot it: weights, %s or their "
                 "preparation differ from the run's",
                 c->run.dir, units_of(c)->many);
    return status;
}

static Status load(Session *s, const char *path, WeightsChoice which, CheckpointMeta *meta,
                   Held *held)
{
    TRY(comm_agree(s->comm, s->comm->rank == 0 ? load_weights(s, path, which, meta, held) : OK));
    return session_broadcast(s);
}

/* The weights that the choice has left, where the checkpoint has both. first: the result of the
 * others. */
static Status evaluate_other(Session *s, const char *path, const Held *held,
                             const EvalResult *first, EvalRecord *e)
{
    EvalResult r;
    CheckpointMeta meta;
    Held other = { .both = true };
    TRY(load(s, path, held->ema ? WEIGHTS_RAW : WEIGHTS_EMA, &meta, &other));
    TRY(evaluate(s, &r));
    *e = evaluate_record(s, held->ema ? &r : first);
    evaluate_add_ema(e, held->ema ? first : &r);
    e->ema_best = held->ema;
    return OK;
}

/* details: NULLs where nobody asks for them. */
static Status evaluate_and_say(Session *s, const Args *args, const CheckpointMeta *meta,
                               const Held *held, bool foreign, const EvalTables *details)
{
    EvalResult r;
    TRY(details->images ? evaluate_images(s, &r, details->images)
        : details->ap   ? evaluate_classes(s, &r, details->ap)
                        : evaluate(s, &r));
    EvalRecord e = evaluate_record(s, &r);
    if (r.bad > 0)
        log_warning("data.val: %lld images could not be decoded; counted as wrong",
                    (long long)r.bad);
    if (!isfinite(r.loss) && r.bad < r.images)
        log_warning("%s: the loss is not finite; the weights or statistics are unusable",
                    args->checkpoint);
    if (held->both) TRY(evaluate_other(s, args->checkpoint, held, &r, &e));
    e.epoch = epoch_of(meta);
    e.step = meta->run_step;
    if (meta->dataset_images > 0) e.epochs = (double)meta->images / (double)meta->dataset_images;
    e.checkpoint = args->checkpoint;
    e.foreign = foreign;
    TRY(record(s->comm, s->config, &e));
    if (held->both)
        log_info("%s: predict and export use its %s weights (ema.best)", args->checkpoint,
                 e.ema_best ? "averaged" : "trained");
    if (e.masks)
        log_info("%s: as fairseq prints it: loss %.3f (base 2), ppl %.2f", args->checkpoint,
                 e.loss / M_LN2, e.ppl);
    if (!details->images && !details->ap) return OK;
    return comm_agree(s->comm, s->comm->rank == 0 ? eval_tables_write(s, args, &r, details) : OK);
}

static Status evaluate_file(Session *s, const Args *args, const EvalRun *run)
{
    CheckpointMeta meta = { 0 };
    EvalImage *images FREED = NULL;
    double *ap FREED = NULL;
    WeightsChoice which;
    Held held = { .learnt = run->learnt.names };
    TRY(args_weights(args, &which));
    TRY(session_commit(s));
    TRY(load(s, args->checkpoint, which, &meta, &held));
    comm_broadcast(s->comm, &held, sizeof held, 0, "which weights");
    const bool wanted = eval_tables_wanted(args);
    const bool multi = s->config->data.labels == LABELS_MULTI;
    if (wanted && multi) ap = mem_calloc((size_t)s->classes, sizeof *ap);
    else if (wanted) images = mem_alloc((size_t)dataset_images(s->val) * sizeof *images);
    TRY(comm_agree(s->comm, images || ap || !wanted ? OK : ERR_MEMORY));
    return evaluate_and_say(s, args, &meta, &held, run->foreign, &(EvalTables){ images, ap });
}

/* *out: mem_free. */
static Status choose_checkpoint(char **out, const Config *c, const Args *args)
{
    const char *word = args->checkpoint ? args->checkpoint : args->config;
    if (!fs_is_dir(word) && !args->checkpoint && !run_source_is_checkpoint(word)) {
        word = c->run.dir;
        if (!fs_is_dir(word))
            return fail(ERR_USAGE, "no run in %s; name a checkpoint with --checkpoint", word);
    }
    TRY(run_source_checkpoint(out, word));
    if (!args->checkpoint) log_info("evaluating %s", *out);
    return OK;
}

static Status work(Comm *comm, Config *c, const Args *args)
{
    Session session = { .config = c, .comm = comm };
    Args own = *args;
    EvalRun run = { .classes = 0 };
    char *path = NULL;
    c->train.precision_auto = CONFIG_OTHER; /* evaluation is not bound to it */
    c->log.format = LOG_FORMAT_LINE;
    TRY(comm_agree(comm, comm->rank == 0 ? eval_tables_check(args, c) : OK));
    TRY(comm_agree(comm, comm->rank == 0 ? choose_checkpoint(&path, c, args) : OK));
    own.checkpoint = path ? path : ""; /* rank 0 reads it */
    Status status = comm->rank == 0 ? ask_run(&run, c, path) : OK;
    ClassList *learnt = &run.learnt.list;
    learnt->may_lack = true;
    if (!config_is_text(c)) learnt->remedy = " (data.class_map can rename it or leave it out)";
    status = comm_agree(comm, status);
    comm_broadcast(comm, &run.classes, sizeof run.classes, 0, "classes");
    if (c->model.classes == 0 && !config_is_masked(c)) c->model.classes = run.classes;
    if (status == OK)
        status = session_open(&session, c, comm, SESSION_EVAL, run.learnt.names ? learnt : NULL);
    if (status == OK) status = comm_agree(comm, learnt_check_words(&run.learnt, session.val));
    if (status == OK && c->data.val_split > 0)
        log_info("validation images are split off %s (data.val_split: %g)", c->data.train,
                 c->data.val_split);
    if (status == OK) status = evaluate_file(&session, &own, &run);
    session_close(&session);
    learnt_close(&run.learnt);
    mem_free(path);
    return status;
}

const Command cmd_eval = {
    .name = "eval",
    .group = "Use",
    .summary = "evaluate a run or a checkpoint on the validation set",
    .about =
        "Evaluates weights on data.val, each image exactly once, on any number of ranks. Without "
        "--ema or --raw it evaluates both kinds of weights where the run has both; the files it "
        "writes are then for the averaged ones, unless ema.best is false.\n"
        "Prints the result and appends an eval record to metrics.jsonl in the run folder, unless "
        "a run is writing there. Results for other weights or images are recorded but not "
        "plotted.",
    .examples = "convoy eval runs/demo\n"
                "convoy eval runs/demo data.val=DIR --per-class classes.csv",
    .args = rows,
    .by_ranks = work,
    .ignores = "model.init model.init_weights checkpoint.resume train.epochs train.max_steps "
               "optimizer schedule "
               "log " UNREAD_BUT_IN_RUNS,
};
