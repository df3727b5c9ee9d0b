/* cmd_launch.c - convoy launch: reads the command line of a supervised run, and the run's own
 * config as far as the supervisor must know it (run folder, global batch). */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "kernels/backend_cuda.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/launch/progress.h"
#include "trainer/app/launch/record.h"
#include "trainer/app/launch/supervisor.h"
#include "trainer/engine/files/outputs.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/guard/signals.h"
#include <string.h>

#define PATH_BYTES 4096
#define RANKS_MAX  1024

static const char help[] =
    "usage: convoy launch [-n N|auto] [--hosts-script CMD] [--min-hosts N] [--max-hosts N] "
    "[--slots N]\n                     [--max-restarts N] [--prefix] [--wait-hosts S] [--cooldown "
    "S] [--grow-after S] "
    "[--lost-after S]\n                     [--grace S] [--poll S] [--agent CMD] [--mpirun-args "
    "ARGS] [--status DIR] -- train CONFIG|RUN [[--set] key=value]...\n\nKeeps a run going over "
    "mpirun "
    "(Open MPI): starts it here or on the hosts that answer, and starts it again from its\nlast "
    "checkpoint: after a failure, on those that are left when a host dies, on more when they come "
    "or return.\n\n  convoy launch -n 4 -- train CONFIG\n  convoy launch "
    "--hosts-script /etc/mpi/discover_hosts.sh --min-hosts 2 --max-hosts 8 --slots 8 -- train "
    "CONFIG\n  convoy launch --hosts-script 'cat hosts' --min-hosts 2 -- train CONFIG "
    "train.batch_mode=global ...\n  convoy launch --status runs/CONFIG-NAME\n\n  -n N              "
    "  so many ranks on this host, whatever its "
    "cores; auto: one for each GPU, or one\n                      rank with all cores where there "
    "is none\n  --hosts-script "
    "CMD  prints the hosts that exist, one a line: host, host:slots or host slots=N; run every "
    "--poll\n  --min-hosts N       waits for at least so many (1)\n  --max-hosts N       takes at "
    "most so many (0: no limit)\n  --slots N           ranks on a host of which the script does "
    "not say it (1): its GPUs\n  --max-restarts N    gives up after so many failures (10); other "
    "hosts or a request are no failure\n  --prefix            each line that a rank prints "
    "begins with its rank, as mpirun says it: [1,RANK]<stdout>:\n  --wait-hosts S      gives up "
    "waiting for hosts, or for "
    "the run folder, after so many seconds, with 75 (600)\n  --cooldown S        leaves a host out "
    "for so long that was lost, doubled each time, up to an hour (60);\n                      one "
    "that is needed: at most half of --wait-hosts\n  --grow-after S      more hosts are taken so "
    "long after a start at the earliest (600)\n  --lost-after S      a host that is silent or no "
    "longer listed for so long is lost (15)\n  --grace S           time for a checkpoint when the "
    "run is asked to leave (120)\n  --poll S            between two looks at script and hosts "
    "(5)\n  --agent CMD         what reaches a host, called as: CMD HOST COMMAND (ssh)\n  "
    "--mpirun-args ARGS  more words for mpirun: '-x NCCL_DEBUG --allow-run-as-root'\n  --status "
    "DIR        shows how the run in that folder is supervised, and ends\n\nUSR1, TERM, INT or "
    "HUP: "
    "the run saves a checkpoint and all leave with exit code 75. With train.batch_mode=global "
    "the\nglobal batch stays the same on any number of hosts; as many are used as can share it. In "
    "the run folder:\nlaunch.jsonl (what happened), launch.status.json, launch.lock (a run has one "
    "supervisor).\n";

/* what says which hosts there are, and how they are reached: no matter to ranks on this one */
static const char *const of_hosts[] = {
    "--hosts-script", "--min-hosts",  "--max-hosts",  "--slots",
    "--cooldown",     "--grow-after", "--lost-after", "--agent"
};

typedef struct NumberOption { /* an option with a number, and where it goes */
    const char *name;
    double min, max;
    int *whole; /* one of the two */
    double *seconds;
} NumberOption;

static Status read_number(const Args *args, const NumberOption *o)
{
    const char *text = args_value(args, o->name);
    double value;
    if (!text) return OK;
    bool good = str_to_double(text, &value) && value >= o->min && value <= o->max;
    if (good && o->whole) good = (double)(int)value == value;
    if (!good) {
        return fail(ERR_USAGE, "convoy launch: %s %s: must be a %snumber from %g to %g", o->name,
                    text, o->whole ? "whole " : "", o->min, o->max);
    }
    if (o->whole) *o->whole = (int)value;
    else *o->seconds = value;
    return OK;
}

static Status read_numbers(LaunchOptions *l, const Args *args)
{
    const NumberOption options[] = {
        { "--min-hosts", 1, HOSTS_MAX, &l->wanted.min_hosts, NULL },
        { "--max-hosts", 0, HOSTS_MAX, &l->wanted.max_hosts, NULL },
        { "--slots", 1, 1024, &l->slots, NULL },
        { "--max-restarts", 0, 1e6, &l->max_restarts, NULL },
        { "--wait-hosts", 0, 1e9, NULL, &l->wait_hosts_s },
        { "--cooldown", 0, 3600, NULL, &l->cooldown_s },
        { "--grow-after", 0, 1e9, NULL, &l->grow_after_s },
        { "--lost-after", 0, 1e6, NULL, &l->lost_after_s },
        { "--grace", 0, 1e6, NULL, &l->grace_s },
        { "--poll", 0.1, 3600, NULL, &l->poll_s },
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        TRY(read_number(args, &options[i]));
    if (l->wanted.max_hosts > 0 && l->wanted.max_hosts < l->wanted.min_hosts) {
        return fail(ERR_USAGE, "convoy launch: --max-hosts %d is less than --min-hosts %d",
                    l->wanted.max_hosts, l->wanted.min_hosts);
    }
    return OK;
}

/* -n: without a script, this host is all there is. */
static Status read_ranks(LaunchOptions *l, const Args *args)
{
    const char *text = args_value(args, "-n");
    int64_t ranks = 0;
    l->hosts_script = args_value(args, "--hosts-script");
    if (!text && !l->hosts_script)
        return fail(ERR_USAGE, "convoy launch: -n or --hosts-script is missing (see convoy launch "
                               "--help)");
    if (!text) return OK;
    for (size_t i = 0; i < sizeof of_hosts / sizeof of_hosts[0]; i++)
        if (args_value(args, of_hosts[i]))
            return fail(ERR_USAGE, "convoy launch: -n is for this host alone: no %s with it",
                        of_hosts[i]);
    if (strcmp(text, "auto") != 0 && (!str_to_i64(text, &ranks) || ranks < 1 || ranks > RANKS_MAX))
        return fail(ERR_USAGE, "convoy launch: -n %s: must be auto or a whole number from 1 to %d",
                    text, RANKS_MAX);
    l->ranks = (int)ranks;
    l->wanted.max_hosts = 1;
    return OK;
}

/* A rank for each GPU that the run would take; on the CPU one rank has all cores. */
static int ranks_by_gpus(const Config *c)
{
    char why[256];
    const int gpus = c->device.backend == BACKEND_CPU ? 0 : backend_cuda_devices(why, sizeof why);
    if (gpus > 0) log_info("launch: -n auto: %d GPU%s", gpus, gpus > 1 ? "s" : "");
    else
        log_info("launch: -n auto: one rank, which has all cores: %s",
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
    static const char usage[] = "usage: convoy train CONFIG|RUN [[--set] key=value]...\n";
    Args train;
    if (l->command_count == 0)
        return fail(ERR_USAGE, "convoy launch: -- train CONFIG is missing (see --help)");
    if (strcmp(l->command[0], "train") != 0)
        return fail(ERR_USAGE, "convoy launch: after -- comes train CONFIG, not %s", l->command[0]);
    TRY(args_parse(&train, l->command_count - 1, l->command + 1, usage));
    if (train.help) return fail(ERR_USAGE, "%s", "");
    TRY(run_source_config(config, train.config, train.sets, train.set_count));
    TRY(outputs_check_folders(*config));
    if (strcmp((*config)->checkpoint.resume, "none") == 0)
        return fail(
            ERR_USAGE,
            "checkpoint.resume: none would begin anew at every start; convoy launch needs auto");
    l->run_dir = (*config)->run.dir;
    if ((*config)->train.batch_mode == BATCH_GLOBAL)
        l->wanted.global_batch = (*config)->train.global_batch;
    return OK;
}

/* Whoever starts a supervisor again whatever its exit code was, as Kubernetes does, would have the
 * run diverge once more: it continues exactly. With other settings it may not. */
static Status check_not_diverged(Config *config)
{
    StrBuf changed = { 0 };
    Config *then = NULL;
    if (progress_exit_code(config->run.dir) != status_exit_code(ERR_DIVERGED)) return OK;
    char *path = fs_join(config->run.dir, "config.yaml");
    Status status = path ? config_stored(&then, path) : ERR_MEMORY;
    /* what auto will be when the run goes on (command_run.c) */
    if (status == OK && config->train.precision == CONFIG_OTHER &&
        config->train.precision_auto == CONFIG_OTHER) {
        config->train.precision = then->train.precision;
        config->train.precision_auto = then->train.precision_auto;
    }
    const bool same =
        status == OK && config_difference(then, config, &changed) == OK && changed.length == 0;
    config_destroy(then);
    mem_free(path);
    str_free(&changed);
    if (!same) return OK;
    return fail(ERR_DIVERGED,
                "%s: training has diverged, and would again with the same settings: change one of "
                "them, optimizer.lr or train.on_nan for example (convoy train starts it as it is)",
                config->run.dir);
}

static Status launch(LaunchOptions *l, const Args *args)
{
    char program[PATH_BYTES];
    Config *config = NULL;
    l->agent = args_value(args, "--agent");
    l->mpirun_args = args_value(args, "--mpirun-args") ? args_value(args, "--mpirun-args") : "";
    l->program = program;
    l->prefix = args_value(args, "--prefix") != NULL;
    TRY(read_ranks(l, args));
    TRY(read_numbers(l, args));
    /* the same on all hosts: one image, or a shared file system */
    TRY(process_own_path(program, sizeof program));
    Status status = read_command(l, &config);
    if (status == OK) status = settle_ranks(l, config);
    if (status == OK) status = check_not_diverged(config);
    if (status == OK) status = supervisor_run(l);
    config_destroy(config);
    return status;
}

static Status command(int argc, char **argv)
{
    Args args;
    int own = 0;
    LaunchOptions l = { .wanted = { .min_hosts = 1 },
                        .slots = 1,
                        .max_restarts = 10,
                        .wait_hosts_s = 600,
                        .cooldown_s = 60,
                        .grow_after_s = 600,
                        .lost_after_s = 15,
                        .grace_s = 120,
                        .poll_s = 5 };
    while (own < argc && strcmp(argv[own], "--") != 0) own++;
    if (own < argc) {
        l.command = argv + own + 1;
        l.command_count = argc - own - 1;
    }
    TRY(args_parse(&args, own, argv, help));
    if (args.help) return OK;
    if (args_value(&args, "--status")) return record_print_state(args_value(&args, "--status"));
    signals_install();
    return launch(&l, &args);
}

const Command cmd_launch = { .by_words = command };
