/* cmd_train.c - convoy train CONFIG [--set key=value]... */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/launch/progress.h"
#include "trainer/app/log/run_listener.h"
#include "trainer/app/report/report_run.h"
#include "trainer/engine/comm/peer_watchdog.h"
#include "trainer/engine/files/outputs.h"
#include "trainer/engine/guard/hang_report.h"
#include "trainer/engine/guard/presence.h"
#include "trainer/engine/guard/rank_watchdog.h"
#include "trainer/engine/session/device.h"
#include "trainer/engine/train/train_run.h"
#include <math.h>
#include <string.h>

#define PATH_BYTES 4096

static const ArgRow rows[] = { ARG_ROW_CONFIG, ARG_ROW_VERBOSE, ARG_ROW_SET, ARG_ROW_END };

static Status start_watch(RankWatchdog **out, Comm *comm, const Config *c)
{
    RankWatchdogLimits limits = { .start_s = c->watchdog.start_s,
                                  .step_s = c->watchdog.step_s,
                                  .evaluation_s = c->watchdog.evaluation_s,
                                  .checkpoint_s = c->watchdog.checkpoint_s,
                                  .disconnect_s = c->watchdog.disconnect_s };
    return rank_watchdog_start(out, comm, &limits, c->run.dir);
}

typedef struct LastWords { /* what is said when a watchdog or a rank that fails ends the process */
    const Comm *comm;
    const Config *config;
    const RunLog *log;
} LastWords;

static void say_last_words(void *cookie, int exit_code, const char *reason)
{
    const LastWords *w = cookie;
    runlog_last_words(w->log, exit_code, reason);
    if (exit_code == EXIT_PEER_LOST) hang_report_write(w->comm, w->config->run.dir, reason);
}

/* Collective. A folder in which nothing has trained yet is begun at once: there is nothing to lose
 * there, and a log to tell of what follows. */
static Status open_log(RunLog **log, Comm *comm, const Config *c)
{
    TRY(comm_agree(comm, runlog_open(log, c->run.dir, comm->rank, c)));
    int64_t is_new = runlog_is_new(*log);
    comm_broadcast(comm, &is_new, sizeof is_new, 0, "whether the run is new");
    return is_new ? comm_agree(comm, runlog_begin(*log, c, comm->world)) : OK;
}

/* A path that an option, or a key, would be otherwise. */
static void add_path_word(StrBuf *line, const char *path)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    const bool plain = path[0] != '-' && !(strchr(path, '=') && path[0] != '/' && path[0] != '.');
    str_printf(&text, "%s%s", plain ? "" : "./", path);
    if (!text.failed) str_add_word(line, text.text);
}

static void say_command(const char *what, const char *verb, const char *dir, const char *out)
{
    char program[PATH_BYTES];
    StrBuf line FREED_BY(str_free) = { 0 };
    str_add_word(&line, process_own_path(program, sizeof program) == OK ? program : "convoy");
    str_add_word(&line, verb);
    add_path_word(&line, dir);
    if (out) add_path_word(&line, out);
    if (!line.failed) log_info("%s%s", what, line.text);
}

/* Of the weights that do not choose the best. */
static void add_other_best(StrBuf *out, const ReportRun *run, bool ema)
{
    EvalRecord best = { .step = -1 };
    for (int64_t i = run->first_eval; i < run->eval_count; i++) {
        EvalRecord e = run->evals[i];
        if (e.checkpoint || !e.has_ema) continue;
        e.ema_best = ema;
        const double score = records_score(&e), had = records_score(&best);
        if (best.step < 0 || (e.masks ? score < had : score > had)) best = e;
    }
    if (best.step < 0) return;
    const double score = records_score(&best);
    str_printf(out, "of %s weights ", ema ? "averaged" : "trained");
    if (best.masks) str_printf(out, "%.4f", score);
    else str_printf(out, "%.2f %%", 100 * score);
    str_printf(out, " in epoch %lld (step %lld), ", (long long)best.epoch + 1,
               (long long)best.step);
}

/* What a run has come to, over all its parts as its records tell them, and what comes next. */
static void say_result(const Config *c)
{
    ReportRun run;
    StrBuf text FREED_BY(str_free) = { 0 }, out FREED_BY(str_free) = { 0 };
    const EvalRecord *best = NULL;
    char score[RECORDS_SCORE_BYTES];
    if (report_run_read(&run, c->run.dir, "") != OK) {
        log_warning("%s", status_message());
        return;
    }
    if ((best = report_run_best(&run))) {
        records_format_score(best, records_score(best), score);
        str_printf(&text, "best %s%s in epoch %lld (step %lld), ", score,
                   best->ema_best ? " of averaged weights" : "", (long long)best->epoch + 1,
                   (long long)best->step);
        add_other_best(&text, &run, !best->ema_best);
    }
    str_add(&text, "trained for ");
    str_add_duration(&text, run.seconds);
    str_printf(&out, "%s/%s.safetensors", c->run.dir, best ? "best" : "latest");
    if (!text.failed) log_info("%s", text.text);
    str_clear(&text);
    cost_describe(c, &run.spent, &text);
    if (run.energy_source[0]) str_printf(&text, "; energy of %s", run.energy_source);
    if (!text.failed && cost_sum(&run.spent).host_s > 0) {
        if (run.energy_source[0] || c->cost.price_per_host_hour > 0)
            log_info("spent %s", text.text);
        else log_detail("spent %s", text.text);
    }
    if (best) say_command("evaluate:  ", "eval", c->run.dir, NULL);
    if (!out.failed) say_command("export:    ", "export", c->run.dir, out.text);
    report_run_free(&run);
}

/* A new run keeps its own config.yaml. */
static Status check_config_place(const char *run_dir, const char *config)
{
    char *kept FREED = fs_join(run_dir, "config.yaml");
    if (!kept) return ERR_MEMORY;
    if (!fs_same_file(kept, config) || fs_holds(run_dir, "metrics.jsonl")) return OK;
    return fail(ERR_USAGE,
                "run.dir: the run would write its config.yaml over %s: give another folder, or "
                "the file another name",
                config);
}

/* The files of this rank that keys name. */
static Status check_outputs(const Comm *comm, const Config *c, const Args *args)
{
    char *log FREED = NULL, *prometheus FREED = NULL, *emf FREED = NULL;
    Outputs o = { .run_dir = c->run.dir };
    TRY(check_config_place(c->run.dir, args->config));
    TRY(runlog_file_name(&log, c, comm->rank, comm->world));
    TRY(config_file_name(&prometheus, "monitor.prometheus", c->monitor.prometheus, 0, 1));
    TRY(config_file_name(&emf, "monitor.emf", c->monitor.emf, 0, 1));
    outputs_add_written(&o, "log.file", log);
    outputs_add_written(&o, "monitor.prometheus", prometheus);
    outputs_add_written(&o, "monitor.emf", emf);
    if (strcmp(c->data.index, "auto") != 0 && strcmp(c->data.index, "off") != 0)
        outputs_add_written(&o, "data.index", c->data.index);
    outputs_add_read(&o, "the command line", args->config);
    outputs_add_config(&o, c);
    return outputs_check(&o);
}

static Status train_with_log(Comm *comm, Config *c, const Args *args)
{
    RunLog *log = NULL;
    TRY(comm_agree(comm, check_outputs(comm, c, args)));
    device_settle(comm, c);
    Status status = open_log(&log, comm, c);
    LastWords last_words = { comm, c, log };
    hang_report_prepare();
    comm_set_last_words(comm, say_last_words, &last_words);
    RankWatchdog *watch = NULL;
    if (status == OK) status = comm_agree(comm, start_watch(&watch, comm, c));
    Presence *presence = NULL;
    if (status == OK)
        status = comm_agree(
            comm, presence_begin(&presence, c->run.dir, comm->rank == 0 ? PRESENCE_RUN : NULL));
    RunListener listener = { .log = log, .comm = comm, .config = c };
    const RunEvents events = run_listener_events(&listener);
    if (status == OK) status = train_run(comm, c, &events);
    presence_end(presence);
    rank_watchdog_stop(watch);
    /* nothing was to do, and no record says yet that the run is done */
    if (status == OK && comm->rank == 0 && progress_exit_code(c->run.dir) != 0)
        status = runlog_begin(log, c, comm->world);
    if (status == OK) log_info("done; everything is in %s", c->run.dir);
    if (status == OK && comm->rank == 0) say_result(c);
    comm_set_last_words(comm, NULL, NULL);
    runlog_done(log, status_exit_code(status), status == OK ? "completed" : status_message());
    status = comm->rank == 0 ? cmd_report(status) : cmd_silence(status); /* while log.txt is open */
    runlog_close(log);
    return status;
}

const Command cmd_train = {
    .name = "train",
    .group = "Train",
    .summary = "train a network, alone or on all ranks under mpirun",
    .about =
        "Trains the network that CONFIG describes and evaluates it.\n"
        "Everything is kept in the run folder (run.dir): config.yaml, metrics.jsonl, log.txt and "
        "checkpoints/. The same command again continues from the newest checkpoint "
        "(checkpoint.resume); so does convoy train RUN, with the configuration in that folder.\n"
        "USR1, TERM, INT or HUP: saves a checkpoint and exits with code 75.\n"
        "Open MPI: as root add --allow-run-as-root, for more ranks than cores --oversubscribe, "
        "for several threads per rank --bind-to none.",
    .examples = "convoy train configs/demo.yaml\n"
                "mpirun -n 4 convoy train configs/resnet50-imagenet.yaml data.dir=DIR",
    .args = rows,
    .by_ranks = train_with_log,
    .ignores = "scale",
};
