/* cmd_pack.c - convoy pack DIR OUT: many small files become a few large shards. */
#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/thread.h"
#include "data/data.h"
#include "data/load/pack.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/files/outputs.h"

#define SHARD_MB_MAX 65536

static const ArgRow rows[] = {
    { "DIR", .help = "a dataset: the folder, or a list of images" },
    { "OUT", .help = "the folder to write", .flags = ARG_WRITES },
    { "--shard-mb", "N", .help = "size of a file in megabytes", .min = 1, .max = SHARD_MB_MAX,
      .fallback = 512 },
    { "--threads", "N", .help = "how many files are written at once (default: one per CPU)",
      .min = 1, .max = PARALLEL_MAX },
    { "--verify", .help = "read everything back and compare it with DIR" },
    { "--no-seek",
      .help =
          "leave out the seek index (half a percent of the data), with which a crop decodes only "
          "the rows it shows" },
    { "--baseline",
      .help = "recode progressive JPEG files as baseline without loss: they decode three times as "
              "fast" },
    ARG_ROW_FORMAT,
    ARG_ROW_ROLE,
    ARG_ROW_ALLOW_EMPTY,
    ARG_ROW_LABELS,
    ARG_ROW_END,
};

static void report_packed(const char *out, const PackReport *r, double seconds)
{
    double mb = (double)r->bytes * 1e-6;
    log_info("%s: %d shards, %d of them already there; %lld images and %.1f MB written in %.1f s "
             "(%.0f MB/s)",
             out, r->shards, r->kept, (long long)r->images, mb, seconds, mb / seconds);
    if (r->recoded > 0) log_info("%lld progressive images recoded", (long long)r->recoded);
    if (r->unreadable > 0)
        log_warning("%lld images could not be read; packed as empty samples",
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
    int64_t shard_mb, threads = thread_allowed_cpus();
    DatasetOptions data;
    TRY(args_dataset(args, &data));
    if (data.labels == LABELS_MULTI)
        return fail(ERR_USAGE,
                    "--labels multi: shards hold one label per image; train on the list");
    TRY(outputs_check_apart("OUT", args->output, "DIR", &data));
    TRY(args_whole(args, "--shard-mb", &shard_mb));
    TRY(args_whole(args, "--threads", &threads));
    PackOptions o = { .out = args->positional[1],
                      .shard_bytes = shard_mb * 1000000,
                      .threads = (int)threads,
                      .seek = args_value(args, "--no-seek") == NULL,
                      .baseline = args_value(args, "--baseline") != NULL };
    Dataset *d FREED_BY(dataset_close_at) = NULL;
    TRY(dataset_open(&d, &data));
    SequenceFacts facts;
    if (sequences_facts(d, &facts))
        return fail(ERR_USAGE, "%s: contains text, which needs no packing", data.path);
    return pack(d, &o, args_value(args, "--verify") != NULL);
}

const Command cmd_pack = {
    .name = "pack",
    .group = "Prepare",
    .summary = "pack the files of a dataset into a few large ones",
    .about =
        "Writes the images of a dataset to a few large files in the folder OUT. OUT trains as DIR "
        "does: same images, same order, same pixels, without a file system request per image. "
        "Every image has a checksum. After an interruption the same command continues.",
    .args = rows,
    .alone = command,
};
