/* cmd_export.c - convoy export CHECKPOINT OUT: a checkpoint's weights for other programs.
 *
 * A .safetensors file holds parameters and statistics under torchvision's, timm's or transformers'
 * names, and with them the counters that PyTorch's batch norms have and the copies of what a
 * decoder shares, so that load_state_dict(strict=True) takes it. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/version.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/files/foreign_model.h"
#include "trainer/engine/files/hub.h"
#include "trainer/engine/files/onnx.h"
#include "trainer/engine/files/outputs.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/files/weights.h"
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 128

static const char *const names_words[MODEL_NAMES_COUNT + 1] = { [MODEL_NAMES_TORCHVISION] =
                                                                    "torchvision",
                                                                [MODEL_NAMES_TIMM] = "timm",
                                                                [MODEL_NAMES_HF] = "transformers" };
static const ArgRow rows[] = {
    { "RUN|CHECKPOINT",
      .help = "the best checkpoint of a run, or its latest; or a checkpoint file" },
    { "OUT",
      .help = "a .safetensors file: weights and running statistics for PyTorch's load_state_dict; "
              "or an "
              ".onnx file: the network for inference",
      .flags = ARG_WRITES | ARG_OPTIONAL },
    { "--hub", "DIR",
      .help = "instead of OUT: write a folder with " HUB_CONFIG " and " HUB_WEIGHTS
              " for timm.create_model(\"local-dir:DIR\", pretrained=True), or for upload to the "
              "Hugging Face Hub" },
    ARG_ROW_EMA,
    ARG_ROW_RAW,
    { "--names", "NAMES",
      .help = "names of tensors in a .safetensors file (default: those of the network)",
      .choices = names_words },
    { "--with-input",
      .help = "only for .onnx: the input is uint8 [N, height, width, channels], as decoded; the "
              "network normalises it" },
    { "--threshold", "T",
      .help = "networks trained with data.labels: multi: the probability above which a class is a "
              "label (default 0.5), kept in OUT's metadata, where predict finds it",
      .max = 1 },
    { "--pooler",
      .help =
          "only for BERT that learns masked words: also the pooler and the next-sentence layer, "
          "as BertForPreTraining has them; they keep the values that they had at first" },
    ARG_ROW_END,
};

static Status choose_names(const Args *args, const ModelDef *def, ModelNames *out)
{
    int word;
    *out = def->names;
    if (def->text) *out = MODEL_NAMES_HF;
    if (!args_value(args, "--names")) return OK;
    TRY(args_choice(args, "--names", &word));
    const bool text = *out == MODEL_NAMES_HF;
    *out = (ModelNames)word;
    if (text != (*out == MODEL_NAMES_HF) || (*out == MODEL_NAMES_TIMM && def->apart) ||
        (*out == MODEL_NAMES_TORCHVISION && def->names == MODEL_NAMES_TIMM && !def->twin &&
         !def->both))
        return fail(ERR_USAGE, "--names: %s only has the names of %s", def->name,
                    names_words[def->names]);
    return OK;
}

typedef struct Output {
    SafeTensor *tensors;
    char (*counter_names)[NAME_BYTES];
    int64_t steps; /* what every counter says */
    float *zeros;  /* the row of segments that RoBERTa has beside its positions */
    bool spare;    /* what was not trained is written too */
    int count;
} Output;

/* The counters come first: they are the wider type. */
static Status fill_export(Output *o, const WeightList *list, const SafeFile *file)
{
    static const char mean_suffix[] = ".running_mean";
    o->tensors = mem_calloc((size_t)list->count * 2 + 1, sizeof *o->tensors);
    o->counter_names = mem_calloc((size_t)list->count + 1, NAME_BYTES);
    if (!o->tensors || !o->counter_names) return ERR_MEMORY;
    for (int i = 0; i < list->count; i++) {
        const char *name = list->items[i].other;
        const size_t length = strlen(name), suffix = sizeof mean_suffix - 1;
        if (length < suffix || strcmp(name + length - suffix, mean_suffix) != 0) continue;
        char *counter = o->counter_names[o->count];
        snprintf(counter, NAME_BYTES, "%.*s.num_batches_tracked", (int)(length - suffix), name);
        o->tensors[o->count++] = (SafeTensor){ .name = counter,
                                               .desc = { .dtype = DTYPE_I64, .rank = 0 },
                                               .data = &o->steps };
    }
    for (int i = 0; i < list->count; i++) {
        const Weight *w = &list->items[i];
        if (w->kind == WEIGHT_FOLDED && !o->zeros)
            o->zeros = mem_calloc(tensor_plain_bytes(&w->desc), 1);
        if (w->kind == WEIGHT_FOLDED && !o->zeros) return ERR_MEMORY;
        if (w->spare && !o->spare) continue;
        const float *data = safetensors_find(file, w->name)->data;
        o->tensors[o->count++] =
            (SafeTensor){ .name = w->other,
                          .desc = w->desc,
                          .data = w->kind == WEIGHT_FOLDED ? o->zeros : data + w->from };
    }
    return OK;
}

static Status export_safetensors(const CheckpointModel *m, const char *path, ModelNames names,
                                 bool spare)
{
    WeightList list;
    Output o = { .steps = m->meta.step, .spare = spare };
    StrBuf images = { 0 }, threshold = { 0 };
    SafePair about[8] = { { "convoy", version_text() },
                          /* without it transformers takes no file */
                          { "format", "pt" } };
    int pairs = 2;
    TRY(weights_list(&list, m->graph, m->def, names));
    Status status = fill_export(&o, &list, m->file);
    if (!m->def->text) {
        foreign_model_add_images(m->config, &images);
        about[pairs++] = (SafePair){ FOREIGN_MODEL_IMAGES, images.text };
    }
    if (m->config->data.labels == LABELS_MULTI) {
        str_printf(&threshold, "%.15g", m->threshold);
        about[pairs++] = (SafePair){ FOREIGN_MODEL_LABELS, label_kind_names[LABELS_MULTI] };
        about[pairs++] = (SafePair){ FOREIGN_MODEL_THRESHOLD, threshold.text };
    }
    if (m->meta.class_names) {
        about[pairs++] = (SafePair){ "class_names", m->meta.class_names };
        about[pairs++] = (SafePair){ "named_classes", m->meta.named_classes ? "1" : "0" };
    }
    if (m->meta.words && m->meta.words[0]) about[pairs++] = (SafePair){ "words", m->meta.words };
    if (status == OK && (images.failed || threshold.failed)) status = ERR_MEMORY;
    if (status == OK) status = safetensors_write(path, o.tensors, o.count, about, pairs);
    str_free(&images);
    str_free(&threshold);
    mem_free(o.tensors);
    mem_free(o.zeros);
    mem_free(o.counter_names);
    weights_free(&list);
    return status;
}

/* What has the same tensors in PyTorch, and takes them, need not compute the same. */
static void warn_of_meaning(const CheckpointModel *m, const char *path, ModelNames names)
{
    if (weights_change_meaning(m->def, names))
        log_warning("%s: %s's %s loads these weights but pads or normalises differently from %s",
                    path, names_words[names], model_named(m->def, names)->name, m->def->name);
    /* whose shapes are the same with either stem */
    if (m->config->model.stem == STEM_CIFAR && (m->def->twin || m->def->both))
        log_warning(
            "%s: model.stem is cifar: in PyTorch set the stride of the first convolution to 1",
            path);
    if (m->config->model.blurpool != BLURPOOL_NONE)
        log_warning("%s: model.blurpool is %s: in PyTorch the network needs the same blur layers, "
                    "which have no weights",
                    path, blurpool_names[m->config->model.blurpool]);
}

static Status export_hub(const CheckpointModel *m, const Args *args, const char *dir)
{
    char *config FREED = fs_join(dir, HUB_CONFIG), *weights FREED = fs_join(dir, HUB_WEIGHTS);
    Outputs o = { 0 };
    if (!config || !weights) return ERR_MEMORY;
    if (args_value(args, "--names") || args_value(args, "--with-input"))
        return fail(ERR_USAGE, "--hub: takes neither --names nor --with-input");
    TRY(hub_check(m));
    outputs_add_read(&o, "RUN|CHECKPOINT", args->positional[0]);
    outputs_add_written(&o, "--hub", config);
    outputs_add_written(&o, "--hub", weights);
    TRY(outputs_check(&o));
    TRY(fs_make_dirs(dir));
    TRY(export_safetensors(m, weights, MODEL_NAMES_TIMM, false));
    if (m->config->data.labels == LABELS_MULTI)
        log_info("%s: trained with several labels per image: apply a sigmoid to each logit", dir);
    return hub_write_config(m, config);
}

static Status export_to(const CheckpointModel *m, const Args *args, const char *path)
{
    const char *hub = args_value(args, "--hub");
    ModelNames names;
    if (args_value(args, "--pooler") && !(m->def->segments && graph_options(m->graph)->masked))
        return fail(ERR_USAGE, "--pooler: only for a BERT that learns masked words");
    if (hub) return export_hub(m, args, hub);
    if (str_ends_with_nocase(path, ".onnx")) {
        if (args_value(args, "--names"))
            return fail(ERR_USAGE, "--names: only for a .safetensors file");
        if (m->def->text)
            return fail(ERR_USAGE, "%s: %s reads text, for which only .safetensors is supported",
                        path, m->def->name);
        return onnx_export(m, path, args_value(args, "--with-input") != NULL);
    }
    if (args_value(args, "--with-input"))
        return fail(ERR_USAGE, "--with-input: only for an .onnx file");
    TRY(choose_names(args, m->def, &names));
    warn_of_meaning(m, path, names);
    return export_safetensors(m, path, names, args_value(args, "--pooler") != NULL);
}

static Status command(const Args *args)
{
    const char *hub = args_value(args, "--hub");
    const char *out = args->positional_count > 1 ? args->positional[1] : hub;
    char *path FREED = NULL;
    CheckpointModel m FREED_BY(checkpoint_model_close) = { 0 };
    WeightsChoice which;
    double threshold = CHECKPOINT_MODEL_THRESHOLD;
    if (!out || (hub && out != hub)) return fail(ERR_USAGE, "give either OUT or --hub DIR");
    if (!hub && !str_ends_with_nocase(out, ".safetensors") && !str_ends_with_nocase(out, ".onnx"))
        return fail(ERR_USAGE, "%s: must end in .safetensors or .onnx", out);
    TRY(run_source_checkpoint(&path, args->positional[0]));
    TRY(args_weights(args, &which));
    TRY(checkpoint_model_open(&m, path, 1));
    TRY(checkpoint_model_choose(&m, which, path));
    TRY(args_number(args, "--threshold", &threshold));
    if (args_value(args, "--threshold")) TRY(checkpoint_model_set_threshold(&m, threshold, path));
    TRY(export_to(&m, args, out));
    log_info("%s: %s, %lld %s, from %s at step %lld%s", out, m.def->name, (long long)m.classes,
             config_is_masked(m.config) ? "words" : "classes", path, (long long)m.meta.step,
             m.ema ? ", averaged weights" : "");
    return OK;
}

const Command cmd_export = {
    .name = "export",
    .group = "Use",
    .summary = "write a checkpoint's weights for PyTorch, timm or ONNX",
    .about =
        "Writes the weights of a checkpoint for other programs; the extension of OUT chooses the "
        "format. Without --ema or --raw the averaged weights are taken where the run has them, "
        "unless ema.best is false.\n"
        "In PyTorch: model.load_state_dict(safetensors.torch.load_file(OUT)). An .onnx file has "
        "the input \"images\", f32 [N, channels, height, width], normalised as in training, and "
        "the output \"logits\", [N, classes]: before the softmax, or with metadata "
        "labels: \"multi\" before the sigmoid of each class. The batch size is dynamic, and so are "
        "height and "
        "width if the network allows it.",
    .args = rows,
    .alone = command,
};
