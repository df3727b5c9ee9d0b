/* cmd_predict.c - convoy predict RUN|CHECKPOINT FILE...: what the network sees in pictures, or
 * reads in texts (predict_text.h).
 *
 * Pictures are prepared as in evaluation, by the configuration that the checkpoint holds, and go
 * through the network one after the other. A file that is no picture is said at once and
 * makes the exit code 65; the others are still answered. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/data.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/predict/predict_text.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/session/augment_options.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TOP = 5, TOP_MAX = 1000, PATH_BYTES = 4096 };

static const char *const backend_words[] = { "auto", "cpu", "cuda", NULL };
static const char *const precision_words[] = { "auto", "fp32", "bf16", NULL };

static const ArgRow rows[] = {
    { "RUN|CHECKPOINT|WEIGHTS",
      .help = "the best checkpoint of a run, a checkpoint file, or weights of torchvision or timm "
              "(with --model)",
      .foreign = "weights checkpoint ckpt ckpt_path model_path pretrained resume run source" },
    { "FILE",
      .help =
          "a JPEG or PNG file; a folder, for all pictures below it; or -, for paths on standard "
          "input, one per line. For networks that read text: a file of texts, one per line, or "
          "- for standard input",
      .foreign = "image images img input data data_dir data_path dataset folder",
      .flags = ARG_REPEATED },
    { "--top", "K", .help = "print the K most likely classes", .min = 1, .max = TOP_MAX,
      .fallback = TOP, .foreign = "k topk" },
    { "--threshold", "T",
      .help =
          "networks trained with data.labels: multi: print all classes with a probability above "
          "T (default 0.5, or what export wrote), or with --top the first K of them; for "
          "third-party weights it also means that they are multi-label",
      .max = 1 },
    { "--json",
      .help =
          "print one JSON object per line: file, and top: class, label, probability; of text also "
          "line, and position of the masked word" },
    { "--csv",
      .help =
          "print a table: file, place, class, label, probability; of text also line, and position "
          "of the masked word; place 0: no class is above the threshold" },
    { "--model", "NAME[:WEIGHTS]",
      .help =
          "the network of a .safetensors or .pth file of torchvision, timm or Lightning; images "
          "are prepared as "
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
      .help = "default: train.precision of the run, or fp32 where the device lacks that; auto "
              "with --model",
      .choices = precision_words,
      .foreign = "amp amp_dtype fp16 bf16 half mixed_precision use_amp dtype" },
    ARG_ROW_SET,
    ARG_ROW_END,
};

typedef struct Pictures {
    Predictor *p;
    ViewOptions view;
    uint8_t *pixels;
    int32_t label;
    int64_t seen; /* so far */
} Pictures;

static Status prepare(Pictures *s)
{
    const Config *c = s->p->model.config;
    LoaderOptions options = { 0 };
    augment_options_fill(&options, c, DATA_VAL);
    s->view = options.view;
    s->pixels =
        mem_calloc((size_t)(c->data.image_size * c->data.image_size * c->model.in_channels), 1);
    s->label = -1;
    if (!s->pixels) return ERR_MEMORY;
    TRY(program_set_input(s->p->programs[0], "images", s->pixels));
    return program_set_input(s->p->programs[0], "labels", &s->label);
}

static Status predict(Pictures *s, const char *file)
{
    s->seen++;
    TRY(other_format_check(file));
    TRY(view_file_make(file, &s->view, s->pixels));
    TRY(predictor_run(s->p, s->p->programs[0]));
    return predictor_answer(s->p, &(PredictPlace){ .file = file }, 0);
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
static Status predict_path(Pictures *s, const char *path, Status *result)
{
    char next[PATH_BYTES];
    const int64_t seen = s->seen;
    StrBuf stack FREED_BY(str_free) = { 0 };
    Status status = OK;
    snprintf(next, sizeof next, "%s", path);
    for (bool named = true; status == OK && next[0]; named = false) {
        const int64_t senseless = s->p->senseless;
        if (fs_is_dir(next)) status = push_folder(&stack, path, next);
        else if (named || view_file_is_picture(next)) status = predict(s, next);
        if (status == ERR_DATA) { /* of a checkpoint that is no good once */
            *result = s->p->senseless > senseless && senseless > 0 ? cmd_silence(status)
                                                                   : cmd_report(status);
            status = OK;
        }
        size_t at = stack.length > 0 ? stack.length - 1 : 0;
        while (at > 0 && stack.text[at - 1] != '\0') at--;
        snprintf(next, sizeof next, "%s", stack.length > 0 ? stack.text + at : "");
        stack.length = at;
    }
    if (status != OK || s->seen > seen) return status;
    status = other_format_check(path);
    if (status == OK) status = fail(ERR_DATA, "%s: no pictures in this folder", path);
    *result = cmd_report(status);
    return OK;
}

static Status predict_input(Pictures *s, Status *result)
{
    char line[PATH_BYTES];
    const int64_t seen = s->seen;
    while (fgets(line, sizeof line, stdin)) {
        const size_t n = strcspn(line, "\n");
        if (line[n] == '\0' && !feof(stdin))
            return fail(ERR_DATA,
                        "standard input: a line has more than %d bytes or contains a zero byte",
                        PATH_BYTES - 2);
        line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
        if (line[0]) TRY(predict_path(s, line, result));
    }
    if (ferror(stdin)) return fail(ERR_DATA, "standard input: %s", strerror(errno));
    if (s->seen == seen && *result == OK)
        *result = cmd_report(fail(ERR_DATA, "standard input: names no picture"));
    return OK;
}

static Status predict_all(Pictures *s, int count, const char *const *paths)
{
    Status result = OK;
    if (s->p->form == PREDICT_CSV) TRY(log_print("file,place,class,label,probability\n"));
    for (int i = 0; i < count; i++)
        TRY(strcmp(paths[i], "-") == 0 ? predict_input(s, &result)
                                       : predict_path(s, paths[i], &result));
    if (s->p->senseless > 1) log_warning("the same for %lld more", (long long)s->p->senseless - 1);
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
    p->foreign = (ForeignModel){ .option = "--model",
                                 .model = args_value(args, "--model"),
                                 .classes = args_value(args, "--classes"),
                                 .sets = args->sets,
                                 .set_count = args->set_count,
                                 .which = p->which };
    if (p->foreign.model) return OK;
    if (args->set_count)
        return fail(ERR_USAGE, "%s: requires --model; a run has its own keys", args->sets[0]);
    return OK;
}

static Status choose_output(Predictor *p, const Args *args)
{
    const bool json = args_value(args, "--json"), csv = args_value(args, "--csv");
    if (json && csv) return fail(ERR_USAGE, "give either --json or --csv, not both");
    p->form = json ? PREDICT_JSON : csv ? PREDICT_CSV : PREDICT_TEXT;
    p->threshold = -1;
    p->count_given = args_value(args, "--top") != NULL;
    TRY(args_number(args, "--threshold", &p->threshold));
    return args_whole(args, "--top", &p->count);
}

static Status predict_files(Predictor *p, const char *path, int count, const char *const *files)
{
    Pictures s = { .p = p };
    if (config_is_text(p->model.config)) return predict_text(p, path, count, files);
    Status status = prepare(&s);
    if (status == OK) status = predict_all(&s, count, files);
    mem_free(s.pixels);
    return status;
}

static Status command(const Args *args)
{
    char *path FREED = NULL;
    Predictor p FREED_BY(predictor_close) = { .executor = NULL };
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
    if (p.form == PREDICT_TEXT && fs_is_dir(args->positional[0])) log_info("using %s", path);
    TRY(predictor_open(&p, path));
    if (p.form == PREDICT_TEXT && checkpoint_model_borrows_names(&p.model))
        log_info("class names: ImageNet's, as the weights have 1000 classes without names");
    return predict_files(&p, path, args->positional_count - 1, args->positional + 1);
}

const Command cmd_predict = {
    .name = "predict",
    .group = "Use",
    .summary = "classify images or texts, or fill in masked words",
    .about =
        "Prints the most likely classes of each image with their probabilities, which add up to 1 "
        "unless the network was trained with data.labels: multi. Images are "
        "resized and cropped as in evaluation. Without --ema or --raw the averaged weights are "
        "used where the run has them, unless ema.best is false.\n"
        "Text is read line by line: words of the run's dict.txt, with blanks between them; nothing "
        "is split into smaller words. A network that learns masked words prints the most likely "
        "words for each <mask>; one that classifies prints the classes of each line, in which a "
        "tab separates the two texts of a pair.\n"
        "A file or line that cannot be read is named; the exit code is then 65. Write ./a=b.jpg "
        "for "
        "a file whose name has an equals sign.",
    .args = rows,
    .alone = command,
};
