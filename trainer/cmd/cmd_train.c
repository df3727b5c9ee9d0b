/* cmd_train.c - convoy train CONFIG [--set key=value]... */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/version.h"
#include "trainer/cmd/args.h"
#include "trainer/cmd/cmd.h"
#include "trainer/cmd/command_run.h"
#include "trainer/comm/peer_watchdog.h"
#include "trainer/files/learnt.h"
#include "trainer/files/outputs.h"
#include "trainer/guard/hang_report.h"
#include "trainer/guard/presence.h"
#include "trainer/guard/rank_watchdog.h"
#include "trainer/launch/progress.h"
#include "trainer/report/report_run.h"
#include "trainer/session/memory.h"
#include "trainer/session/session_open.h"
#include "trainer/session/utilization.h"
#include "trainer/train/loop.h"
#include <math.h>
#include <string.h>

#define PATH_BYTES 4096

static const char help[] =
    "usage: convoy train CONFIG|RUN [[--set] key=value]...\n\nTrains the network that CONFIG "
    "describes "
    "and evaluates it. Start it alone or under mpirun:\n\n  convoy train configs/demo.yaml\n  "
    "mpirun -n 4 convoy train configs/resnet50-imagenet.yaml data.train=DIR "
    "data.val=DIR\n\nEverything is kept in the run folder (run.dir): config.yaml, metrics.jsonl, "
    "log.txt, checkpoints/.\nThe same command again continues from the newest checkpoint "
    "(checkpoint.resume);\nso does convoy train RUN, with the configuration in that folder.\nUSR1, "
    "TERM or HUP: saves a checkpoint and leaves with exit code 75.\nOpen "
    "MPI: as root add --allow-run-as-root; for more ranks than cores --oversubscribe; for "
    "several\nthreads a rank --bind-to none.\n\n  --set key=value     overrides a key of CONFIG; "
    "--set may be left out (convoy inspect config lists them)\n";

/* Ranks share what they compute with: their CPUs, or a GPU. */
static bool oversubscribed(const Session *s)
{
    return s->device.cuda ? s->device.sharers > 1 : s->threads.sharers > s->threads.allowed;
}

/* Collective. */
static int count_hosts(Comm *comm)
{
    int64_t hosts = comm->local_rank == 0;
    comm_allreduce(comm, &hosts, 1, COMM_I64, COMM_SUM, "hosts");
    return (int)hosts;
}

static Status start_record(RunLog *log, const Session *s, int hosts)
{
    char backend[256];
    s->backend->v->describe(s->backend, backend, sizeof backend);
    StartRecord r = { .model = s->config->model.name,
                      .dataset = dataset_format_name(s->train),
                      .backend = backend,
                      .host = process_host(),
                      .version = version_text(),
                      .device = s->backend->v->name,
                      .precision = precision_names[s->device.precision],
                      .device_reason = s->device.reason,
                      .world = s->comm->world,
                      .hosts = hosts,
                      .cpus = s->threads.allowed,
                      .compute_threads = s->threads.compute,
                      .oversubscribed = oversubscribed(s),
                      .images = s->plan.images,
                      .val_images = s->val ? dataset_images(s->val) : 0,
                      .classes = s->classes,
                      .parameters = graph_parameter_elements(program_graph(s->first)),
                      .global_batch = s->plan.global_batch,
                      .steps = s->plan.total_steps,
                      .image_gflops = 1e-9 * utilization_image_flops(s),
                      .epochs = (double)train_plan_images(&s->plan, s->plan.total_steps) /
                                (double)s->plan.images,
                      .data_seconds = s->data_s,
                      .plans_seconds = s->plans_s };
    r.peak_tflops = 1e-12 * utilization_peak_flops(s, &r.peak_source);
    TRY(runlog_start(log, &r));
    if (s->device.plan_cache[0] && s->comm->rank == 0)
        log_info("convolution plans are kept in %s (device.plan_cache)", s->device.plan_cache);
    return OK;
}

/* What the plan is worth: the same bytes that convoy inspect memory says, and those that this rank
 * has really taken. */
static void log_memory(const Session *s, int64_t rss_at_start)
{
    MemoryReport r = memory_report(s);
    if (r.device > 0) log_info("memory of the device: planned %zu bytes", r.device);
    log_info("memory: peak %lld bytes above start, planned %zu bytes",
             (long long)(process_peak_rss_bytes() - rss_at_start), r.total - r.device);
}

/* By the classes of the checkpoint that the run goes on from, where it does: their labels stay. */
static Status open_session(Session *s, Comm *comm, const Config *c)
{
    Learnt learnt = { .text = NULL };
    StrBuf remedy = { 0 };
    Status status = comm->rank == 0 ? learnt_open_run(&learnt, c) : OK;
    str_printf(&remedy,
               " (data.class_map can rename it; other classes are for another run: a new run.dir "
               "with model.init=%s)",
               learnt.path ? learnt.path : "");
    learnt.list.may_lack = c->data.allow_empty_classes;
    learnt.list.remedy = remedy.text;
    status = comm_agree(comm, status == OK && remedy.failed ? ERR_MEMORY : status);
    if (status == OK)
        status = session_open(s, c, comm, SESSION_TRAIN, learnt.names ? &learnt.list : NULL);
    str_free(&remedy);
    learnt_close(&learnt);
    return status;
}

static Status train(Comm *comm, const Config *c, RunLog *log)
{
    int64_t rss_at_start = process_rss_bytes();
    Session session = { 0 };
    Energy *energy = NULL;
    Status status = comm_agree(comm, energy_open(&energy, c, comm));
    if (status == OK) status = open_session(&session, comm, c);
    if (status == OK) status = comm_agree(comm, start_record(log, &session, count_hosts(comm)));
    if (status == OK) status = session_commit_empty(&session);
    Monitor *monitor = NULL;
    if (status == OK)
        status =
            comm_agree(comm, monitor_create(&monitor, c, comm, session.backend->v->device != NULL));
    if (status == OK) monitor_run(monitor, session.plan.total_steps, energy);
    if (status == OK) status = loop_run(&session, log, monitor, energy, c->run.dir);
    monitor_destroy(monitor);
    energy_close(energy);
    if (status == OK) log_memory(&session, rss_at_start);
    session_close(&session);
    return status;
}

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
    StrBuf text = { 0 };
    const bool plain = path[0] != '-' && !(strchr(path, '=') && path[0] != '/' && path[0] != '.');
    str_printf(&text, "%s%s", plain ? "" : "./", path);
    if (!text.failed) str_add_word(line, text.text);
    str_free(&text);
}

static void say_command(const char *what, const char *verb, const char *dir, const char *out)
{
    char program[PATH_BYTES];
    StrBuf line = { 0 };
    str_add_word(&line, process_own_path(program, sizeof program) == OK ? program : "convoy");
    str_add_word(&line, verb);
    add_path_word(&line, dir);
    if (out) add_path_word(&line, out);
    if (!line.failed) log_info("%s%s", what, line.text);
    str_free(&line);
}

/* Of the weights that do not choose the best. */
static void add_other_best(StrBuf *out, const ReportRun *run, bool ema)
{
    const EvalRecord *best = NULL;
    for (int64_t i = run->first_eval; i < run->eval_count; i++) {
        const EvalRecord *e = &run->evals[i];
        if (e->checkpoint || isnan(e->ema_top1)) continue;
        if (!best || (ema ? e->ema_top1 > best->ema_top1 : e->top1 > best->top1)) best = e;
    }
    if (best)
        str_printf(out, "of %s weights %.2f %% in epoch %lld (step %lld), ",
                   ema ? "averaged" : "trained", 100 * (ema ? best->ema_top1 : best->top1),
                   (long long)best->epoch + 1, (long long)best->step);
}

/* What a run has come to, over all its parts as its records tell them, and what comes next. */
static void say_result(const Config *c)
{
    ReportRun run;
    StrBuf text = { 0 }, out = { 0 };
    const EvalRecord *best = NULL;
    if (report_run_read(&run, c->run.dir, "") != OK) {
        log_warning("%s", status_message());
        return;
    }
    if ((best = report_run_best(&run))) {
        str_printf(&text, "best top-1 %.2f %%%s in epoch %lld (step %lld), ",
                   100 * records_score(best), best->ema_best ? " of averaged weights" : "",
                   (long long)best->epoch + 1, (long long)best->step);
        add_other_best(&text, &run, !best->ema_best);
    }
    str_add(&text, "trained for ");
    str_add_duration(&text, run.seconds);
    str_printf(&out, "%s/%s.safetensors", c->run.dir, best ? "best" : "latest");
    if (!text.failed) log_info("%s", text.text);
    str_clear(&text);
    cost_describe(c, &run.spent, &text);
    if (run.energy_source[0]) str_printf(&text, "; energy of %s", run.energy_source);
    if (!text.failed && cost_sum(&run.spent).host_s > 0) log_info("spent %s", text.text);
    if (best) say_command("evaluate:  ", "eval", c->run.dir, NULL);
    if (!out.failed) say_command("export:    ", "export", c->run.dir, out.text);
    str_free(&text);
    str_free(&out);
    report_run_free(&run);
}

/* What auto means is chosen when a run begins, and kept in its folder. What cannot be chosen is
 * said when the session opens. */
static void settle_precision(Comm *comm, Config *c)
{
    DeviceChoice d;
    if (c->train.precision != CONFIG_OTHER || c->train.precision_auto != CONFIG_OTHER ||
        c->train.auto_before)
        return;
    const CpuBf16 cpu = device_cpu_bf16(comm);
    if (comm_agree(comm, device_choose(&d, c, comm->local_rank, cpu)) == OK)
        c->train.precision_auto = (int)d.precision;
}

/* A new run keeps its own config.yaml. */
static Status check_config_place(const char *run_dir, const char *config)
{
    char *kept = fs_join(run_dir, "config.yaml");
    Status status = kept ? OK : ERR_MEMORY;
    if (status == OK && fs_same_file(kept, config) && !fs_holds(run_dir, "metrics.jsonl"))
        status =
            fail(ERR_USAGE,
                 "run.dir: the run would write its config.yaml over %s: give another folder, or "
                 "the file another name",
                 config);
    mem_free(kept);
    return status;
}

/* The files of this rank that keys name. */
static Status check_outputs(const Comm *comm, const Config *c, const Args *args)
{
    char *log = NULL, *prometheus = NULL, *emf = NULL;
    Outputs o = { .run_dir = c->run.dir };
    Status status = check_config_place(c->run.dir, args->config);
    if (status == OK) status = runlog_file_name(&log, c, comm->rank, comm->world);
    if (status == OK)
        status = config_file_name(&prometheus, "monitor.prometheus", c->monitor.prometheus, 0, 1);
    if (status == OK) status = config_file_name(&emf, "monitor.emf", c->monitor.emf, 0, 1);
    outputs_add_written(&o, "log.file", log);
    outputs_add_written(&o, "monitor.prometheus", prometheus);
    outputs_add_written(&o, "monitor.emf", emf);
    if (strcmp(c->data.index, "auto") != 0 && strcmp(c->data.index, "off") != 0)
        outputs_add_written(&o, "data.index", c->data.index);
    outputs_add_read(&o, "the command line", args->config);
    outputs_add_config(&o, c);
    if (status == OK) status = outputs_check(&o);
    mem_free(log);
    mem_free(prometheus);
    mem_free(emf);
    return status;
}

static Status train_with_log(Comm *comm, Config *c, const Args *args)
{
    RunLog *log = NULL;
    TRY(comm_agree(comm, check_outputs(comm, c, args)));
    settle_precision(comm, c);
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
    if (status == OK) status = train(comm, c, log);
    presence_end(presence);
    rank_watchdog_stop(watch);
    /* nothing was to do, and no record says yet that the run is done */
    if (status == OK && comm->rank == 0 && progress_exit_code(c->run.dir) != 0)
        status = runlog_begin(log, c, comm->world);
    if (status == OK) log_info("done: run folder %s", c->run.dir);
    if (status == OK && comm->rank == 0) say_result(c);
    comm_set_last_words(comm, NULL, NULL);
    runlog_done(log, status_exit_code(status), status == OK ? "completed" : status_message());
    status = comm->rank == 0 ? cmd_report(status) : cmd_silence(status); /* while log.txt is open */
    runlog_close(log);
    return status;
}

Status cmd_train(int argc, char **argv)
{
    Args args;
    TRY(args_parse(&args, argc, argv, help));
    return args.help ? OK : command_run(&args, train_with_log);
}
