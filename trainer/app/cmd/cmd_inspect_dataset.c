/* cmd_inspect_dataset.c - convoy inspect dataset DIR: what is there, and whether every image
 * decodes.
 *
 * One thread a CPU decodes. Bad images are kept with their reasons and printed in the order of
 * their ids when all are done, so that the answer does not depend on timing. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/thread.h"
#include "data/data.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/inspect_text.h"
#include <stdlib.h>
#include <string.h>

#define CLASSES_SHOWN 20

static const ArgRow rows[] = {
    { "DIR",
      .help = "a dataset: its folder, or a list of images; or a folder with train/ and val/ in it: "
              "both sets, or the one that --role names" },
    ARG_ROW_FORMAT,
    ARG_ROW_ROLE,
    ARG_ROW_ALLOW_EMPTY,
    ARG_ROW_LABELS,
    { "--batch", "STEP",
      .help = "text: write what the network is given in this step (from 0) of a run with one rank, "
              "or with --role val in this batch, to the file --out",
      .max = 1e15 },
    { "--out", "FILE", .help = "a .safetensors file: ids, where, starts, order, rows, labels",
      .needs = "--batch", .flags = ARG_WRITES },
    { "--set", "key=value",
      .help = "text: a config key that says how it is read (data.tokens, data.break_mode, "
              "train.batch_per_rank, train.seed, ...); --set may be left out",
      .flags = ARG_SETTING },
    ARG_ROW_END,
};

typedef struct BadImage {
    int64_t id;
    char *reason; /* owned */
} BadImage;

typedef struct Check {
    const Dataset *dataset;
    pthread_mutex_t mutex; /* guards what follows */
    BadImage *bad;
    int64_t bad_count;
    size_t bad_capacity;
    int min_side, max_side;
    int64_t done;
    double shown_s;
} Check;

/* ---- decoding ---- */

static Status add_bad(Check *c, int64_t id, const char *reason)
{
    char *copy = mem_strdup(reason);
    if (!copy) return ERR_MEMORY;
    if (!mem_grow(&c->bad, (size_t)c->bad_count, &c->bad_capacity, sizeof *c->bad)) {
        mem_free(copy);
        return ERR_MEMORY;
    }
    c->bad[c->bad_count++] = (BadImage){ .id = id, .reason = copy };
    return OK;
}

static Status check_image(void *cookie, int64_t id)
{
    Check *c = cookie;
    uint8_t *pixels FREED = NULL;
    int width = 0, height = 0;
    Status status = dataset_decode(c->dataset, id, 3, &pixels, &width, &height);
    pthread_mutex_lock(&c->mutex);
    if (status == ERR_DATA) {
        status = add_bad(c, id, status_message());
    } else if (status == OK) {
        int shorter = width < height ? width : height, longer = width < height ? height : width;
        if (c->min_side == 0 || shorter < c->min_side) c->min_side = shorter;
        if (longer > c->max_side) c->max_side = longer;
    }
    c->done++;
    if (log_progress_due(&c->shown_s))
        log_progress("%lld of %lld images decoded", (long long)c->done,
                     (long long)dataset_images(c->dataset));
    pthread_mutex_unlock(&c->mutex);
    return status;
}

static Status check_all(Check *c)
{
    Status status =
        parallel_run(thread_allowed_cpus(), dataset_images(c->dataset), "inspect", check_image, c);
    log_progress("%s", "");
    return status;
}

/* ---- printing ---- */

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const BadImage *)a)->id, y = ((const BadImage *)b)->id;
    return (x > y) - (x < y);
}

static void add_classes(const Dataset *d, StrBuf *text)
{
    int classes = dataset_classes(d);
    int shown = classes < CLASSES_SHOWN ? classes : CLASSES_SHOWN;
    for (int i = 0; i < shown; i++) {
        char name[1024];
        str_visible(name, sizeof name, dataset_class_name(d, i));
        str_printf(text, "  %4d  %-24s %lld\n", i, name, (long long)dataset_class_images(d, i));
    }
    if (shown < classes) str_printf(text, "  ... and %d more\n", classes - shown);
}

static void add_bad_images(Check *c, StrBuf *text)
{
    if (c->bad_count > 0) qsort(c->bad, (size_t)c->bad_count, sizeof *c->bad, by_id);
    for (int64_t i = 0; i < c->bad_count; i++) {
        char sample[1024];
        dataset_describe_sample(c->dataset, c->bad[i].id, sample, sizeof sample);
        /* The decoder's sentence may or may not name the file already. */
        str_add(text, "unreadable: ");
        if (!strstr(c->bad[i].reason, sample)) {
            str_add_visible(text, sample, "");
            str_add(text, ": ");
        }
        str_add_visible(text, c->bad[i].reason, "");
        str_add(text, "\n");
    }
    str_printf(text, "unreadable %lld\n", (long long)c->bad_count);
    if (c->max_side > 0)
        str_printf(text, "shortest side %d, longest side %d\n", c->min_side, c->max_side);
}

static void end_check(Check *c)
{
    for (int64_t i = 0; i < c->bad_count; i++) mem_free(c->bad[i].reason);
    mem_free(c->bad);
    pthread_mutex_destroy(&c->mutex);
}

static Status inspect(const Dataset *d, const char *path)
{
    StrBuf text = { 0 };
    Check check FREED_BY(
        end_check) = { .dataset = d, .mutex = PTHREAD_MUTEX_INITIALIZER, .shown_s = clock_s() };
    str_printf(&text, "format %s\nclasses %d\nimages %lld\n", dataset_format_name(d),
               dataset_classes(d), (long long)dataset_images(d));
    add_classes(d, &text);
    TRY(log_print_text(OK, &text));
    TRY(check_all(&check));
    add_bad_images(&check, &text);
    TRY(log_print_text(OK, &text));
    if (check.bad_count == 0) return OK;
    return fail(ERR_DATA, "%s: %lld of %lld images are unreadable", path,
                (long long)check.bad_count, (long long)dataset_images(d));
}

/* ---- command ---- */

/* As a run of a network of text reads it. */
static Status load_config(const Args *args, Config **out)
{
    const char *sets[ARGS_SET_MAX + 1] = { "model.name=roberta_base" };
    memcpy(sets + 1, args->sets, (size_t)args->set_count * sizeof *sets);
    return config_load(out, NULL, sets, args->set_count + 1);
}

static Status inspect_any(const Args *args, const Dataset *d, const DatasetOptions *o,
                          const Config *c)
{
    SequenceFacts facts;
    int64_t step = 0;
    const char *batch = args_value(args, "--batch"), *out = args_value(args, "--out");
    if (!sequences_facts(d, &facts)) {
        if (batch || args->set_count > 0)
            return fail(ERR_USAGE, "%s: only text takes --batch and config keys", o->path);
        return inspect(d, o->path);
    }
    if (!batch) return inspect_text_print(d, &facts);
    if (!out) return fail(ERR_USAGE, "--batch requires --out FILE");
    if (facts.classified != !config_is_masked(c))
        return fail(ERR_USAGE, "%s: %s; model.head must be %s", o->path,
                    facts.classified ? "has labels" : "has no labels",
                    facts.classified ? "classify" : "mlm");
    TRY(args_whole(args, "--batch", &step));
    return inspect_text_batch(d, o->role, c, step, out);
}

/* Both sets of a folder, or the one that was asked for; a batch is of one. Bad images of one do not
 * keep the other from being read. */
static Status inspect_sets(const Args *args, const DatasetOptions *o, const Config *c)
{
    const bool one = args_value(args, "--role") || args_value(args, "--batch");
    int bad = 0;
    for (int role = 0; role < DATA_ROLE_COUNT; role++) {
        DatasetOptions own = *o;
        if (one && role != (int)o->role) continue;
        Dataset *dataset FREED_BY(dataset_close_at) = NULL;
        char *path FREED = fs_join(o->path, data_role_names[role]);
        if (!path) return ERR_MEMORY;
        own.path = path;
        own.role = (DataRole)role;
        log_info("%s:", path);
        TRY(dataset_open(&dataset, &own));
        const Status status = inspect_any(args, dataset, &own, c);
        if (status == OK) continue;
        if (status != ERR_DATA) return status;
        log_warning("%s", status_message());
        bad++;
    }
    return bad == 0 ? OK : fail(ERR_DATA, "%s: not all images can be read", o->path);
}

static Status inspect_dir(const Args *args, DatasetOptions *o, const Config *c)
{
    Dataset *dataset = NULL;
    const bool apart = fs_holds(o->path, "train") && fs_holds(o->path, "val");
    bool certain = false; /* folders of classes may have these names */
    char *first FREED = fs_join(o->path, "train");
    o->text = config_token_options(c);
    if (!first) return ERR_MEMORY;
    if (apart && o->format == DATA_AUTO) TRY(dataset_holds_sets(first, &certain));
    if (certain) return inspect_sets(args, o, c);
    Status status = dataset_open(&dataset, o);
    if (status == ERR_DATA && apart) return inspect_sets(args, o, c);
    if (status == OK) status = inspect_any(args, dataset, o, c);
    dataset_close(dataset);
    return status;
}

static Status command(const Args *args)
{
    DatasetOptions o;
    Config *c FREED_BY(config_destroy_at) = NULL;
    TRY(args_dataset(args, &o));
    TRY(load_config(args, &c));
    return inspect_dir(args, &o, c);
}

const Command cmd_inspect_dataset = {
    .name = "inspect dataset",
    .summary = "list the classes of a dataset and decode every image",
    .about =
        "Prints format, classes and number of images of a dataset and decodes every image. Lists "
        "the images that cannot be read; the exit code is then 65. Of text it prints how many "
        "sequences there are, how full they are, and what is skipped.",
    .args = rows,
    .alone = command,
};
