/* on_save.c - see on_save.h. */
#include "trainer/engine/train/on_save.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/child.h"
#include "base/thread.h"
#include <string.h>

enum { RESULTS = 4 }; /* one that ran, one that waited behind it, one skipped; and room */

typedef struct Job {
    int64_t step;
    char *path; /* owned; NULL: none */
} Job;

struct OnSave {
    char *command, *run_dir;
    double limit_s, deadline_s; /* deadline 0: none yet */
    pthread_t thread;
    bool has_thread, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Job running, waiting;
    OnSaveResult results[RESULTS];
    int result_count;
    ChildGroup commands; /* and what they leave in the background */
};

const char *on_save_outcome_name(OnSaveOutcome outcome)
{
    static const char *const names[] = { "done", "failed", "timed out", "skipped" };
    return names[outcome];
}

/* With the lock held. */
static void add_result(OnSave *h, OnSaveResult r)
{
    ASSERT(h->result_count < RESULTS);
    h->results[h->result_count++] = r;
}

static void warn(const OnSaveResult *r, ChildResult *child, double limit_s)
{
    const char *said = str_last_line(child->errors.text);
    if (!*said) said = str_last_line(child->output.text);
    if (r->outcome == ON_SAVE_TIMED_OUT)
        log_warning(
            "checkpoint.on_save: killed after %.0f s (checkpoint.on_save_timeout_s) at step "
            "%lld%s%.200s",
            limit_s, (long long)r->step, *said ? ": " : "", said);
    else
        log_warning("checkpoint.on_save: exit code %d for step %lld%s%.200s", r->code,
                    (long long)r->step, *said ? ": " : "", said);
}

static OnSaveResult run_command(OnSave *h, const Job *job, double limit_s)
{
    OnSaveResult r = { .outcome = ON_SAVE_TIMED_OUT, .step = job->step, .code = -1 };
    ChildResult child = { 0 };
    StrBuf file = { 0 }, run = { 0 }, step = { 0 };
    double start = clock_s();
    str_printf(&file, "CONVOY_CHECKPOINT=%s", job->path);
    str_printf(&run, "CONVOY_RUN_DIR=%s", h->run_dir);
    str_printf(&step, "CONVOY_STEP=%lld", (long long)job->step);
    const char *const argv[] = {
        "env", file.text, run.text, step.text, "sh", "-c", h->command, NULL
    };
    if (limit_s <= 0) {
        log_warning("checkpoint.on_save: no time left for step %lld (checkpoint.on_save_timeout_s)",
                    (long long)job->step);
    } else if (file.failed || run.failed || step.failed ||
               child_run_in(&child, &h->commands, argv, limit_s, NULL) != OK) {
        r.outcome = ON_SAVE_FAILED;
        log_warning("checkpoint.on_save: cannot start for step %lld: %s", (long long)job->step,
                    status_message());
    } else {
        if (!child.timed_out) r.code = child.code;
        if (!child.timed_out) r.outcome = child.code == 0 ? ON_SAVE_DONE : ON_SAVE_FAILED;
        if (r.outcome != ON_SAVE_DONE) warn(&r, &child, limit_s);
    }
    r.seconds = clock_s() - start;
    child_result_free(&child);
    str_free(&file);
    str_free(&run);
    str_free(&step);
    return r;
}

static void *run_jobs(void *arg)
{
    OnSave *h = arg;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (!h->waiting.path && !h->stop) pthread_cond_wait(&h->changed, &h->lock);
        if (h->stop) break;
        h->running = h->waiting;
        h->waiting.path = NULL;
        double left = h->deadline_s > 0 ? h->deadline_s - clock_s() : h->limit_s;
        pthread_mutex_unlock(&h->lock);
        OnSaveResult r = run_command(h, &h->running, left < h->limit_s ? left : h->limit_s);
        pthread_mutex_lock(&h->lock);
        add_result(h, r);
        mem_free(h->running.path);
        h->running.path = NULL;
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

Status on_save_create(OnSave **out, const char *command, const char *run_dir, double limit_s)
{
    *out = NULL;
    OnSave *h = mem_calloc(1, sizeof *h);
    if (!h) return ERR_MEMORY;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    h->limit_s = limit_s;
    h->command = mem_strdup(command);
    h->run_dir = mem_strdup(run_dir);
    Status status =
        h->command && h->run_dir ? thread_start(&h->thread, "on-save", run_jobs, h) : ERR_MEMORY;
    h->has_thread = status == OK;
    if (status != OK) on_save_destroy(h);
    else *out = h;
    return status;
}

Status on_save_submit(OnSave *h, int64_t step, const char *path)
{
    char *copy = mem_strdup(path);
    if (!copy) return ERR_MEMORY;
    pthread_mutex_lock(&h->lock);
    Job before = h->waiting;
    if (before.path)
        add_result(h,
                   (OnSaveResult){ .outcome = ON_SAVE_SKIPPED, .step = before.step, .code = -1 });
    h->waiting = (Job){ step, copy };
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    if (before.path)
        log_warning("checkpoint.on_save: still busy; step %lld is skipped for step %lld",
                    (long long)before.step, (long long)step);
    mem_free(before.path);
    return OK;
}

bool on_save_poll(OnSave *h, OnSaveResult *out)
{
    pthread_mutex_lock(&h->lock);
    bool found = h->result_count > 0;
    if (found) {
        *out = h->results[0];
        memmove(h->results, h->results + 1, (size_t)--h->result_count * sizeof *h->results);
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

bool on_save_needs(void *cookie, int64_t step)
{
    OnSave *h = cookie;
    pthread_mutex_lock(&h->lock);
    bool needed = (h->running.path && h->running.step == step) ||
                  (h->waiting.path && h->waiting.step == step);
    pthread_mutex_unlock(&h->lock);
    return needed;
}

void on_save_finish(OnSave *h)
{
    pthread_mutex_lock(&h->lock);
    h->deadline_s = clock_s() + h->limit_s;
    pthread_mutex_unlock(&h->lock);
}

bool on_save_idle(OnSave *h)
{
    pthread_mutex_lock(&h->lock);
    bool idle = !h->running.path && !h->waiting.path;
    pthread_mutex_unlock(&h->lock);
    return idle;
}

void on_save_destroy(OnSave *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    if (h->has_thread) pthread_join(h->thread, NULL);
    child_group_end(&h->commands);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->waiting.path);
    mem_free(h->command);
    mem_free(h->run_dir);
    mem_free(h);
}
