/* cmd_bench.c - convoy bench decode|loader|step|allreduce [CONFIG]: one part by itself, on this
 * machine, with this configuration.
 *
 * Results are lines of "name value", made to be read by people and by scripts. Without data.train
 * synthetic images stand in. */
#include "base/log.h"
#include "base/str.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include <stdio.h>
#include <string.h>

#define STEPS_DEFAULT  20
#define STEPS_MAX      1000000
#define IMAGES_DEFAULT 500
#define BYTES_MAX      (INT64_C(1) << 40)

typedef struct BenchRow {
    const char *name;
    Status (*run)(Comm *comm, const Config *c, const BenchOptions *o);
} BenchRow;

static const BenchRow benches[] = {
    { "decode", bench_decode },
    { "loader", bench_loader },
    { "step", bench_step },
    { "allreduce", bench_allreduce },
};

static const char help[] =
    "usage: convoy bench WHAT [CONFIG|RUN] [--steps N] [--warmup N] [--nodes] [--layers FILE] "
    "[--verbose] [--eval] [--images N] [--replay FILE] [--dump FILE] [--input NAME] [--crc] "
    "[--first N] [--min-bytes N] [--max-bytes N] [--factor N] [--check 0|1] [--min-busbw GBPS] "
    "[--like NAME] [--rate N] "
    "[--predict FILES] [[--set] key=value]...\n\n"
    "Measures one part by itself; under mpirun on all ranks. Without data.train synthetic images "
    "stand in. WHAT is\n\n  decode      images/s "
    "that one thread makes of files in memory: JPEG bytes to the view that the network sees\n  "
    "loader      images/s of the training input alone, files to batches: files that the page cache "
    "has forgotten (cold),\n              files in the page cache (cached), generated images "
    "(synthetic)\n  step        training steps: images/s, milliseconds, waits, allocations, "
    "overlap: the "
    "share of gradient bytes whose sums\n              begin before the last rank ends backward\n  "
    "allreduce   sums over the ranks by size, in the columns of "
    "nccl-tests; by NCCL where each rank has a GPU, else by MPI\n\n  --steps N           measured "
    "steps, batches, passes over the images or repetitions (default 20)\n  --warmup N          "
    "steps before them that do not count (default 3)\n  --eval              decode: the view of "
    "evaluation instead of training; step: evaluation (of synthetic images,\n                      "
    "--steps batches, or of all of data.train)\n  --images N          decode: at most so many "
    "images of data.train, read into memory before (default 500)\n  --replay FILE       decode: "
    "makes the views that FILE lists instead, one a line: box X Y W H resize W H\n                 "
    "     window X Y size S flip 0|1, operations of augmentation (data/augment/replay.h), a tab "
    "and the\n                      path of the image\n  --dump FILE         decode: where the "
    "pixels of --replay go, size x size x 3 bytes a view\n  --nodes             step: also where "
    "the time goes, by kind of operation, and\n                      on the CPU the rates that "
    "products and memory reach at best\n  --layers FILE       step: the same by layer, as CSV\n  "
    "--verbose           also what is tried and timed while cuDNN's plans are chosen\n  --input "
    "NAME        loader: only cold, cached or "
    "synthetic, or the page cache as it is (now)\n  --crc               loader: one checksum of "
    "pixels and labels for each global step instead; the same for any threads,\n                   "
    "   ranks and micro-batches of one global batch, wherever the run starts\n  --first N          "
    " loader: the global step to start at (default 0)\n  --min-bytes N       allreduce: the "
    "smallest size (default 8). K, M or G may follow\n  --max-bytes N       "
    "allreduce: the largest size (default comm.bucket_mb)\n  --factor N          allreduce: from "
    "one "
    "size to the next (default 2)\n  --check 0|1         allreduce: whether the sums are checked "
    "(default 1)\n                      nccl-tests' -b -e -f -n -w -c mean --min-bytes --max-bytes "
    "--factor --steps --warmup\n                      --check\n  --min-busbw GBPS    allreduce: "
    "exit "
    "code 69 if the largest size's bus bandwidth is below this, in GB/s\n  --like NAME         "
    "allreduce: sums the buckets of a step of this network instead, one of ours or roberta-base, "
    "roberta-large,\n                      while a modelled backward makes them (nothing "
    "computes): "
    "milliseconds that show,\n                      efficiency, images/s or tokens/s\n  --rate N   "
    "         --like: images/s or tokens/s of one rank that computes alone\n  --predict FILES     "
    "--like: the same by a model, on 1 to 64 nodes of fabrics (configs/fabrics/*.json,\n           "
    " "
    "          separated by commas)\n  --set key=value     "
    "overrides a key of CONFIG; --set may be left out (convoy inspect config lists them)\n";

/* A size such as 8, 64K, 200M. */
static Status size_option(const Args *args, const char *name, int64_t fallback, int64_t *out)
{
    static const char units[] = "KMG";
    const char *text = args_value(args, name);
    char digits[32];
    *out = fallback;
    if (!text) return OK;
    snprintf(digits, sizeof digits, "%s", text);
    size_t length = strlen(digits);
    const char *unit = length > 0 ? strchr(units, digits[length - 1]) : NULL;
    if (unit && *unit) digits[length - 1] = '\0';
    int shift = unit && *unit ? 10 * (int)(unit - units + 1) : 0;
    if (str_to_i64(digits, out) && *out >= 1 && *out <= BYTES_MAX >> shift &&
        (*out << shift) % 4 == 0) {
        *out <<= shift;
        return OK;
    }
    return fail(ERR_USAGE, "convoy bench: %s %s is no multiple of 4 bytes, such as 8, 64K, 200M",
                name, text);
}

static Status rate_option(const Args *args, const char *name, const char *unit, double *out)
{
    const char *text = args_value(args, name);
    if (!text || (str_to_double(text, out) && *out > 0)) return OK;
    return fail(ERR_USAGE, "convoy bench: %s %s is no number of %s above 0", name, text, unit);
}

static const BenchRow *find_bench(const char *name)
{
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        if (strcmp(benches[i].name, name) == 0) return &benches[i];
    }
    return NULL;
}

static Status bench(Comm *comm, Config *c, const Args *args)
{
    BenchOptions o = { .nodes = args_value(args, "--nodes") || args_value(args, "--layers"),
                       .layers = args_value(args, "--layers"),
                       .eval = args_value(args, "--eval") != NULL,
                       .replay = args_value(args, "--replay"),
                       .dump = args_value(args, "--dump"),
                       .input = args_value(args, "--input"),
                       .crc = args_value(args, "--crc") != NULL,
                       .like = args_value(args, "--like"),
                       .predict = args_value(args, "--predict") };
    TRY(args_count(args, "--steps", STEPS_DEFAULT, 1, STEPS_MAX, &o.steps));
    TRY(args_count(args, "--warmup", 3, 0, STEPS_MAX, &o.warmup));
    TRY(args_count(args, "--images", IMAGES_DEFAULT, 1, STEPS_MAX, &o.images));
    TRY(args_count(args, "--first", 0, 0, STEPS_MAX, &o.first));
    TRY(size_option(args, "--min-bytes", 8, &o.min_bytes));
    TRY(size_option(args, "--max-bytes", 0, &o.max_bytes));
    TRY(args_count(args, "--factor", 2, 2, 1 << 20, &o.factor));
    TRY(args_count(args, "--check", 1, 0, 1, &o.check));
    TRY(rate_option(args, "--min-busbw", "GB/s", &o.min_busbw));
    TRY(rate_option(args, "--rate", "images or tokens/s", &o.rate));
    if (!o.replay != !o.dump)
        return fail(ERR_USAGE, "convoy bench: --replay and --dump go together");
    if (!o.like != !(o.rate > 0) || (o.predict && !o.like) || (o.min_busbw > 0 && o.like))
        return fail(ERR_USAGE,
                    "convoy bench: --like needs --rate, --rate and --predict need --like, "
                    "and --min-busbw does without");
    if (args_value(args, "--verbose")) TRY(log_open(NULL, comm->rank, LOG_DEBUG));
    return find_bench(args->positional[0])->run(comm, c, &o);
}

/* nccl-tests' names of options, short and long: as its users have them in their scripts. */
static char *own_name(char *word)
{
    static const struct OptionRow {
        const char *one, *two;
        char own[16];
    } rows[] = {
        { "-b", "--minbytes", "--min-bytes" },  { "-e", "--maxbytes", "--max-bytes" },
        { "-f", "--stepfactor", "--factor" },   { "-n", "--iters", "--steps" },
        { "-w", "--warmup_iters", "--warmup" }, { "-c", "--check", "--check" },
    };
    static char own[sizeof rows / sizeof *rows][sizeof rows->own];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(word, rows[i].one) != 0 && strcmp(word, rows[i].two) != 0) continue;
        return memcpy(own[i], rows[i].own, sizeof own[i]);
    }
    return word;
}

static Status command(int argc, char **argv)
{
    Args args;
    for (int i = 1; i < argc && strcmp(argv[0], "allreduce") == 0; i++) argv[i] = own_name(argv[i]);
    TRY(args_parse(&args, argc, argv, help));
    if (args.help) return OK;
    if (!find_bench(args.positional[0])) {
        return fail(ERR_USAGE,
                    "convoy bench: unknown benchmark %s (decode, loader, step or allreduce)",
                    args.positional[0]);
    }
    unread_warn(&args, UNREAD_BUT_IN_RUNS, "");
    return command_run(&args, bench);
}

const Command cmd_bench = { .by_words = command };
