/* spent.c - what runs have spent: a table of energy and money. */
#include "trainer/app/report/html.h"
#include "trainer/app/report/sections.h"
#include <math.h>

#define J_PER_KWH 3.6e6

/* The least of what the runs that were evaluated have reached: all of them have. NaN for none. */
static double common_target(const RunSet *set)
{
    double target = (double)NAN;
    for (int i = 0; i < set->count; i++) {
        const EvalRecord *best = report_run_best(&set->runs[i]);
        if (best) target = fmin(target, records_score(best)); /* fmin passes over NaN */
    }
    return target;
}

/* The first evaluation by the run itself that reached the target; NULL: none. */
static const EvalRecord *first_at(const ReportRun *r, double target)
{
    for (int64_t i = r->first_eval; i < r->eval_count; i++)
        if (!r->evals[i].checkpoint && records_score(&r->evals[i]) >= target) return &r->evals[i];
    return NULL;
}

/* With its prices; "" where there is none. */
static void money_cell(StrBuf *out, const ReportRun *r, const Spent *s, double share)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    if (r->config && s) cost_add_money(r->config, share * cost_money(r->config, s), &text);
    html_figure(out, text.length > 0 ? text.text + 2 : "");
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

void section_spent(StrBuf *out, const RunSet *set)
{
    static const char *const heads[] = { "",
                                         "<run",
                                         "<energy by",
                                         "kWh",
                                         "assumed %",
                                         "J/image",
                                         "waiting %",
                                         "host hours",
                                         "cost",
                                         "cost per epoch",
                                         "kWh to target",
                                         "host hours to target",
                                         "cost to target" };
    const double target = common_target(set);
    bool any = false;
    for (int i = 0; i < set->count; i++) any = any || cost_sum(&set->runs[i].spent).host_s > 0;
    if (!any) return;
    html_heading(out, "Energy and money");
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < set->count; i++) add_row(out, set, i, target);
    html_table_end(out);
    html_note(
        out, "Everything that was recorded, including work that a killed process lost. J/image: "
             "steps only. waiting: the share spent waiting for data, of the energy or, where that "
             "is not known, of the time. Costs use the prices (cost.*) in each run's config.yaml.");
    if (isnan(target)) return;
    html_notef(out,
               "Target: top-1 of %.2f %%, the best value that every evaluated run has reached; "
               "spent until the end of the first evaluation that reached it.",
               100 * target);
}
