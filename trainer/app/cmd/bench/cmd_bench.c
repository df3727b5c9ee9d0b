/* cmd_bench.c - convoy bench decode|loader|step|allreduce [CONFIG]: one part by itself, on this
 * machine, with this configuration.
 *
 * Results are lines of "name value", made to be read by people and by scripts. Without data.train
 * synthetic images stand in. */
#include "base/str.h"
#include "trainer/app/cmd/bench/bench.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 1e6
#define BYTES_MAX (INT64_C(1) << 40)

#define ROW_CONFIG                                                                                 \
    {                                                                                              \
        "CONFIG|RUN",                                                                              \
            .help = "a config file, or the folder of a run (default: only the keys given)",        \
            .flags = ARG_CONFIG | ARG_OPTIONAL                                                     \
    }
#define ROW_STEPS(things, names)                                                                   \
    {                                                                                              \
        "--steps", "N", .help = "number of measured " things, .min = 1, .max = STEPS_MAX,          \
                        .fallback = 20, .also = names                                              \
    }
#define ROW_WARMUP(things, names)                                                                  \
    {                                                                                              \
        "--warmup", "N", .help = things " before them that do not count (default 3)",              \
                         .max = STEPS_MAX, .also = names                                           \
    }

/* A size such as 8, 64K, 200M. */
static Status size_option(const Args *args, const char *name, int64_t *out)
{
    static const char units[] = "KMG";
    const char *text = args_value(args, name);
    char digits[32];
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
    return fail(ERR_USAGE, "%s %s: must be a multiple of 4 bytes, such as 8, 64K, 200M", name,
                text);
}

/* An option that a benchmark's table lacks was not given. */
static Status read_options(BenchOptions *o, const Args *args)
{
    *o = (BenchOptions){ .nodes = args_value(args, "--nodes") || args_value(args, "--layers"),
                         .layers = args_value(args, "--layers"),
                         .eval = args_value(args, "--eval") != NULL,
                         .replay = args_value(args, "--replay"),
                         .dump = args_value(args, "--dump"),
                         .crc = args_value(args, "--crc") != NULL,
                         .like = args_value(args, "--like"),
                         .predict = args_value(args, "--predict"),
                         .warmup = 3,
                         .min_bytes = 8 };
    TRY(args_whole(args, "--steps", &o->steps));
    TRY(args_whole(args, "--warmup", &o->warmup));
    TRY(args_whole(args, "--images", &o->images));
    TRY(args_whole(args, "--first", &o->first));
    TRY(size_option(args, "--min-bytes", &o->min_bytes));
    TRY(size_option(args, "--max-bytes", &o->max_bytes));
    TRY(args_whole(args, "--factor", &o->factor));
    TRY(args_whole(args, "--check", &o->check));
    TRY(args_number(args, "--min-busbw", &o->min_busbw));
    return args_number(args, "--rate", &o->rate);
}

/* ---- decode ---- */

static const ArgRow decode_rows[] = {
    ROW_CONFIG,
    ROW_STEPS("passes over the images", NULL),
    ROW_WARMUP("passes", NULL),
    { "--images", "N", .help = "at most N images of data.train, read into memory beforehand",
      .min = 1, .max = STEPS_MAX, .fallback = 500 },
    { "--eval", .help = "the view of evaluation instead of training" },
    { "--replay", "FILE",
      .help =
          "make the views listed in FILE instead, one per line: box X Y W H resize W H window X Y "
          "size S flip 0|1, operations of augmentation (data/augment/replay.h), a tab and the "
          "path of the image",
      .needs = "--dump", .flags = ARG_READS },
    { "--dump", "FILE", .help = "where their pixels go, size x size x 3 bytes per view",
      .needs = "--replay", .flags = ARG_WRITES },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

static Status decode(Comm *comm, Config *c, const Args *args)
{
    BenchOptions o;
    TRY(read_options(&o, args));
    return bench_decode(comm, c, &o);
}

static const Command cmd_bench_decode = {
    .name = "bench decode",
    .summary = "images/s that one thread decodes and prepares from memory",
    .about =
        "Measures images/s that one thread makes of files in memory: from JPEG bytes to the view "
        "that the network receives. Under mpirun on all ranks. Without data.train it uses "
        "generated images.",
    .args = decode_rows,
    .ignores = UNREAD_BUT_IN_RUNS,
    .by_ranks = decode,
};

/* ---- loader ---- */

static const ArgRow loader_rows[] = {
    ROW_CONFIG,
    ROW_STEPS("batches", NULL),
    ROW_WARMUP("batches", NULL),
    { "--input", "NAME",
      .help = "measure only one input; now is the page cache as it is (default: the first three)",
      .choices = bench_inputs },
    { "--crc",
      .help = "print one checksum of pixels and labels per global step instead: the same for any "
              "threads, ranks and micro-batches of one global batch, wherever the run starts" },
    { "--first", "N", .help = "the global step to start at (default 0)", .max = STEPS_MAX },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

static Status loader(Comm *comm, Config *c, const Args *args)
{
    BenchOptions o;
    TRY(read_options(&o, args));
    o.one_input = args_value(args, "--input") != NULL;
    TRY(args_choice(args, "--input", &o.input));
    return bench_loader(comm, c, &o);
}

static const Command cmd_bench_loader = {
    .name = "bench loader",
    .summary = "images/s of the training input alone",
    .about =
        "Measures images/s of the training input alone, from files to batches: files that the "
        "page cache was asked to drop (cold), files in the page cache (cached), generated images "
        "(synthetic). Under mpirun on all ranks. Without data.train it uses generated images.",
    .args = loader_rows,
    .ignores = UNREAD_BUT_IN_RUNS,
    .by_ranks = loader,
};

/* ---- step ---- */

static const ArgRow step_rows[] = {
    ROW_CONFIG,
    ROW_STEPS("steps", NULL),
    ROW_WARMUP("steps", NULL),
    { "--eval",
      .help =
          "evaluation instead of training: of --steps batches of generated images, or of all of "
          "data.train" },
    { "--nodes",
      .help =
          "also print where the time goes, per kind of operation, and on the CPU the peak rates "
          "of matrix products and memory" },
    { "--layers", "FILE", .help = "write the same per layer, as CSV", .flags = ARG_WRITES },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

static Status step(Comm *comm, Config *c, const Args *args)
{
    BenchOptions o;
    TRY(read_options(&o, args));
    return bench_step(comm, c, &o);
}

static const Command cmd_bench_step = {
    .name = "bench step",
    .summary = "time, waits and allocations of training steps",
    .about =
        "Measures training steps: images/s, milliseconds, waits, allocations, and overlap: the "
        "share of gradient bytes whose sums begin before the last rank ends its backward pass. "
        "Under mpirun on all ranks. Without data.train it uses generated images.",
    .args = step_rows,
    .ignores = UNREAD_BUT_IN_RUNS,
    .by_ranks = step,
};

/* ---- allreduce ---- */

/* The other names are those of nccl-tests, which its users have in their scripts. */
static const ArgRow allreduce_rows[] = {
    ROW_CONFIG,
    { "--min-bytes", "N", .help = "the smallest size; K, M or G may follow (default 8)",
      .also = "-b --minbytes" },
    { "--max-bytes", "N", .help = "the largest size (default comm.bucket_mb)",
      .also = "-e --maxbytes" },
    { "--factor", "N", .help = "from one size to the next", .also = "-f --stepfactor", .min = 2,
      .max = 1 << 20, .fallback = 2 },
    ROW_STEPS("repetitions", "-n --iters"),
    ROW_WARMUP("repetitions", "-w --warmup_iters"),
    { "--check", "0|1", .help = "whether to check the sums", .also = "-c", .max = 1,
      .fallback = 1 },
    { "--min-busbw", "GBPS",
      .help = "exit code 69 if the bus bandwidth of the largest size is lower, in GB/s",
      .min = 1e-9, .max = 1e9 },
    { "--like", "NAME",
      .help = "sum the buckets of a step of this network instead, while a modelled backward pass "
              "makes them; prints the exposed milliseconds, efficiency, and images/s or tokens/s",
      .needs = "--rate" },
    { "--rate", "N", .help = "images/s or tokens/s of one rank that computes alone",
      .needs = "--like", .min = 1e-9, .max = 1e15 },
    { "--predict", "FILES",
      .help = "the same by a model, on 1 to 64 nodes of fabrics (configs/fabrics/*.json, separated "
              "by commas)",
      .needs = "--like" },
    ARG_ROW_SET,
    ARG_ROW_END,
};

static Status allreduce(Comm *comm, Config *c, const Args *args)
{
    BenchOptions o;
    TRY(read_options(&o, args));
    if (o.min_busbw > 0 && o.like) return fail(ERR_USAGE, "give either --min-busbw or --like");
    return bench_allreduce(comm, c, &o);
}

static const Command cmd_bench_allreduce = {
    .name = "bench allreduce",
    .summary = "sums over the ranks by size, as nccl-tests measures them",
    .about =
        "Measures sums over the ranks by size, in the columns of nccl-tests: by NCCL where each "
        "rank has a GPU, else by MPI. Under mpirun on all ranks.",
    .examples = "mpirun -n 8 convoy bench allreduce -b 8 -e 1G --min-busbw 300",
    .args = allreduce_rows,
    .ignores = UNREAD_BUT_IN_RUNS,
    .by_ranks = allreduce,
};

/* ---- the command ---- */

static const Command *const benches[] = { &cmd_bench_decode, &cmd_bench_loader, &cmd_bench_step,
                                          &cmd_bench_allreduce, NULL };

const Command cmd_bench = {
    .name = "bench",
    .group = "Measure",
    .summary = "measure decoding, loading, steps or all-reduce alone",
    .about = "convoy bench COMMAND --help explains a command.",
    .commands = benches,
};
