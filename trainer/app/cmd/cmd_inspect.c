/* cmd_inspect.c - convoy inspect model | checkpoint: what a network, a file is, without running
 * anything.
 *
 * inspect config, dataset and memory have files of their own. Answers go to stdout whole, through
 * log_print(). */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "models/models.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/inspect_bytes.h"
#include "trainer/engine/files/checkpoint.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/plan/cost.h"
#include "trainer/engine/session/precision.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- model ---- */

static const char model_help[] =
    "usage: convoy inspect model NAME [--image-size N] [--classes N] [--parameters] [--dot] "
    "[--bytes]\n  [--gpu FILE] [[--set] key=value]...\n\nPrints the layers "
    "of a network for one image and 1000 classes, with output shapes, parameters, FLOPs and the "
    "bytes\nof what each layer leaves behind. The image has the size that the network was "
    "published with. The first lines say\nit, and of each set of published weights its name, its "
    "top-1 on ImageNet, and the evaluation that this is of:\nimage size, the shorter side before "
    "the crop, interpolation, and mean and std where they are not ImageNet's.\n\n  --image-size N  "
    " another size\n  --classes N      "
    "another number of classes\n  --parameters     names and shapes of the parameters instead, as "
    "patterns of optimizer.groups and\n                   model.freeze meet them\n  --dot          "
    "  a drawing for Graphviz instead\n  --bytes       "
    "   instead, by "
    "kind of operation, what a training step moves and computes on a GPU, and how\n               "
    "    long that would take by a model. Any key of a run may be set then; unless set, "
    "train.batch_per_rank\n                   is 256 and device.fuse all\n  --gpu FILE       with "
    "--bytes: the GPU's description, such as configs/gpus/h200.json\n  --set "
    "key=value  a key of the network, such as model.stem=cifar or model.blurpool=timm\n\nNAME is "
    "one of these; the number is the top-1 of its best published weights:\n";

static Status print_model_help(void)
{
    StrBuf text = { 0 };
    str_add(&text, model_help);
    for (int i = 0; i < model_count(); i++) {
        const ModelDef *def = model_at(i);
        double best = 0;
        char percent[16] = "";
        for (int k = 0; k < MODEL_WEIGHTS_MAX; k++) best = fmax(best, def->weights[k].top1);
        if (best > 0) snprintf(percent, sizeof percent, "%.3f", best);
        str_printf(&text, "  %-18s  %6s  %s\n", def->name, percent, def->summary);
    }
    return log_print_text(OK, &text);
}

/* What keys make of a network; others would be ignored, so they are refused. */
static Status read_model_keys(ModelOptions *out, const ModelDef *def, const Args *args)
{
    Config *c = NULL;
    char channels[40];
    const char *sets[ARGS_SET_MAX + 3] = { channels, "data.mean=0", "data.std=1" };
    snprintf(channels, sizeof channels, "model.in_channels=%d", def->input.channels);
    for (int i = 0; i < args->set_count; i++) {
        const char *set = args->sets[i];
        if (strncmp(set, "model.", 6) != 0 || strncmp(set, "model.name=", 11) == 0 ||
            strncmp(set, "model.init=", 11) == 0)
            return fail(ERR_USAGE,
                        "%s: what makes a network is model.stem, model.blurpool, "
                        "model.in_channels and their like",
                        set);
        sets[i + 3] = set;
    }
    TRY(config_load(&c, NULL, sets, args->set_count + 3));
    *out = config_model_options(c, def->input.size, -1);
    config_destroy(c);
    return OK;
}

static void describe_weights(const ModelDef *def, StrBuf *text)
{
    for (int k = 0; k < MODEL_WEIGHTS_MAX && def->weights[k].name; k++) {
        const ModelWeights *w = &def->weights[k];
        str_printf(text, "weights %s: %.3f %% top-1, %d pixels cut from %d, %s%s\n", w->name,
                   w->top1, w->size, w->resize, model_interpolation_name(w->interpolation),
                   w->halves ? ", data.mean=[0.5, 0.5, 0.5] data.std=[0.5, 0.5, 0.5]" : "");
    }
}

static void list_parameters(const Graph *g, StrBuf *text)
{
    char shape[96];
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM) continue;
        tensor_format(&t->desc, shape, sizeof shape);
        str_printf(text, "%-56s %s\n", t->name, shape);
    }
}

static Status describe_model(const ModelDef *def, const Args *args)
{
    const bool dot = args_value(args, "--dot"), parameters = args_value(args, "--parameters");
    ModelOptions o;
    TRY(read_model_keys(&o, def, args));
    TRY(args_count(args, "--image-size", def->input.size, 8, 4096, &o.graph.height));
    TRY(args_count(args, "--classes", o.graph.classes, 1, 1000000, &o.graph.classes));
    o.graph.width = o.graph.height;
    Graph *graph = NULL;
    StrBuf text = { 0 };
    Status status = model_build(&graph, def, &o);
    if (status == OK && dot) {
        status = graph_dump_dot(graph, &text);
    } else if (status == OK && parameters) {
        list_parameters(graph, &text);
    } else if (status == OK) {
        str_printf(&text, "%s: %s; %lld x %lld pixels, %lld channels, %lld classes%s%s\n",
                   def->name, def->summary, (long long)o.graph.height, (long long)o.graph.width,
                   (long long)o.graph.channels, (long long)o.graph.classes,
                   o.blurpool == BLURPOOL_NONE ? "" : "; blurpool ",
                   o.blurpool == BLURPOOL_NONE ? "" : blurpool_names[o.blurpool]);
        describe_weights(def, &text);
        status = graph_dump_table(graph, &text);
        str_printf(&text, "amx_share %.3f\n", precision_amx_share(graph));
    }
    graph_destroy(graph);
    return log_print_text(status, &text);
}

static Status inspect_model(int argc, char **argv)
{
    Args args;
    for (int i = 0; i < argc; i++) /* the table of names is part of this help */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return print_model_help();
    TRY(args_parse(&args, argc, argv, model_help));
    const char *name = args.positional[0];
    const ModelDef *def = model_find(name);
    const bool bytes = args_value(&args, "--bytes");
    if (bytes + !!args_value(&args, "--dot") + !!args_value(&args, "--parameters") > 1)
        return fail(ERR_USAGE, "--dot, --parameters and --bytes are different answers: ask for "
                               "one of them");
    if (def && bytes) return inspect_bytes(&args);
    if (def && args_value(&args, "--gpu")) return fail(ERR_USAGE, "--gpu FILE goes with --bytes");
    if (def) return describe_model(def, &args);
    char suggestion[MODEL_SUGGESTION_BYTES];
    model_suggest(name, suggestion, sizeof suggestion);
    return fail(ERR_USAGE, "%s: no such network%s", name, suggestion);
}

static const Command cmd_inspect_model = { .by_words = inspect_model };

/* ---- checkpoint ---- */

static const char checkpoint_help[] =
    "usage: convoy inspect checkpoint RUN|FILE\n"
    "\nVerifies a checkpoint (.safetensors; of a run its best, or "
    "the latest) and prints its "
    "position, its seed and its tensors. Exit code 65 if it is "
    "damaged.\n";

static void describe_checkpoint(const SafeFile *file, const CheckpointMeta *meta, const char *path,
                                StrBuf *text)
{
    int64_t elements = 0, bytes = 0;
    SpentParts spent;
    str_add_visible(text, path, "");
    str_add(text, "\nmodel ");
    str_add_visible(text, meta->model, "");
    str_printf(text, "\nstep %lld\nepochs_done %lld\nimages %lld\n", (long long)meta->step,
               (long long)meta->epoch, (long long)meta->images);
    str_printf(text, "seed %lld\nglobal_batch %lld\ndataset_images %lld\n", (long long)meta->seed,
               (long long)meta->global_batch, (long long)meta->dataset_images);
    if (meta->best_top1 >= 0) str_printf(text, "best_top1 %.6f\n", meta->best_top1);
    if (cost_read(meta->spent, &spent)) {
        const Spent sum = cost_sum(&spent);
        str_printf(text, "spent_host_hours %.6g\nspent_joules %.6g\n", sum.host_s / 3600,
                   cost_joules(&sum));
    }
    if (meta->writer) {
        str_add(text, "written by convoy ");
        str_add_visible(text, meta->writer, "");
        str_add(text, "\n");
    }
    str_printf(text, "crc32c %s ok\n", safetensors_metadata(file, "crc32c"));
    for (int i = 0; i < safetensors_count(file); i++) {
        const SafeTensor *t = safetensors_at(file, i);
        char shape[96];
        tensor_format(&t->desc, shape, sizeof shape);
        str_printf(text, "  %-48s %s\n", t->name, shape);
        elements += tensor_elements(&t->desc);
        bytes += (int64_t)tensor_plain_bytes(&t->desc);
    }
    str_printf(text, "tensors %d\nelements %lld\nbytes %lld\n", safetensors_count(file),
               (long long)elements, (long long)bytes);
}

static Status inspect_checkpoint(const Args *args)
{
    SafeFile *file = NULL;
    CheckpointMeta meta;
    StrBuf text = { 0 };
    char *path = NULL;
    TRY(run_source_checkpoint(&path, args->positional[0]));
    Status status = checkpoint_open(&file, &meta, path);
    if (status == OK) describe_checkpoint(file, &meta, path, &text);
    safetensors_close(file);
    mem_free(path);
    return log_print_text(status, &text);
}

static const Command cmd_inspect_checkpoint = { checkpoint_help, .alone = inspect_checkpoint };

/* ---- the command ---- */

static const CommandRow rows[] = {
    { "model", &cmd_inspect_model,
      "NAME [--image-size N] [--classes N] [--parameters] [--dot] [--bytes] [--gpu FILE] "
      "[key=value]...",
      "layers, shapes, parameters and FLOPs of a network; what a step moves on a GPU" },
    { "checkpoint", &cmd_inspect_checkpoint, "RUN|FILE",
      "verify a checkpoint and list what is in it" },
    { "config", &cmd_inspect_config, "[CONFIG|RUN] [key=value]...",
      "every key of a config file; of one, its steps and learning rates" },
    { "dataset", &cmd_inspect_dataset, "DIR [--format NAME] [--role NAME]",
      "classes and images of a dataset; decodes every image" },
    { "memory", &cmd_inspect_memory, "CONFIG|RUN [--gpu FILE] [key=value]...",
      "what a run will take, before it runs" },
};

static Status inspect(int argc, char **argv)
{
    return commands_dispatch("convoy inspect", "subject", rows, sizeof rows / sizeof rows[0], "",
                             argc, argv);
}

const Command cmd_inspect = { .by_words = inspect };
