/* test_registry.c - networks by name: guesses at a wrong one, what was published of each, twins. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "models/models.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

static void check_weights(const char *model, const char *name, double top1, int size, int resize,
                          ModelInterpolation interpolation)
{
    const ModelDef *def = model_find(model);
    int seen = 0;
    REQUIRE(def != NULL);
    for (int k = 0; k < MODEL_WEIGHTS_MAX && def->weights[k].name; k++) {
        const ModelWeights *w = &def->weights[k];
        if (strcmp(w->name, name) != 0) continue;
        CHECK_NEAR(w->top1, top1, 0);
        CHECK_INT(w->size, size);
        CHECK_INT(w->resize, resize);
        CHECK(w->interpolation == interpolation && !w->halves);
        CHECK(!w->file == (strncmp(name, "IMAGENET1K", 10) != 0));
        seen++;
    }
    CHECK_INT(seen, 1);
}

TEST(names_are_found_or_guessed)
{
    CHECK(model_find("resnet") == NULL && model_find("ResNet50") == NULL);
    char text[MODEL_SUGGESTION_BYTES];
    model_suggest("resnet5O", text, sizeof text);
    CHECK_CONTAINS(text, " (did you mean resnet50, ");
    model_suggest("efficientnet-b4", text, sizeof text);
    CHECK_STR(text, " (did you mean efficientnet_b4, efficientnet_b0 or efficientnet_b1?)");
    model_suggest("resnet50.a1_in1k", text, sizeof text);
    CHECK_STR(text, "; it is called resnet50 here, and model.init=FILE sets its weights");
    model_suggest("vit_base_patch16_224.augreg_in21k", text, sizeof text);
    CHECK_CONTAINS(text, "; it is called vit_base_patch16_224 here, and model.init=FILE");
    model_suggest("vit_base_patch32_224.augreg_in21k", text, sizeof text);
    CHECK_STR(text, "; it is called vit_b_32 here");
    model_suggest("regnety_016", text, sizeof text);
    CHECK_STR(text, "; it is called regnet_y_1_6gf here");
    model_suggest("convolutional-thing", text, sizeof text);
    CHECK_STR(text, " (convoy inspect model --help lists all)");
    for (int i = 0; i < model_count(); i++) {
        CHECK(model_find(model_at(i)->name) == model_at(i));
        CHECK(strlen(model_at(i)->summary) > 10);
    }
}

/* timm does not say what its weights reach. */
TEST(networks_know_what_timm_published)
{
    check_weights("tf_efficientnet_b2", "aa_in1k", 80.074, 260, 292, MODEL_BICUBIC);
    check_weights("seresnet50", "ra2_in1k", 81.288, 288, 303, MODEL_BICUBIC);
    check_weights("resnet50d", "ra2_in1k", 81.354, 288, 303, MODEL_BICUBIC);
    check_weights("wide_resnet50_2", "racm_in1k", 82.260, 288, 303, MODEL_BICUBIC);
    check_weights("deit_base_patch16_224", "fb_in1k", 81.980, 224, 248, MODEL_BICUBIC);
    check_weights("vit_small_patch14_dinov2", "lvd142m", 0, 518, 518, MODEL_BICUBIC);
}

/* The weights of that name; NULL: none. */
static const ModelWeights *weights_named(const ModelDef *def, const char *name)
{
    for (int k = 0; k < MODEL_WEIGHTS_MAX && def->weights[k].name; k++)
        if (strcmp(def->weights[k].name, name) == 0) return &def->weights[k];
    return NULL;
}

static void check_line(const char *line)
{
    char model[64], name[64], interpolation[16], file[96], ours[96];
    double top1, mean;
    int size, resize;
    REQUIRE(sscanf(line, "%63s %63s %lf %d %d %15s %lf %95s", model, name, &top1, &size, &resize,
                   interpolation, &mean, file) == 8);
    const ModelDef *def = model_find(model);
    const ModelWeights *w = def ? weights_named(def, name) : NULL;
    if (!w) CHECK_STR("no such weights", line);
    if (!w) return;
    CHECK(top1 == 0 || w->top1 == top1);
    if (strcmp(name, "IMAGENET1K_V1") == 0) CHECK_INT(def->input.size, size);
    CHECK_INT(w->size, size);
    CHECK_INT(w->resize, resize);
    CHECK_STR(model_interpolation_name(w->interpolation), interpolation);
    CHECK(w->halves == (mean == 0.5));
    model_weights_file(def, w, ours, sizeof ours);
    CHECK_STR(ours, file);
}

TEST(published_weights_are_as_their_libraries_say)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int lines = 0, sets = 0;
    REQUIRE_OK(fs_read_file("tests/golden/published.txt", &text, &bytes));
    for (char *line = strchr((char *)text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        check_line(line + 1);
        lines++;
    }
    for (int i = 0; i < model_count(); i++)
        for (int k = 0; k < MODEL_WEIGHTS_MAX && model_at(i)->weights[k].name; k++) sets++;
    CHECK_INT(lines, sets);
    mem_free(text);
}

TEST(published_weights_are_plausible)
{
    int sets = 0;
    for (int i = 0; i < model_count(); i++) {
        const ModelDef *def = model_at(i);
        for (int k = 0; k < MODEL_WEIGHTS_MAX; k++) {
            const ModelWeights *w = &def->weights[k];
            if (!w->name) {
                CHECK(w->top1 == 0 && w->size == 0);
                continue;
            }
            CHECK(k == 0 || def->weights[k - 1].name);
            CHECK(w->top1 == 0 || (w->top1 > 60 && w->top1 < 90));
            CHECK(w->size >= def->input.size && w->resize >= w->size);
            CHECK(w->interpolation < MODEL_INTERPOLATION_COUNT);
            sets++;
        }
    }
    CHECK(sets >= 128);
}

TEST(twins_name_each_other)
{
    int twins = 0;
    for (int i = 0; i < model_count(); i++) {
        const ModelDef *def = model_at(i);
        if (!def->twin) continue;
        const ModelDef *twin = model_find(def->twin);
        REQUIRE(twin && twin->twin);
        CHECK_STR(twin->twin, def->name);
        CHECK(twin->names != def->names);
        CHECK(model_named(def, twin->names) == twin && model_named(def, def->names) == def);
        twins++;
    }
    CHECK_INT(twins, 20);
}
