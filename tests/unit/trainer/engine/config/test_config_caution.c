/* Warnings about what a configuration says, but hardly means. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernels/ops/update.h"
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1200, SETS_MAX = 4 };

/* What config_warn() says of the file's text and sets into *out; mem_free. */
static void warnings(char **out, const char *text, const char *const *sets, bool resumed)
{
    char file[PATH_BYTES], path[PATH_BYTES];
    Config *c = NULL;
    uint8_t *said = NULL;
    size_t bytes = 0;
    int count = 0;
    while (sets[count]) count++;
    snprintf(file, sizeof file, "%s/t.yaml", test_scratch());
    snprintf(path, sizeof path, "%s/log", test_scratch());
    REQUIRE_OK(fs_write_atomic(file, text, strlen(text)));
    REQUIRE_OK(config_load(&c, file, sets, count));
    remove(path);
    REQUIRE_OK(log_open(path, 1, LOG_INFO));
    config_warn(c, resumed);
    log_close();
    REQUIRE_OK(fs_read_file(path, &said, &bytes));
    config_destroy(c);
    *out = (char *)said;
}

TEST(cautions)
{
    static const struct {
        const char *text, *sets[SETS_MAX], *said[2];
    } rows[] = {
        { "optimizer: {momentum: 0.8}\n", { NULL }, { NULL } },
        { "optimizer: {name: lion, lr: 1e-4, momentum: 0.8, betas: [0.9, 0.95]}\n",
          { NULL },
          { "optimizer.momentum is ignored: lion does not use it (optimizer.name)" } },
        /* a file may say what is so anyway */
        { "optimizer: {name: adamw, lr: 1e-3, momentum: 0.9, eps: auto}\n", { NULL }, { NULL } },
        { "optimizer: {momentum: 0.9}\n",
          { "optimizer.name=adamw", "optimizer.lr=0.01", "optimizer.momentum=0.9" },
          { "optimizer.momentum is ignored: adamw does not use it" } },
        { "optimizer: {alpha: 0.5}\n",
          { "optimizer.betas=0.8,0.9" },
          { "optimizer.betas is ignored: sgd", "optimizer.alpha is ignored: sgd" } },
        { "optimizer: {name: adam}\n",
          { NULL },
          { "optimizer.lr is 0.1, a learning rate for sgd; adam rarely takes more than 0.01" } },
        { "train: {global_batch: 64}\n",
          { NULL },
          { "train.global_batch is ignored: train.batch_mode is per_rank; set it to global" } },
        { "train: {global_batch: 64, batch_mode: global}\n", { NULL }, { NULL } },
        { "optimizer: {head_lr: 10}\n",
          { NULL },
          { "optimizer.head_lr is 10, but no weights are loaded (model.init)" } },
        { "optimizer: {head_lr: 10}\n", { "model.init=w.safetensors" }, { NULL } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *said = NULL;
        warnings(&said, rows[i].text, rows[i].sets, false);
        int lines = 0, wanted = 0;
        for (const char *p = said; (p = strchr(p, '\n')); p++) lines++;
        for (; wanted < 2 && rows[i].said[wanted]; wanted++)
            CHECK_CONTAINS(said, rows[i].said[wanted]);
        CHECK_INT(lines, wanted);
        mem_free(said);
    }
    char *said = NULL; /* its layers are not new any more */
    warnings(&said, "optimizer: {head_lr: 10}\n", (const char *const[]){ NULL }, true);
    CHECK_STR(said, "");
    mem_free(said);
}

/* The table of readers follows that of optimizers: a momentum and betas are what states are of;
 * Muon has both. */
TEST(cautions_follow_the_optimizers)
{
    for (int kind = 0; kind < UPDATE_KIND_COUNT; kind++) {
        const UpdateTraits *t = update_traits((UpdateKind)kind);
        char name[64], *said = NULL, *of_betas = NULL;
        const char *const sets[] = { name, "optimizer.lr=0.001", "optimizer.momentum=0.7", NULL };
        const char *const betas[] = { name, "optimizer.lr=0.001", "optimizer.betas=0.7,0.8", NULL };
        snprintf(name, sizeof name, "optimizer.name=%s", t->name);
        warnings(&said, "{}\n", sets, false);
        warnings(&of_betas, "{}\n", betas, false);
        CHECK_INT(said[0] == '\0', strcmp(t->state_names[0], "momentum") == 0 || t->orthogonal);
        CHECK_INT(of_betas[0] == '\0', strcmp(t->state_names[0], "exp_avg") == 0);
        mem_free(said);
        mem_free(of_betas);
    }
}

/* The config.yaml of a run holds every key, whoever gave it. */
TEST(a_run_that_goes_on_is_warned_of_new_keys_alone)
{
    char folder[PATH_BYTES], path[PATH_BYTES + 16];
    static const char text[] = "optimizer: {name: lion, lr: 1e-4, momentum: 0.8}\n";
    Config *c = NULL;
    snprintf(folder, sizeof folder, "%s/run", test_scratch());
    REQUIRE_OK(fs_make_dirs(folder));
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    REQUIRE_OK(fs_write_atomic(path, text, strlen(text)));
    REQUIRE_OK(config_load(&c, folder, NULL, 0));
    CHECK_INT(c->unread, 0);
    config_destroy(c);
    REQUIRE_OK(config_load(&c, folder, (const char *const[]){ "optimizer.alpha=0.5" }, 1));
    CHECK(c->unread != 0);
    config_destroy(c);
}
