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

static const char help[] =
    "usage: convoy scale CONFIG|RUN [[--set] key=value]... [--mpirun-args ARGS] [--print KIND] "
    "[--per-node N] [--collect]\n"
    "                    [--predict FILES] [--rate IMAGES_PER_S] [--ranks LIST] [--op-us US] "
    "[--fixed-ms MS]\n"
    "                    [--spread PERCENT] [--no-overlap]\n"
    "\n"
    "Trains CONFIG on several numbers of ranks (scale.ranks), several times each (scale.repeats), "
    "through mpirun,\n"
    "tells epoch time and efficiency with 95 % intervals, and draws them (report.html, as convoy "
    "report does). Every\n"
    "point is a run of its own in the folder of the series (scale.dir); finished ones are skipped, "
    "so the same\n"
    "command goes on where it was stopped.\n"
    "\n"
    "  convoy scale configs/scale-resnet20.yaml\n"
    "  convoy scale CONFIG scale.ranks=1,2,4,8 scale.steps=50 scale.data=synthetic\n"
    "  convoy scale CONFIG --print sbatch | sh; later: convoy scale CONFIG --collect\n"
    "\n"
    "  --mpirun-args ARGS  more words for mpirun: '--hostfile hosts --map-by slot'. Without it "
    "ranks run on this host\n"
    "                      with --oversubscribe where there are fewer CPUs (such points are "
    "labelled)\n"
    "  --print KIND        runs nothing: prints the command lines of the points that are not "
    "finished: mpirun or\n"
    "                      sbatch\n"
    "  --per-node N        with --print sbatch: ranks, and GPUs, of a node (8)\n"
    "  --collect           runs nothing: takes the finished points, whoever ran them, into "
    "scale.jsonl\n"
    "  --predict FILES     runs nothing: a model of the step for fabrics (configs/fabrics/*.json, "
    "separated by\n"
    "                      commas), drawn by convoy report as a prediction\n"
    "  --rate IMAGES_PER_S  with --predict: of one rank that computes by itself (default: as "
    "measured); 7162@400:\n"
    "                      in steps of 400 images (default: train.batch_per_rank)\n"
    "  --ranks LIST        with --predict: numbers of ranks, such as 12,24,160 (1,2,4 to 256)\n"
    "  --op-us US          with --predict: that each operation of the step takes besides its "
    "images: launch, gap, ramp\n"
    "  --fixed-ms MS       with --predict: that a step takes besides them, such as the "
    "optimizer's time\n"
    "  --spread PERCENT    with --predict: standard deviation of the ranks' times; a step waits "
    "for the slowest\n"
    "  --no-overlap        with --predict: all gradients are summed at once, behind backward\n"
    "  --set key=value     overrides a key of CONFIG; --set may be left out (convoy inspect config "
    "lists them)\n";

/* The page of the series, in its folder. */
static Status draw(const Series *s)
{
    const char *dir = s->dir;
    char *page = fs_join(dir, "report.html");
    Status status = page ? report_write(page, &dir, 1) : ERR_MEMORY;
    mem_free(page);
    return status;
}

static Status collect(const Series *s)
{
    int finished = 0;
    TRY(series_write(s, &finished));
    log_info("%d of %d points are finished", finished, s->point_count);
    return finished > 0 ? OK : fail(ERR_DATA, "%s: no finished point", s->dir);
}

/* The option's value in units; 0 where it was not given. */
static Status term(const Args *args, const char *option, double most, double unit, double *out)
{
    const char *text = args_value(args, option);
    if (!text) return OK;
    if (!str_to_double(text, out) || !(*out >= 0) || *out > most)
        return fail(ERR_USAGE, "%s %s: not a number from 0 to %g", option, text, most);
    *out *= unit;
    return OK;
}

/* Options of predictions are none of runs. */
static Status refuse_terms(const Args *args)
{
    static const char *const options[] = { "--ranks",    "--rate",   "--op-us",
                                           "--fixed-ms", "--spread", "--no-overlap" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (args_value(args, options[i]))
            return fail(ERR_USAGE, "%s: only with --predict (ranks of runs: scale.ranks)",
                        options[i]);
    return OK;
}

static Status predict(const Series *s, const Args *args)
{
    PredictOptions o = { .fabrics = args_value(args, "--predict"),
                         .terms.no_overlap = args_value(args, "--no-overlap") != NULL };
    unread_warn(args, "scale.ranks", ": with --predict, --ranks lists the numbers of ranks");
    TRY(predict_rate(&o, args_value(args, "--rate")));
    TRY(predict_ranks(&o.ranks, args_value(args, "--ranks")));
    TRY(term(args, "--op-us", 1e6, 1e-6, &o.terms.operation_s));
    TRY(term(args, "--fixed-ms", 1e6, 1e-3, &o.terms.fixed_s));
    TRY(term(args, "--spread", 100, 1e-2, &o.terms.spread));
    TRY(predict_print(s, &o));
    return draw(s);
}

static Status work(const Series *s, const Args *args)
{
    static const char *const kinds[] = { "mpirun", "sbatch", NULL };
    char program[PATH_BYTES];
    int kind;
    int64_t per_node;
    const SeriesRunOptions o = { .program = program,
                                 .mpirun_args = args_value(args, "--mpirun-args") };
    TRY(args_choice(args, "--print", kinds, &kind));
    TRY(args_count(args, "--per-node", 8, 1, 1024, &per_node));
    TRY(process_own_path(program, sizeof program));
    if (args_value(args, "--print")) return series_run_print(s, &o, (PrintKind)kind, per_node);
    if (args_value(args, "--predict")) return predict(s, args);
    TRY(refuse_terms(args));
    if (args_value(args, "--collect")) TRY(collect(s));
    else TRY(series_run(s, &o));
    TRY(series_print(s));
    return draw(s);
}

static Status command(const Args *args)
{
    Series series;
    signals_install();
    TRY(series_open(&series, args->config, args->sets, args->set_count));
    Status status = outputs_check_folders(series.config);
    if (status == OK) status = work(&series, args);
    if (status == OK && (args_value(args, "--predict") || args_value(args, "--collect")))
        status = log_check_output(); /* they are asked for an answer */
    series_close(&series);
    return status;
}

/* A point's steps, sums and files are the series' own. */
const Command cmd_scale = { help, .alone = command,
                            .ignores = "data.val data.val_split train.epochs train.max_steps "
                                       "train.batch_mode train.patience ema.decay ema.half_life "
                                       "checkpoint.resume checkpoint.every_epochs "
                                       "checkpoint.every_steps log.every" };
