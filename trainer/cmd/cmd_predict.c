/* cmd_predict.c - convoy predict CHECKPOINT IMAGE...: what the network sees in pictures.
 *
 * Pictures are prepared as in evaluation, by the configuration that the checkpoint holds, and go
 * through the network one after the other on the CPU. A file that is no picture is said at once and
 * makes the exit code 65; the others are still answered. */
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/data.h"
#include "kernels/backend.h"
#include "trainer/cmd/args.h"
#include "trainer/cmd/cmd.h"
#include "trainer/exec/executor.h"
#include "trainer/files/checkpoint_model.h"
#include "trainer/files/run_source.h"
#include "trainer/session/augment_options.h"
#include "trainer/train/train_state.h"
#include <math.h>
#include <string.h>

enum { TOP = 5, NAME_BYTES = 256 };

static const char help[] =
    "usage: convoy predict RUN|CHECKPOINT IMAGE... [--json]\n\nSays what JPEG and PNG files show: "
    "the "
    "five most likely classes of each, with probabilities. They\nare scaled and cut as in "
    "evaluation. A file that cannot be read is named; the exit code is 65 then.\n\n  --json   one "
    "JSON object a line: file, and top: class, label and probability\n";

typedef struct Predictor {
    CheckpointModel model;
    Backend *backend;
    Executor *executor;
    Program *program; /* owns the graph */
    ViewOptions view;
    uint8_t *pixels;
    int32_t label;
    float *logits;
    bool json;
} Predictor;

static Status open_network(Predictor *p, const char *path)
{
    TRY(checkpoint_model_open(&p->model, path, 1));
    const Config *c = p->model.config;
    Graph *graph = p->model.graph;
    LoaderOptions options = { 0 };
    TRY(backend_cpu_create(&p->backend, 0, FUSE_AUTO));
    const FuseOptions fuse = { .takes = p->backend->v->fusion.takes, .cookie = p->backend };
    TRY(graph_fuse(graph, &fuse));
    TRY(executor_create(&p->executor, p->backend));
    p->model.graph = NULL;
    TRY(executor_add(p->executor, graph, false, &p->program));
    TRY(executor_commit(p->executor));
    TRY(train_state_restore(p->executor, NULL, p->backend, p->model.file, path));
    augment_options_fill(&options, c, DATA_VAL);
    p->view = options.view;
    p->pixels =
        mem_calloc((size_t)(c->data.image_size * c->data.image_size * c->model.in_channels), 1);
    p->logits = mem_calloc((size_t)p->model.classes, sizeof *p->logits);
    p->label = -1;
    if (!p->pixels || !p->logits) return ERR_MEMORY;
    TRY(program_set_input(p->program, "images", p->pixels));
    return program_set_input(p->program, "labels", &p->label);
}

static void close_network(Predictor *p)
{
    executor_destroy(p->executor);
    backend_destroy(p->backend);
    checkpoint_model_close(&p->model);
    mem_free(p->pixels);
    mem_free(p->logits);
}

/* Statistics with a negative variance, say, are finite and make none. */
static Status check_finite(const Predictor *p, const char *file)
{
    for (int64_t i = 0; i < p->model.classes; i++)
        if (!isfinite(p->logits[i]))
            return fail(
                ERR_DATA,
                "%s: the network's outputs are no finite numbers: the checkpoint is no good", file);
    return OK;
}

/* Turns logits into probabilities in place. */
static void softmax(float *logits, int64_t count)
{
    double largest = (double)logits[0], sum = 0;
    for (int64_t i = 1; i < count; i++) largest = fmax(largest, (double)logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - largest);
    for (int64_t i = 0; i < count; i++) logits[i] = (float)(exp((double)logits[i] - largest) / sum);
}

/* The most likely class that is not among the first `taken` of top; equal ones by their number. */
static int64_t next_best(const float *probabilities, int64_t count, const int64_t *top, int taken)
{
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        bool used = false;
        for (int k = 0; k < taken; k++) used = used || top[k] == i;
        if (!used && (best < 0 || probabilities[i] > probabilities[best])) best = i;
    }
    return best;
}

static void print_text(const Predictor *p, const char *file, const int64_t *top, int count,
                       StrBuf *out)
{
    char name[NAME_BYTES];
    str_add_visible(out, file, "");
    str_add(out, "\n");
    for (int k = 0; k < count; k++) {
        checkpoint_model_class_name(&p->model, top[k], name, sizeof name);
        str_printf(out, "  %8.4f %%  ", 100 * (double)p->logits[top[k]]);
        str_add_visible(out, name, "");
        str_add(out, "\n");
    }
}

static void print_json(const Predictor *p, const char *file, const int64_t *top, int count,
                       StrBuf *out)
{
    char name[NAME_BYTES];
    JsonWriter w = { .out = out };
    json_begin_object(&w, NULL);
    json_string(&w, "file", file);
    json_begin_array(&w, "top");
    for (int k = 0; k < count; k++) {
        checkpoint_model_class_name(&p->model, top[k], name, sizeof name);
        json_begin_object(&w, NULL);
        json_string(&w, "class", name);
        json_int(&w, "label", top[k]);
        json_number(&w, "probability", (double)p->logits[top[k]]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    str_add(out, "\n");
}

static Status predict(Predictor *p, const char *file)
{
    int64_t top[TOP];
    int count = 0;
    StrBuf text = { 0 };
    const int64_t classes = p->model.classes;
    TRY(view_file_make(file, &p->view, p->pixels));
    TRY(executor_run(p->executor, p->program, NULL));
    const OpTensor *logits = program_tensor(p->program, graph_logits(program_graph(p->program)));
    TRY(p->backend->v->export_tensor(p->backend, logits, p->logits));
    TRY(check_finite(p, file));
    softmax(p->logits, classes);
    for (; count < TOP && count < classes; count++)
        top[count] = next_best(p->logits, classes, top, count);
    if (p->json) print_json(p, file, top, count, &text);
    else print_text(p, file, top, count, &text);
    Status status = text.failed ? ERR_MEMORY : log_print(text.text);
    str_free(&text);
    return status;
}

/* What is wrong with one file does not keep the others from being answered. */
static Status predict_all(Predictor *p, int count, const char *const *files)
{
    Status result = OK;
    for (int i = 0; i < count; i++) {
        Status status = predict(p, files[i]);
        if (status == ERR_DATA) result = cmd_report(status);
        else TRY(status);
    }
    return result;
}

Status cmd_predict(int argc, char **argv)
{
    Args args;
    TRY(args_parse(&args, argc, argv, help));
    if (args.help) return OK;
    Predictor p = { .json = args_value(&args, "--json") != NULL };
    char *path = NULL;
    Status status = run_source_checkpoint(&path, args.positional[0]);
    if (status == OK) status = open_network(&p, path);
    if (status == OK) status = predict_all(&p, args.positional_count - 1, args.positional + 1);
    close_network(&p);
    mem_free(path);
    return status;
}
