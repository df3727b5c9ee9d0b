/* test_monitor_text.c - the gauges and event files of a network that reads text. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/monitor/event_file.h"
#include "trainer/app/monitor/gauges.h"
#include "trainer/app/monitor/monitor.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void fill(Gauges *g, bool text)
{
    gauges_init(g);
    g->run = "r", g->model = "m", g->host = "h", g->version = "v", g->trains = true;
    g->text = text;
    g->recorded.recent_images_per_s = 32;
    g->recorded.recent_tokens_per_s = 12340;
    g->recorded.ppl = text ? 609.5 : (double)NAN;
    g->recorded.masked = text ? 0.15 : (double)NAN;
    g->images = 64;
    g->tokens = 24680;
    g->eval.loss = 2;
    g->eval.ppl = text ? 7.5 : (double)NAN;
    g->eval.top1 = 0.25;
}

TEST(gauges_count_tokens)
{
    static const char *const samples[] = {
        "sequences_per_second{run=\"r\"} 32", "tokens_per_second{run=\"r\"} 12340",
        "perplexity{run=\"r\"} 609.5",        "masked_ratio{run=\"r\"} 0.15",
        "sequences_total{run=\"r\"} 64",      "tokens_total{run=\"r\"} 24680",
        "eval_perplexity{run=\"r\"} 7.5",     "eval_top1_ratio{run=\"r\"} 0.25"
    };
    Gauges *g = mem_calloc(1, sizeof *g);
    StrBuf text = { 0 }, want = { 0 };
    REQUIRE(g != NULL);
    fill(g, true);
    gauges_add_prometheus(g, &text);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        str_clear(&want);
        str_printf(&want, "\nconvoy_%s\n", samples[i]);
        CHECK_CONTAINS(text.text, want.text);
    }
    CHECK(!strstr(text.text, "images") && !strstr(text.text, "Images"));
    str_clear(&text);
    gauges_add_emf(g, 1, &text);
    CHECK_CONTAINS(text.text, "\"sequences_per_s\":32,\"tokens_per_s\":12340,\"ppl\":609.5,");
    CHECK_CONTAINS(text.text, "\"eval_ppl\":7.5,\"eval_top1\":25");
    CHECK(!strstr(text.text, "image"));
    str_free(&want);
    str_free(&text);
    mem_free(g);
}

TEST(gauges_of_images_have_no_tokens)
{
    Gauges *g = mem_calloc(1, sizeof *g);
    StrBuf text = { 0 };
    REQUIRE(g != NULL);
    fill(g, false);
    gauges_add_prometheus(g, &text);
    gauges_add_emf(g, 1, &text);
    CHECK_CONTAINS(text.text, "\nconvoy_images_per_second{run=\"r\"} 32\n");
    CHECK_CONTAINS(text.text, "\nconvoy_images_total{run=\"r\"} 64\n");
    CHECK(!strstr(text.text, "token") && !strstr(text.text, "equence"));
    CHECK(!strstr(text.text, "ppl") && !strstr(text.text, "perplexity"));
    str_free(&text);
    mem_free(g);
}

/* Bytes of the only event file hold the tag, behind its length. */
static bool has_tag(const uint8_t *bytes, size_t size, const char *tag)
{
    char field[64];
    const size_t n = strlen(tag);
    snprintf(field, sizeof field, "%c%s", (char)n, tag);
    return memmem(bytes, size, field, n + 1) != NULL;
}

TEST(event_files_have_tokens_and_perplexity)
{
    static const char *const tags[] = { "train/loss",         "train/sequences_per_s",
                                        "train/tokens_per_s", "train/ppl",
                                        "eval/loss",          "eval/ppl" };
    char run_dir[1200], *dir = fs_join(test_scratch(), "tensorboard"), **names = NULL;
    const char *const sets[] = { "monitor.tensorboard=true", "monitor.gpu=off", run_dir };
    Config *c = NULL;
    Comm *comm = NULL;
    Monitor *m = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int64_t count = 0;
    REQUIRE_OK(comm_self_create(&comm));
    snprintf(run_dir, sizeof run_dir, "run.dir=%s", test_scratch());
    REQUIRE_OK(config_load(&c, NULL, sets, 3));
    REQUIRE_OK(monitor_create(&m, c, comm, false));
    REQUIRE(m != NULL);
    CHECK_OK(monitor_begin(m, false, 0));
    monitor_step(m, &(StepRecord){ .step = 1,
                                   .measured = true,
                                   .recorded = true,
                                   .recent_mfu = 0.5,
                                   .text = true,
                                   .masks = true,
                                   .masked = 0.15,
                                   .ppl = 3 });
    monitor_eval(m, &(EvalRecord){ .step = 1, .loss = 2, .text = true, .masks = true, .ppl = 8 });
    monitor_destroy(m);
    REQUIRE_OK(fs_list(dir, &names, &count));
    REQUIRE(count == 1);
    char *path = fs_join(dir, names[0]);
    REQUIRE_OK(fs_read_file(path, &bytes, &size));
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) CHECK(has_tag(bytes, size, tags[i]));
    CHECK(!has_tag(bytes, size, "train/images_per_s"));
    mem_free(bytes);
    mem_free(path);
    mem_free(names);
    mem_free(dir);
    config_destroy(c);
    comm_destroy(comm);
}
