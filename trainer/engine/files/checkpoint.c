/* checkpoint.c - the writer thread, the names of checkpoint files, and finding the one to resume
 * from.
 *
 * STATES. The staging memory belongs to the training thread from checkpoint_wait() to
 * checkpoint_submit() and to the writer thread from then until the file is on disk; `busy` says
 * whose turn it is. An error of the writer is kept and handed to the next stage or flush.
 *
 * NAMES. step-%08lld.safetensors. A name that exists is a complete file, since it came by rename;
 * the checksums guard against the rest. Writing step S makes files of later steps remnants of a
 * branch that was left (a corrupt one that was passed over, or a resume from an earlier file): they
 * are renamed to NAME.stale, so that nothing is lost and no later start takes them for the
 * newest. */
#include "trainer/engine/files/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/version.h"
#include "trainer/engine/files/weights.h"

#define STEP_PREFIX    "step-"
#define STEP_SUFFIX    ".safetensors"
#define TEMPORARY_MARK ".tmp-" /* of safetensors_write and fs_replace_symlink */
#define STALE_SUFFIX   ".stale"
static const char latest_link[] = "latest", best_link[] = "best";

enum {
    STAGING_ALIGN = 64,
    NUMBER_BYTES = 32,
    MESSAGE_BYTES = 1024,
    SCALARS = 23,
    TEXTS = 5,
    PAIRS = SCALARS + TEXTS + 2
};

/* What a file must say to be read. Another number where an entry or a tensor comes to mean
 * something else; entries and keys of the config that come or go are seen without. */
static const char format_key[] = "checkpoint_format", format_number[] = "1";

/* ---- metadata: strings in the file, numbers in memory ---- */

typedef enum MetaType { META_I64, META_DOUBLE } MetaType;
typedef struct MetaRow {
    const char *key;
    MetaType type;
    size_t offset;
} MetaRow;

static const MetaRow meta_rows[SCALARS] = {
    { "step", META_I64, offsetof(CheckpointMeta, step) },
    { "run_step", META_I64, offsetof(CheckpointMeta, run_step) },
    { "images", META_I64, offsetof(CheckpointMeta, images) },
    { "epoch", META_I64, offsetof(CheckpointMeta, epoch) },
    { "seed", META_I64, offsetof(CheckpointMeta, seed) },
    { "global_batch", META_I64, offsetof(CheckpointMeta, global_batch) },
    { "dataset_images", META_I64, offsetof(CheckpointMeta, dataset_images) },
    { "norm_images", META_I64, offsetof(CheckpointMeta, norm_images) },
    { "best_top1", META_DOUBLE, offsetof(CheckpointMeta, best_score) }, /* or the least loss */
    { "stale", META_I64, offsetof(CheckpointMeta, stale) },
    { "val_print", META_I64, offsetof(CheckpointMeta, val_print) },
    { "eval_due", META_I64, offsetof(CheckpointMeta, eval_due) },
    { "lr_factor", META_DOUBLE, offsetof(CheckpointMeta, lr_factor) },
    { "rollbacks", META_I64, offsetof(CheckpointMeta, rollbacks) },
    { "diverged", META_I64, offsetof(CheckpointMeta, diverged) },
    { "rolled_to", META_I64, offsetof(CheckpointMeta, rolled_to) },
    { "named_classes", META_I64, offsetof(CheckpointMeta, named_classes) },
    { "teacher", META_I64, offsetof(CheckpointMeta, teacher) },
    { "pairs", META_I64, offsetof(CheckpointMeta, pairs) },
    { "lookahead_rest", META_DOUBLE, offsetof(CheckpointMeta, average_rest[0]) },
    { "lookahead_images", META_I64, offsetof(CheckpointMeta, average_images[0]) },
    { "ema_rest", META_DOUBLE, offsetof(CheckpointMeta, average_rest[1]) },
    { "ema_images", META_I64, offsetof(CheckpointMeta, average_images[1]) },
};

static const struct {
    const char *key;
    size_t offset; /* of a const char * in CheckpointMeta */
} meta_texts[TEXTS] = { { "model", offsetof(CheckpointMeta, model) },
                        { "config", offsetof(CheckpointMeta, config) },
                        { "class_names", offsetof(CheckpointMeta, class_names) },
                        { "words", offsetof(CheckpointMeta, words) },
                        { "spent", offsetof(CheckpointMeta, spent) } };

static const char **text_of(CheckpointMeta *meta, int i)
{
    return (const char **)(void *)((char *)meta + meta_texts[i].offset);
}

static void format_scalar(const MetaRow *row, const CheckpointMeta *meta, char out[NUMBER_BYTES])
{
    const void *field = (const char *)meta + row->offset;
    if (row->type == META_I64) snprintf(out, NUMBER_BYTES, "%" PRId64, *(const int64_t *)field);
    else snprintf(out, NUMBER_BYTES, "%.17g", *(const double *)field);
}

static bool parse_scalar(const MetaRow *row, const char *text, CheckpointMeta *meta)
{
    void *field = (char *)meta + row->offset;
    if (row->type == META_DOUBLE) return str_to_double(text, field);
    return str_to_i64(text, field) && *(const int64_t *)field >= 0;
}

/* ---- names ---- */

/* The step in a file name, or -1 if it is no checkpoint's. */
static int64_t step_of_name(const char *name)
{
    char digits[NUMBER_BYTES];
    if (!str_starts_with(name, STEP_PREFIX)) return -1;
    const char *begin = name + strlen(STEP_PREFIX);
    size_t length = strspn(begin, "0123456789");
    if (length == 0 || length >= sizeof(digits) || strcmp(begin + length, STEP_SUFFIX) != 0)
        return -1;
    memcpy(digits, begin, length);
    digits[length] = '\0';
    int64_t step = -1;
    return str_to_i64(digits, &step) ? step : -1;
}

static int compare_steps_descending(const void *a, const void *b)
{
    int64_t s = step_of_name(*(char *const *)a), t = step_of_name(*(char *const *)b);
    return (s < t) - (s > t);
}

/* Names of checkpoints in dir, newest first; mem_free. Other names are dropped from the list. */
static Status list_checkpoints(const char *dir, char ***names, int64_t *count)
{
    TRY(fs_list(dir, names, count));
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++)
        if (step_of_name((*names)[i]) >= 0) (*names)[kept++] = (*names)[i];
    *count = kept;
    if (kept > 0) qsort(*names, (size_t)kept, sizeof(char *), compare_steps_descending);
    return OK;
}

/* What link in dir points to, "" if there is no such link. */
static void read_link(const char *dir, const char *link, char out[PATH_MAX])
{
    out[0] = '\0';
    char *path = fs_join(dir, link);
    ssize_t n = path ? readlink(path, out, PATH_MAX - 1) : -1;
    out[n > 0 ? n : 0] = '\0';
    mem_free(path);
}

/* ---- writer ---- */

struct CheckpointWriter {
    char *dir;
    SafeTensor *tensors; /* names owned; data points into staging */
    int count;
    char *staging;
    int64_t keep;
    pthread_t thread;
    bool has_thread, cleaned; /* cleaned: by the thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy, stop;
    Status status; /* of the last file, until handed over */
    char message[MESSAGE_BYTES];

    /* The file to write: filled by submit, read by the thread while busy. */
    CheckpointMeta meta;
    char *texts[TEXTS]; /* owned copies; meta points to them */
    bool best;
    char *path;                                 /* owned */
    bool (*needed)(void *cookie, int64_t step); /* NULL: no file is */
    void *needed_cookie;

    /* The last file that reached the disk, for poll. */
    bool fresh; /* not polled yet */
    int64_t done_step;
    char *done_path; /* owned: of a file on disk that nobody has polled for */
    char *told_path; /* owned: what the last poll lent; the training thread's */
};

static Status replace_link(const CheckpointWriter *w, const char *link, const char *name)
{
    char *path = fs_join(w->dir, link);
    if (!path) return ERR_MEMORY;
    Status status = fs_replace_symlink(name, path);
    mem_free(path);
    return status;
}

static void delete_file(const CheckpointWriter *w, const char *name)
{
    char *path = fs_join(w->dir, name);
    if (!path) return;
    if (unlink(path) != 0 && errno != ENOENT)
        log_warning("%s: cannot delete old checkpoint: %s", path, strerror(errno));
    mem_free(path);
}

static void set_aside(const CheckpointWriter *w, const char *name, const char *best_name)
{
    StrBuf from = { 0 }, to = { 0 };
    str_printf(&from, "%s/%s", w->dir, name);
    str_printf(&to, "%s/%s%s", w->dir, name, STALE_SUFFIX);
    if (from.failed || to.failed || rename(from.text, to.text) != 0) {
        log_warning("%s/%s has a later step than the checkpoint just written and cannot be renamed "
                    "(%s): the next start would resume from it",
                    w->dir, name, from.failed || to.failed ? "out of memory" : strerror(errno));
    } else {
        log_warning("%s has a later step than the checkpoint just written: renamed to %s%s",
                    from.text, name, STALE_SUFFIX);
        if (strcmp(name, best_name) == 0 &&
            replace_link(w, best_link, strrchr(to.text, '/') + 1) != OK)
            log_warning("%s", status_message());
    }
    str_free(&from);
    str_free(&to);
}

static bool is_spared(const CheckpointWriter *w, const char *name)
{
    return w->needed && w->needed(w->needed_cookie, step_of_name(name));
}

/* Keeps the newest `keep` files up to the step just written, what latest and best name, and what is
 * in use. What cannot be deleted is only a warning: the checkpoint itself is safe. */
static void prune(const CheckpointWriter *w)
{
    char latest[PATH_MAX], best[PATH_MAX];
    char **names = NULL;
    int64_t count = 0, kept = 0;
    if (list_checkpoints(w->dir, &names, &count) != OK) {
        log_warning("old checkpoints are not deleted: %s", status_message());
        return;
    }
    read_link(w->dir, latest_link, latest);
    read_link(w->dir, best_link, best);
    for (int64_t i = 0; i < count; i++) {
        if (step_of_name(names[i]) > w->meta.step) set_aside(w, names[i], best);
        else if (kept < w->keep) kept++;
        else if (strcmp(names[i], latest) != 0 && strcmp(names[i], best) != 0 &&
                 !is_spared(w, names[i]))
            delete_file(w, names[i]);
    }
    mem_free(names);
}

/* A process that was killed while it wrote leaves temporary files; nobody else writes here. Not
 * before the first write: a run that never begins changes nothing. */
static Status remove_leftovers(CheckpointWriter *w)
{
    char **names = NULL;
    int64_t count = 0;
    TRY(fs_list(w->dir, &names, &count));
    for (int64_t i = 0; i < count; i++)
        if (strstr(names[i], TEMPORARY_MARK)) delete_file(w, names[i]);
    mem_free(names);
    w->cleaned = true;
    return OK;
}

static Status write_checkpoint(CheckpointWriter *w)
{
    char numbers[SCALARS][NUMBER_BYTES];
    SafePair pairs[PAIRS];
    for (int i = 0; i < SCALARS; i++) {
        format_scalar(&meta_rows[i], &w->meta, numbers[i]);
        pairs[i] = (SafePair){ meta_rows[i].key, numbers[i] };
    }
    for (int i = 0; i < TEXTS; i++)
        pairs[SCALARS + i] = (SafePair){ meta_texts[i].key, w->texts[i] };
    pairs[PAIRS - 2] = (SafePair){ format_key, format_number };
    pairs[PAIRS - 1] = (SafePair){ "convoy", version_text() }; /* who wrote it; never compared */
    if (!w->cleaned) TRY(remove_leftovers(w));
    TRY(safetensors_write(w->path, w->tensors, w->count, pairs, PAIRS));
    const char *name = strrchr(w->path, '/') + 1;
    TRY(replace_link(w, latest_link, name));
    if (w->best) TRY(replace_link(w, best_link, name));
    prune(w);
    return OK;
}

static void *write_submitted(void *arg)
{
    CheckpointWriter *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->busy && !w->stop) pthread_cond_wait(&w->changed, &w->lock);
        if (!w->busy) break;
        pthread_mutex_unlock(&w->lock);
        Status status = write_checkpoint(w);
        pthread_mutex_lock(&w->lock);
        w->status = status;
        if (status == OK) {
            mem_free(w->done_path); /* one that nobody polled for */
            w->done_path = w->path;
            w->path = NULL;
            w->done_step = w->meta.step;
            w->fresh = true;
        } else {
            snprintf(w->message, sizeof(w->message), "%s", status_message());
        }
        w->busy = false;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static Status copy_tensors(CheckpointWriter *w, const SafeTensor *tensors)
{
    size_t total = 0;
    w->tensors = mem_calloc((size_t)w->count, sizeof(SafeTensor));
    if (!w->tensors) return ERR_MEMORY;
    for (int i = 0; i < w->count; i++) {
        w->tensors[i].desc = tensors[i].desc;
        w->tensors[i].name = mem_strdup(tensors[i].name);
        if (!w->tensors[i].name) return ERR_MEMORY;
        total += (tensor_plain_bytes(&tensors[i].desc) + STAGING_ALIGN - 1) / STAGING_ALIGN *
                 STAGING_ALIGN;
    }
    w->staging = mem_alloc_aligned(total, STAGING_ALIGN);
    if (!w->staging) return ERR_MEMORY;
    size_t offset = 0;
    for (int i = 0; i < w->count; i++) {
        w->tensors[i].data = w->staging + offset;
        offset += (tensor_plain_bytes(&tensors[i].desc) + STAGING_ALIGN - 1) / STAGING_ALIGN *
                  STAGING_ALIGN;
    }
    return OK;
}

static Status set_up(CheckpointWriter *w, const char *dir, const SafeTensor *tensors)
{
    w->dir = mem_strdup(dir);
    if (!w->dir) return ERR_MEMORY;
    TRY(copy_tensors(w, tensors));
    TRY(thread_start(&w->thread, "checkpoint", write_submitted, w));
    w->has_thread = true;
    return OK;
}

Status checkpoint_writer_create(CheckpointWriter **out, const char *dir, const SafeTensor *tensors,
                                int count, int64_t keep)
{
    *out = NULL;
    CheckpointWriter *w = mem_calloc(1, sizeof(CheckpointWriter));
    if (!w) return ERR_MEMORY;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->count = count;
    w->keep = keep < 1 ? 1 : keep;
    Status status = set_up(w, dir, tensors);
    if (status != OK) {
        checkpoint_writer_destroy(w);
        return status;
    }
    *out = w;
    return OK;
}

/* Takes the thread's error, if there is one, over to the caller's thread. Called with the lock held
 * and the thread not busy. */
static Status take_error(CheckpointWriter *w)
{
    Status status = w->status;
    w->status = OK;
    return status == OK ? OK : fail(status, "%s", w->message);
}

void checkpoint_writer_spare(CheckpointWriter *w, bool (*needed)(void *cookie, int64_t step),
                             void *cookie)
{
    w->needed = needed;
    w->needed_cookie = cookie;
}

Status checkpoint_wait(CheckpointWriter *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->busy) pthread_cond_wait(&w->changed, &w->lock);
    Status status = take_error(w);
    pthread_mutex_unlock(&w->lock);
    return status;
}

void *checkpoint_staging(CheckpointWriter *w, int index)
{
    ASSERT(index >= 0 && index < w->count && !w->busy);
    return w->staging + ((const char *)w->tensors[index].data - w->staging);
}

Status checkpoint_submit(CheckpointWriter *w, const CheckpointMeta *meta, bool best)
{
    StrBuf path = { 0 };
    CheckpointMeta own = *meta;
    char *texts[TEXTS];
    bool failed = false;
    for (int i = 0; i < TEXTS; i++) {
        const char **text = text_of(&own, i);
        *text = texts[i] = mem_strdup(*text ? *text : "");
        failed = failed || !texts[i];
    }
    str_printf(&path, "%s/%s%08" PRId64 "%s", w->dir, STEP_PREFIX, meta->step, STEP_SUFFIX);
    if (failed || path.failed) {
        for (int i = 0; i < TEXTS; i++) mem_free(texts[i]);
        str_free(&path);
        return ERR_MEMORY;
    }
    pthread_mutex_lock(&w->lock);
    ASSERT(!w->busy);
    for (int i = 0; i < TEXTS; i++) {
        mem_free(w->texts[i]);
        w->texts[i] = texts[i];
    }
    mem_free(w->path);
    w->path = path.text;
    w->meta = own;
    w->best = best;
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return OK;
}

Status checkpoint_flush(CheckpointWriter *w)
{
    return checkpoint_wait(w);
}

Status checkpoint_poll(CheckpointWriter *w, bool *done, int64_t *step, const char **path)
{
    pthread_mutex_lock(&w->lock);
    Status status = w->busy ? OK : take_error(w);
    *done = w->fresh;
    if (w->fresh) {
        *step = w->done_step;
        mem_free(w->told_path);
        *path = w->told_path = w->done_path;
        w->done_path = NULL;
        w->fresh = false;
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

void checkpoint_writer_destroy(CheckpointWriter *w)
{
    if (!w) return;
    if (w->has_thread) {
        if (checkpoint_wait(w) != OK)
            log_warning("last checkpoint was not written: %s", status_message());
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    for (int i = 0; i < w->count && w->tensors; i++)
        mem_free((void *)(uintptr_t)w->tensors[i].name);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    mem_free(w->tensors);
    mem_free(w->staging);
    for (int i = 0; i < TEXTS; i++) mem_free(w->texts[i]);
    mem_free(w->path);
    mem_free(w->told_path);
    mem_free(w->done_path);
    mem_free(w->dir);
    mem_free(w);
}

/* ---- reading ---- */

Status checkpoint_fail_version(const char *path, const char *writer, const char *why)
{
    return fail(ERR_DATA,
                "%s: was written by another version of convoy and cannot be read: %s (written by "
                "%.60s)",
                path, why, writer ? writer : "an unnamed version");
}

/* ERR_DATA unless this version writes the same entries. *other: another does. */
static Status check_version(const SafeFile *f, const char *writer, const char *path, bool *other)
{
    const char *format = safetensors_metadata(f, format_key);
    char why[128] = "";
    if (!format && !weights_are_checkpoint(f))
        return fail(ERR_DATA, "%s: not a convoy checkpoint: no metadata entry %s", path,
                    format_key);
    if (format && strcmp(format, format_number) != 0)
        snprintf(why, sizeof why, "its %s is %.16s, this one's is %s", format_key, format,
                 format_number);
    for (int i = -1; i < SCALARS + TEXTS && why[0] == '\0'; i++) {
        const char *key = i < 0         ? format_key
                          : i < SCALARS ? meta_rows[i].key
                                        : meta_texts[i - SCALARS].key;
        if (!safetensors_metadata(f, key)) snprintf(why, sizeof why, "no metadata entry %s", key);
    }
    *other = why[0] != '\0';
    return *other ? checkpoint_fail_version(path, writer, why) : OK;
}

static Status read_meta(const SafeFile *f, CheckpointMeta *meta, const char *path, bool *other)
{
    *meta = (CheckpointMeta){ .writer = safetensors_metadata(f, "convoy") };
    TRY(check_version(f, meta->writer, path, other));
    for (int i = 0; i < SCALARS; i++) {
        const char *text = safetensors_metadata(f, meta_rows[i].key);
        if (!parse_scalar(&meta_rows[i], text, meta))
            return fail(ERR_DATA, "%s: metadata entry %s has the invalid value %.40s", path,
                        meta_rows[i].key, text);
    }
    if (meta->global_batch < 1 || meta->dataset_images < 1 || meta->lr_factor <= 0)
        return fail(
            ERR_DATA,
            "%s: metadata entries global_batch, dataset_images and lr_factor must be above 0",
            path);
    for (int i = 0; i < TEXTS; i++) *text_of(meta, i) = safetensors_metadata(f, meta_texts[i].key);
    if (!safetensors_metadata(f, "crc32c") || safetensors_metadata(f, "header_crc32c") == NULL)
        return fail(ERR_DATA, "%s: not a convoy checkpoint, or corrupt: it has no checksums", path);
    /* as we write it; what follows reads it as floats */
    for (int i = 0; i < safetensors_count(f); i++) {
        const SafeTensor *t = safetensors_at(f, i);
        if ((uintptr_t)t->data % dtype_bytes(t->desc.dtype) != 0)
            return fail(ERR_DATA, "%s: tensor %s: data is not aligned", path, t->name);
    }
    return OK;
}

static Status open_file(SafeFile **out, CheckpointMeta *meta, const char *path, bool *other)
{
    *other = false;
    TRY(safetensors_open(out, path));
    Status status = read_meta(*out, meta, path, other);
    if (status != OK) {
        safetensors_close(*out);
        *out = NULL;
    }
    return status;
}

Status checkpoint_open(SafeFile **out, CheckpointMeta *meta, const char *path)
{
    bool other;
    return open_file(out, meta, path, &other);
}

/* Opens the first good one of names, which are newest first. */
static Status open_newest(SafeFile **out, CheckpointMeta *meta, const char *dir, char *const *names,
                          int64_t count, char **path)
{
    char first_message[MESSAGE_BYTES] = "";
    for (int64_t i = 0; i < count; i++) {
        char *candidate = fs_join(dir, names[i]);
        if (!candidate) return ERR_MEMORY;
        bool other;
        Status status = open_file(out, meta, candidate, &other);
        if (status == OK) status = weights_check_finite(*out, true, candidate);
        if (status == ERR_DATA) safetensors_close(*out);
        if (status == ERR_DATA) *out = NULL;
        if (status == OK && path) *path = candidate;
        else mem_free(candidate);
        if (status != ERR_DATA || other) return status;
        if (i == 0) snprintf(first_message, sizeof(first_message), "%s", status_message());
        if (i + 1 < count)
            log_warning("checkpoint cannot be used: %s; falling back to %s/%s", status_message(),
                        dir, names[i + 1]);
    }
    if (count == 1) return fail(ERR_DATA, "%s", first_message);
    return fail(ERR_DATA, "%s (nor can any of the %" PRId64 " older checkpoints be used)",
                first_message, count - 1);
}

Status checkpoint_find(SafeFile **out, CheckpointMeta *meta, const char *dir, int64_t below,
                       char **path)
{
    char **names = NULL;
    int64_t count = 0, later = 0;
    *out = NULL;
    if (path) *path = NULL;
    if (!fs_exists(dir)) return OK;
    TRY(list_checkpoints(dir, &names, &count));
    while (later < count && step_of_name(names[later]) >= below) later++;
    Status status =
        later < count ? open_newest(out, meta, dir, names + later, count - later, path) : OK;
    mem_free(names);
    return status;
}
