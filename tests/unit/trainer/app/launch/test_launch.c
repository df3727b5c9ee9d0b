/* test_launch.c - command lines of convoy launch that cannot be meant are refused before anything
 * starts. */
#include "base/fs.h"
#include "tests/test.h"
#include "trainer/app/cmd/commands.h"
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 12 };

static const struct {
    const char *words[WORDS_MAX], *says;
} rows[] = {
    { { NULL }, "missing option -n or --hosts-script" },
    { { "--hosts-script", "true" }, "missing argument -- train CONFIG" },
    { { "--hosts-script", "true", "--" }, "missing argument -- train CONFIG" },
    { { "--hosts-script", "true", "--", "eval", "x" }, "after -- comes train CONFIG, not eval" },
    { { "--hosts-script", "true", "--", "train" }, "train: missing argument CONFIG|RUN" },
    { { "--hosts-script", "true", "train", "x" }, "train" },
    { { "--hosts-script", "true", "--", "train", "/no/such/file.yaml" }, "/no/such/file.yaml" },
    { { "--hosts-script", "true", "--min-hosts", "0", "--", "train", "x" },
      "--min-hosts 0: must be a whole number from 1 to " },
    { { "--hosts-script", "true", "--slots", "1.5", "--", "train", "x" },
      "--slots 1.5: must be a whole number from 1 to 1024" },
    { { "--hosts-script", "true", "--poll", "0.01", "--", "train", "x" },
      "--poll 0.01: must be a number from 0.1 to 3600" },
    { { "--hosts-script", "true", "--min-hosts", "3", "--max-hosts", "2", "--", "train", "x" },
      "--max-hosts 2 is less than --min-hosts 3" },
    { { "-n", "2", "--slots", "2", "--", "train", "x" }, "--slots requires --hosts-script" },
    { { "-n", "0", "--", "train", "x" }, "-n 0: must be a whole number from 1 to 1024" },
    { { "--hosts-script", "true", "--", "train", "CONFIG", "checkpoint.resume=none" },
      "checkpoint.resume: none would start over at every restart" },
};

/* The list ends as that of main() does. */
TEST(command_lines_that_cannot_be_meant)
{
    static const char config[] = "model: {name: mlp}\n";
    char path[600];
    snprintf(path, sizeof path, "%s/small.yaml", test_scratch());
    REQUIRE_OK(fs_write_atomic(path, config, strlen(config)));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[WORDS_MAX][600], *args[WORDS_MAX + 1];
        int count = 0;
        for (; rows[i].words[count]; count++) {
            const char *word = rows[i].words[count];
            snprintf(text[count], sizeof text[count], "%s",
                     strcmp(word, "CONFIG") == 0 ? path : word);
            args[count] = text[count];
        }
        args[count] = NULL;
        CHECK_STATUS(commands_run(&cmd_launch, count, args), ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].says);
    }
}
