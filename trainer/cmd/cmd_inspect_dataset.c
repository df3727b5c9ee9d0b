/* cmd_inspect_dataset.c - convoy inspect dataset DIR: what is there, and whether every image
 * decodes.
 *
 * One thread a CPU takes the next undecoded image from a shared counter. Bad images are kept with
 * their reasons and printed in the order of their ids when all are done, so that the answer does
 * not depend on timing. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "data/data.h"
#include "trainer/cmd/args.h"
#include "trainer/cmd/cmd.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES_SHOWN  20
#define THREADS_MAX    256
#define PROGRESS_EVERY 10000

static const char help[] = "usage: convoy inspect dataset DIR [--format NAME] [--role NAME] "
                           "[--allow-empty]\n"
                           "\nPrints format, classes and images of a dataset and decodes every "
                           "image. Exit code 65 if there are unreadable ones; each is named.\n\n  "
                           "--format NAME   auto (default), imagefolder, shards, webdataset, "
                           "tfrecord, idx or cifar\n  --role NAME     train (default) or val: "
                           "which files of a folder that has both\n  --allow-empty   folders "
                           "without an image are classes too\n";

typedef struct BadImage {
    int64_t id;
    char *reason; /* owned */
} BadImage;

typedef struct Check {
    const Dataset *dataset;
    _Atomic int64_t next;
    pthread_mutex_t mutex; /* guards what follows */
    BadImage *bad;
    int64_t bad_count, bad_capacity;
    int min_side, max_side;
    Status status; /* of the checking itself, with its sentence: threads do not share theirs */
    char sentence[1024];
} Check;

/* ---- decoding ---- */

static Status add_bad(Check *c, int64_t id, const char *reason)
{
    if (c->bad_count == c->bad_capacity) {
        int64_t capacity = c->bad_capacity ? 2 * c->bad_capacity : 64;
        size_t bytes;
        if (!mem_mul((size_t)capacity, sizeof *c->bad, &bytes))
            return fail(ERR_MEMORY, "too many unreadable images");
        BadImage *grown = mem_realloc(c->bad, bytes);
        if (!grown) return ERR_MEMORY;
        c->bad = grown;
        c->bad_capacity = capacity;
    }
    char *copy = mem_strdup(reason);
    if (!copy) return ERR_MEMORY;
    c->bad[c->bad_count++] = (BadImage){ .id = id, .reason = copy };
    return OK;
}

static void check_image(Check *c, int64_t id)
{
    uint8_t *pixels = NULL;
    int width = 0, height = 0;
    Status status = dataset_decode(c->dataset, id, 3, &pixels, &width, &height);
    mem_free(pixels);
    pthread_mutex_lock(&c->mutex);
    if (status == ERR_DATA) {
        status = add_bad(c, id, status_message());
    } else if (status == OK) {
        int shorter = width < height ? width : height, longer = width < height ? height : width;
        if (c->min_side == 0 || shorter < c->min_side) c->min_side = shorter;
        if (longer > c->max_side) c->max_side = longer;
    }
    if (c->status == OK && status != OK) {
        c->status = status;
        snprintf(c->sentence, sizeof c->sentence, "%s", status_message());
    }
    pthread_mutex_unlock(&c->mutex);
}

static void *check_images(void *arg)
{
    Check *c = arg;
    int64_t images = dataset_images(c->dataset);
    for (;;) {
        int64_t id = atomic_fetch_add(&c->next, 1);
        if (id >= images) return NULL;
        check_image(c, id);
        if ((id + 1) % PROGRESS_EVERY == 0)
            log_progress("%lld of %lld images", (long long)(id + 1), (long long)images);
    }
}

/* Checks all images on this thread and as many more as there are CPUs. */
static Status check_all(Check *c)
{
    pthread_t threads[THREADS_MAX];
    int wanted = thread_allowed_cpus() - 1, started = 0;
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    while (started < wanted && thread_start(&threads[started], "inspect", check_images, c) == OK)
        started++;
    check_images(c); /* also where no thread could be started */
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    log_progress("%s", "");
    return c->status == OK ? OK : fail(c->status, "%s", c->sentence);
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

static Status inspect(const Dataset *d, const char *path)
{
    StrBuf text = { 0 };
    Check check = { .dataset = d, .mutex = PTHREAD_MUTEX_INITIALIZER };
    str_printf(&text, "format %s\nclasses %d\nimages %lld\n", dataset_format_name(d),
               dataset_classes(d), (long long)dataset_images(d));
    add_classes(d, &text);
    Status status = log_print_text(OK, &text);
    if (status == OK) status = check_all(&check);
    if (status == OK) add_bad_images(&check, &text);
    status = log_print_text(status, &text);
    if (status == OK && check.bad_count > 0)
        status = fail(ERR_DATA, "%s: %lld of %lld images are unreadable", path,
                      (long long)check.bad_count, (long long)dataset_images(d));
    for (int64_t i = 0; i < check.bad_count; i++) mem_free(check.bad[i].reason);
    mem_free(check.bad);
    pthread_mutex_destroy(&check.mutex);
    return status;
}

/* ---- command ---- */

Status cmd_inspect_dataset(int argc, char **argv)
{
    Args args;
    DatasetOptions o;
    TRY(args_parse(&args, argc, argv, help));
    if (args.help) return OK;
    TRY(args_dataset(&args, &o));
    Dataset *dataset = NULL;
    TRY(dataset_open(&dataset, &o));
    Status status = inspect(dataset, args.positional[0]);
    dataset_close(dataset);
    return status;
}
