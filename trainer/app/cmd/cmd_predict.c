/* cmd_predict.c - convoy predict RUN|CHECKPOINT IMAGE...: what the network sees in pictures.
 *
 * Pictures are prepared as in evaluation, by the configuration that the checkpoint holds, and go
 * through the network one after the other. A file that is no picture is said at once and
 * makes the exit code 65; the others are still answered. */
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/data.h"
#include "kernels/backend.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/report/csv.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/files/foreign_model.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/session/augment_options.h"
#include "trainer/engine/session/device.h"
#include "trainer/engine/train/train_state.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOP = 5, TOP_MAX = 1000, NAME_BYTES = 256, PATH_BYTES = 4096, REASON_BYTES = 256 };

static const char *const backend_words[] = { "auto", "cpu", "cuda", NULL };
static const char *const precision_words[] = { "auto", "fp32", "bf16", NULL };

static const ArgRow rows[] = {
    { "RUN|CHECKPOINT|WEIGHTS",
      .help = "the best checkpoint of a run, a checkpoint file, or weights of torchvision or timm "
              "(with --model)",
      .foreign = "weights checkpoint ckpt ckpt_path model_path pretrained resume run source" },
    { "IMAGE",
      .help =
          "a JPEG or PNG file; a folder, for all pictures below it; or -, for paths on standard "
          "input, one per line",
      .foreign = "image images img input data data_dir data_path dataset folder",
      .flags = ARG_REPEATED },
    { "--top", "K", .help = "print the K most likely classes", .min = 1, .max = TOP_MAX,
      .fallback = TOP, .foreign = "k topk" },
    { "--json",
      .help = "print one JSON object per line: file, and top: class, label, probability" },
    { "--csv", .help = "print a table: file, place, class, label, probability" },
    { "--model", "NAME[:WEIGHTS]",
      .help = "the network of a .safetensors file of torchvision or timm; images are prepared as "
              "its published weights require (convoy inspect model NAME lists them; default: the "
              "first), or as key=value says; without it, convoy export's files say it",
      .foreign = "arch network backbone" },
    { "--classes", "FILE", .help = "names of the classes, one per line", .needs = "--model",
      .foreign = "class_map class_names labels label_file", .flags = ARG_READS },
    ARG_ROW_EMA,
    ARG_ROW_RAW,
    { "--backend", "NAME",
      .help = "where to compute; auto is a GPU if there is one; default: cpu for a run with "
              "device.backend: cpu, else auto",
      .choices = backend_words, .foreign = "device accelerator gpu cuda no_cuda use_cuda" },
    { "--precision", "NAME",
      .help = "default: train.precision of the run, or fp32 where the device lacks that",
      .choices = precision_words,
      .foreign = "amp amp_dtype fp16 bf16 half mixed_precision use_amp dtype" },
    ARG_ROW_SET,
    ARG_ROW_END,
};

typedef struct Predictor {
    CheckpointModel model;
    Backend *backend;
    Executor *executor;
    Program *program; /* owns the graph */
    ViewOptions view;
    uint8_t *pixels;
    int32_t label;
    float *logits;
    int64_t *top;        /* [count] */
    int64_t count, seen; /* seen: pictures so far */
    int64_t senseless;   /* of them: no finite numbers came out */
    WeightsChoice which;
    ForeignModel foreign; /* of --model */
    int place;            /* as device.backend */
    int precision;        /* as train.precision */
    bool place_given, precision_given;
    void (*print)(const struct Predictor *p, const char *file, StrBuf *out);
} Predictor;

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
    return m->foreign ? weights_restore(p->executor, program_graph(p->program), m->def, m->file,
                                        path, NULL)
                      : train_state_restore(p->executor, m->file, path);
}

static Status check_own(const char *path)
{
    SafeFile *file FREED_BY(safetensors_close_at) = NULL;
    TRY(safetensors_open(&file, path));
    if (weights_are_checkpoint(file)) return OK;
    return fail(ERR_DATA,
                "%s: not a Convoy checkpoint; for other weights name the network with --model",
                path);
}

static Status open_network(Predictor *p, const char *path)
{
    if (p->foreign.model) {
        TRY(foreign_model_open(&p->model, path, &p->foreign, 1));
    } else {
        TRY(check_own(path));
        TRY(checkpoint_model_open(&p->model, path, 1));
        TRY(checkpoint_model_choose(&p->model, p->which, path));
    }
    const Config *c = p->model.config;
    Graph *graph = p->model.graph;
    LoaderOptions options = { 0 };
    TRY(open_backend(p, p->model.config));
    const FuseOptions fuse = { .takes = p->backend->v->fusion.takes, .cookie = p->backend };
    TRY(graph_fuse(graph, &fuse));
    TRY(executor_create(&p->executor, p->backend));
    p->model.graph = NULL;
    TRY(executor_add(p->executor, graph, false, &p->program));
    TRY(executor_commit(p->executor));
    TRY(restore(p, path));
    augment_options_fill(&options, c, DATA_VAL);
    p->view = options.view;
    p->pixels =
        mem_calloc((size_t)(c->data.image_size * c->data.image_size * c->model.in_channels), 1);
    p->logits = mem_calloc((size_t)p->model.classes, sizeof *p->logits);
    if (p->count > p->model.classes) p->count = p->model.classes;
    p->top = mem_calloc((size_t)p->count, sizeof *p->top);
    p->label = -1;
    if (!p->pixels || !p->logits || !p->top) return ERR_MEMORY;
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
    mem_free(p->top);
}

/* Statistics with a negative variance, say, are finite and make none. */
static Status check_finite(Predictor *p, const char *file)
{
    for (int64_t i = 0; i < p->model.classes; i++) {
        if (isfinite(p->logits[i])) continue;
        p->senseless++;
        return fail(ERR_DATA,
                    "%s: the network produced NaN or infinity; the checkpoint is unusable", file);
    }
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

static void print_text(const Predictor *p, const char *file, StrBuf *out)
{
    char name[NAME_BYTES];
    str_add_visible(out, file, "");
    str_add(out, "\n");
    for (int64_t k = 0; k < p->count; k++) {
        checkpoint_model_class_name(&p->model, p->top[k], name, sizeof name);
        str_printf(out, "  %8.4f %%  ", 100 * (double)p->logits[p->top[k]]);
        str_add_visible(out, name, "");
        str_add(out, "\n");
    }
}

static void print_csv(const Predictor *p, const char *file, StrBuf *out)
{
    char name[NAME_BYTES];
    for (int64_t k = 0; k < p->count; k++) {
        checkpoint_model_class_name(&p->model, p->top[k], name, sizeof name);
        csv_text(out, file);
        csv_whole(out, k + 1);
        csv_text(out, name);
        csv_whole(out, p->top[k]);
        csv_number(out, (double)p->logits[p->top[k]]);
        str_add(out, "\n");
    }
}

static void print_json(const Predictor *p, const char *file, StrBuf *out)
{
    char name[NAME_BYTES];
    JsonWriter w = { .out = out };
    json_begin_object(&w, NULL);
    json_string(&w, "file", file);
    json_begin_array(&w, "top");
    for (int64_t k = 0; k < p->count; k++) {
        checkpoint_model_class_name(&p->model, p->top[k], name, sizeof name);
        json_begin_object(&w, NULL);
        json_string(&w, "class", name);
        json_int(&w, "label", p->top[k]);
        json_number(&w, "probability", (double)p->logits[p->top[k]]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    str_add(out, "\n");
}

static Status predict(Predictor *p, const char *file)
{
    StrBuf text = { 0 };
    const int64_t classes = p->model.classes;
    p->seen++;
    TRY(view_file_make(file, &p->view, p->pixels));
    TRY(executor_run(p->executor, p->program, NULL));
    const OpTensor *logits = program_tensor(p->program, graph_logits(program_graph(p->program)));
    TRY(p->backend->v->export_tensor(p->backend, logits, p->logits));
    TRY(check_finite(p, file));
    softmax(p->logits, classes);
    for (int64_t k = 0; k < p->count; k++)
        p->top[k] = next_best(p->logits, classes, k > 0 ? p->top[k - 1] : -1);
    p->print(p, file, &text);
    return log_print_text(OK, &text);
}

/* ---- which files ---- */

/* Whether dir is, by a link, one of the folders above it, which would go round for ever. root: how
 * its path begins, where looking began. */
static bool loops(const char *root, const char *dir)
{
    char above[PATH_BYTES];
    bool same = false;
    snprintf(above, sizeof above, "%s", dir);
    for (char *slash; !same && (slash = strrchr(above, '/')) && slash >= above + strlen(root);) {
        *slash = '\0';
        same = fs_same_file(above[0] ? above : "/", dir);
    }
    if (same) log_warning("%s: a link to a folder that contains it; skipped", dir);
    return same;
}

/* What is in a folder, but for hidden names: onto a stack of strings, the first one on top. */
static Status push_folder(StrBuf *stack, const char *root, const char *dir)
{
    char **names FREED = NULL;
    int64_t count = 0;
    if (loops(root, dir)) return OK;
    TRY(fs_list(dir, &names, &count));
    for (int64_t i = count; i > 0; i--) {
        if (names[i - 1][0] == '.') continue;
        str_printf(stack, "%s/%s", dir, names[i - 1]);
        str_add_n(stack, "", 1);
    }
    return stack->failed ? fail(ERR_MEMORY, "out of memory listing pictures") : OK;
}

/* What is wrong with one file does not keep the others from being answered. Of a folder only what a
 * dataset would take is looked at. */
static Status predict_path(Predictor *p, const char *path, Status *result)
{
    char next[PATH_BYTES];
    const int64_t seen = p->seen;
    StrBuf stack FREED_BY(str_free) = { 0 };
    Status status = OK;
    snprintf(next, sizeof next, "%s", path);
    for (bool named = true; status == OK && next[0]; named = false) {
        const int64_t senseless = p->senseless;
        if (fs_is_dir(next)) status = push_folder(&stack, path, next);
        else if (named || view_file_is_picture(next)) status = predict(p, next);
        if (status == ERR_DATA) { /* of a checkpoint that is no good once */
            *result = p->senseless > senseless && senseless > 0 ? cmd_silence(status)
                                                                : cmd_report(status);
            status = OK;
        }
        size_t at = stack.length > 0 ? stack.length - 1 : 0;
        while (at > 0 && stack.text[at - 1] != '\0') at--;
        snprintf(next, sizeof next, "%s", stack.length > 0 ? stack.text + at : "");
        stack.length = at;
    }
    if (status == OK && p->seen == seen)
        *result = cmd_report(fail(ERR_DATA, "%s: no pictures in this folder", path));
    return status;
}

static Status predict_input(Predictor *p, Status *result)
{
    char line[PATH_BYTES];
    const int64_t seen = p->seen;
    while (fgets(line, sizeof line, stdin)) {
        const size_t n = strcspn(line, "\n");
        if (line[n] == '\0' && !feof(stdin))
            return fail(ERR_DATA,
                        "standard input: a line has more than %d bytes or contains a zero byte",
                        PATH_BYTES - 2);
        line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
        if (line[0]) TRY(predict_path(p, line, result));
    }
    if (ferror(stdin)) return fail(ERR_DATA, "standard input: %s", strerror(errno));
    if (p->seen == seen && *result == OK)
        *result = cmd_report(fail(ERR_DATA, "standard input: names no picture"));
    return OK;
}

static Status predict_all(Predictor *p, int count, const char *const *paths)
{
    Status result = OK;
    if (p->print == print_csv) TRY(log_print("file,place,class,label,probability\n"));
    for (int i = 0; i < count; i++)
        TRY(strcmp(paths[i], "-") == 0 ? predict_input(p, &result)
                                       : predict_path(p, paths[i], &result));
    if (p->senseless > 1) log_warning("the same for %lld more", (long long)p->senseless - 1);
    return result;
}

static Status choose_precision(Predictor *p, const Args *args)
{
    static const int values[] = { CONFIG_OTHER, PRECISION_FP32, PRECISION_BF16 };
    int word;
    TRY(args_choice(args, "--precision", &word));
    p->precision_given = args_value(args, "--precision") != NULL;
    p->precision = values[word];
    return OK;
}

/* --model, and what only goes with it. */
static Status choose_foreign(Predictor *p, const Args *args)
{
    p->foreign = (ForeignModel){ .model = args_value(args, "--model"),
                                 .classes = args_value(args, "--classes"),
                                 .sets = args->sets,
                                 .set_count = args->set_count };
    if (p->foreign.model && p->which != WEIGHTS_OF_BEST)
        return fail(ERR_USAGE, "--model excludes --ema and --raw: such weights have no averages");
    if (p->foreign.model) return OK;
    if (args->set_count)
        return fail(ERR_USAGE, "%s: requires --model; a run has its own keys", args->sets[0]);
    return OK;
}

static Status choose_output(Predictor *p, const Args *args)
{
    const bool json = args_value(args, "--json"), csv = args_value(args, "--csv");
    if (json && csv) return fail(ERR_USAGE, "give either --json or --csv, not both");
    p->print = json ? print_json : csv ? print_csv : print_text;
    return args_whole(args, "--top", &p->count);
}

static Status command(const Args *args)
{
    char *path FREED = NULL;
    Predictor p FREED_BY(close_network) = { .program = NULL };
    TRY(choose_output(&p, args));
    TRY(choose_precision(&p, args));
    TRY(args_choice(args, "--backend", &p.place));
    p.place_given = args_value(args, "--backend") != NULL;
    TRY(args_weights(args, &p.which));
    TRY(choose_foreign(&p, args));
    if (view_file_is_picture(args->positional[0]))
        return fail(ERR_USAGE, "%s: an image; the run or checkpoint comes first, then the images",
                    args->positional[0]);
    TRY(run_source_checkpoint(&path, args->positional[0]));
    if (p.print == print_text && fs_is_dir(args->positional[0])) log_info("using %s", path);
    TRY(open_network(&p, path));
    if (p.print == print_text && checkpoint_model_borrows_names(&p.model))
        log_info("class names: ImageNet's, as the weights have 1000 classes without names");
    return predict_all(&p, args->positional_count - 1, args->positional + 1);
}

const Command cmd_predict = {
    .name = "predict",
    .group = "Use",
    .summary = "classify images",
    .about =
        "Prints the most likely classes of each image with their probabilities. Images are "
        "resized and cropped as in evaluation. Without --ema or --raw the averaged weights are "
        "used where the run has them, unless ema.best is false.\n"
        "A file that cannot be read is named; the exit code is then 65. Write ./a=b.jpg for "
        "a file whose name has an equals sign.",
    .args = rows,
    .alone = command,
};
