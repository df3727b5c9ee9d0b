/* Keys on the command line that a command does nothing with. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include <stdio.h>
#include <string.h>

TEST(unread_keys_are_named_in_one_line)
{
    const Args args = { .sets = { "optimizer.lr=1", "optimizers.lr=1", "data.val=x=y", "scale=1",
                                  "data.val_split=0.1", "data.value" },
                        .set_count = 6 };
    char path[1200];
    uint8_t *said = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/log", test_scratch());
    REQUIRE_OK(log_open(path, 1, LOG_INFO));
    unread_warn(&args, "data.train", "");
    unread_warn(&args, "scale optimizer  data.val", "; really");
    log_close();
    REQUIRE_OK(fs_read_file(path, &said, &bytes));
    CHECK_CONTAINS((const char *)said, "optimizer.lr, data.val: ignored by this command; really\n");
    CHECK(strchr((const char *)said, '\n') == (const char *)said + bytes - 1);
    mem_free(said);
}

/* A key that is renamed takes its place in the lists along. */
static void check_word(const char *all, const char *word, int n)
{
    char set[128];
    const char *sets[] = { set };
    Config *c = NULL;
    snprintf(set, sizeof set, "\n%.*s:\n", n, word);
    if (strstr(all, set)) return; /* a section */
    snprintf(set, sizeof set, "%.*s=?", n, word);
    if (config_load(&c, NULL, sets, 1) == OK) config_destroy(c);
    else CHECK(strstr(status_message(), "unknown key") == NULL);
}

TEST(unread_keys_exist)
{
    static const Command *const commands[] = { &cmd_train,   &cmd_eval,           &cmd_find_lr,
                                               &cmd_preview, &cmd_inspect_memory, &cmd_scale };
    StrBuf all = { 0 };
    Config *c = NULL;
    REQUIRE_OK(config_load(&c, NULL, NULL, 0));
    REQUIRE_OK(config_dump_yaml(c, &all));
    config_destroy(c);
    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
        const char *word = commands[k]->ignores;
        REQUIRE(word != NULL);
        for (int n; *word; word += n + (int)strspn(word + n, " ")) {
            n = (int)strcspn(word, " ");
            check_word(all.text, word, n);
        }
    }
    str_free(&all);
}
