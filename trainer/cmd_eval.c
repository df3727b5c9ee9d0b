/* cmd_eval.c - convoy eval CONFIG --checkpoint FILE: the accuracy of a checkpoint on data.val. */
#include "base/log.h"
#include "base/mem.h"
#include "trainer/cmd.h"
#include "trainer/evaluate.h"
#include "trainer/run.h"
#include "trainer/runlog.h"
#include "trainer/state.h"
#include <string.h>

static const char help[] =
    "usage: convoy eval CONFIG --checkpoint FILE [--set key=value]...\n"
    "\n"
    "Evaluates the weights in FILE (a checkpoint of the same model) on data.val, each image exactly once on any\n"
    "number of ranks. Prints the result and appends an eval event to metrics.jsonl in the run folder.\n"
    "\n"
    "  --checkpoint FILE   a .safetensors file, or the link runs/NAME/checkpoints/best\n"
    "  --set key=value     overrides a key of CONFIG; may be repeated (convoy inspect config lists them)\n";

/* Rank 0 reads the file; the session broadcasts what it read. */
static Status load_weights(Session *s, const char *path, CheckpointMeta *meta)
{
    SafeFile *file = NULL;
    TRY(checkpoint_open(&file, meta, path));
    Status status = OK;
    if (strcmp(meta->model, s->config->model.name) != 0) {
        status =
            fail(ERR_DATA, "%s: a checkpoint of %s, but model.name is %s", path, meta->model, s->config->model.name);
    }
    if (status == OK) status = state_restore(s->executor, NULL, s->backend, file, path);
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

static Status evaluate_file(Session *s, const char *path)
{
    CheckpointMeta meta = { 0 };
    EvalResult r;
    TRY(session_commit(s));
    TRY(comm_agree(s->comm, s->comm->rank == 0 ? load_weights(s, path, &meta) : OK));
    TRY(session_broadcast(s));
    TRY(evaluate(s, &r));
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
    if (status == OK) status = evaluate_file(&session, args->checkpoint);
    session_close(&session);
    return status;
}

Status cmd_eval(int argc, char **argv)
{
    Args args;
    TRY(args_parse(&args, argc, argv, help));
    return args.help ? OK : run_with_config(&args, work);
}
