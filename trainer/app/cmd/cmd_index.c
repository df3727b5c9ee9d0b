/* cmd_index.c - convoy index DIR: lists a dataset once, so that runs need not; or checks such a
 * list. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/data.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/files/outputs.h"

static const char help[] =
    "usage: convoy index DIR [--out FILE] [--format NAME] [--role NAME] [--allow-empty] [--check] "
    "[--threads N]\n\nLists the images of a dataset and keeps the list in a file, which later runs "
    "load in a "
    "moment. Training does that\nby itself (data.index); this is for doing it beforehand. An index "
    "that is there and still right is left alone.\n\n  --out FILE      where: a file that ends in "
    ".index, or a folder in which it gets a name of its own (default\n                  "
    "runs/index, where runs in runs/ look for it)\n  --format NAME   auto (default), imagefolder, "
    "webdataset or tfrecord\n  --role NAME     train (default) or val: which files of a folder "
    "that has both\n  --allow-empty   folders without an "
    "image are classes too (data.allow_empty_classes)\n  --check         list everything again and "
    "compare with the file; exit code "
    "65 if it is not right\n  --threads N     how many threads list (default 16)\n";

/* The index is read here only to say what is in it; dataset_open has loaded or made it. */
static Status build_index(const DatasetOptions *o, const char *file)
{
    Dataset *d = NULL;
    double start_s = clock_s();
    TRY(dataset_open(&d, o));
    log_info("%s: %s, %lld images, %d classes; index %s, %.2f s", o->path, dataset_format_name(d),
             (long long)dataset_images(d), dataset_classes(d), file, clock_s() - start_s);
    dataset_close(d);
    return OK;
}

static Status check(const DatasetOptions *o, const char *file)
{
    double start_s = clock_s();
    TRY(dataset_check_index(o));
    log_info("%s: right, checked in %.2f s", file, clock_s() - start_s);
    return OK;
}

static Status command(const Args *args)
{
    int64_t threads;
    DatasetOptions o;
    TRY(args_dataset(args, &o));
    TRY(args_count(args, "--threads", 0, 1, PARALLEL_MAX, &threads));
    const char *out = args_value(args, "--out");
    o.index = out ? out : "runs/index";
    TRY(outputs_check_apart("--out", o.index, "DIR", &o));
    o.must_keep = true;
    o.scan_threads = (int)threads;
    char *file = NULL;
    TRY(dataset_index_file(&file, &o));
    if (!file) return fail(ERR_USAGE, "%s: data of this format needs no index", o.path);
    Status status = args_value(args, "--check") ? check(&o, file) : build_index(&o, file);
    mem_free(file);
    return status;
}

const Command cmd_index = { help, .alone = command };
