/* cmd_report.c - convoy report RUN...: a page about runs. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/launch/lock.h"
#include "trainer/app/launch/progress.h"
#include "trainer/app/report/collect.h"
#include "trainer/app/report/report.h"
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* without a record, while no rank holds the folder */
#define SILENT_S           30.0
#define SILENT_ELSEWHERE_S 600.0

static const ArgRow rows[] = {
    { "RUN", .help = "a run folder (run.dir), or a folder of convoy scale, for all of its runs",
      .flags = ARG_REPEATED },
    { "--out", "FILE",
      .help = "the page (.html); default: report.html in RUN, or for several runs in the current "
              "folder. Also writes .csv (the records) and .scaling.csv (epoch times) next to it",
      .flags = ARG_WRITES },
    { "--watch",
      .help =
          "rewrite the page until all runs have ended, and wait for runs that do not exist yet; an "
          "open browser reloads it. The CSV files are written at the end" },
    { "--every", "SECONDS", .help = "refresh interval", .needs = "--watch", .min = 0.01, .max = 1e6,
      .fallback = 10 },
    ARG_ROW_END,
};

static bool is_there(const char *run)
{
    return fs_holds(run, "metrics.jsonl") || fs_holds(run, "scale.jsonl");
}

/* Until there is something to tell of all of them. */
static void wait_for_runs(const Args *args, double every_s)
{
    for (int i = 0; i < args->positional_count; i++) {
        const char *run = args->positional[i];
        if (!is_there(run)) log_info("%s: waiting for the run to appear", run);
        while (!is_there(run)) clock_sleep_s(every_s);
    }
}

/* Of a file in dir; 0 where it is not there. */
static double written_s(const char *dir, const char *file)
{
    struct stat info;
    char *path FREED = fs_join(dir, file);
    return path && stat(path, &info) == 0 ? (double)info.st_mtime : 0;
}

/* Of a series: by convoy scale, or by a run of its own. */
static double series_written_s(const char *dir)
{
    char **names FREED = NULL;
    int64_t count = 0;
    double last_s = written_s(dir, "scale.jsonl");
    if (fs_list(dir, &names, &count) != OK) return clock_unix_s(); /* perhaps next time */
    for (int64_t i = 0; i < count; i++) {
        char *run FREED = fs_join(dir, names[i]);
        if (run) last_s = fmax(last_s, written_s(run, "metrics.jsonl"));
    }
    return last_s;
}

/* A series that lacks points has died where nobody holds its lock, as a run below. Jobs have none
 * and are waited for. */
static bool series_goes_on(const char *dir, bool tell)
{
    RunSet set FREED_BY(collect_free) = { 0 };
    if (collect_runs(&set, &dir, 1) != OK) return true;
    if (set.points_due <= 0) return false;
    if (clock_unix_s() - series_written_s(dir) <= SILENT_ELSEWHERE_S) return true;
    char *lock FREED = fs_join(dir, "scale.lock");
    int fd FREED_BY(fs_close) = lock ? open(lock, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0) return true;
    if (tell) log_warning("%s: points are missing, and nothing writes there any more", dir);
    return false;
}

/* A run without an end has died where nobody holds its folder, and it has been silent: what another
 * host holds is not seen everywhere. tell: that it has died. */
static bool goes_on(const char *dir, bool tell)
{
    if (fs_holds(dir, "scale.jsonl")) return series_goes_on(dir, tell);
    ReportRun run FREED_BY(report_run_free) = { 0 };
    const double last_s = written_s(dir, "metrics.jsonl");
    if (last_s <= 0 || report_run_read(&run, dir, "") != OK) return true;
    if (run.done) return false;
    const double limit_s =
        strcmp(run.start.host, process_host()) == 0 ? SILENT_S : SILENT_ELSEWHERE_S;
    if (clock_unix_s() - last_s <= limit_s || progress_is_locked(dir, NULL) || lock_is_held(dir))
        return true;
    if (tell)
        log_warning("%s: the run has not ended, and nothing writes there any more: it was killed",
                    dir);
    return false;
}

/* Of runs that have not all ended: none of them goes on. */
static bool all_over(const Args *args)
{
    for (int tell = 0; tell < 2; tell++)
        for (int i = 0; i < args->positional_count; i++)
            if (goes_on(args->positional[i], tell)) return false;
    return true;
}

static Status watch(const char *out, const Args *args, double every_s)
{
    bool ended = false, told = false;
    wait_for_runs(args, every_s);
    for (;;) {
        TRY(report_write_live(out, args->positional, args->positional_count, every_s, &ended));
        if (ended) return OK;
        if (all_over(args)) return report_write(out, args->positional, args->positional_count);
        if (!told) log_info("%s: rewritten every %g s until the runs end", out, every_s);
        told = true;
        clock_sleep_s(every_s);
    }
}

static Status command(const Args *args)
{
    double every_s = 0;
    const char *out = args_value(args, "--out");
    const bool live = args_value(args, "--watch") != NULL;
    if (out && !str_ends_with_nocase(out, ".html"))
        return fail(ERR_USAGE, "--out %s: must end in .html", out);
    TRY(args_number(args, "--every", &every_s));
    char *own FREED =
        fs_join(args->positional_count == 1 ? args->positional[0] : "", "report.html");
    if (!own) return ERR_MEMORY;
    if (!out) out = own;
    return live ? watch(out, args, every_s)
                : report_write(out, args->positional, args->positional_count);
}

const Command cmd_report_runs = {
    .name = "report",
    .group = "Look",
    .summary = "write a page about runs, with plots",
    .about =
        "Writes one self-contained HTML page about runs, and CSV files next to it: loss, accuracy, "
        "images/s, time spent waiting for data and gradient sums, energy and cost, environment, "
        "configuration. An unfinished run is shown up to its last record; the page lists missing "
        "data. If runs differ only in their number of ranks, it also plots epoch time and "
        "efficiency against the number of ranks. 95 % confidence intervals need three values.",
    .examples = "convoy report runs/demo\n"
                "convoy report runs/a runs/b runs/c --out compare.html",
    .args = rows,
    .alone = command,
};
