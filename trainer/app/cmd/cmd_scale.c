/* cmd_scale.c - convoy scale CONFIG: how the time of an epoch changes with the number of ranks. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include "trainer/app/report/report.h"
#include "trainer/app/scale/predict.h"
#include "trainer/app/scale/series_run.h"
#include "trainer/engine/files/outputs.h"
#include "trainer/engine/guard/signals.h"

#define PATH_BYTES 4096

static const char *const print_words[] = { "mpirun", "sbatch", NULL };

static const ArgRow rows[] = {
    ARG_ROW_CONFIG,
    { "--mpirun-args", "ARGS",
      .help =
          "extra arguments for mpirun, such as '--hostfile hosts --map-by slot'. By default ranks "
          "run on this host, with --oversubscribe if there are more ranks than CPUs (such points "
          "are labelled)" },
    { "--print", "KIND", .help = "run nothing: print the command lines of the unfinished points",
      .choices = print_words },
    { "--per-node", "N", .help = "ranks, and GPUs, per node for sbatch", .needs = "--print",
      .min = 1, .max = 1024, .fallback = 8 },
    { "--collect",
      .help = "run nothing: collect the finished points in scale.jsonl, however they were run" },
    { "--predict", "FILES",
      .help = "run nothing: predict the step time on fabrics (configs/fabrics/*.json, separated by "
              "commas); convoy report plots the prediction" },
    { "--rate", "IMAGES_PER_S",
      .help = "speed of one rank alone (default: as measured). 7162@400: measured with 400 images "
              "per step (default: train.batch_per_rank)",
      .needs = "--predict" },
    { "--ranks", "LIST", .help = "numbers of ranks, such as 12,24,160 (default 1,2,4 to 256)",
      .needs = "--predict" },
    { "--op-us", "US",
      .help = "fixed time per operation of the step, whatever its images: launch, gap, ramp",
      .needs = "--predict", .max = 1e6 },
    { "--fixed-ms", "MS", .help = "further fixed time per step, such as the optimizer's",
      .needs = "--predict", .max = 1e6 },
    { "--spread", "PERCENT",
      .help = "standard deviation of the ranks' compute times; a step waits for the slowest rank",
      .needs = "--predict", .max = 100 },
    { "--no-overlap", .help = "sum all gradients at once, after the backward pass",
      .needs = "--predict" },
    ARG_ROW_SET,
    ARG_ROW_END,
};

/* The page of the series, in its folder. */
static Status draw(const Series *s)
{
    const char *dir = s->dir;
    char *page FREED = fs_join(dir, "report.html");
    return page ? report_write(page, &dir, 1) : ERR_MEMORY;
}

static Status collect(const Series *s)
{
    int finished = 0;
    TRY(series_write(s, &finished));
    log_info("%d of %d points are finished", finished, s->point_count);
    return finished > 0 ? OK : fail(ERR_DATA, "%s: no point is finished", s->dir);
}

/* The option's value in units; 0 where it was not given. */
static Status term(const Args *args, const char *option, double unit, double *out)
{
    TRY(args_number(args, option, out));
    *out *= unit;
    return OK;
}

static Status predict(const Series *s, const Args *args)
{
    PredictOptions o = { .fabrics = args_value(args, "--predict"),
                         .terms.no_overlap = args_value(args, "--no-overlap") != NULL };
    unread_warn(args, "scale.ranks", ": with --predict, --ranks lists the numbers of ranks");
    TRY(predict_rate(&o, args_value(args, "--rate")));
    TRY(predict_ranks(&o.ranks, args_value(args, "--ranks")));
    TRY(term(args, "--op-us", 1e-6, &o.terms.operation_s));
    TRY(term(args, "--fixed-ms", 1e-3, &o.terms.fixed_s));
    TRY(term(args, "--spread", 1e-2, &o.terms.spread));
    TRY(predict_print(s, &o));
    return draw(s);
}

static Status work(const Series *s, const Args *args)
{
    char program[PATH_BYTES];
    int kind;
    int64_t per_node = 0;
    const SeriesRunOptions o = { .program = program,
                                 .mpirun_args = args_value(args, "--mpirun-args") };
    const char *const alone[] = { "--print", "--collect", "--predict" };
    for (int i = 0; i < 2; i++)
        for (int k = i + 1; k < 3; k++)
            if (args_value(args, alone[i]) && args_value(args, alone[k]))
                return fail(ERR_USAGE, "give either %s or %s, not both", alone[i], alone[k]);
    TRY(args_choice(args, "--print", &kind));
    TRY(args_whole(args, "--per-node", &per_node));
    TRY(process_own_path(program, sizeof program));
    if (args_value(args, "--print")) return series_run_print(s, &o, (PrintKind)kind, per_node);
    if (args_value(args, "--predict")) return predict(s, args);
    if (args_value(args, "--collect")) TRY(collect(s));
    else TRY(series_run(s, &o));
    TRY(series_print(s));
    return draw(s);
}

static Status command(const Args *args)
{
    Series series FREED_BY(series_close) = { 0 };
    signals_install();
    TRY(series_open(&series, args->config, args->sets, args->set_count));
    TRY(outputs_check_folders(series.config));
    TRY(work(&series, args));
    if (!args_value(args, "--predict") && !args_value(args, "--collect")) return OK;
    return log_check_output(); /* they are asked for an answer */
}

/* A point's steps, sums and files are the series' own. */
const Command cmd_scale = {
    .name = "scale",
    .group = "Measure",
    .summary = "measure how epoch time changes with the number of ranks",
    .about =
        "Trains CONFIG on several numbers of ranks (scale.ranks), several times each "
        "(scale.repeats), through mpirun. Prints epoch time and efficiency with 95 % intervals, "
        "and plots them (report.html, as convoy report does). Every point is a separate run in the "
        "folder of the series (scale.dir). Finished points are skipped, so the same command "
        "continues a stopped series.",
    .examples = "convoy scale configs/scale-resnet20.yaml\n"
                "convoy scale CONFIG scale.ranks=1,2,4,8 scale.steps=50 scale.data=synthetic\n"
                "convoy scale CONFIG --print sbatch | sh; later: convoy scale CONFIG --collect",
    .args = rows,
    .alone = command,
    .ignores =
        "data.val data.val_split train.epochs train.max_steps train.batch_mode train.patience "
        "ema.decay ema.half_life checkpoint.resume checkpoint.every_epochs "
        "checkpoint.every_steps log.every",
};
