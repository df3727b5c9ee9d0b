/* scaling.c - see scaling.h. */
#include "trainer/app/report/scaling.h"

#include <math.h>
#include <string.h>

typedef struct Values { /* of one number of ranks */
    double *epochs, *runs, *cold;
    int64_t epoch_count, run_count, cold_count;
} Values;

/* ---- which runs can be compared ---- */

/* What differs between configurations beside length and seed, which do not change the work of a
 * step; "" if nothing. */
static Status differences(const ReportRun *r, const ReportRun *base, StrBuf *out)
{
    if (!r->config || !base->config) {
        str_add(out, "there is no config.yaml to compare");
        return OK;
    }
    Config c = *r->config; /* borrows its strings */
    c.train.seed = base->config->train.seed;
    c.train.epochs = base->config->train.epochs;
    c.train.max_steps = base->config->train.max_steps;
    Status status = config_math_difference(base->config, &c, out);
    if (status == OK && (strcmp(r->start.device, base->start.device) ||
                         strcmp(r->start.precision, base->start.precision)))
        str_printf(out, "%sdevice or precision differs (%s %s, %s %s)", out->length ? "; " : "",
                   base->start.device, base->start.precision, r->start.device, r->start.precision);
    if (status == OK && r->start.images != base->start.images)
        str_printf(out, "%sthe size of the training set differs", out->length ? "; " : "");
    return status;
}

static bool has_epoch_time(const ReportRun *r)
{
    if (r->warmup_steps >= 0)
        return r->step_count > 0 && r->steps[r->step_count - 1].step > r->warmup_steps;
    for (int64_t i = 0; i < r->epoch_count; i++)
        if (!r->epochs[i].first && !r->epochs[i].partial) return true;
    return false;
}

/* NULL, or why the run cannot take part. */
static const char *unusable(const ReportRun *r)
{
    if (r->start.world < 1 || r->start.images < 1 || r->start.global_batch < 1)
        return "it has no start record";
    if (r->world_changed) return "its number of ranks changed during the run";
    if (!has_epoch_time(r) && r->warmup_steps >= 0) return "it has no step after the warm-up";
    if (!has_epoch_time(r)) return "it has no whole epoch after its first one";
    return NULL;
}

/* *out: compared with base (NULL: the run becomes the base), else a note says why not. */
static Status usable(Scaling *s, const ReportRun *r, const ReportRun *base, bool *out)
{
    StrBuf difference FREED_BY(str_free) = { 0 };
    const char *why = unusable(r);
    if (!why && base) TRY(differences(r, base, &difference));
    if (why) str_printf(&s->notes, "%s is left out of the epoch times: %s.\n", r->name, why);
    else if (difference.length > 0)
        str_printf(&s->notes, "%s is left out of the epoch times: compared with %s, %s.\n", r->name,
                   base->name, difference.text);
    *out = !why && difference.length == 0;
    return OK;
}

/* ---- one number of ranks ---- */

static void add_steps_value(Values *v, const ReportRun *r)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < r->step_count; i++) {
        if (r->steps[i].step <= r->warmup_steps || !isfinite(r->steps[i].step_ms)) continue;
        sum += r->steps[i].step_ms;
        count++;
    }
    if (count > 0)
        v->runs[v->run_count++] =
            1e-3 * sum / (double)count * (double)r->start.images / (double)r->start.global_batch;
}

static void add_values(Values *v, const ReportRun *r)
{
    double sum = 0;
    int64_t count = 0;
    if (r->warmup_steps >= 0) {
        add_steps_value(v, r);
        return;
    }
    for (int64_t i = 0; i < r->epoch_count; i++) {
        const EpochRecord *e = &r->epochs[i];
        if (e->partial || e->images < 1 || !isfinite(e->seconds)) continue;
        double seconds = e->seconds * (double)r->start.images / (double)e->images;
        if (e->first) v->cold[v->cold_count++] = seconds;
        else v->epochs[v->epoch_count++] = seconds;
        if (e->first) continue;
        sum += seconds;
        count++;
    }
    if (count > 0) v->runs[v->run_count++] = sum / (double)count;
}

/* Whether the step belongs to what was timed. */
static bool timed(const ReportRun *r, const StepRecord *s)
{
    return r->warmup_steps >= 0 ? s->step > r->warmup_steps : s->epoch > 0;
}

typedef struct Sums {
    double step_ms, data_ms, comm_ms, images, tokens, loss;
    int losses;
} Sums;

static void add_shares(Sums *sums, const ReportRun *r)
{
    for (int64_t i = 0; i < r->step_count; i++) {
        const StepRecord *s = &r->steps[i];
        if (!timed(r, s) || !isfinite(s->step_ms)) continue;
        sums->step_ms += s->step_ms;
        sums->data_ms += s->data_wait_ms;
        sums->comm_ms += s->comm_wait_ms;
        sums->images += s->images_per_s * s->step_ms;
        sums->tokens += s->tokens_per_s * s->step_ms;
    }
    if (r->step_count == 0) return;
    sums->loss += r->steps[r->step_count - 1].loss;
    sums->losses++;
}

/* Of the steps of all of them. */
static double joules_per_image(const ReportRun *const *runs, int count)
{
    double joules = 0, images = 0;
    for (int i = 0; i < count; i++) {
        const Spent *parts = runs[i]->spent.part;
        joules += cost_joules(&parts[COST_TRAIN]) + cost_joules(&parts[COST_WAIT]);
        images += (double)runs[i]->trained_images;
    }
    return joules > 0 && images > 0 ? joules / images : (double)NAN;
}

/* By the prices of the first of them. */
static double epoch_cost(const ScalingRow *row, const ReportRun *first)
{
    Spent s = { .host_s = row->epoch_s.mean * (double)row->hosts };
    if (!isnan(row->joules_per_image))
        s.gpu_j = row->joules_per_image * (double)first->start.images;
    return first->config && row->hosts > 0 ? cost_money(first->config, &s) : (double)NAN;
}

/* From all runs of one number of ranks. */
static Status make_row(ScalingRow *row, const ReportRun *const *runs, int count)
{
    Sums sums = { 0 };
    size_t room = (size_t)count;
    for (int i = 0; i < count; i++) room += (size_t)runs[i]->epoch_count;
    Values v = { .epochs = mem_calloc(room * 3, sizeof *v.epochs) };
    if (!v.epochs) return ERR_MEMORY;
    v.runs = v.epochs + room;
    v.cold = v.runs + room;
    const StartRecord *first = &runs[0]->start;
    *row = (ScalingRow){ .ranks = first->world,
                         .hosts = first->hosts,
                         .global_batch = first->global_batch,
                         .compute_threads = first->compute_threads,
                         .runs = count };
    for (int i = 0; i < count; i++) {
        add_values(&v, runs[i]);
        add_shares(&sums, runs[i]);
        row->oversubscribed = row->oversubscribed || runs[i]->start.oversubscribed;
    }
    row->by_run = v.epoch_count == 0 || v.run_count >= STATISTICS_MIN_VALUES;
    row->epoch_s = row->by_run ? statistics_sample(v.runs, v.run_count)
                               : statistics_sample(v.epochs, v.epoch_count);
    row->cold_s = statistics_sample(v.cold, v.cold_count).mean;
    row->images_per_s = (double)first->images / row->epoch_s.mean;
    row->tokens_per_s = row->images_per_s * sums.tokens / sums.images;
    row->joules_per_image = joules_per_image(runs, count);
    row->epoch_cost = epoch_cost(row, runs[0]);
    row->data_share = sums.data_ms / sums.step_ms;
    row->comm_share = sums.comm_ms / sums.step_ms;
    row->loss = sums.losses ? sums.loss / sums.losses : (double)NAN;
    mem_free(v.epochs);
    return OK;
}

/* ---- all of them ---- */

static void compare_rows(Scaling *s)
{
    double x[SCALING_ROWS_MAX], y[SCALING_ROWS_MAX];
    const ScalingRow *base = &s->rows[0];
    for (int i = 0; i < s->count; i++) {
        ScalingRow *r = &s->rows[i];
        r->speedup = base->epoch_s.mean / r->epoch_s.mean;
        r->efficiency =
            statistics_ratio(&base->epoch_s, &r->epoch_s, (double)base->ranks / (double)r->ranks);
        if (i == 0) r->efficiency = (Ratio){ 1, (double)NAN, (double)NAN };
        if (r->oversubscribed) continue;
        x[s->fitted] = 1 / (double)r->ranks;
        y[s->fitted++] = r->epoch_s.mean;
        s->most_fitted = i;
    }
    s->fit = statistics_line(x, y, s->fitted);
}

static void describe(Scaling *s)
{
    s->same_rank_batch = s->same_global_batch = true;
    bool same_threads = true, oversubscribed = false;
    for (int i = 0; i < s->count; i++) {
        const ScalingRow *r = &s->rows[i], *base = &s->rows[0];
        if (r->global_batch * base->ranks != base->global_batch * r->ranks)
            s->same_rank_batch = false;
        if (r->global_batch != base->global_batch) s->same_global_batch = false;
        if (r->compute_threads != base->compute_threads) same_threads = false;
        if (r->oversubscribed) oversubscribed = true;
        if (r->epoch_s.count < STATISTICS_MIN_VALUES)
            str_printf(&s->notes, "%lld %s: %lld %s, no interval (three are needed).\n",
                       (long long)r->ranks, r->ranks == 1 ? "rank" : "ranks",
                       (long long)r->epoch_s.count, r->epoch_s.count == 1 ? "value" : "values");
    }
    if (oversubscribed)
        str_add(&s->notes, "Oversubscribed points had more ranks than CPUs or GPUs: they show that "
                           "the run works, but do not measure scaling.\n");
    if (!same_threads)
        str_add(&s->notes, "The number of compute threads per rank differs between points, so the "
                           "ideal line does not apply. Set device.threads to give each rank the "
                           "same number.\n");
}

/* The smallest number of ranks above this one; 0 for none. */
static int64_t next_ranks(const ReportRun *const *runs, int count, int64_t above)
{
    int64_t best = 0;
    for (int i = 0; i < count; i++)
        if (runs[i]->start.world > above && (best == 0 || runs[i]->start.world < best))
            best = runs[i]->start.world;
    return best;
}

static Status make_rows(Scaling *s, const ReportRun *const *runs, int count,
                        const ReportRun **scratch)
{
    int64_t ranks = 0;
    while ((ranks = next_ranks(runs, count, ranks)) > 0 && s->count < SCALING_ROWS_MAX) {
        int n = 0;
        for (int i = 0; i < count; i++)
            if (runs[i]->start.world == ranks) scratch[n++] = runs[i];
        TRY(make_row(&s->rows[s->count++], scratch, n));
    }
    if (ranks > 0)
        str_printf(&s->notes, "Only the %d smallest numbers of ranks are shown.\n",
                   SCALING_ROWS_MAX);
    return OK;
}

double scaling_speed(const ScalingRow *r)
{
    return isnan(r->tokens_per_s) ? r->images_per_s : r->tokens_per_s;
}

Status scaling_make(Scaling *out, const ReportRun *runs, int count)
{
    Status status = OK;
    const ReportRun **kept FREED = mem_calloc((size_t)count * 2 + 1, sizeof *kept);
    int n = 0;
    *out = (Scaling){ .units = &units_images };
    if (!kept) return ERR_MEMORY;
    for (int i = 0; i < count && status == OK; i++) {
        bool good = false;
        status = usable(out, &runs[i], n ? kept[0] : NULL, &good);
        if (good) kept[n++] = &runs[i];
    }
    if (status == OK && n > 0) {
        out->images = kept[0]->start.images;
        out->units = report_run_units(kept[0], 1);
        out->from_steps = kept[0]->warmup_steps >= 0;
        status = make_rows(out, kept, n, kept + count);
    }
    if (status == OK && out->count >= 2) {
        compare_rows(out);
        describe(out);
    }
    if (status == OK && out->notes.failed) status = fail(ERR_MEMORY, "out of memory");
    if (status != OK) scaling_free(out);
    return status;
}

void scaling_free(Scaling *s)
{
    str_free(&s->notes);
    *s = (Scaling){ 0 };
}
