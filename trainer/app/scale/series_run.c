/* series_run.c - see series_run.h. */
#include "trainer/app/scale/series_run.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/child.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/thread.h"
#include "trainer/app/launch/mpirun.h"
#include "trainer/engine/guard/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define POLL_S  0.2
#define GRACE_S 30.0 /* for a checkpoint when asked to stop */

/* ---- command lines ---- */

/* ranks and args are borrowed by the words; args is written to. */
static void mpirun_words(Words *out, const Point *p, const Series *s, const SeriesRunOptions *o,
                         const char *ranks, char *args)
{
    const char *const first[] = { mpirun_path(), "-np", ranks, "--bind-to", "none" };
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) words_add(out, first[i]);
    if (args) words_split(out, args);
    else if (p->ranks > thread_allowed_cpus()) words_add(out, "--oversubscribe");
    words_add(out, o->program);
    series_point_command(p, s, out);
}

/* ---- running ---- */

static Status wait_for(pid_t pid, const Point *p, const char *log)
{
    int code = 0;
    bool ended = false;
    while (!ended && !signals_stop_requested()) ended = child_wait(pid, &code, POLL_S);
    if (!ended) child_signal(pid, SIGUSR1);
    if (!ended && !child_wait(pid, &code, GRACE_S)) child_kill(pid);
    child_kill_all();
    if (signals_stop_requested() && (code != 0 || !ended))
        return fail(ERR_STOPPED,
                    "asked to stop at %s; finished points are kept, and the same command continues",
                    p->name);
    Status status = mpirun_status(code);
    return status == OK ? OK
                        : fail(status, "%s ended with exit code %d: see %s", p->name, code, log);
}

static Status run_into(const Point *p, const Words *words, const char *log)
{
    pid_t pid;
    if (words->full) return fail(ERR_USAGE, "more than %d arguments for mpirun", WORDS_MAX);
    int fd;
    TRY(fs_open(&fd, log, O_WRONLY | O_CREAT | O_TRUNC));
    Status status = child_start(&pid, words->word, fd, fd);
    close(fd);
    return status == OK ? wait_for(pid, p, log) : status;
}

static Status run_point(const Point *p, const Series *s, const SeriesRunOptions *o)
{
    char ranks[24], name[48];
    Words words = { .count = 0 };
    snprintf(ranks, sizeof ranks, "%lld", (long long)p->ranks);
    snprintf(name, sizeof name, "%s.log", p->name);
    char *args FREED = mem_strdup(o->mpirun_args), *log FREED = fs_join(s->dir, name);
    if (!log || (!args && o->mpirun_args)) return ERR_MEMORY;
    mpirun_words(&words, p, s, o, ranks, args);
    return run_into(p, &words, log);
}

/* A run that said that it is done and is not finished, by the same rules, would be run for ever. */
static Status check_finished(const Point *p, const Series *s)
{
    ReportRun run FREED_BY(report_run_free) = { 0 };
    bool finished = false;
    TRY(series_point_find(p, s, &run, &finished));
    return finished ? OK
                    : fail(ERR_DATA,
                           "%s: the run ended with exit code 0, but its records do not show it as "
                           "finished",
                           p->run_dir);
}

static Status advance(const Point *p, const Series *s, const SeriesRunOptions *o, int number)
{
    ReportRun run FREED_BY(report_run_free) = { 0 };
    bool finished = false;
    int written = 0;
    TRY(series_point_find(p, s, &run, &finished));
    if (finished) {
        log_info("%s: already finished", p->name);
        return OK;
    }
    log_info("%s: point %d of %d, %lld %s", p->name, number, s->point_count, (long long)p->ranks,
             p->ranks == 1 ? "rank" : "ranks");
    TRY(run_point(p, s, o));
    TRY(check_finished(p, s));
    return series_write(s, &written);
}

/* Two at once would begin each other's points anew. *fd: held until it is closed. */
static Status take_lock(int *fd, const char *dir)
{
    char *path FREED = fs_join(dir, "scale.lock");
    if (!path) return ERR_MEMORY;
    TRY(fs_open(fd, path, O_RDWR | O_CREAT));
    for (int tries = 0; tries < 3; tries++) { /* report --watch holds it for a moment */
        if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OK;
        clock_sleep_s(0.1);
    }
    return fail(ERR_IO, "%s: another convoy scale is using this folder (scale.dir)", dir);
}

static Status run_points(const Series *s, const SeriesRunOptions *o)
{
    int written = 0;
    TRY(child_adopt_orphans());
    for (int i = 0; i < s->point_count; i++) {
        Point p FREED_BY(series_point_free) = { 0 };
        TRY(series_point(&p, s, i));
        TRY(advance(&p, s, o, i + 1));
        if (signals_stop_requested())
            return fail(ERR_STOPPED, "asked to stop; the same command continues");
    }
    return series_write(s, &written);
}

Status series_run(const Series *s, const SeriesRunOptions *o)
{
    int lock FREED_BY(fs_close) = -1;
    TRY(fs_make_dirs(s->dir));
    TRY(take_lock(&lock, s->dir));
    return run_points(s, o);
}

/* ---- printing ---- */

/* The batch file of the tree, or the one that was installed with this program. */
static void add_batch_file(StrBuf *out)
{
    static const char in_tree[] = "scripts/slurm/train.sbatch";
    char installed[2048];
    bool elsewhere =
        access(in_tree, R_OK) != 0 && process_installed(installed, sizeof installed, in_tree);
    str_add_word(out, elsewhere ? installed : in_tree);
}

static Status add_sbatch(StrBuf *out, const Point *p, const Series *s, int64_t per_node)
{
    char text[64];
    int64_t ranks = p->ranks < per_node ? p->ranks : per_node;
    if (p->ranks % ranks != 0)
        return fail(ERR_USAGE, "%lld ranks are not a multiple of %lld ranks per node (--per-node)",
                    (long long)p->ranks, (long long)per_node);
    str_printf(out, "RANKS=%lld", (long long)ranks);
    str_add_word(out, "sbatch");
    snprintf(text, sizeof text, "--job-name=%s", p->name);
    str_add_word(out, text);
    snprintf(text, sizeof text, "--nodes=%lld", (long long)(p->ranks / ranks));
    str_add_word(out, text);
    snprintf(text, sizeof text, "--gpus-per-node=%lld", (long long)ranks);
    if (s->config->device.backend != BACKEND_CPU) str_add_word(out, text);
    add_batch_file(out);
    return OK;
}

static Status add_line(StrBuf *out, const Point *p, const Series *s, const SeriesRunOptions *o,
                       PrintKind kind, int64_t per_node)
{
    Words words = { .count = 0 };
    char ranks[24];
    snprintf(ranks, sizeof ranks, "%lld", (long long)p->ranks);
    char *args FREED = mem_strdup(o->mpirun_args);
    int first = 0;
    Status status = OK;
    if (kind == PRINT_MPIRUN) mpirun_words(&words, p, s, o, ranks, args);
    else if ((status = add_sbatch(out, p, s, per_node)) == OK) {
        series_point_command(p, s, &words);
        first = 1; /* the batch file says train itself */
    }
    if (words.full) status = fail(ERR_USAGE, "more than %d arguments", WORDS_MAX);
    for (int i = first; i < words.count && status == OK; i++) str_add_word(out, words.word[i]);
    str_add(out, "\n");
    return status;
}

Status series_run_print(const Series *s, const SeriesRunOptions *o, PrintKind kind,
                        int64_t per_node)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    for (int i = 0; i < s->point_count; i++) {
        Point p FREED_BY(series_point_free) = { 0 };
        ReportRun run FREED_BY(report_run_free) = { 0 };
        bool finished = false;
        TRY(series_point(&p, s, i));
        TRY(series_point_find(&p, s, &run, &finished));
        if (!finished) TRY(add_line(&text, &p, s, o, kind, per_node));
    }
    return log_print_text(OK, &text);
}
