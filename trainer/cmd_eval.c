/* cmd_eval.c - convoy eval CONFIG --checkpoint FILE: the accuracy of a checkpoint on data.val. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/cmd.h"
#include "trainer/evaluate.h"
#include "trainer/run.h"
#include "trainer/runlog.h"
#include "trainer/state.h"
#include "trainer/weights.h"
#include <string.h>

static const char help[] =
    "usage: convoy eval CONFIG --checkpoint FILE [--per-class FILE] [--confusion FILE] [--set key=value]...\n"
    "\n"
    "Evaluates the weights in FILE on data.val, each image exactly once on any number of ranks. FILE is a checkpoint\n"
    "of the same model, or weights that torchvision or timm saved as safetensors. Prints the result and appends an\n"
    "eval event to metrics.jsonl in the run folder.\n"
    "\n"
    "  --checkpoint FILE   a .safetensors file, or the link runs/NAME/checkpoints/best\n"
    "  --per-class FILE    writes a CSV file: images and accuracy of each class\n"
    "  --confusion FILE    writes a CSV file: how often each class (row) was taken for which (column)\n"
    "  --set key=value     overrides a key of CONFIG; may be repeated (convoy inspect config lists them)\n";

/* Rank 0 reads the file; the session broadcasts what it read. */
static Status load_weights(Session *s, const char *path, CheckpointMeta *meta)
{
    SafeFile *file = NULL;
    TRY(safetensors_open(&file, path));
    Status status = OK;
    if (weights_are_checkpoint(file)) {
        safetensors_close(file);
        TRY(checkpoint_open(&file, meta, path));
        if (strcmp(meta->model, s->config->model.name) != 0)
            status = fail(ERR_DATA, "%s: a checkpoint of %s, but model.name is %s", path, meta->model,
                          s->config->model.name);
        if (status == OK) status = state_restore(s->executor, NULL, s->backend, file, path);
    } else {
        status = weights_restore(s->executor, program_graph(s->eval), model_find(s->config->model.name), file, path,
                                 false, NULL);
    }
    safetensors_close(file);
    return status;
}

/* The epoch of the step that the checkpoint was taken after, as training's own records count. */
static int64_t epoch_of(const CheckpointMeta *meta)
{
    return meta->images > 0 && meta->dataset_images > 0 ? (meta->images - 1) / meta->dataset_images : 0;
}

/* Ranks other than 0 have read no file and record nothing. */
static int64_t step_of(const CheckpointMeta *meta)
{
    return meta->global_batch > 0 ? meta->images / meta->global_batch : 0;
}

/* The run folder is only touched once there is a result to add to it. */
static Status record(Comm *comm, const Config *c, const EvalRecord *r)
{
    RunLog *log = NULL;
    Status status = comm_agree(comm, runlog_open(&log, c->run.dir, comm->rank, NULL));
    if (status == OK) status = comm_agree(comm, runlog_eval(log, r));
    if (status == OK) runlog_done(log, status_exit_code(OK), "evaluation completed");
    runlog_close(log);
    return status;
}

/* ---- tables ---- */

/* A field of a CSV file: quoted where it has to be. */
static void add_field(StrBuf *out, const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        str_add(out, text);
        return;
    }
    str_add(out, "\"");
    for (; *text; text++) str_add_n(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_add(out, "\"");
}

static const char *class_name(const Session *s, int64_t label)
{
    return label < dataset_classes(s->val) ? dataset_class_name(s->val, (int)label) : "";
}

/* Accuracy counts images that could not be decoded as wrong, as the sums over all classes do. */
static void print_classes(const Session *s, const double *confusion, StrBuf *out)
{
    str_add(out, "label,class,images,correct,accuracy\n");
    for (int64_t c = 0; c < s->classes; c++) {
        const int64_t images = c < dataset_classes(s->val) ? dataset_class_images(s->val, (int)c) : 0;
        const double correct = confusion[c * s->classes + c];
        str_printf(out, "%lld,", (long long)c);
        add_field(out, class_name(s, c));
        str_printf(out, ",%lld,%.0f,", (long long)images, correct);
        if (images > 0) str_printf(out, "%.6f", correct / (double)images);
        str_add(out, "\n");
    }
}

static void print_confusion(const Session *s, const double *confusion, StrBuf *out)
{
    str_add(out, "class");
    for (int64_t c = 0; c < s->classes; c++) {
        str_add(out, ",");
        add_field(out, class_name(s, c));
    }
    for (int64_t row = 0; row < s->classes; row++) {
        str_add(out, "\n");
        add_field(out, class_name(s, row));
        for (int64_t c = 0; c < s->classes; c++) str_printf(out, ",%.0f", confusion[row * s->classes + c]);
    }
    str_add(out, "\n");
}

static Status write_table(const Session *s, const double *confusion, const char *path,
                          void (*print)(const Session *s, const double *confusion, StrBuf *out))
{
    StrBuf text = { 0 };
    if (!path || s->comm->rank != 0) return OK;
    print(s, confusion, &text);
    Status status = text.failed ? ERR_MEMORY : fs_write_atomic(path, text.text, text.length);
    str_free(&text);
    return status;
}

/* Evaluates, and writes the tables that were asked for. */
static Status evaluate_with_tables(Session *s, const Args *args, EvalResult *r)
{
    const char *classes = args_value(args, "--per-class"), *confusion = args_value(args, "--confusion");
    if (!classes && !confusion) return evaluate(s, r);
    double *counts = mem_calloc((size_t)(s->classes * s->classes), sizeof *counts);
    Status status = comm_agree(s->comm, counts ? OK : ERR_MEMORY);
    if (status == OK) status = evaluate_confusion(s, r, counts);
    if (status == OK) {
        status = write_table(s, counts, classes, print_classes);
        if (status == OK) status = write_table(s, counts, confusion, print_confusion);
        status = comm_agree(s->comm, status);
    }
    mem_free(counts);
    return status;
}

static Status evaluate_file(Session *s, const Args *args)
{
    const char *path = args->checkpoint;
    CheckpointMeta meta = { 0 };
    EvalResult r;
    TRY(session_commit(s));
    TRY(comm_agree(s->comm, s->comm->rank == 0 ? load_weights(s, path, &meta) : OK));
    TRY(session_broadcast(s));
    TRY(evaluate_with_tables(s, args, &r));
    EvalRecord e = { .epoch = epoch_of(&meta),
                     .step = step_of(&meta),
                     .images = r.images,
                     .loss = r.loss,
                     .top1 = r.top1,
                     .top5 = r.top5 };
    if (r.bad > 0) {
        log_warning("%lld images of data.val could not be decoded: counted as wrong", (long long)r.bad);
    }
    return record(s->comm, s->config, &e);
}

static Status work(Comm *comm, const Config *c, const Args *args)
{
    Session session;
    Status status = session_open(&session, c, comm, SESSION_EVAL);
    if (status == OK) status = evaluate_file(&session, args);
    session_close(&session);
    return status;
}

Status cmd_eval(int argc, char **argv)
{
    Args args;
    TRY(args_parse(&args, argc, argv, help));
    return args.help ? OK : run_with_config(&args, work);
}
