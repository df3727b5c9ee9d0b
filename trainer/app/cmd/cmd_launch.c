/* cmd_launch.c - convoy launch: reads the command line of a supervised run, and the run's own
 * config as far as the supervisor must know it (run folder, global batch). */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "kernels/backend_cuda.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/launch/hosts.h"
#include "trainer/app/launch/progress.h"
#include "trainer/app/launch/record.h"
#include "trainer/app/launch/supervisor.h"
#include "trainer/engine/files/outputs.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/guard/signals.h"
#include <string.h>

#define PATH_BYTES 4096
#define RANKS_MAX  1024

#define OF_HOSTS .needs = "--hosts-script"

static const ArgRow rows[] = {
    { "-n", "N|auto",
      .help = "N ranks on this host, regardless of its cores; auto: one per GPU, or one rank with "
              "all cores if there is none",
      .min = 1, .max = RANKS_MAX },
    { "--hosts-script", "CMD",
      .help = "command that prints the available hosts, one per line: host, host:slots or host "
              "slots=N; run every --poll seconds" },
    { "--min-hosts", "N", .help = "wait for at least N hosts", OF_HOSTS, .min = 1, .max = HOSTS_MAX,
      .fallback = 1 },
    { "--max-hosts", "N", .help = "use at most N hosts; 0: no limit", OF_HOSTS, .max = HOSTS_MAX },
    { "--slots", "N",
      .help = "ranks per host if the script gives no number, usually the number of GPUs", OF_HOSTS,
      .min = 1, .max = 1024, .fallback = 1 },
    { "--max-restarts", "N",
      .help = "give up after N failures; a change of hosts or a request is not a failure",
      .max = 1e6, .fallback = 10 },
    { "--prefix",
      .help = "begin each line that a rank prints with [1,RANK]<stdout>:, as mpirun does" },
    { "--wait-hosts", "SECONDS",
      .help = "how long to wait for hosts, or for the run folder; then exit with code 75",
      .max = 1e9, .fallback = 600 },
    { "--cooldown", "SECONDS",
      .help = "how long a lost host is left out; doubles each time, up to an hour; at most half of "
              "--wait-hosts for a host that is needed",
      OF_HOSTS, .max = 3600, .fallback = 60 },
    { "--grow-after", "SECONDS", .help = "add hosts no sooner than this long after a start",
      OF_HOSTS, .max = 1e9, .fallback = 600 },
    { "--lost-after", "SECONDS",
      .help = "a host is lost when it is silent or not listed for this long", OF_HOSTS, .max = 1e6,
      .fallback = 15 },
    { "--grace", "SECONDS", .help = "time for a checkpoint when the run is asked to stop",
      .max = 1e6, .fallback = 120 },
    { "--poll", "SECONDS", .help = "how often to run the script and check the hosts", .min = 0.1,
      .max = 3600, .fallback = 5 },
    { "--agent", "CMD",
      .help = "command used to reach a host (default ssh), called as: CMD HOST COMMAND", OF_HOSTS },
    { "--mpirun-args", "ARGS",
      .help = "more words for mpirun: '-x NCCL_DEBUG --allow-run-as-root'" },
    { "--status", "DIR", .help = "show how the run in folder DIR is supervised, and exit" },
    { "-- train CONFIG|RUN [key=value]...", .flags = ARG_REST },
    ARG_ROW_END,
};

static Status read_int(const Args *args, const char *option, int *out)
{
    int64_t value = 0;
    TRY(args_whole(args, option, &value));
    *out = (int)value;
    return OK;
}

static Status read_numbers(LaunchOptions *l, const Args *args)
{
    TRY(read_int(args, "--min-hosts", &l->wanted.min_hosts));
    TRY(read_int(args, "--max-hosts", &l->wanted.max_hosts));
    TRY(read_int(args, "--slots", &l->slots));
    TRY(read_int(args, "--max-restarts", &l->max_restarts));
    TRY(args_number(args, "--wait-hosts", &l->wait_hosts_s));
    TRY(args_number(args, "--cooldown", &l->cooldown_s));
    TRY(args_number(args, "--grow-after", &l->grow_after_s));
    TRY(args_number(args, "--lost-after", &l->lost_after_s));
    TRY(args_number(args, "--grace", &l->grace_s));
    TRY(args_number(args, "--poll", &l->poll_s));
    if (l->wanted.max_hosts > 0 && l->wanted.max_hosts < l->wanted.min_hosts)
        return fail(ERR_USAGE, "--max-hosts %d is less than --min-hosts %d", l->wanted.max_hosts,
                    l->wanted.min_hosts);
    return OK;
}

/* -n: without a script, this host is all there is. */
static Status read_ranks(LaunchOptions *l, const Args *args)
{
    const char *text = args_value(args, "-n");
    int64_t ranks = 0;
    l->hosts_script = args_value(args, "--hosts-script");
    if (!text && !l->hosts_script)
        return fail(ERR_USAGE, "missing option -n or --hosts-script (see convoy launch --help)");
    if (!text) return OK;
    if (l->hosts_script)
        return fail(ERR_USAGE, "give either -n (ranks on this host) or --hosts-script, not both");
    if (strcmp(text, "auto") != 0) TRY(args_whole(args, "-n", &ranks));
    l->ranks = (int)ranks;
    l->wanted.max_hosts = 1;
    return OK;
}

/* A rank for each GPU that the run would take; on the CPU one rank has all cores. */
static int ranks_by_gpus(const Config *c)
{
    char why[256];
    const int gpus = c->device.backend == BACKEND_CPU ? 0 : backend_cuda_devices(why, sizeof why);
    if (gpus > 0) log_info("-n auto: %d GPU%s", gpus, gpus > 1 ? "s" : "");
    else
        log_info("-n auto: one rank with all cores: %s",
                 c->device.backend == BACKEND_CPU ? "device.backend is cpu" : why);
    return gpus > 0 ? gpus : 1;
}

/* Other than hosts, ranks here will not become more. */
static Status settle_ranks(LaunchOptions *l, const Config *c)
{
    if (l->hosts_script) return OK;
    if (l->ranks == 0) l->ranks = ranks_by_gpus(c);
    if (l->wanted.global_batch % l->ranks == 0) return OK;
    return fail(ERR_USAGE, "train.global_batch: %lld is not divisible by %d ranks (-n)",
                (long long)l->wanted.global_batch, l->ranks);
}

/* What follows "--" is a convoy train command line; its config says where the run is kept. */
static Status read_command(LaunchOptions *l, Config **config)
{
    Args train;
    if (l->command_count == 0)
        return fail(ERR_USAGE, "missing argument -- train CONFIG (see convoy launch --help)");
    if (strcmp(l->command[0], "train") != 0)
        return fail(ERR_USAGE, "after -- comes train CONFIG, not %s", l->command[0]);
    Status status = args_parse(&train, l->command_count - 1, l->command + 1, cmd_train.args);
    if (status != OK) return fail_note(status, "train");
    if (train.help) return fail(ERR_USAGE, "after --: no --help here (see convoy train --help)");
    TRY(run_source_config(config, train.config, train.sets, train.set_count));
    TRY(outputs_check_folders(*config));
    if (strcmp((*config)->checkpoint.resume, "none") == 0)
        return fail(
            ERR_USAGE,
            "checkpoint.resume: none would start over at every restart; convoy launch needs auto");
    l->run_dir = (*config)->run.dir;
    if ((*config)->train.batch_mode == BATCH_GLOBAL)
        l->wanted.global_batch = (*config)->train.global_batch;
    return OK;
}

/* Whoever starts a supervisor again whatever its exit code was, as Kubernetes does, would have the
 * run diverge once more: it continues exactly. With other settings it may not. */
static Status check_not_diverged(Config *config)
{
    StrBuf changed FREED_BY(str_free) = { 0 };
    Config *then FREED_BY(config_destroy_at) = NULL;
    if (progress_exit_code(config->run.dir) != status_exit_code(ERR_DIVERGED)) return OK;
    char *path FREED = fs_join(config->run.dir, "config.yaml");
    if (!path || config_stored(&then, path) != OK) return OK;
    /* what auto will be when the run goes on (command_run.c) */
    if (config->train.precision == CONFIG_OTHER && config->train.precision_auto == CONFIG_OTHER) {
        config->train.precision = then->train.precision;
        config->train.precision_auto = then->train.precision_auto;
    }
    if (config_difference(then, config, &changed) != OK || changed.length > 0) return OK;
    return fail(
        ERR_DIVERGED,
        "%s: training has diverged and would again with the same settings; change one, such as "
        "optimizer.lr or train.on_nan (convoy train starts it as it is)",
        config->run.dir);
}

static Status launch(LaunchOptions *l, const Args *args)
{
    char program[PATH_BYTES];
    Config *config FREED_BY(config_destroy_at) = NULL;
    l->agent = args_value(args, "--agent");
    l->mpirun_args = args_value(args, "--mpirun-args") ? args_value(args, "--mpirun-args") : "";
    l->program = program;
    l->prefix = args_value(args, "--prefix") != NULL;
    TRY(read_ranks(l, args));
    TRY(read_numbers(l, args));
    /* the same on all hosts: one image, or a shared file system */
    TRY(process_own_path(program, sizeof program));
    TRY(read_command(l, &config));
    TRY(settle_ranks(l, config));
    TRY(check_not_diverged(config));
    return supervisor_run(l);
}

static Status command(const Args *args)
{
    LaunchOptions l = { .command = args->rest, .command_count = args->rest_count };
    if (args_value(args, "--status")) return record_print_state(args_value(args, "--status"));
    signals_install();
    return launch(&l, args);
}

const Command cmd_launch = {
    .name = "launch",
    .group = "Train",
    .summary = "keep a run going over mpirun, while hosts fail and return",
    .about =
        "Keeps a run going over mpirun (Open MPI). Starts it on this host or on the hosts that "
        "answer, and starts it again from its last checkpoint: after a failure, on the remaining "
        "hosts when one dies, on more hosts when they come or return.\n"
        "USR1, TERM, INT or HUP: the run saves a checkpoint and all exit with code 75. With "
        "train.batch_mode=global the global batch stays the same on any number of hosts; as many "
        "are used as can share it. Writes to the run folder: launch.jsonl (what happened), "
        "launch.status.json, launch.lock (a run has one supervisor).",
    .examples = "convoy launch -n 4 -- train CONFIG\n"
                "convoy launch --hosts-script 'cat hosts' --min-hosts 2 -- train CONFIG\n"
                "convoy launch --status runs/NAME",
    .args = rows,
    .alone = command,
};
