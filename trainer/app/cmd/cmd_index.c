/* cmd_index.c - convoy index DIR: lists a dataset once, so that runs need not; or checks such a
 * list. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/data.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/files/outputs.h"

static const ArgRow rows[] = {
    { "DIR", .help = "a dataset: the folder, or a list of images" },
    { "--out", "FILE",
      .help =
          "where the index goes: a file that ends in .index, or a folder, in which it gets a name "
          "of its own (default runs/index, where runs in runs/ look for it)",
      .flags = ARG_WRITES },
    ARG_ROW_FORMAT,
    ARG_ROW_ROLE,
    ARG_ROW_ALLOW_EMPTY,
    ARG_ROW_LABELS,
    { "--check", .help = "list everything again and compare; exit code 65 if the index is wrong" },
    { "--threads", "N", .help = "number of threads that list", .min = 1, .max = PARALLEL_MAX,
      .fallback = 16 },
    ARG_ROW_END,
};

/* The index is read here only to say what is in it; dataset_open has loaded or made it. */
static Status build_index(const DatasetOptions *o, const char *file)
{
    Dataset *d FREED_BY(dataset_close_at) = NULL;
    double start_s = clock_s();
    TRY(dataset_open(&d, o));
    log_info("%s: %s, %lld images, %d classes; index %s, %.2f s", o->path, dataset_format_name(d),
             (long long)dataset_images(d), dataset_classes(d), file, clock_s() - start_s);
    return OK;
}

static Status check(const DatasetOptions *o, const char *file)
{
    double start_s = clock_s();
    TRY(dataset_check_index(o));
    log_info("%s: correct, checked in %.2f s", file, clock_s() - start_s);
    return OK;
}

static Status command(const Args *args)
{
    int64_t threads = 0;
    DatasetOptions o;
    TRY(args_dataset(args, &o));
    TRY(args_whole(args, "--threads", &threads));
    const char *out = args_value(args, "--out");
    o.index = out ? out : "runs/index";
    TRY(outputs_check_apart("--out", o.index, "DIR", &o));
    o.must_keep = true;
    o.scan_threads = (int)threads;
    char *file FREED = NULL;
    TRY(dataset_index_file(&file, &o));
    if (!file) return fail(ERR_USAGE, "%s: this format needs no index", o.path);
    return args_value(args, "--check") ? check(&o, file) : build_index(&o, file);
}

const Command cmd_index = {
    .name = "index",
    .group = "Prepare",
    .summary = "list the images of a dataset once, ahead of the runs",
    .about =
        "Lists the images of a dataset and keeps the list in a file, which later runs load at "
        "once. Training does that by itself (data.index); this does it beforehand. An index that "
        "exists and is still right is left alone.",
    .args = rows,
    .alone = command,
};
