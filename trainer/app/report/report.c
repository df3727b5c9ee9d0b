/* report.c - see report.h: collects, computes, writes the page and its CSV files. */
#include "trainer/app/report/report.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/version.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/sections.h"
#include <string.h>

static Status build_page(StrBuf *out, const RunSet *set, const Scaling *scaling, double refresh_s)
{
    char now[32];
    const bool scales = scaling->count >= 2 || set->prediction_count > 0;
    clock_format_utc(now, sizeof now);
    const char *title = set->scale        ? "Convoy: scaling report"
                        : set->count == 1 ? "Convoy: one run"
                                          : "Convoy: runs";
    html_begin(out, title, refresh_s);
    if (set->count == 0) html_notef(out, "No run, written %s by convoy %s.", now, version_text());
    else
        html_notef(out, "%d %s, written %s by convoy %s.", set->count,
                   set->count == 1 ? "run" : "runs", now, version_text());
    if (scales && set->scale) section_scaling(out, set, scaling);
    if (set->count > 0) TRY(section_runs(out, set));
    section_differences(out, set);
    if (scales && !set->scale) section_scaling(out, set, scaling);
    section_spent(out, set);
    section_missing(out, set, set->scale || set->ranks_differ ? scaling : NULL);
    if (set->count > 0) TRY(section_curves(out, set));
    section_gpus(out, set);
    if (set->count > 0) section_environment(out, set);
    section_config(out, set);
    html_end(out);
    return OK;
}

/* Writes text, which is freed, to out, its ".html" replaced by suffix. */
static Status write_beside(Status status, const char *out, const char *suffix, StrBuf *text,
                           bool quiet)
{
    size_t n = strlen(out);
    if (str_ends_with_nocase(out, ".html")) n -= strlen(".html");
    StrBuf path FREED_BY(str_free) = { 0 };
    str_add_n(&path, out, n);
    str_add(&path, suffix);
    if (path.failed) status = ERR_MEMORY;
    status = fs_write_text(status, path.text, text);
    if (status == OK && !quiet) log_info("wrote %s", path.text);
    return status;
}

/* refresh_s above 0: the page alone. */
static Status write_files(const char *out, const RunSet *set, const Scaling *scaling,
                          double refresh_s)
{
    StrBuf page = { 0 }, records = { 0 }, table = { 0 };
    const bool live = refresh_s > 0;
    Status status = build_page(&page, set, scaling, refresh_s);
    status = write_beside(status, out, ".html", &page, live);
    if (live || status != OK) return status;
    section_records_csv(&records, set);
    TRY(write_beside(OK, out, ".csv", &records, false));
    if (scaling->count < 2) return OK;
    section_scaling_csv(&table, scaling);
    return write_beside(OK, out, ".scaling.csv", &table, false);
}

Status report_write_live(const char *out, const char *const *inputs, int count, double refresh_s,
                         bool *ended)
{
    RunSet set FREED_BY(collect_free) = { 0 };
    Scaling scaling FREED_BY(scaling_free) = { 0 };
    TRY(collect_runs(&set, inputs, count));
    *ended = set.points_due <= 0;
    for (int i = 0; i < set.count; i++) *ended = *ended && set.runs[i].done;
    TRY(scaling_make(&scaling, set.runs, set.count));
    return write_files(out, &set, &scaling, *ended ? 0 : refresh_s);
}

Status report_write(const char *out, const char *const *inputs, int count)
{
    bool ended;
    return report_write_live(out, inputs, count, 0, &ended);
}
