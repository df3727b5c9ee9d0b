/* gauges.c - see gauges.h. A row of a table is a metric in both texts.
 *
 * Prometheus' conventions: one base unit (seconds, bytes, watts, celsius, hertz, ratios from 0 to
 * 1) as the end of the name, _total for what only grows while the process lives, no timestamps.
 * CloudWatch has units of its own; its metrics of a GPU have the names, units and factors of the
 * CloudWatch agent's (nvidia_gpu), with dimensions of our own. */
#include "trainer/app/monitor/gauges.h"

#include "base/json.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define PREFIX        "convoy_"
#define EMF_NAMESPACE "Convoy"
#define MIB           (1.0 / (1 << 20))

typedef enum Of { OF_ANY, OF_IMAGES, OF_TEXT } Of; /* which runs have a metric */

typedef struct Metric {
    Of of;
    const char *name; /* of Prometheus, without the prefix */
    const char *type, *help;
    size_t offset;              /* of a double in Gauges or GpuGauges */
    double factor;              /* to Prometheus' unit */
    const char *emf, *emf_unit; /* NULL: not there */
    double emf_factor;
} Metric;

#define RUN(field) offsetof(Gauges, field)
#define GPU(field) offsetof(GpuGauges, field)

/* clang-format off */
static const Metric run_metrics[] = {
    {OF_ANY, "step", "gauge", "Completed steps of the run.", RUN(step), 1, "step", "Count", 1},
    {OF_ANY, "planned_steps", "gauge", "Steps of the whole run.",
     RUN(total_steps), 1, NULL, NULL, 0},
    {OF_ANY, "epoch", "gauge", "Current epoch of the run, from 0.",
     RUN(epoch), 1, "epoch", "Count", 1},
    {OF_ANY, "ranks", "gauge", "Ranks of the run.", RUN(world), 1, NULL, NULL, 0},
    {OF_ANY, "loss", "gauge", "Mean loss over the global batch of the last recorded step.",
     RUN(recorded.loss), 1, "loss", "None", 1},
    {OF_ANY, "learning_rate", "gauge", "Learning rate of that step.",
     RUN(recorded.lr), 1, "learning_rate", "None", 1},
    {OF_ANY, "grad_norm", "gauge", "Norm of all gradients of that step before clipping.",
     RUN(recorded.grad_norm), 1, NULL, NULL, 0},
    {OF_IMAGES, "images_per_second", "gauge",
     "Images per second that all ranks trained on, since the previous record.",
     RUN(recorded.recent_images_per_s), 1, "images_per_s", "Count/Second", 1},
    {OF_ANY, "mfu_ratio", "gauge",
     "Share of the devices' peak FLOP/s that the network's matrix products used, since then.",
     RUN(recorded.recent_mfu), 1, "mfu", "Percent", 100},
    {OF_TEXT, "sequences_per_second", "gauge",
     "Sequences per second that all ranks trained on, since the previous record.",
     RUN(recorded.recent_images_per_s), 1, "sequences_per_s", "Count/Second", 1},
    {OF_TEXT, "tokens_per_second", "gauge",
     "Tokens per second that all ranks trained on, since the previous record.",
     RUN(recorded.recent_tokens_per_s), 1, "tokens_per_s", "Count/Second", 1},
    {OF_TEXT, "perplexity", "gauge", "Perplexity of the last recorded step: exp of its loss.",
     RUN(recorded.ppl), 1, "ppl", "None", 1},
    {OF_TEXT, "masked_ratio", "gauge", "Share of the tokens of that step that were masked.",
     RUN(recorded.masked), 1, NULL, NULL, 0},
    {OF_IMAGES, "images_total", "counter",
     "Images that all ranks trained on since this process started.",
     RUN(images), 1, NULL, NULL, 0},
    {OF_TEXT, "sequences_total", "counter",
     "Sequences that all ranks trained on since this process started.",
     RUN(images), 1, NULL, NULL, 0},
    {OF_TEXT, "tokens_total", "counter",
     "Tokens that all ranks trained on since this process started.",
     RUN(tokens), 1, NULL, NULL, 0},
    {OF_ANY, "step_seconds_total", "counter", "Seconds in steps since this process started.",
     RUN(step_seconds), 1, NULL, NULL, 0},
    {OF_ANY, "data_wait_seconds_total", "counter",
     "Of those, seconds in which rank 0 waited for input.",
     RUN(data_wait_seconds), 1, NULL, NULL, 0},
    {OF_ANY, "comm_wait_seconds_total", "counter",
     "Of those, seconds in which rank 0 waited for other ranks.",
     RUN(comm_wait_seconds), 1, NULL, NULL, 0},
    {OF_ANY, "eval_loss", "gauge", "Mean loss of the last evaluation.",
     RUN(eval.loss), 1, "eval_loss", "None", 1},
    {OF_IMAGES, "eval_top1_ratio", "gauge",
     "Share of images of the last evaluation that were classified correctly.",
     RUN(eval.top1), 1, "eval_top1", "Percent", 100},
    {OF_IMAGES, "eval_top5_ratio", "gauge",
     "Share of images of the last evaluation whose class was among the five most likely.",
     RUN(eval.top5), 1, "eval_top5", "Percent", 100},
    {OF_IMAGES, "eval_map_ratio", "gauge",
     "Mean average precision of the last evaluation of images with any number of labels.",
     RUN(eval.map), 1, "eval_map", "Percent", 100},
    {OF_IMAGES, "eval_ema_map_ratio", "gauge", "As eval_map_ratio, with the averaged weights.",
     RUN(eval.ema_map), 1, "eval_ema_map", "Percent", 100},
    {OF_TEXT, "eval_perplexity", "gauge", "Perplexity of the last evaluation: exp of its loss.",
     RUN(eval.ppl), 1, "eval_ppl", "None", 1},
    {OF_TEXT, "eval_top1_ratio", "gauge",
     "Share of the masked words of the last evaluation that were found, or of sequences that were "
     "classified correctly.",
     RUN(eval.top1), 1, "eval_top1", "Percent", 100},
    {OF_TEXT, "eval_top5_ratio", "gauge",
     "As eval_top1_ratio, for the five most likely words or classes.",
     RUN(eval.top5), 1, "eval_top5", "Percent", 100},
    {OF_ANY, "eval_ema_top1_ratio", "gauge", "As eval_top1_ratio, with the averaged weights.",
     RUN(eval.ema_top1), 1, "eval_ema_top1", "Percent", 100},
    {OF_ANY, "eval_step", "gauge", "Step of the last evaluation.",
     RUN(eval_step), 1, NULL, NULL, 0},
    {OF_ANY, "checkpoint_step", "gauge", "Step of the last checkpoint on disk.",
     RUN(checkpoint_step), 1, NULL, NULL, 0},
    {OF_ANY, "checkpoint_timestamp_seconds", "gauge", "When that checkpoint was saved, Unix time.",
     RUN(checkpoint_unix_s), 1, NULL, NULL, 0},
    {OF_ANY, "start_timestamp_seconds", "gauge", "When this process started, Unix time.",
     RUN(start_unix_s), 1, NULL, NULL, 0},
    {OF_ANY, "update_timestamp_seconds", "gauge", "When the last step ended, Unix time.",
     RUN(update_unix_s), 1, NULL, NULL, 0},
};
static const Metric gpu_metrics[] = {
    {OF_ANY, "gpu_utilization_ratio", "gauge", "Mean share of time in which a kernel was running.",
     GPU(state.utilization), 1, "nvidia_smi_utilization_gpu", "None", 100},
    {OF_ANY, "gpu_utilization_min_ratio", "gauge", "The same, smallest sample.",
     GPU(utilization_min), 1, NULL, NULL, 0},
    {OF_ANY, "gpu_utilization_max_ratio", "gauge", "The same, largest sample.",
     GPU(utilization_max), 1, NULL, NULL, 0},
    {OF_ANY, "gpu_memory_utilization_ratio", "gauge",
     "Mean share of time in which the GPU's memory was read or written.",
     GPU(state.memory_utilization), 1, "nvidia_smi_utilization_memory", "None", 100},
    {OF_ANY, "gpu_memory_used_bytes", "gauge", "Memory in use, by any process.",
     GPU(state.memory_used_bytes), 1, "nvidia_smi_memory_used", "None", MIB},
    {OF_ANY, "gpu_memory_bytes", "gauge", "Total memory of the GPU.",
     GPU(facts.memory_bytes), 1, "nvidia_smi_memory_total", "None", MIB},
    {OF_ANY, "gpu_power_watts", "gauge", "Power draw, mean.",
     GPU(state.power_w), 1, "nvidia_smi_power_draw", "None", 1},
    {OF_ANY, "gpu_temperature_celsius", "gauge", "Temperature of the GPU.",
     GPU(state.temperature_c), 1, "nvidia_smi_temperature_gpu", "None", 1},
    {OF_ANY, "gpu_sm_clock_hertz", "gauge", "Clock rate of the multiprocessors.",
     GPU(state.sm_clock_mhz), 1e6, "nvidia_smi_clocks_current_sm", "None", 1},
};
/* clang-format on */
enum {
    RUN_METRICS = sizeof run_metrics / sizeof run_metrics[0],
    GPU_METRICS = sizeof gpu_metrics / sizeof gpu_metrics[0]
};

static double value_of(const Metric *m, const void *base)
{
    return records_number_at(base, m->offset);
}

/* NaN too where runs of this kind do not have it. */
static double run_value(const Metric *m, const Gauges *g)
{
    const bool has = m->of == OF_ANY || (m->of == OF_TEXT) == g->text;
    return has ? value_of(m, g) : (double)NAN;
}

void gauges_init(Gauges *g)
{
    const double nan = (double)NAN;
    *g = (Gauges){ .run = "", .model = "", .host = "", .version = "" };
    for (int i = 0; i < RUN_METRICS; i++)
        *(double *)(void *)((char *)g + run_metrics[i].offset) =
            run_metrics[i].type[0] == 'c' ? 0 : nan;
}

static double mean_with(GaugeMean *m, double value)
{
    if (!isnan(value)) {
        m->sum += value;
        m->known++;
    }
    return m->known > 0 ? m->sum / m->known : (double)NAN;
}

void gauges_add_sample(GpuGauges *out, GpuSamples *looks, const GpuState *seen)
{
    bool first = looks->utilization.known == 0;
    out->state = *seen;
    out->state.utilization = mean_with(&looks->utilization, seen->utilization);
    out->state.memory_utilization = mean_with(&looks->memory_utilization, seen->memory_utilization);
    out->state.power_w = mean_with(&looks->power_w, seen->power_w);
    /* fmin and fmax pass over what is not known */
    looks->utilization_min =
        first ? seen->utilization : fmin(looks->utilization_min, seen->utilization);
    looks->utilization_max =
        first ? seen->utilization : fmax(looks->utilization_max, seen->utilization);
    out->utilization_min = looks->utilization_min;
    out->utilization_max = looks->utilization_max;
}

/* ---- Prometheus ---- */

static void add_label(StrBuf *out, const char *name, const char *value)
{
    str_printf(out, "%s=\"", name);
    for (const char *p = value; *p; p++) {
        if (*p == '\n') str_add(out, "\\n");
        else {
            if (*p == '"' || *p == '\\') str_add(out, "\\");
            str_add_n(out, p, 1);
        }
    }
    str_add(out, "\"");
}

/* Several, with commas between; names end with NULL. */
static void add_labels(StrBuf *out, const char *const names[], const char *const values[])
{
    for (int i = 0; names[i]; i++) {
        if (i > 0) str_add(out, ",");
        add_label(out, names[i], values[i]);
    }
}

static void add_head(StrBuf *out, const char *name, const char *type, const char *help)
{
    str_printf(out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

static void add_sample(StrBuf *out, const Metric *m, const Gauges *g, const GpuGauges *gpu,
                       double value)
{
    str_printf(out, PREFIX "%s{", m->name);
    add_label(out, "run", g->run);
    if (gpu) {
        str_printf(out, ",gpu=\"%d\",", gpu->index);
        add_label(out, "uuid", gpu->facts.uuid);
        str_add(out, ",");
        add_label(out, "host", g->host);
    }
    if (isinf(value)) str_add(out, value > 0 ? "} +Inf\n" : "} -Inf\n");
    else str_printf(out, "} %.15g\n", value * m->factor);
}

static void add_info(const Gauges *g, StrBuf *out)
{
    add_head(out, "run_info", "gauge", "The run, as labels; always 1.");
    str_add(out, PREFIX "run_info{");
    add_labels(out, (const char *const[]){ "run", "model", "host", "version", NULL },
               (const char *const[]){ g->run, g->model, g->host, g->version });
    str_add(out, "} 1\n");
}

static void add_gpu_metric(const Gauges *g, const Metric *m, StrBuf *out)
{
    bool headed = false;
    for (int i = 0; i < g->gpu_count; i++) {
        double value = value_of(m, &g->gpu[i]);
        if (isnan(value)) continue;
        if (!headed) add_head(out, m->name, m->type, m->help);
        headed = true;
        add_sample(out, m, g, &g->gpu[i], value);
    }
}

/* A sample for each source that has told anything. */
static void add_energy(const Gauges *g, StrBuf *out)
{
    static const char name[] = "energy_joules_total";
    const struct {
        const char *source;
        double joules;
    } rows[] = { { "gpu", g->spent.gpu_j },
                 { "cpu", g->spent.cpu_j },
                 { "assumed", g->spent.assumed_j } };
    if (cost_joules(&g->spent) <= 0) return;
    add_head(out, name, "counter",
             "Joules of this host's GPUs that the run computes on, of its CPUs, or assumed, since "
             "this process started.");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].joules <= 0) continue;
        str_printf(out, PREFIX "%s{", name);
        add_label(out, "run", g->run);
        str_printf(out, ",source=\"%s\",", rows[i].source);
        add_label(out, "host", g->host);
        str_printf(out, "} %.15g\n", rows[i].joules);
    }
}

/* Nothing where no price is given. */
static void add_cost(const Gauges *g, StrBuf *out)
{
    const double cost = g->prices ? cost_money(g->prices, &g->spent) : (double)NAN;
    StrBuf prices FREED_BY(str_free) = { 0 };
    if (isnan(cost)) return;
    cost_add_prices(g->prices, &prices);
    add_head(out, "cost_total", "counter",
             "What this host has cost since this process started, by the run's own prices.");
    str_add(out, PREFIX "cost_total{");
    add_labels(out, (const char *const[]){ "run", "currency", "prices", "host", NULL },
               (const char *const[]){ g->run, g->prices->cost.currency,
                                      prices.text ? prices.text : "", g->host });
    str_printf(out, "} %.15g\n", cost);
}

void gauges_add_prometheus(const Gauges *g, StrBuf *out)
{
    add_info(g, out);
    for (int i = 0; i < RUN_METRICS && g->trains; i++) {
        double value = run_value(&run_metrics[i], g);
        if (isnan(value)) continue;
        add_head(out, run_metrics[i].name, run_metrics[i].type, run_metrics[i].help);
        add_sample(out, &run_metrics[i], g, NULL, value);
    }
    for (int i = 0; i < GPU_METRICS; i++) add_gpu_metric(g, &gpu_metrics[i], out);
    add_energy(g, out);
    add_cost(g, out);
}

/* ---- CloudWatch ---- */

/* Of the run, or of this GPU. */
static bool in_emf(const Metric *m, const Gauges *g, const GpuGauges *gpu)
{
    return m->emf && isfinite(gpu ? value_of(m, gpu) : run_value(m, g));
}

static void add_definitions(JsonWriter *w, const Metric *metrics, int count, const Gauges *g,
                            const GpuGauges *gpu)
{
    json_begin_array(w, "Metrics");
    for (int i = 0; i < count; i++) {
        if (!in_emf(&metrics[i], g, gpu)) continue;
        json_begin_object(w, NULL);
        json_string(w, "Name", metrics[i].emf);
        json_string(w, "Unit", metrics[i].emf_unit);
        json_end_object(w);
    }
    json_end_array(w);
}

static void add_dimensions(JsonWriter *w, bool gpu)
{
    static const char *const names[] = { "run", "host", "gpu" };
    json_begin_array(w, "Dimensions");
    json_begin_array(w, NULL);
    for (int i = 0; i < (gpu ? 3 : 1); i++) json_string(w, NULL, names[i]);
    json_end_array(w);
    json_end_array(w);
}

static void add_emf_line(const Gauges *g, const GpuGauges *gpu, double now_s, StrBuf *out)
{
    JsonWriter w = { .out = out };
    const Metric *metrics = gpu ? gpu_metrics : run_metrics;
    const int count = gpu ? GPU_METRICS : RUN_METRICS;
    const void *base = gpu ? (const void *)gpu : g;
    bool any = false;
    for (int i = 0; i < count; i++) any = any || in_emf(&metrics[i], g, gpu);
    if (!any) return;
    json_begin_object(&w, NULL);
    json_begin_object(&w, "_aws");
    json_int(&w, "Timestamp", (int64_t)(now_s * 1e3));
    json_begin_array(&w, "CloudWatchMetrics");
    json_begin_object(&w, NULL);
    json_string(&w, "Namespace", EMF_NAMESPACE);
    add_dimensions(&w, gpu != NULL);
    add_definitions(&w, metrics, count, g, gpu);
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
    json_string(&w, "run", g->run);
    json_string(&w, "host", g->host);
    if (gpu) {
        char index[16];
        snprintf(index, sizeof index, "%d", gpu->index);
        json_string(&w, "gpu", index);
        json_string(&w, "uuid", gpu->facts.uuid);
    } else {
        json_string(&w, "model", g->model);
    }
    for (int i = 0; i < count; i++)
        if (in_emf(&metrics[i], g, gpu))
            json_number(&w, metrics[i].emf, value_of(&metrics[i], base) * metrics[i].emf_factor);
    json_end_object(&w);
    str_add(out, "\n");
}

void gauges_add_emf(const Gauges *g, double now_s, StrBuf *out)
{
    if (g->trains) add_emf_line(g, NULL, now_s, out);
    for (int i = 0; i < g->gpu_count; i++) add_emf_line(g, &g->gpu[i], now_s, out);
}
