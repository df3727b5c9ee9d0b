/* gpus.c - the GPUs of rank 0's host, one by one: which of them is slow shows in a row. */
#include "trainer/app/report/html.h"
#include "trainer/app/report/sections.h"
#include <math.h>

static double most(const ReportRange *r)
{
    return r->count ? r->high : (double)NAN;
}

static void add_row(StrBuf *out, const ReportRun *r, int number, int gpu)
{
    const ReportGpu *g = &r->gpus[gpu];
    html_run_row(out, r->colour, number, r->name);
    html_whole(out, gpu);
    html_whole(out, g->looks);
    html_number(out, 100 * report_run_mean(&g->gauge[0]), 1);
    html_number(out, 100 * g->utilization_min, 1);
    html_number(out, most(&g->gauge[1]) / (1 << 30), 2);
    html_number(out, report_run_mean(&g->gauge[2]), 1);
    html_number(out, report_run_mean(&g->gauge[3]), 0);
    html_number(out, g->gauge[3].count ? g->gauge[3].low : (double)NAN, 0);
    html_number(out, most(&g->gauge[4]), 0);
    html_row_end(out);
}

void section_gpus(StrBuf *out, const RunSet *set)
{
    static const char *const heads[] = { "",         "<run",      "GPU",     "samples",
                                         "use %",    "min use %", "max GiB", "mean W",
                                         "mean MHz", "min MHz",   "max C" };
    bool any = false;
    for (int i = 0; i < set->count; i++) any = any || set->runs[i].gpus;
    if (!any) return;
    html_heading(out, "GPUs");
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < set->count; i++)
        for (int k = 0; set->runs[i].gpus && k < REPORT_GPUS_MAX; k++)
            if (set->runs[i].gpus[k].looks > 0) add_row(out, &set->runs[i], i + 1, k);
    html_table_end(out);
    html_note(out, "On rank 0's host, over all samples (one every monitor.every_s). use: mean "
                   "share of time in which a kernel ran; min, max: over samples. Curves show "
                   "the mean, in a band from the lowest to the highest GPU.");
}
