/* test_config_files.c - the files of the tree that follow the table of keys: docs/config.md and
 * configs/. Runs from the root of the repository. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

TEST(docs_page_is_current)
{
    StrBuf want = { 0 };
    uint8_t *got = NULL;
    size_t bytes = 0;
    REQUIRE_OK(config_write_markdown(&want));
    REQUIRE_OK(fs_read_file("docs/config.md", &got, &bytes));
    /* Out of date: ./convoy inspect config --markdown > docs/config.md */
    CHECK(bytes == want.length && memcmp(got, want.text, bytes) == 0);
    mem_free(got);
    str_free(&want);
}

static void check_config_file(const char *folder, const char *name)
{
    char path[256], run_dir[256], dumped[512];
    Config *c = NULL, *again = NULL;
    StrBuf dump = { 0 }, difference = { 0 };
    snprintf(path, sizeof path, "%s/%s", folder, name);
    REQUIRE_OK(config_load(&c, path, NULL, 0));
    snprintf(run_dir, sizeof run_dir, "runs/%.*s", (int)(strlen(name) - strlen(".yaml")), name);
    CHECK_STR(c->run.dir, run_dir);
    REQUIRE_OK(config_dump_yaml(c, &dump));
    snprintf(dumped, sizeof dumped, "%s/t.yaml", test_scratch());
    REQUIRE_OK(fs_write_atomic(dumped, dump.text, dump.length));
    REQUIRE_OK(config_load(&again, dumped, NULL, 0));
    CHECK_OK(config_math_difference(again, c, &difference));
    CHECK_INT(difference.length, 0);
    str_free(&difference);
    str_free(&dump);
    config_destroy(c);
    config_destroy(again);
}

TEST(all_configs_load)
{
    static const char *const folders[] = { "configs", "configs/recipes" };
    for (int k = 0; k < 2; k++) {
        char **names = NULL;
        int64_t count = 0, yaml = 0;
        REQUIRE_OK(fs_list(folders[k], &names, &count));
        for (int64_t i = 0; i < count; i++) {
            if (!str_ends_with_nocase(names[i], ".yaml")) continue;
            yaml++;
            check_config_file(folders[k], names[i]);
        }
        CHECK(yaml >= 5);
        mem_free(names);
    }
}

/* A number is there only where auto would give another: a recipe's own. With another image size it
 * would be another cut. */
TEST(configs_name_no_size_that_auto_gives)
{
    static const char *const folders[] = { "configs", "configs/recipes" };
    const char *const automatic = "data.eval_resize=auto";
    for (int k = 0; k < 2; k++) {
        char **names = NULL, path[256];
        int64_t count = 0;
        REQUIRE_OK(fs_list(folders[k], &names, &count));
        for (int64_t i = 0; i < count; i++) {
            Config *c = NULL, *with_auto = NULL;
            if (!str_ends_with_nocase(names[i], ".yaml")) continue;
            snprintf(path, sizeof path, "%s/%s", folders[k], names[i]);
            REQUIRE_OK(config_load(&c, path, NULL, 0));
            REQUIRE_OK(config_load(&with_auto, path, &automatic, 1));
            if (!c->data.eval_resize_auto && c->data.eval_resize == with_auto->data.eval_resize)
                CHECK_STR(path, "a size that auto does not give");
            config_destroy(c);
            config_destroy(with_auto);
        }
        mem_free(names);
    }
}
