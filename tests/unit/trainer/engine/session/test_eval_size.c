/* data.eval_resize: auto. What it does in a run is in tests/e2e/eval_size.sh. */
#include "base/fs.h"
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

static Status load(Config **out, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/t.yaml", test_scratch());
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    return config_load(out, path, NULL, 0);
}

/* auto is the network's own ratio, said as a number wherever the configuration is kept. */
TEST(eval_resize_follows_image_size)
{
    static const struct {
        const char *text;
        int64_t size;
    } cases[] = {
        { "model: {}\n", 256 },
        { "data: {image_size: 64}\n", 73 },
        { "data: {image_size: 64, eval_resize: auto}\n", 73 },
        { "data: {image_size: 4096}\n", 4681 },
        { "data: {image_size: 64, eval_resize: 0}\n", 0 },
        { "data: {image_size: 64, eval_resize: 256}\n", 256 },
        { "{model: {stem: cifar}, data: {image_size: 32}}\n", 32 },
        { "{model: {name: resnet20}, data: {image_size: 40}}\n", 40 },
        { "{model: {name: efficientnet_b3}, data: {image_size: 150}}\n", 160 },
        { "{model: {name: resnext101_64x4d}, data: {image_size: 224}}\n", 232 },
    };
    Config *c = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[64];
        StrBuf dump = { 0 };
        CHECK_STATUS(load(&c, cases[i].text), OK);
        if (!c) continue;
        CHECK_INT(c->data.eval_resize, cases[i].size);
        REQUIRE_OK(config_dump_yaml(c, &dump));
        snprintf(line, sizeof line, "\n  eval_resize: %lld\n", (long long)cases[i].size);
        CHECK_CONTAINS(dump.text, line);
        config_destroy(c);
        str_free(&dump);
    }
    REQUIRE_OK(config_parse(&c, "{model: {name: of_nobody}, data: {image_size: 112}}"));
    CHECK_INT(c->data.eval_resize, 128);
    config_destroy(c);
    const char *const wrong = "data.eval_resize=autp";
    CHECK_STATUS(config_load(&c, NULL, &wrong, 1), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "it must be auto, or a whole number from 0 to 8192 (did you "
                                     "mean auto?)");
}

/* Of a run or a checkpoint, where auto has become a number. */
TEST(eval_resize_of_a_run_follows_image_size)
{
    static const struct {
        const char *text, *set[2];
        int64_t size;
    } cases[] = {
        { "data: {image_size: 64, eval_resize: 73}\n", { "data.image_size=128" }, 146 },
        { "data: {image_size: 64, eval_resize: 73}\n", { "data.image_size=32" }, 36 },
        { "data: {image_size: 64, eval_resize: 73}\n", { "train.epochs=2" }, 73 },
        { "data: {image_size: 64, eval_resize: 80}\n", { "data.image_size=32" }, 80 },
        { "data: {image_size: 64, eval_resize: 73}\n",
          { "data.eval_resize=73", "data.image_size=32" },
          73 },
    };
    char dir[480], path[512];
    snprintf(dir, sizeof dir, "%s/run", test_scratch());
    snprintf(path, sizeof path, "%s/config.yaml", dir);
    REQUIRE_OK(fs_make_dirs(dir));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int sets = cases[i].set[1] ? 2 : 1;
        Config *c = NULL;
        REQUIRE_OK(fs_write_atomic(path, cases[i].text, strlen(cases[i].text)));
        REQUIRE_OK(config_load(&c, dir, cases[i].set, sets));
        CHECK_INT(c->data.eval_resize, cases[i].size);
        config_destroy(c);
        REQUIRE_OK(config_parse(&c, cases[i].text));
        REQUIRE_OK(config_override(c, cases[i].set, sets));
        CHECK_INT(c->data.eval_resize, cases[i].size);
        config_destroy(c);
    }
}
