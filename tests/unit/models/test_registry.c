/* test_registry.c - networks by name: guesses at a wrong one, what was published of each, twins. */
#include "base/str.h"
#include "models/models.h"
#include "tests/test.h"
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

TEST(networks_know_what_was_published)
{
    check_weights("resnet50", "IMAGENET1K_V1", 76.130, 224, 256, MODEL_BILINEAR);
    check_weights("resnet50", "IMAGENET1K_V2", 80.858, 224, 232, MODEL_BILINEAR);
    check_weights("resnext101_64x4d", "IMAGENET1K_V1", 83.246, 224, 232, MODEL_BILINEAR);
    check_weights("efficientnet_b1", "IMAGENET1K_V1", 78.642, 240, 256, MODEL_BICUBIC);
    check_weights("efficientnet_b1", "IMAGENET1K_V2", 79.838, 240, 255, MODEL_BILINEAR);
    check_weights("tf_efficientnet_b2", "aa_in1k", 80.074, 260, 292, MODEL_BICUBIC);
    check_weights("regnet_y_16gf", "IMAGENET1K_SWAG_E2E_V1", 86.012, 384, 384, MODEL_BICUBIC);
    check_weights("seresnet50", "ra2_in1k", 81.288, 288, 303, MODEL_BICUBIC);
    check_weights("resnet50d", "ra2_in1k", 81.354, 288, 303, MODEL_BICUBIC);
    check_weights("wide_resnet50_2", "racm_in1k", 82.260, 288, 303, MODEL_BICUBIC);
    check_weights("deit_base_patch16_224", "fb_in1k", 81.980, 224, 248, MODEL_BICUBIC);
    check_weights("vit_small_patch14_dinov2", "lvd142m", 0, 518, 518, MODEL_BICUBIC);
}

TEST(files_of_published_weights_are_named)
{
    static const struct {
        const char *model, *weights, *file;
    } rows[] = { { "resnet18", "IMAGENET1K_V1", "resnet18-f37072fd.pth" },
                 { "resnet50", "IMAGENET1K_V2", "resnet50-11ad3fa6.pth" },
                 { "efficientnet_b1", "IMAGENET1K_V1", "efficientnet_b1_rwightman-bac287d4.pth" },
                 { "regnet_y_16gf", "IMAGENET1K_SWAG_LINEAR_V1",
                   "regnet_y_16gf_lc_swag-f3ec0043.pth" },
                 { "resnet18", "a1_in1k", "timm/resnet18.a1_in1k" },
                 { "regnet_y_8gf", "tv2_in1k", "timm/regnety_080_tv.tv2_in1k" },
                 { "mobilenet_v2", "ra_in1k", "timm/mobilenetv2_100.ra_in1k" },
                 { "vit_tiny_patch16_224", "augreg_in21k_ft_in1k",
                   "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const ModelDef *def = model_find(rows[i].model);
        int seen = 0;
        for (int k = 0; k < MODEL_WEIGHTS_MAX && def->weights[k].name; k++) {
            char file[96];
            if (strcmp(def->weights[k].name, rows[i].weights) != 0) continue;
            model_weights_file(def, &def->weights[k], file, sizeof file);
            CHECK_STR(file, rows[i].file);
            seen++;
        }
        CHECK_INT(seen, 1);
    }
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
