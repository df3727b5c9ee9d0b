/* predict.c - see predict.h. */
#include "trainer/app/scale/predict.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "kernels/backend_cuda.h"
#include "trainer/app/report/scaling.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SUM_16_BIT_RANKS 16 /* as session.c: where comm.grad_dtype is auto */

typedef struct Base { /* one rank by itself */
    double images_per_s;
    double images;      /* of an epoch; 0: not known */
    double batch;       /* of a rank */
    double rate_images; /* of a step at that rate */
    bool cpu;           /* it computed there */
} Base;

/* Time waited for data or for peers is no computation. */
static Status measure_base(Base *out, const Series *s)
{
    double sum = 0;
    int count = 0;
    *out = (Base){ 0 };
    for (int i = 0; i < s->point_count; i++) {
        Point p FREED_BY(series_point_free) = { 0 };
        ReportRun run FREED_BY(report_run_free) = { 0 };
        Scaling one FREED_BY(scaling_free) = { 0 };
        bool finished = false;
        TRY(series_point(&p, s, i));
        if (p.ranks != 1) continue;
        TRY(series_point_find(&p, s, &run, &finished));
        if (!finished) continue;
        TRY(scaling_make(&one, &run, 1));
        if (one.count != 1) continue;
        const ScalingRow *r = &one.rows[0];
        sum += r->images_per_s / (1 - r->data_share - r->comm_share);
        out->images = (double)one.images;
        out->batch = out->rate_images = (double)r->global_batch;
        out->cpu = strcmp(run.start.device, "cpu") == 0;
        count++;
    }
    out->images_per_s = count ? sum / count : 0;
    return OK;
}

double predict_element_bytes(const Config *c, bool on_cpu, int64_t ranks)
{
    bool computes_16 = c->train.precision != PRECISION_FP32 && c->train.precision != PRECISION_TF32;
    const bool cpu = on_cpu || c->device.backend == BACKEND_CPU;
    if (cpu || c->comm.grad_dtype == GRAD_DTYPE_FP32) return 4;
    if (c->comm.grad_dtype == GRAD_DTYPE_BF16) return 2;
    return computes_16 && ranks <= SUM_16_BIT_RANKS ? 2 : 4;
}

static void add_record(StrBuf *out, const Fabric *f, int64_t ranks, const StepTime *t,
                       const char *rate_name, double rate, double epoch_s)
{
    JsonWriter w = { .out = out };
    json_begin_object(&w, NULL);
    json_string(&w, "event", "prediction");
    json_string(&w, "fabric", f->name);
    json_int(&w, "ranks", ranks);
    json_number(&w, "step_ms", 1e3 * t->step_s);
    json_number(&w, "sums_ms", 1e3 * t->allreduce_s);
    json_number(&w, rate_name, rate);
    json_number(&w, "epoch_s", epoch_s);
    json_number(&w, "efficiency", t->efficiency);
    json_end_object(&w);
    str_add(out, "\n");
}

typedef struct Prediction {
    StrBuf text;
    const Series *s;
    StepModel model;
    Base base;
    const PredictOptions *options;
} Prediction;

static void say_terms(const StepModel *m, const Units *u)
{
    const StepTerms *t = &m->terms;
    const double fixed_s = m->operations * t->operation_s + t->fixed_s;
    if (fixed_s > 0)
        log_info("%.3f ms of a step do not depend on its %s: %d operations of %.4g us, and %.4g ms",
                 1e3 * fixed_s, u->many, m->operations, 1e6 * t->operation_s, 1e3 * t->fixed_s);
    if (t->spread > 0) log_info("ranks differ by %.4g %%", 100 * t->spread);
    if (t->no_overlap) log_info("one sum of all gradients, after the backward pass");
}

static void predict_fabric(void *cookie, const Fabric *f)
{
    Prediction *p = cookie;
    const Base *base = &p->base;
    const Config *c = p->s->config;
    const Units *u = units_of(c);
    log_info("prediction, not a measurement: %s on %s, %.4g %s on one rank", c->model.name, f->name,
             base->images_per_s, u->rate);
    say_terms(&p->model, u);
    log_info("%6s %8s %10s %10s %12s %8s", "ranks", "buckets", "sums ms", "step ms", u->rate,
             "effic. %");
    for (int i = 0; i < p->options->ranks.count; i++) {
        const int64_t ranks = p->options->ranks.at[i];
        /* of a rank. Weak: as it has alone. Strong: its share of the batch. */
        const double batch = c->scale.mode == SCALE_STRONG
                                 ? (double)c->train.global_batch / (double)ranks
                                 : base->batch;
        const double compute_s =
            step_model_compute_s(&p->model, batch, base->images_per_s, base->rate_images);
        StepTime t = step_model_predict(&p->model, f, compute_s, ranks,
                                        predict_element_bytes(c, base->cpu, ranks));
        double images_per_s = batch * (double)ranks / t.step_s;
        /* over the base's batch, which need not be the rank's */
        t.efficiency = images_per_s / ((double)ranks * base->images_per_s);
        double epoch_s = base->images > 0 ? base->images / images_per_s : (double)NAN;
        log_info("%6lld %8d %10.3f %10.3f %12.1f %8.1f", (long long)ranks, t.buckets,
                 1e3 * t.allreduce_s, 1e3 * t.step_s, images_per_s, 100 * t.efficiency);
        add_record(&p->text, f, ranks, &t, records_name("images_per_s", config_is_text(c)),
                   images_per_s, epoch_s);
    }
}

static Status write_predictions(const Series *s, StrBuf *text)
{
    int finished = 0;
    TRY(series_write(s, &finished)); /* makes the folder one that convoy report knows */
    char *path FREED = fs_join(s->dir, "predictions.jsonl");
    return fs_write_text(path ? OK : ERR_MEMORY, path, text);
}

Status predict_ranks(RankList *out, const char *text)
{
    enum { USUAL = 256, MOST = 65536 };
    *out = (RankList){ 0 };
    for (int64_t ranks = 1; !text && ranks <= USUAL; ranks *= 2) out->at[out->count++] = ranks;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char number[24];
        int64_t ranks = 0;
        snprintf(number, sizeof number, "%.*s", (int)strcspn(at, ","), at);
        if (!str_to_i64(number, &ranks) || ranks < 1 || ranks > MOST || out->count == RANK_LIST_MAX)
            return fail(
                ERR_USAGE,
                "--ranks %s: must be at most %d whole numbers from 1 to %d, separated by commas",
                text, RANK_LIST_MAX, MOST);
        out->at[out->count++] = ranks;
    }
    return OK;
}

Status predict_rate(PredictOptions *out, const char *text)
{
    char rate[64];
    const char *at = text ? strchr(text, '@') : NULL;
    if (!text) return OK;
    const size_t n = strcspn(text, "@");
    snprintf(rate, sizeof rate, "%.*s", n < sizeof rate ? (int)n : 0, text);
    if (!str_to_double(rate, &out->images_per_s) || !(out->images_per_s >= 1e-6) ||
        out->images_per_s > 1e9)
        return fail(ERR_USAGE, "--rate %s: must be a number from 1e-6 to 1e9", text);
    if (at && (!str_to_double(at + 1, &out->rate_images) || !(out->rate_images >= 1) ||
               out->rate_images > 1e6))
        return fail(ERR_USAGE,
                    "--rate %s: the number of images after @ must be from 1 to a million", text);
    return OK;
}

static Status predict_each(Prediction *p)
{
    const Units *u = units_of(p->s->config);
    const double fixed_s =
        step_model_compute_s(&p->model, 0, p->base.images_per_s, p->base.rate_images);
    if (isnan(fixed_s))
        return fail(ERR_USAGE,
                    "--op-us and --fixed-ms: %d operations and the rest take as long as a whole "
                    "step of %g %s at %g %s, or longer",
                    p->model.operations, p->base.rate_images, u->many, p->base.images_per_s,
                    u->rate);
    return fabric_read_each(p->options->fabrics, "--predict", predict_fabric, p);
}

Status predict_print(const Series *s, const PredictOptions *o)
{
    Prediction p = { .s = s, .options = o };
    const double batch = (double)s->config->train.batch_per_rank;
    TRY(measure_base(&p.base, s));
    if (o->images_per_s > 0)
        p.base = (Base){ .images_per_s = o->images_per_s,
                         .batch = batch,
                         .rate_images = o->rate_images > 0 ? o->rate_images : batch };
    if (!(p.base.images_per_s > 0))
        return fail(ERR_DATA, "%s: no finished point with one rank to predict from; set --rate",
                    s->dir);
    TRY(step_model_create(&p.model, s->config));
    p.model.terms = o->terms;
    Status status = predict_each(&p);
    if (status == OK) status = write_predictions(s, &p.text);
    step_model_destroy(&p.model);
    str_free(&p.text);
    return status;
}
