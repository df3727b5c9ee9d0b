/* spent.c - what runs have spent: a table of energy and cost. */
#include "trainer/app/report/html.h"
#include "trainer/app/report/sections.h"
#include <math.h>
#include <stdio.h>

#define J_PER_KWH 3.6e6

/* What all runs that were evaluated have reached, *kind of evaluation. NaN for none, and where
 * theirs differ. */
static double common_target(const RunSet *set, EvalKind *kind)
{
    double target = (double)NAN;
    *kind = EVAL_KINDS;
    for (int i = 0; i < set->count; i++) {
        const EvalRecord *best = report_run_best(&set->runs[i]);
        if (!best) continue;
        if (*kind != EVAL_KINDS && records_kind(best) != *kind) return (double)NAN;
        *kind = records_kind(best);
        const double score = records_score(best); /* fmin and fmax pass over NaN */
        target = best->masks ? fmax(target, score) : fmin(target, score);
    }
    return target;
}

/* The first evaluation by the run itself that reached the target; NULL: none. */
static const EvalRecord *first_at(const ReportRun *r, double target)
{
    for (int64_t i = r->first_eval; i < r->eval_count; i++) {
        const EvalRecord *e = &r->evals[i];
        const double score = records_score(e);
        if (!e->checkpoint && (e->masks ? score <= target : score >= target)) return e;
    }
    return NULL;
}

/* With its prices; "" where there is none. */
static void money_cell(StrBuf *out, const ReportRun *r, const Spent *s, double share)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    if (r->config && s) cost_add_money(r->config, share * cost_money(r->config, s), &text);
    html_cell(out, text.length > 0 ? text.text + 2 : "");
}

static void add_row(StrBuf *out, const RunSet *set, int k, double target)
{
    const ReportRun *r = &set->runs[k];
    const Spent sum = cost_sum(&r->spent), *wait = &r->spent.part[COST_WAIT];
    const EvalRecord *reached = first_at(r, target);
    const Spent *until = reached && reached->spent.host_s > 0 ? &reached->spent : NULL;
    const double joules = cost_joules(&sum), no = (double)NAN;
    const double epochs = (double)r->trained_images / (double)r->start.images;
    const double trained = cost_joules(&r->spent.part[COST_TRAIN]) + cost_joules(wait);
    html_run_row(out, r->colour, k + 1, r->name);
    html_cell(out, r->energy_source);
    html_number(out, joules > 0 ? joules / J_PER_KWH : no, 4);
    html_number(out, joules > 0 ? 100 * sum.assumed_j / joules : no, 1);
    html_number(out, joules > 0 ? trained / (double)r->trained_images : no, 3);
    html_number(out,
                joules > 0 ? 100 * cost_joules(wait) / joules : 100 * wait->host_s / sum.host_s, 2);
    html_number(out, sum.host_s / 3600, 4);
    money_cell(out, r, &sum, 1);
    money_cell(out, r, epochs > 0 ? &sum : NULL, 1 / epochs);
    html_number(out, until && joules > 0 ? cost_joules(until) / J_PER_KWH : no, 4);
    html_number(out, until ? until->host_s / 3600 : no, 4);
    money_cell(out, r, until, 1);
    html_row_end(out);
}

/* Host hours alone are no reason for a table: the runs' own has their duration. */
static bool says_something(const ReportRun *r)
{
    const Spent sum = cost_sum(&r->spent);
    return cost_joules(&sum) > 0 ||
           (r->config && r->config->cost.price_per_host_hour > 0 && sum.host_s > 0);
}

void section_spent(StrBuf *out, const RunSet *set)
{
    char per_sample[32], score[RECORDS_SCORE_BYTES];
    const char *const heads[] = { "",
                                  "<run",
                                  "<energy source",
                                  "kWh",
                                  "assumed %",
                                  per_sample,
                                  "data wait %",
                                  "host hours",
                                  "<cost",
                                  "<cost per epoch",
                                  "kWh to target",
                                  "host hours to target",
                                  "<cost to target" };
    EvalKind kind;
    const double target = common_target(set, &kind);
    bool any = false;
    for (int i = 0; i < set->count; i++) any = any || says_something(&set->runs[i]);
    if (!any) return;
    snprintf(per_sample, sizeof per_sample, "J/%s", report_run_units(set->runs, set->count)->one);
    html_heading(out, "Energy and cost");
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < set->count; i++) add_row(out, set, i, target);
    html_table_end(out);
    html_notef(
        out,
        "Totals cover everything recorded, including work lost to a killed process. assumed: share "
        "of the energy estimated by cost.host_watts. %s: training steps only. data wait: share of "
        "the energy (or of the time, if energy is not known) spent waiting for data. Costs use the "
        "prices (cost.*) in each run's config.yaml.",
        per_sample);
    if (isnan(target)) return;
    if (kind == EVAL_MASKED) snprintf(score, sizeof score, "loss of %.4f", target);
    else
        snprintf(score, sizeof score, "%s of %.2f %%", records_share_name(kind == EVAL_MULTI),
                 100 * target);
    html_notef(
        out,
        "Target: %s, the best value that every evaluated run has reached. Columns to target: "
        "totals until the end of the first evaluation that reached it.",
        score);
}
