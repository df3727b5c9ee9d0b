/* Weights in the Python world's files: written under either names they come back bit for bit; what
 * does not fit is refused whole, with a sentence that names it. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/network.h"
#include "trainer/engine/files/foreign_model.h"
#include "trainer/engine/files/weights.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1200, CLASSES = 7, MORE = 4 };
static const char model[] = "efficientnet_b0";

static void open_of_channels(Network *n, int64_t classes, int channels)
{
    ModelOptions o = { .width = 0.125 };
    o.graph = (GraphOptions){
        .batch = 1, .channels = channels, .height = 32, .width = 32, .classes = classes
    };
    for (int i = 0; i < 3; i++) o.graph.std[i] = 1;
    REQUIRE_OK(network_open(n, NETWORK_CPU, model, &o));
}

static void open_network(Network *n, int64_t classes)
{
    open_of_channels(n, classes, 3);
}

/* A file's tensors in memory, to be spoilt. */
typedef struct Draft {
    WeightList list;
    SafeTensor *tensors;
    float **values;
    int count;
    WeightsChoice which;
} Draft;

static int state_of(const Network *n, const char *name)
{
    for (int i = 0; i < executor_state_count(n->executor); i++)
        if (strcmp(executor_state_name(n->executor, i), name) == 0) return i;
    return -1;
}

static void draft_make(Draft *d, const Network *n, ModelNames names)
{
    REQUIRE_OK(weights_list(&d->list, program_graph(n->program), model_find(model), names));
    d->count = d->list.count;
    d->tensors = mem_calloc((size_t)d->count + MORE, sizeof *d->tensors);
    d->values = mem_calloc((size_t)d->count, sizeof *d->values);
    for (int i = 0; i < d->count; i++) {
        const Weight *w = &d->list.items[i];
        d->values[i] = mem_alloc(tensor_plain_bytes(&w->desc));
        REQUIRE_OK(executor_export_state(n->executor, state_of(n, w->name), d->values[i]));
        d->tensors[i] = (SafeTensor){ .name = w->other, .desc = w->desc, .data = d->values[i] };
    }
}

static void draft_free(Draft *d)
{
    for (int i = 0; i < d->list.count; i++) mem_free(d->values[i]);
    mem_free(d->values);
    mem_free(d->tensors);
    weights_free(&d->list);
}

static Status load_rows(Network *n, const Draft *d, HeadRows *rows)
{
    char path[PATH_BYTES];
    SafeFile *file = NULL;
    snprintf(path, sizeof path, "%s/weights.safetensors", test_scratch());
    TRY(safetensors_write(path, d->tensors, d->count, NULL, 0));
    TRY(safetensors_open(&file, path));
    CHECK(!weights_are_checkpoint(file));
    const Graph *g = program_graph(n->program);
    const ModelDef *def = model_find(model);
    Status status = weights_narrow(file, g, def, d->which, path);
    if (status == OK) status = weights_restore(n->executor, g, def, file, path, rows);
    safetensors_close(file);
    return status;
}

static Status load(Network *n, const Draft *d, bool new_head, bool *kept)
{
    int from[CLASSES + MORE];
    HeadRows rows = { .from = from };
    for (int i = 0; i < CLASSES + MORE; i++) from[i] = i;
    const Status status = load_rows(n, d, new_head ? &rows : NULL);
    if (kept) *kept = new_head && status == OK && rows.taken == 0;
    CHECK(rows.fresh.length == 0 || str_starts_with(rows.fresh.text, "classifier"));
    str_free(&rows.fresh);
    return status;
}

static bool equals(const Network *n, const Draft *d, int i)
{
    const size_t bytes = tensor_plain_bytes(&d->list.items[i].desc);
    float *values = mem_alloc(bytes);
    CHECK_OK(executor_export_state(n->executor, state_of(n, d->list.items[i].name), values));
    bool same = memcmp(values, d->values[i], bytes) == 0;
    mem_free(values);
    return same;
}

static void clear(const Network *n)
{
    static float zeros[65536];
    for (int i = 0; i < executor_state_count(n->executor); i++) {
        REQUIRE(tensor_plain_bytes(&executor_state(n->executor, i)->desc) <= sizeof zeros);
        REQUIRE_OK(executor_import_state(n->executor, i, zeros));
    }
}

TEST(both_names_come_back_bit_for_bit)
{
    Network n;
    open_network(&n, CLASSES);
    REQUIRE_OK(network_fill(&n));
    for (ModelNames names = MODEL_NAMES_TORCHVISION; names < MODEL_NAMES_HF; names++) {
        Draft d = { 0 };
        bool kept = true;
        int64_t counter = 5;
        draft_make(&d, &n, names);
        CHECK((strcmp(d.tensors[0].name, "conv_stem.weight") == 0) == (names == MODEL_NAMES_TIMM));
        d.tensors[d.count++] =
            (SafeTensor){ "any.num_batches_tracked", { .dtype = DTYPE_I64, .rank = 0 }, &counter };
        clear(&n);
        CHECK_OK(load(&n, &d, false, &kept));
        CHECK(!kept);
        for (int i = 0; i < d.list.count; i++) CHECK(equals(&n, &d, i));
        draft_free(&d);
    }
    network_close(&n);
}

/* Torchvision has no network with TensorFlow's padding; timm has both kinds, under names that are
 * the same. */
TEST(names_of_a_network_that_computes_something_else_are_told)
{
    const ModelDef *own = model_find(model), *tf = model_find("tf_efficientnet_b0"),
                   *resnet = model_find("resnet18");
    CHECK(weights_change_meaning(tf, MODEL_NAMES_TORCHVISION) &&
          !weights_change_meaning(tf, MODEL_NAMES_TIMM));
    for (ModelNames names = MODEL_NAMES_TORCHVISION; names < MODEL_NAMES_HF; names++)
        CHECK(!weights_change_meaning(own, names) && !weights_change_meaning(resnet, names));
}

static void expect_refusal(Network *n, const Draft *d, const char *words)
{
    CHECK_STATUS(load(n, d, true, NULL), ERR_DATA);
    if (!test_check(strstr(status_message(), words) != NULL, __FILE__, __LINE__, words))
        printf("    said: %s\n", status_message());
}

TEST(what_does_not_fit_is_refused_by_name)
{
    static const float extra[4] = { 1, 2, 3, 4 };
    const int64_t four[] = { 4 };
    Network n;
    Draft d = { 0 };
    open_network(&n, CLASSES);
    REQUIRE_OK(network_fill(&n));
    draft_make(&d, &n, MODEL_NAMES_TORCHVISION);
    clear(&n);
    const SafeTensor first = d.tensors[0], second = d.tensors[1];
    d.tensors[0].name = "stem.weight";
    expect_refusal(&n, &d, "missing: features.0.0.weight; not of this network: stem.weight");
    d.tensors[0] = first;
    d.tensors[1].desc = tensor_desc(DTYPE_F32, 1, four);
    d.tensors[1].data = extra;
    expect_refusal(&n, &d, "features.0.1.weight (f32[4] in the file, f32[8] in the network)");
    d.tensors[1] = second;
    static const char *const strangers[] = { "fc.weight", "num_batches_tracked",
                                             "features.0.1.num_batches_tracked.weight",
                                             "optimize.lr" };
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        char words[128];
        snprintf(words, sizeof words, "not of this network: %s", strangers[i]);
        d.tensors[d.count++] = (SafeTensor){ strangers[i], tensor_desc(DTYPE_F32, 1, four), extra };
        expect_refusal(&n, &d, words);
        d.count--;
    }
    d.values[1][3] = NAN;
    expect_refusal(&n, &d, "element 3 of tensor features.0.1.weight is NaN or infinite");
    CHECK(!equals(&n, &d, 0)); /* nothing was changed by any of them */
    draft_free(&d);
    network_close(&n);
}

TEST(another_number_of_classes_keeps_the_last_layer)
{
    Network n, wide;
    Draft d = { 0 }, own = { 0 };
    bool kept = false;
    open_network(&n, CLASSES);
    open_network(&wide, CLASSES + 3);
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_fill(&wide));
    draft_make(&d, &n, MODEL_NAMES_TIMM);
    for (int i = 0; i < d.count; i++) d.values[i][0] += 1;
    draft_make(&own, &wide, MODEL_NAMES_TIMM);
    CHECK_STATUS(load(&wide, &d, false, NULL), ERR_DATA);
    CHECK(strstr(status_message(), "weights for 7 classes, but model.classes is 10") != NULL);
    CHECK_OK(load(&wide, &d, true, &kept));
    CHECK(kept);
    int heads = 0;
    for (int i = 0; i < d.count; i++) {
        heads += d.list.items[i].head;
        CHECK(equals(&wide, d.list.items[i].head ? &own : &d, i));
    }
    CHECK_INT(heads, 2);
    /* rows there that are wanted, one that is not there, and one that is not wanted */
    int from[CLASSES + 3] = { 6, -1, 0, CLASSES, 1, 2, 3, 4, 5, -1 };
    HeadRows rows = { .from = from, .known = true };
    CHECK_OK(load_rows(&wide, &d, &rows));
    CHECK_INT(rows.taken, CLASSES);
    CHECK_INT(rows.there, CLASSES);
    CHECK_INT(from[3], -1);
    for (int i = 0; i < d.count; i++) {
        const int64_t row = tensor_elements(&d.list.items[i].desc) / CLASSES;
        for (int c = 0; d.list.items[i].head && c < CLASSES + 3; c++)
            if (from[c] >= 0)
                memcpy(own.values[i] + c * row, d.values[i] + from[c] * row,
                       (size_t)row * sizeof(float));
        CHECK(equals(&wide, d.list.items[i].head ? &own : &d, i));
    }
    draft_free(&d);
    draft_free(&own);
    network_close(&n);
    network_close(&wide);
}

/* Takes the last layer's tensors out of a draft, or its bias alone. */
static void behead(Draft *d, bool bias_alone)
{
    int kept = 0;
    for (int i = 0; i < d->count; i++)
        if (!d->list.items[i].head || (bias_alone && d->tensors[i].desc.rank > 1))
            d->tensors[kept++] = d->tensors[i];
    d->count = kept;
}

TEST(a_backbone_without_its_last_layer_is_taken_where_that_may_start_afresh)
{
    for (ModelNames names = MODEL_NAMES_TORCHVISION; names < MODEL_NAMES_HF; names++) {
        Network n;
        Draft d = { 0 }, own = { 0 };
        bool kept = false;
        open_network(&n, CLASSES);
        REQUIRE_OK(network_fill(&n));
        draft_make(&own, &n, names);
        draft_make(&d, &n, names);
        for (int i = 0; i < d.count; i++) d.values[i][0] += 1;
        behead(&d, true);
        expect_refusal(&n, &d, "not the weights of efficientnet_b0: missing: classifier.");
        behead(&d, false);
        CHECK_INT(d.count, own.count - 2);
        CHECK_STATUS(load(&n, &d, false, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), "missing: classifier.");
        CHECK_OK(load(&n, &d, true, &kept));
        CHECK(kept);
        for (int i = 0; i < d.list.count; i++)
            CHECK(equals(&n, d.list.items[i].head ? &own : &d, i));
        d.tensors[5].name = "other";
        expect_refusal(&n, &d, "not of this network: other");
        draft_free(&d);
        draft_free(&own);
        network_close(&n);
    }
}

/* Writes d's names with something before them, or with a part put into "features.": into text. */
static void rename_all(Draft *d, const char *before, const char *within, char (*text)[160])
{
    for (int i = 0; i < d->count; i++) {
        const char *name = d->tensors[i].name;
        const size_t part =
            within[0] && str_starts_with(name, "features.") ? strlen("features.") : 0;
        snprintf(text[i], sizeof *text, "%s%.*s%s%s", before, (int)part, name, part ? within : "",
                 name + part);
        d->tensors[i].name = text[i];
    }
}

TEST(what_training_programs_put_around_names_is_taken_off)
{
    static const float extra[4] = { 1, 2, 3, 4 };
    static const char *const around[][2] = { { "module.", "" },    { "_orig_mod.module.", "" },
                                             { "model.", "" },     { "net._orig_mod.", "" },
                                             { "", "_orig_mod." }, { "model.", "module." } };
    static char text[600][160];
    const int64_t four[] = { 4 };
    for (int p = 0; p < 6; p++) {
        const ModelNames names = p == 1 ? MODEL_NAMES_TIMM : MODEL_NAMES_TORCHVISION;
        const bool own_module = strstr(around[p][0], "net.") || strstr(around[p][0], "model.");
        Network n;
        Draft d = { 0 };
        open_network(&n, CLASSES);
        REQUIRE_OK(network_fill(&n));
        draft_make(&d, &n, names);
        REQUIRE(d.count <= 600);
        rename_all(&d, around[p][0], around[p][1], text);
        clear(&n);
        CHECK_OK(load(&n, &d, false, NULL));
        for (int i = 0; i < d.list.count; i++) CHECK(equals(&n, &d, i));
        /* beside a network that is a part of something, other parts are left out */
        d.tensors[d.count++] =
            (SafeTensor){ "loss.weight", tensor_desc(DTYPE_F32, 1, four), extra };
        CHECK_STATUS(load(&n, &d, false, NULL), own_module ? OK : ERR_DATA);
        if (!own_module) CHECK_CONTAINS(status_message(), "not of this network: loss.weight");
        d.count--;
        behead(&d, false);
        clear(&n);
        CHECK_STATUS(load(&n, &d, false, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), "missing: classifier.");
        CHECK_OK(load(&n, &d, true, NULL));
        CHECK(equals(&n, &d, 0));
        draft_free(&d);
        network_close(&n);
    }
}

/* Two sets of a network's tensors in one file, the second with other values. */
typedef struct Two {
    Network n;
    Draft first, second, both;
    char text[2][600][160];
} Two;

static void two_make(Two *t, const char *before, const char *before_second, float more)
{
    open_network(&t->n, CLASSES);
    REQUIRE_OK(network_fill(&t->n));
    draft_make(&t->first, &t->n, MODEL_NAMES_TORCHVISION);
    draft_make(&t->second, &t->n, MODEL_NAMES_TORCHVISION);
    REQUIRE(t->first.count <= 600);
    for (int i = 0; i < t->second.count; i++) t->second.values[i][0] += more;
    rename_all(&t->first, before, "", t->text[0]);
    rename_all(&t->second, before_second, "", t->text[1]);
    t->both.tensors = mem_calloc(2 * (size_t)t->first.count + 1, sizeof *t->both.tensors);
    t->both.count = t->first.count + t->second.count;
    memcpy(t->both.tensors, t->first.tensors, (size_t)t->first.count * sizeof(SafeTensor));
    memcpy(t->both.tensors + t->first.count, t->second.tensors,
           (size_t)t->second.count * sizeof(SafeTensor));
}

/* Whether the weights that the choice loads are those of d. */
static bool loads(Two *t, Draft *from, WeightsChoice which, const Draft *d)
{
    bool same = true;
    clear(&t->n);
    from->which = which;
    CHECK_OK(load(&t->n, from, false, NULL));
    for (int i = 0; i < d->list.count; i++) same = same && equals(&t->n, d, i);
    return same;
}

static void two_free(Two *t)
{
    draft_free(&t->first);
    draft_free(&t->second);
    draft_free(&t->both);
    network_close(&t->n);
}

TEST(trained_and_averaged_weights_are_chosen_between)
{
    static const char *const before[][2] = { { "", "ema." },
                                             { "model.", "ema_model.module." },
                                             { "model.", "ema.model." },
                                             { "net.", "net_ema." },
                                             { "module.", "ema.module." } };
    static Two t;
    const int64_t one[] = { 1 };
    static const int64_t steps = 4;
    for (int p = 0; p < 5; p++) {
        memset(&t, 0, sizeof t);
        two_make(&t, before[p][0], before[p][1], 1);
        CHECK(loads(&t, &t.both, WEIGHTS_OF_BEST, &t.second));
        CHECK(loads(&t, &t.both, WEIGHTS_EMA, &t.second));
        CHECK(loads(&t, &t.both, WEIGHTS_RAW, &t.first));
        /* those of parameters alone are not complete */
        const int all = t.both.count;
        t.both.count -= 2;
        CHECK(loads(&t, &t.both, WEIGHTS_OF_BEST, &t.first));
        t.both.count = all;
        CHECK(loads(&t, &t.first, WEIGHTS_RAW, &t.first));
        t.first.which = WEIGHTS_EMA;
        CHECK_STATUS(load(&t.n, &t.first, false, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), "has no averaged weights");
        t.second.tensors[t.second.count++] =
            (SafeTensor){ "ema.n_averaged", tensor_desc(DTYPE_I64, 1, one), &steps };
        CHECK(loads(&t, &t.second, WEIGHTS_OF_BEST, &t.second));
        t.second.which = WEIGHTS_RAW;
        CHECK_STATUS(load(&t.n, &t.second, false, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), "has only averaged weights");
        two_free(&t);
    }
}

TEST(two_networks_in_a_file_are_refused_unless_they_are_the_same)
{
    static Two t;
    for (int other = 0; other < 2; other++) {
        memset(&t, 0, sizeof t);
        two_make(&t, "student.", "teacher.", (float)other);
        if (!other) CHECK(loads(&t, &t.both, WEIGHTS_OF_BEST, &t.first));
        else CHECK_STATUS(load(&t.n, &t.both, false, NULL), ERR_DATA);
        if (other)
            CHECK_CONTAINS(status_message(),
                           "holds two different sets of weights of efficientnet_b0");
        two_free(&t);
    }
}

/* Rows of none, or of another number in the bias than in the weights, are no layer. */
TEST(a_last_layer_that_is_none_is_refused)
{
    Network n;
    Draft d = { 0 };
    open_network(&n, CLASSES);
    REQUIRE_OK(network_fill(&n));
    draft_make(&d, &n, MODEL_NAMES_TIMM);
    clear(&n);
    for (int i = 0; i < d.count; i++) {
        int64_t *rows = &d.tensors[i].desc.dims[0];
        if (!d.list.items[i].head) continue;
        for (*rows = 0; *rows < CLASSES; *rows += CLASSES - 2) {
            CHECK_STATUS(load(&n, &d, true, NULL), ERR_DATA);
            CHECK_CONTAINS(status_message(), "with another shape: classifier.");
        }
        *rows = CLASSES;
    }
    CHECK(!equals(&n, &d, 0));
    draft_free(&d);
    network_close(&n);
}

/* Element i of the state, which d has under number k. */
static float number_of(const Network *n, const Draft *d, int k, int64_t i)
{
    float *values = mem_alloc(tensor_plain_bytes(&d->list.items[k].desc));
    CHECK_OK(executor_export_state(n->executor, state_of(n, d->list.items[k].name), values));
    const float number = values[i];
    mem_free(values);
    return number;
}

/* Filters of colour are added up for grey images, as timm's adapt_input_conv; those of grey are
 * shared out. Of the other tensors none may change, nor may any other have other channels. */
TEST(filters_fit_images_of_other_channels)
{
    Network colour, grey;
    Draft of_colour = { 0 }, of_grey = { 0 };
    int firsts = 0;
    open_network(&colour, CLASSES);
    open_of_channels(&grey, CLASSES, 1);
    REQUIRE_OK(network_fill(&colour));
    REQUIRE_OK(network_fill(&grey));
    draft_make(&of_colour, &colour, MODEL_NAMES_TIMM);
    draft_make(&of_grey, &grey, MODEL_NAMES_TIMM);
    CHECK_OK(load(&grey, &of_colour, false, NULL));
    for (int k = 0; k < of_colour.count; k++) {
        if (!of_colour.list.items[k].first) {
            CHECK(equals(&grey, &of_colour, k));
            continue;
        }
        const int64_t window = 9;
        const float *there = of_colour.values[k];
        firsts++;
        REQUIRE(of_grey.list.items[k].desc.dims[1] == 1);
        for (int64_t i = 0; i < window; i++) {
            const double sum = (double)there[3 * window + i] + (double)there[4 * window + i] +
                               (double)there[5 * window + i];
            CHECK(fabs((double)number_of(&grey, &of_grey, k, window + i) - sum) < 1e-6);
        }
    }
    CHECK_INT(firsts, 1);
    CHECK_OK(load(&colour, &of_grey, false, NULL));
    for (int k = 0; k < of_grey.count; k++)
        for (int64_t i = 0; of_grey.list.items[k].first && i < 54; i++)
            CHECK(number_of(&colour, &of_colour, k, i) ==
                  of_grey.values[k][i / 27 * 9 + i % 9] / 3);
    for (int k = 0; k < of_colour.count; k++)
        if (of_colour.list.items[k].first) of_colour.tensors[k].desc.dims[1] = 0;
    CHECK_STATUS(load(&grey, &of_colour, false, NULL), ERR_DATA);
    for (int k = 0; k < of_colour.count; k++)
        if (of_colour.list.items[k].first) of_colour.tensors[k].desc.dims[1] = 3;
    for (int k = 0; k < of_colour.count; k++)
        if (of_colour.list.items[k].desc.rank == 4 && !of_colour.list.items[k].first &&
            of_colour.list.items[k].desc.dims[1] > 1) {
            of_colour.tensors[k].desc.dims[1] = 1;
            break;
        }
    CHECK_STATUS(load(&colour, &of_colour, false, NULL), ERR_DATA);
    CHECK(strstr(status_message(), "with another shape") != NULL);
    draft_free(&of_colour);
    draft_free(&of_grey);
    network_close(&colour);
    network_close(&grey);
}

/* 1, -2, the smallest number, the largest, an eighth, zero, 5, 6 in either format. */
TEST(other_float_types_are_read)
{
    static const uint16_t half[8] = { 0x3c00, 0xc000, 0x0001, 0x7bff, 0x3000, 0, 0x4500, 0x4600 };
    static const float as_half[8] = { 1, -2, 0x1p-24F, 65504, 0.125F, 0, 5, 6 };
    static const uint16_t bf16[8] = { 0x3f80, 0xc000, 0x0080, 0x7f7f, 0x3e00, 0, 0x40a0, 0x40c0 };
    static const float as_bf16[8] = { 1, -2, 0x1p-126F, 0x1.fep127F, 0.125F, 0, 5, 6 };
    static const double wide[8] = { 1, -2, 3, 4, 0.125, 0, 5, 6 };
    static const float as_wide[8] = { 1, -2, 3, 4, 0.125F, 0, 5, 6 };
    const struct {
        DType type;
        const void *data;
        const float *want;
    } rows[] = { { DTYPE_F16, half, as_half },
                 { DTYPE_BF16, bf16, as_bf16 },
                 { DTYPE_F64, wide, as_wide } };
    Network n;
    Draft d = { 0 };
    open_network(&n, CLASSES);
    REQUIRE_OK(network_fill(&n));
    draft_make(&d, &n, MODEL_NAMES_TORCHVISION);
    for (int r = 0; r < 3; r++) {
        float got[8];
        REQUIRE(tensor_elements(&d.tensors[1].desc) == 8);
        d.tensors[1].desc.dtype = rows[r].type;
        d.tensors[1].data = rows[r].data;
        CHECK_OK(load(&n, &d, false, NULL));
        REQUIRE_OK(executor_export_state(n.executor, state_of(&n, d.list.items[1].name), got));
        for (int i = 0; i < 8; i++) CHECK(got[i] == rows[r].want[i]);
    }
    draft_free(&d);
    network_close(&n);
}

/* ---- the images that published weights want ---- */

typedef struct Asked {
    const char *sets[5];
    const char *said; /* NULL: nothing */
} Asked;

TEST(images_other_than_published_weights_want_are_told)
{
    static const Asked rows[] = {
        { { "model.name=efficientnet_b3" },
          "w: the published weights of efficientnet_b3 (IMAGENET1K_V1) require "
          "data.image_size=300 data.eval_resize=320 data.interpolation=bicubic\n" },
        { { "model.name=efficientnet_b3", "data.image_size=300", "data.interpolation=bicubic" },
          NULL }, /* eval_resize: auto is 320 */
        { { "model.name=efficientnet_b3", "data.image_size=300" }, "data.interpolation=bicubic\n" },
        { { "model.name=efficientnet_b3", "data.image_size=288" }, NULL }, /* chosen */
        { { "model.name=resnet50" }, NULL },
        { { "model.name=resnet50", "data.eval_resize=232" }, NULL }, /* the second ones */
        { { "model.name=resnet50", "data.eval_resize=224" },
          "(IMAGENET1K_V1) require data.image_size=224 data.eval_resize=256" },
        { { "model.name=resnet50", "data.mean=[0.5]", "data.std=[0.5]" }, "resnet50" },
        { { "model.name=efficientnet_v2_l" },
          "data.image_size=480 data.eval_resize=480 data.interpolation=bicubic "
          "data.mean=0.5 data.std=0.5\n" },
        { { "model.name=resnet20", "data.eval_resize=0" }, NULL }, /* none are published */
    };
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/log", test_scratch());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const Asked *a = &rows[i];
        Config *c = NULL;
        uint8_t *text = NULL;
        size_t bytes = 0;
        int sets = 0;
        while (a->sets[sets]) sets++;
        REQUIRE_OK(config_load(&c, NULL, a->sets, sets));
        remove(path);
        REQUIRE_OK(log_open(path, 1, LOG_INFO));
        foreign_model_tell_images(c, model_find(c->model.name), NULL, "w");
        log_close();
        REQUIRE_OK(fs_read_file(path, &text, &bytes));
        if (a->said) CHECK_CONTAINS((const char *)text, a->said);
        else CHECK_INT((int64_t)bytes, 0);
        mem_free(text);
        config_destroy(c);
    }
}
