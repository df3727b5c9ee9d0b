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

static const ArgRow model_rows[] = {
    { "NAME", .help = "a network of the table below" },
    { "--image-size", "N", .help = "size of the images (default: as published)", .min = 8,
      .max = 4096 },
    { "--classes", "N",
      .help = "number of classes (default 1000), or of words where the network learns masked ones "
              "(default 50265)",
      .min = 1, .max = 1e6 },
    { "--parameters", .help =
                          "print instead the names and shapes of the parameters, which patterns in "
                          "optimizer.groups and model.freeze match" },
    { "--dot", .help = "print instead the graph for Graphviz" },
    { "--bytes",
      .help =
          "print instead the bytes and FLOPs of a training step on a GPU, per kind of operation, "
          "and the time estimated from them. Takes all keys of a run; the defaults of "
          "train.batch_per_rank and device.fuse are then 256 and all",
      .needs = "--gpu" },
    { "--gpu", "FILE", .help = "the GPU's description, such as configs/gpus/h200.json",
      .needs = "--bytes", .flags = ARG_READS },
    { "--set", "key=value",
      .help =
          "set a key of the network, such as model.stem=cifar or model.blurpool=timm; --set may "
          "be left out",
      .flags = ARG_SETTING },
    ARG_ROW_END,
};

static void add_networks(StrBuf *text)
{
    str_add(text,
            "Networks, with the top-1 of their best published weights. Tensors have the names\n"
            "and shapes of the library in brackets; model.init takes the other's files too\n"
            "if its network computes the same.\n");
    for (int i = 0; i < model_count(); i++) {
        const ModelDef *def = model_at(i);
        double best = 0;
        char percent[16] = "";
        for (int k = 0; k < MODEL_WEIGHTS_MAX; k++) best = fmax(best, def->weights[k].top1);
        if (best > 0) snprintf(percent, sizeof percent, "%.3f", best);
        str_printf(text, "  %-24s %6s %s\n", def->name, percent, def->summary);
    }
}

/* What keys make of a network; others would be ignored, so they are refused. */
static Status read_model_keys(ModelOptions *out, const ModelDef *def, const Args *args)
{
    Config *c FREED_BY(config_destroy_at) = NULL;
    char channels[40], name[128];
    const char *sets[ARGS_SET_MAX + 4] = { name, "data.mean=0", "data.std=1", channels };
    const int own = def->text ? 1 : 4;
    snprintf(name, sizeof name, "model.name=%s", def->name);
    snprintf(channels, sizeof channels, "model.in_channels=%d", def->input.channels);
    for (int i = 0; i < args->set_count; i++) {
        const char *set = args->sets[i];
        const bool words =
            str_starts_with(set, "data.tokens=") || str_starts_with(set, "data.mask=");
        if ((!str_starts_with(set, "model.") && !(def->text && words)) ||
            str_starts_with(set, "model.name=") || str_starts_with(set, "model.init="))
            return fail(ERR_USAGE,
                        "%s: only model.* keys%s can be set here, without model.name and "
                        "model.init",
                        set, def->text ? ", data.tokens and data.mask" : "");
        sets[i + own] = set;
    }
    TRY(config_load(&c, NULL, sets, args->set_count + own));
    *out = config_model_options(c, def->input.size, -1);
    return OK;
}

static void describe_weights(const ModelDef *def, StrBuf *text)
{
    for (int k = 0; k < MODEL_WEIGHTS_MAX && def->weights[k].name; k++) {
        const ModelWeights *w = &def->weights[k];
        char file[96];
        model_weights_file(def, w, file, sizeof file);
        str_printf(text, "weights %s: ", w->name);
        if (w->top1 > 0) str_printf(text, "%.3f %% top-1", w->top1);
        else str_add(text, "without a last layer");
        str_printf(text, ", %d pixels cut from %d, %s%s; %s%s\n", w->size, w->resize,
                   model_interpolation_name(w->interpolation),
                   w->halves ? ", data.mean=[0.5, 0.5, 0.5] data.std=[0.5, 0.5, 0.5]" : "",
                   w->file ? "" : "model.safetensors of ", file);
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

static void describe_input(const ModelDef *def, const ModelOptions *o, StrBuf *text)
{
    const GraphOptions *g = &o->graph;
    str_printf(text, "%s: %s; ", def->name, def->summary);
    if (!def->text)
        str_printf(text, "%lld x %lld pixels, %lld channels, %lld classes%s%s\n",
                   (long long)g->height, (long long)g->width, (long long)g->channels,
                   (long long)g->classes, o->blurpool == BLURPOOL_NONE ? "" : "; blurpool ",
                   o->blurpool == BLURPOOL_NONE ? "" : blurpool_names[o->blurpool]);
    else if (g->masked > 0)
        str_printf(text, "one sequence of %lld tokens, %lld of them masked, %lld words\n",
                   (long long)g->tokens, (long long)g->masked, (long long)g->words);
    else
        str_printf(text, "one sequence of %lld tokens, %lld words, %lld classes\n",
                   (long long)g->tokens, (long long)g->words, (long long)g->classes);
}

static Status describe_model(const ModelDef *def, const Args *args)
{
    const bool dot = args_value(args, "--dot"), parameters = args_value(args, "--parameters");
    ModelOptions o;
    TRY(read_model_keys(&o, def, args));
    o.graph.height = def->input.size;
    TRY(args_whole(args, "--image-size", &o.graph.height));
    if (def->text && args_value(args, "--image-size"))
        return fail(ERR_USAGE, "--image-size: %s reads text", def->name);
    TRY(args_whole(args, "--classes", &o.graph.classes));
    if (o.graph.masked > 0) o.graph.words = o.graph.classes;
    o.graph.width = o.graph.height;
    Graph *graph FREED_BY(graph_destroy_at) = NULL;
    StrBuf text = { 0 };
    Status status = model_build(&graph, def, &o);
    if (status == OK && dot) {
        status = graph_dump_dot(graph, &text);
    } else if (status == OK && parameters) {
        list_parameters(graph, &text);
    } else if (status == OK) {
        describe_input(def, &o, &text);
        describe_weights(def, &text);
        status = graph_dump_table(graph, &text);
        if (def->text)
            str_printf(&text, "forward_gflops_per_token %.6f\n",
                       graph_flops(graph, PHASE_FORWARD) / (double)o.graph.tokens * 1e-9);
        str_printf(&text, "amx_share %.3f\n", precision_amx_share(graph));
    }
    return log_print_text(status, &text);
}

static Status inspect_model(const Args *args)
{
    const char *name = args->positional[0];
    const ModelDef *def = model_find(name);
    const bool bytes = args_value(args, "--bytes");
    if (bytes + !!args_value(args, "--dot") + !!args_value(args, "--parameters") > 1)
        return fail(ERR_USAGE, "give only one of --dot, --parameters and --bytes");
    if (def) return bytes ? inspect_bytes(args) : describe_model(def, args);
    char suggestion[MODEL_SUGGESTION_BYTES];
    model_suggest(name, suggestion, sizeof suggestion);
    return fail(ERR_USAGE, "unknown network %s%s", name, suggestion);
}

static const Command cmd_inspect_model = {
    .name = "inspect model",
    .summary = "print layers, shapes, parameters and FLOPs of a network",
    .about =
        "Prints the layers of a network for one image and 1000 classes: output shapes, "
        "parameters, FLOPs and the size of each layer's output; of text, for one sequence of "
        "data.tokens. The first lines list the published "
        "weights: name, top-1 on ImageNet, and how that was evaluated (image size, the shorter "
        "side before the crop, interpolation; mean and std where they are not ImageNet's), and the "
        "file: torchvision's are at https://download.pytorch.org/models/FILE, timm's in a "
        "repository "
        "of the Hugging Face Hub, which has more for most networks.",
    .args = model_rows,
    .more = add_networks,
    .alone = inspect_model,
};

/* ---- checkpoint ---- */

static const ArgRow checkpoint_rows[] = {
    { "RUN|FILE",
      .help =
          "a .safetensors file, or weights of PyTorch (.pth); or a run, for its best checkpoint "
          "or its latest" },
    ARG_ROW_END,
};

static bool has_multi(const CheckpointMeta *meta)
{
    Config *c FREED_BY(config_destroy_at) = NULL;
    return meta->config && config_parse(&c, meta->config) == OK && c->data.labels == LABELS_MULTI;
}

static void list_tensors(const SafeFile *file, StrBuf *text)
{
    int64_t elements = 0, bytes = 0;
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

static void describe_checkpoint(const SafeFile *file, const CheckpointMeta *meta, const char *path,
                                StrBuf *text)
{
    SpentParts spent;
    str_add_visible(text, path, "");
    str_add(text, "\nmodel ");
    str_add_visible(text, meta->model, "");
    str_printf(text, "\nstep %lld\nepochs_done %lld\nimages %lld\n", (long long)meta->step,
               (long long)meta->epoch, (long long)meta->images);
    str_printf(text, "seed %lld\nglobal_batch %lld\ndataset_images %lld\n", (long long)meta->seed,
               (long long)meta->global_batch, (long long)meta->dataset_images);
    if (meta->teacher) str_add(text, "teacher yes\n");
    const ModelDef *def = model_find(meta->model);
    if (meta->best_score >= 0)
        str_printf(text, "%s %.6f\n",
                   def && def->text  ? "best_score"
                   : has_multi(meta) ? "best_map"
                                     : "best_top1",
                   meta->best_score);
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
    list_tensors(file, text);
}

static Status inspect_checkpoint(const Args *args)
{
    SafeFile *file FREED_BY(safetensors_close_at) = NULL;
    CheckpointMeta meta;
    StrBuf text = { 0 };
    char *path FREED = NULL;
    TRY(run_source_checkpoint(&path, args->positional[0]));
    TRY(weights_open(&file, path));
    Status status = OK;
    if (weights_are_checkpoint(file)) {
        safetensors_close(file);
        status = checkpoint_open(&file, &meta, path);
        if (status == OK) describe_checkpoint(file, &meta, path, &text);
    } else {
        str_add_visible(&text, path, "");
        str_add(&text, "\nweights, not a checkpoint of Convoy\n");
        list_tensors(file, &text);
    }
    return log_print_text(status, &text);
}

static const Command cmd_inspect_checkpoint = {
    .name = "inspect checkpoint",
    .summary = "verify a checkpoint and list its tensors",
    .about =
        "Verifies a checkpoint and prints its position, its seed and its tensors; of other weights "
        "the tensors. Exit code 65 if the file is damaged.",
    .args = checkpoint_rows,
    .alone = inspect_checkpoint,
};

/* ---- the command ---- */

static const Command *const subjects[] = { &cmd_inspect_model,  &cmd_inspect_checkpoint,
                                           &cmd_inspect_config, &cmd_inspect_dataset,
                                           &cmd_inspect_memory, NULL };

const Command cmd_inspect = {
    .name = "inspect",
    .group = "Prepare",
    .summary = "describe a model, checkpoint, config, dataset or memory use",
    .about = "convoy inspect COMMAND --help explains a command.",
    .commands = subjects,
};
