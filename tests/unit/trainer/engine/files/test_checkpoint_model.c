/* Checkpoints opened as a network: what their weights, their layers or their configuration make
 * useless is refused as data, by the file's name. */
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/engine/files/checkpoint_model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1200, CLASSES = 3, TENSORS = 16 };

/* A checkpoint of an mlp, to be spoilt. */
typedef struct Draft {
    Graph *graph;
    SafeTensor tensors[TENSORS];
    int count;
    StrBuf config;
    char path[PATH_BYTES];
} Draft;

static void draft_make(Draft *d)
{
    static const char *const sets[] = { "model.name=mlp",     "model.in_channels=1",
                                        "data.image_size=28", "data.eval_resize=32",
                                        "data.mean=0.5",      "data.std=0.25" };
    ModelOptions o = { .width = 1 };
    Config *config = NULL;
    *d = (Draft){ .graph = NULL };
    o.graph = (GraphOptions){
        .batch = 1, .channels = 1, .height = 28, .width = 28, .classes = CLASSES, .std = { 1 }
    };
    REQUIRE_OK(model_build(&d->graph, model_find("mlp"), &o));
    for (TensorId id = 0; id < graph_tensor_count(d->graph); id++) {
        const GraphTensor *t = graph_tensor(d->graph, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        REQUIRE(d->count < TENSORS);
        d->tensors[d->count++] =
            (SafeTensor){ t->name, t->desc, mem_calloc(tensor_plain_bytes(&t->desc), 1) };
    }
    REQUIRE_OK(config_load(&config, NULL, sets, sizeof sets / sizeof sets[0]));
    REQUIRE_OK(config_dump_yaml(config, &d->config));
    config_destroy(config);
    snprintf(d->path, sizeof d->path, "%s/step-00000001.safetensors", test_scratch());
}

static void draft_free(Draft *d)
{
    for (int i = 0; i < d->count; i++) mem_free((void *)(uintptr_t)d->tensors[i].data);
    graph_destroy(d->graph);
    str_free(&d->config);
}

static Status write_and_open(const Draft *d, const char *config)
{
    const CheckpointMeta meta = { .step = 1,
                                  .images = 8,
                                  .global_batch = 8,
                                  .dataset_images = 8,
                                  .lr_factor = 1,
                                  .best_score = -1,
                                  .model = "mlp",
                                  .config = config,
                                  .class_names = "a\nb\nc" };
    CheckpointModel m;
    CheckpointWriter *w = NULL;
    TRY(checkpoint_writer_create(&w, test_scratch(), d->tensors, d->count, 1));
    CHECK_OK(checkpoint_wait(w));
    for (int i = 0; i < d->count; i++)
        memcpy(checkpoint_staging(w, i), d->tensors[i].data,
               tensor_plain_bytes(&d->tensors[i].desc));
    CHECK_OK(checkpoint_submit(w, &meta, false));
    CHECK_OK(checkpoint_flush(w));
    checkpoint_writer_destroy(w);
    Status status = checkpoint_model_open(&m, d->path, 1);
    char name[8];
    if (status == OK) {
        CHECK_INT(m.classes, CLASSES);
        checkpoint_model_class_name(&m, 2, name, sizeof name);
        CHECK_STR(name, "c");
    }
    checkpoint_model_close(&m);
    return status;
}

static void expect_refusal(const Draft *d, const char *config, const char *words)
{
    CHECK_STATUS(write_and_open(d, config), ERR_DATA);
    CHECK_CONTAINS(status_message(), d->path);
    CHECK_CONTAINS(status_message(), words);
}

TEST(weights_that_are_no_numbers_are_refused)
{
    Draft d;
    draft_make(&d);
    CHECK_OK(write_and_open(&d, d.config.text));
    float *values = (void *)(uintptr_t)d.tensors[1].data;
    values[2] = NAN;
    expect_refusal(&d, d.config.text, "element 2 of tensor");
    values[2] = 0;
    d.tensors[d.count] = (SafeTensor){ "optimizer.momentum.any", d.tensors[1].desc, NULL };
    float *momentum = mem_calloc(tensor_plain_bytes(&d.tensors[1].desc), 1);
    momentum[0] = INFINITY;
    d.tensors[d.count++].data = momentum;
    CHECK_OK(write_and_open(&d, d.config.text)); /* has no part in what the network says */
    draft_free(&d);
}

TEST(a_last_layer_of_no_classes_is_refused)
{
    Draft d;
    draft_make(&d);
    d.tensors[d.count - 1].desc.dims[0] = d.tensors[d.count - 2].desc.dims[0] = 0;
    expect_refusal(&d, d.config.text, "at least one class");
    draft_free(&d);
}

/* Replaces a line of the configuration that begins with these words, behind blanks. */
static void expect_config_refused(const Draft *d, const char *key, const char *line,
                                  const char *words)
{
    StrBuf text = { 0 };
    const char *at = strstr(d->config.text, key);
    REQUIRE(at != NULL);
    str_add_n(&text, d->config.text, (size_t)(at - d->config.text));
    str_add(&text, line);
    str_add(&text, at + strcspn(at, "\n"));
    expect_refusal(d, text.text, words);
    str_free(&text);
}

TEST(configurations_that_cannot_be_are_refused)
{
    Draft d;
    draft_make(&d);
    expect_config_refused(&d, "mean:", "mean: [0.5, 0.5]",
                          "data.mean has 2 values, but model.in_channels is 1");
    expect_config_refused(&d, "mean:", "mean: []", "data.mean has 0 values");
    expect_config_refused(&d, "eval_resize:", "eval_resize: 8",
                          "data.eval_resize is 8, less than data.image_size");
    expect_config_refused(&d, "mean:", "mean: [0.5", "stored config");
    draft_free(&d);
}

/* Keys that have come or gone since: not half of a configuration is read. */
TEST(configurations_of_another_version_are_refused)
{
    static const char another[] = "written by another version of convoy and cannot be read: ";
    Draft d;
    draft_make(&d);
    expect_config_refused(&d, "mean:", "means: [0.5]", another);
    CHECK_CONTAINS(status_message(), "unknown key data.means (did you mean data.mean?)");
    expect_config_refused(&d, "grad_norm:", "# grad_norm:", another);
    CHECK_CONTAINS(status_message(), "its configuration has other keys");
    draft_free(&d);
}

TEST(a_class_without_a_name_is_its_number)
{
    static const char *const names[] = { "cat", "1", "dog", "3" };
    const CheckpointModel m = { .meta.class_names = "cat\n\ndog" };
    char name[16];
    for (int i = 0; i < 4; i++) {
        checkpoint_model_class_name(&m, i, name, sizeof name);
        CHECK_STR(name, names[i]);
    }
}

/* Published weights: the names of ILSVRC2012's classes in the order of labels. */
TEST(a_thousand_classes_without_names_borrow_imagenets)
{
    static const struct {
        int64_t label;
        const char *name;
    } rows[] = { { 0, "tench" },
                 { 134, "crane (bird)" },
                 { 602, "horizontal bar" },
                 { 517, "crane" },
                 { 999, "toilet tissue" } };
    CheckpointModel m = { .classes = 1000, .foreign = true };
    char name[64], before[64] = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        checkpoint_model_class_name(&m, rows[i].label, name, sizeof name);
        CHECK_STR(name, rows[i].name);
    }
    for (int64_t i = 0; i < 1000; i++) {
        checkpoint_model_class_name(&m, i, name, sizeof name);
        CHECK(name[0] > ' ' && !strchr(name, '\t') && strcmp(name, before) != 0);
        snprintf(before, sizeof before, "%s", name);
    }
    m.meta.class_names = "0\n1"; /* no names: those of a data set that knows numbers alone */
    checkpoint_model_class_name(&m, 1, name, sizeof name);
    CHECK_STR(name, "goldfish");
    m.foreign = false; /* a run of our own may be of any data */
    checkpoint_model_class_name(&m, 1, name, sizeof name);
    CHECK_STR(name, "1");
    m.foreign = true;
    m.meta.class_names = "cat\ndog";
    m.meta.named_classes = 1;
    checkpoint_model_class_name(&m, 1, name, sizeof name);
    CHECK_STR(name, "dog");
    m.classes = 1001;
    m.meta.class_names = NULL;
    checkpoint_model_class_name(&m, 1, name, sizeof name);
    CHECK_STR(name, "1");
}
