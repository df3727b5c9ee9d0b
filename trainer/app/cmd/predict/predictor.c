/* predictor.c - see predictor.h. */
#include "trainer/app/cmd/predict/predictor.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/app/report/csv.h"
#include "trainer/engine/session/device.h"
#include "trainer/engine/train/train_state.h"
#include <math.h>
#include <stdio.h>

enum { NAME_BYTES = 256, REASON_BYTES = 256, PLACES_STEP = 16, PLACES_RATIO = 4 };

/* ---- the network ---- */

/* As the run's configuration says, or --backend and --precision; a run on a GPU predicts where
 * there is none too. */
static Status open_backend(Predictor *p, Config *c)
{
    DeviceChoice device;
    char missing[REASON_BYTES];
    const int named = c->train.precision;
    if (!p->place_given && c->device.backend == BACKEND_CPU) p->place = BACKEND_CPU;
    const bool cuda = p->place != BACKEND_CPU && backend_cuda_devices(missing, sizeof missing) > 0;
    const bool bf16 = cuda || c->device.emulate || backend_cpu_bf16() != CPU_BF16_NONE;
    const bool elsewhere = (!cuda && (named == PRECISION_TF32 || named == PRECISION_FP16)) ||
                           (named == PRECISION_BF16 && !bf16);
    c->device.backend = p->place;
    c->device.index = -1;
    if (p->precision_given) c->train.precision = p->precision;
    else if (elsewhere) c->train.precision = PRECISION_FP32;
    c->train.precision_auto = CONFIG_OTHER; /* evaluation is not bound to it */
    TRY(device_choose(&device, c, 0, backend_cpu_bf16()));
    if (device.warning) log_warning("%s", device.warning);
    return device_open(&p->backend, &device, c, 0);
}

static Status restore(const Predictor *p, const char *path)
{
    const CheckpointModel *m = &p->model;
    return m->foreign ? weights_restore(p->executor, program_graph(p->programs[0]), m->def, m->file,
                                        path, NULL)
                      : train_state_restore(p->executor, m->file, path);
}

/* Of text the places of the canvas in program i of several; 0: images. */
static int64_t places_of(const Config *c, int i)
{
    int64_t places = c->data.tokens;
    if (!config_is_text(c)) return 0;
    for (; i < PREDICTOR_PROGRAMS - 1; i++)
        places = (places / PLACES_RATIO + PLACES_STEP) / PLACES_STEP * PLACES_STEP;
    return places < c->data.tokens ? places : c->data.tokens;
}

static Status add_program(Predictor *p, int64_t places)
{
    const FuseOptions fuse = { .takes = p->backend->v->fusion.takes, .cookie = p->backend };
    Graph *graph = NULL;
    TRY(checkpoint_model_graph(&graph, &p->model, p->model.classes, 1, places));
    const Status status = graph_fuse(graph, &fuse);
    if (status == OK)
        return executor_add(p->executor, graph, false, &p->programs[p->program_count++]);
    graph_destroy(graph);
    return status;
}

static Status add_programs(Predictor *p)
{
    const Config *c = p->model.config;
    const int first = config_is_text(c) ? 0 : PREDICTOR_PROGRAMS - 1;
    TRY(executor_create(&p->executor, p->backend));
    for (int i = first; i < PREDICTOR_PROGRAMS; i++)
        if (i + 1 == PREDICTOR_PROGRAMS || places_of(c, i) < places_of(c, i + 1))
            TRY(add_program(p, places_of(c, i)));
    return executor_commit(p->executor);
}

static const OpTensor *logits_of(const Program *p)
{
    return program_tensor(p, graph_logits(program_graph(p)));
}

/* Third-party weights do not say what they were trained for; a threshold does. */
static Status choose_labels(Predictor *p, const char *path)
{
    CheckpointModel *m = &p->model;
    const bool given = p->threshold >= 0;
    if (given && m->foreign && !m->def->text && !safetensors_metadata(m->file, "convoy"))
        m->config->data.labels = LABELS_MULTI;
    p->multi = m->config->data.labels == LABELS_MULTI;
    return given ? checkpoint_model_set_threshold(m, p->threshold, path) : OK;
}

Status predictor_open(Predictor *p, const char *path)
{
    CheckpointModel *m = &p->model;
    if (p->foreign.model) {
        TRY(foreign_model_open(m, path, &p->foreign, 1));
    } else {
        TRY(foreign_model_need_own(path, "--model"));
        TRY(checkpoint_model_open(m, path, 1));
        TRY(checkpoint_model_choose(m, p->which, path));
    }
    TRY(open_backend(p, m->config));
    TRY(add_programs(p));
    TRY(restore(p, path));
    TRY(choose_labels(p, path));
    p->rows = logits_of(p->programs[0])->desc.dims[0];
    p->logits = mem_calloc((size_t)(p->rows * m->classes), sizeof *p->logits);
    if (p->count > m->classes || (p->multi && !p->count_given)) p->count = m->classes;
    p->top = mem_calloc((size_t)p->count, sizeof *p->top);
    return p->logits && p->top ? OK : ERR_MEMORY;
}

void predictor_close(Predictor *p)
{
    executor_destroy(p->executor);
    backend_destroy(p->backend);
    checkpoint_model_close(&p->model);
    mem_free(p->logits);
    mem_free(p->top);
}

Status predictor_run(Predictor *p, Program *program)
{
    TRY(executor_run(p->executor, program, NULL));
    return p->backend->v->export_tensor(p->backend, logits_of(program), p->logits);
}

/* ---- an answer ---- */

/* Turns logits into probabilities in place. */
static void softmax(float *logits, int64_t count)
{
    double largest = (double)logits[0], sum = 0;
    for (int64_t i = 1; i < count; i++) largest = fmax(largest, (double)logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - largest);
    for (int64_t i = 0; i < count; i++) logits[i] = (float)(exp((double)logits[i] - largest) / sum);
}

/* Of each class by itself. */
static void sigmoid(float *logits, int64_t count)
{
    for (int64_t i = 0; i < count; i++) logits[i] = (float)(1 / (1 + exp(-(double)logits[i])));
}

/* Classes by probability, equal ones by their number: the one behind last; -1: the first. */
static int64_t next_best(const float *probabilities, int64_t count, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        const bool behind = last < 0 || probabilities[i] < probabilities[last] ||
                            (probabilities[i] == probabilities[last] && i > last);
        if (behind && (best < 0 || probabilities[i] > probabilities[best])) best = i;
    }
    return best;
}

static void add_place(StrBuf *out, const PredictPlace *at)
{
    str_add_visible(out, at->file, "");
    if (at->line > 0) str_printf(out, ":%lld", (long long)at->line);
    if (at->position > 0) str_printf(out, ":%lld", (long long)at->position);
}

static void print_text(const Predictor *p, const PredictPlace *at, const float *probabilities,
                       StrBuf *out)
{
    char name[NAME_BYTES];
    add_place(out, at);
    str_add(out, "\n");
    if (p->found == 0) str_printf(out, "  no class above %g\n", p->model.threshold);
    for (int64_t k = 0; k < p->found; k++) {
        checkpoint_model_class_name(&p->model, p->top[k], name, sizeof name);
        str_printf(out, "  %8.4f %%  ", 100 * (double)probabilities[p->top[k]]);
        str_add_visible(out, name, "");
        str_add(out, "\n");
    }
}

static void print_csv(const Predictor *p, const PredictPlace *at, const float *probabilities,
                      StrBuf *out)
{
    char name[NAME_BYTES];
    if (p->found == 0) {
        csv_text(out, at->file);
        str_add(out, ",0,,,\n");
    }
    for (int64_t k = 0; k < p->found; k++) {
        checkpoint_model_class_name(&p->model, p->top[k], name, sizeof name);
        csv_text(out, at->file);
        if (at->line > 0) csv_whole(out, at->line);
        if (at->position > 0) csv_whole(out, at->position);
        csv_whole(out, k + 1);
        csv_text(out, name);
        csv_whole(out, p->top[k]);
        csv_number(out, (double)probabilities[p->top[k]]);
        str_add(out, "\n");
    }
}

static void print_json(const Predictor *p, const PredictPlace *at, const float *probabilities,
                       StrBuf *out)
{
    char name[NAME_BYTES];
    JsonWriter w = { .out = out };
    json_begin_object(&w, NULL);
    json_string(&w, "file", at->file);
    if (at->line > 0) json_int(&w, "line", at->line);
    if (at->position > 0) json_int(&w, "position", at->position);
    json_begin_array(&w, "top");
    for (int64_t k = 0; k < p->found; k++) {
        checkpoint_model_class_name(&p->model, p->top[k], name, sizeof name);
        json_begin_object(&w, NULL);
        json_string(&w, "class", name);
        json_int(&w, "label", p->top[k]);
        json_number(&w, "probability", (double)probabilities[p->top[k]]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    str_add(out, "\n");
}

/* Statistics with a negative variance, say, are finite and make none. */
static Status check_finite(Predictor *p, const PredictPlace *at, const float *logits)
{
    StrBuf place = { 0 };
    int64_t i = 0;
    while (i < p->model.classes && isfinite(logits[i])) i++;
    if (i == p->model.classes) return OK;
    p->senseless++;
    add_place(&place, at);
    const Status status =
        fail(ERR_DATA, "%s: the network produced NaN or infinity; the checkpoint is unusable",
             place.text ? place.text : at->file);
    str_free(&place);
    return status;
}

Status predictor_answer(Predictor *p, const PredictPlace *at, int64_t row)
{
    static void (*const print[])(const Predictor *p, const PredictPlace *at,
                                 const float *probabilities, StrBuf *out) = {
        [PREDICT_TEXT] = print_text, [PREDICT_CSV] = print_csv, [PREDICT_JSON] = print_json
    };
    StrBuf text = { 0 };
    const int64_t classes = p->model.classes;
    float *logits = p->logits + row * classes;
    TRY(check_finite(p, at, logits));
    if (p->multi) sigmoid(logits, classes);
    else softmax(logits, classes);
    for (p->found = 0; p->found < p->count; p->found++) {
        const int64_t best = next_best(logits, classes, p->found > 0 ? p->top[p->found - 1] : -1);
        if (p->multi && !((double)logits[best] > p->model.threshold)) break;
        p->top[p->found] = best;
    }
    print[p->form](p, at, logits, &text);
    return log_print_text(OK, &text);
}
