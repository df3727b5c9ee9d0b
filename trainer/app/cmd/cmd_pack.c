/* cmd_pack.c - convoy pack DIR OUT: many small files become a few large shards. */
#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/thread.h"
#include "data/load/pack.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/files/outputs.h"

#define SHARD_MB_DEFAULT 512
#define SHARD_MB_MAX     65536

static const char help[] =
    "usage: convoy pack DIR OUT [--shard-mb N] [--threads N] [--verify] [--no-seek] [--baseline] "
    "[--format NAME] [--role NAME] [--allow-empty]\n\nWrites the images of a dataset to a few "
    "large files in the "
    "folder OUT, which trains as DIR does: same images, same\norder, same pixels, without a file "
    "system request an image. Every image has a checksum. The same command again\ngoes on after an "
    "interruption.\n\n  --shard-mb N    about so many megabytes a file (default 512)\n  --threads "
    "N     how many shards are written at once (default: the CPUs)\n  --verify        then read "
    "everything back and compare it with DIR\n  --no-seek       leave out the seek index, half a "
    "percent of the data, by which a crop decodes only the rows it shows\n  --baseline      recode "
    "progressive JPEG files as baseline ones without loss: they decode three times as fast\n  "
    "--format NAME   auto (default), imagefolder, webdataset, tfrecord or shards: what DIR is\n  "
    "--role NAME     train (default) or val: which files of a folder that has both\n  "
    "--allow-empty   folders without an image are classes too (data.allow_empty_classes)\n";

static void report_packed(const char *out, const PackReport *r, double seconds)
{
    double mb = (double)r->bytes * 1e-6;
    log_info("%s: %d shards, %d of them there already; %lld images and %.1f MB written in %.1f s "
             "(%.0f MB/s)",
             out, r->shards, r->kept, (long long)r->images, mb, seconds, mb / seconds);
    if (r->recoded > 0) log_info("%lld progressive images recoded", (long long)r->recoded);
    if (r->unreadable > 0)
        log_warning("%lld images could not be read: packed as empty samples",
                    (long long)r->unreadable);
}

static Status pack(const Dataset *d, const PackOptions *o, bool verify)
{
    PackReport r;
    double start_s = clock_s();
    TRY(pack_dataset(d, o, &r));
    report_packed(o->out, &r, clock_s() - start_s);
    if (!verify) return OK;
    start_s = clock_s();
    TRY(pack_verify(d, o));
    log_info("%s: all %lld images verified in %.1f s", o->out, (long long)dataset_images(d),
             clock_s() - start_s);
    return OK;
}

static Status command(const Args *args)
{
    int64_t shard_mb, threads;
    DatasetOptions data;
    TRY(args_dataset(args, &data));
    TRY(outputs_check_apart("OUT", args->output, "DIR", &data));
    TRY(args_count(args, "--shard-mb", SHARD_MB_DEFAULT, 1, SHARD_MB_MAX, &shard_mb));
    TRY(args_count(args, "--threads", thread_allowed_cpus(), 1, PARALLEL_MAX, &threads));
    PackOptions o = { .out = args->positional[1],
                      .shard_bytes = shard_mb * 1000000,
                      .threads = (int)threads,
                      .seek = args_value(args, "--no-seek") == NULL,
                      .baseline = args_value(args, "--baseline") != NULL };
    Dataset *d = NULL;
    TRY(dataset_open(&d, &data));
    Status status = pack(d, &o, args_value(args, "--verify") != NULL);
    dataset_close(d);
    return status;
}

const Command cmd_pack = { help, .alone = command };
