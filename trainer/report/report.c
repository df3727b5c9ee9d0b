/* report.c - see report.h: collects, computes, writes the page and its CSV files. */
#include "trainer/report/report.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/version.h"
#include "trainer/report/html.h"
#include "trainer/report/sections.h"
#include <stdio.h>
#include <string.h>

static Status build_page(StrBuf *out, const RunSet *set, const Scaling *scaling)
{
    char now[32], text[160];
    const bool scales = scaling->count >= 2 || set->prediction_count > 0;
    clock_format_utc(now, sizeof now);
    html_begin(out, set->scale        ? "Convoy: scaling report"
                    : set->count == 1 ? "Convoy: one run"
                                      : "Convoy: runs");
    if (set->count == 0)
        snprintf(text, sizeof text, "No run, written %s by convoy %s.", now, version_text());
    else
        snprintf(text, sizeof text, "%d %s, written %s by convoy %s.", set->count,
                 set->count == 1 ? "run" : "runs", now, version_text());
    html_note(out, text);
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

/* Writes text to out, its ".html" replaced by suffix. */
static Status write_beside(const char *out, const char *suffix, const StrBuf *text)
{
    size_t n = strlen(out);
    if (str_ends_with_nocase(out, ".html")) n -= strlen(".html");
    StrBuf path = { 0 };
    str_add_n(&path, out, n);
    str_add(&path, suffix);
    bool failed = text->failed || path.failed;
    Status status = failed ? fail(ERR_MEMORY, "out of memory")
                           : fs_write_atomic(path.text, text->text, text->length);
    if (status == OK) log_info("wrote %s", path.text);
    str_free(&path);
    return status;
}

static Status write_files(const char *out, const RunSet *set, const Scaling *scaling)
{
    StrBuf page = { 0 }, records = { 0 }, table = { 0 };
    Status status = build_page(&page, set, scaling);
    section_records_csv(&records, set);
    section_scaling_csv(&table, scaling);
    if (status == OK) status = write_beside(out, ".html", &page);
    if (status == OK) status = write_beside(out, ".csv", &records);
    if (status == OK && scaling->count >= 2) status = write_beside(out, ".scaling.csv", &table);
    str_free(&page);
    str_free(&records);
    str_free(&table);
    return status;
}

Status report_write(const char *out, const char *const *inputs, int count)
{
    RunSet set;
    Scaling scaling;
    TRY(collect_runs(&set, inputs, count));
    Status status = scaling_make(&scaling, set.runs, set.count);
    if (status == OK) {
        status = write_files(out, &set, &scaling);
        scaling_free(&scaling);
    }
    collect_free(&set);
    return status;
}
