/* test_report_text.c - pages and tables about runs of networks that read text. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/app/report/collect.h"
#include "trainer/app/report/report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 8 };
/* READS_FEW: masked words, of which every third step has none. */
typedef enum Reads { READS_IMAGES, READS_CLASSES, READS_MASKED, READS_FEW } Reads;

static void add_step(StrBuf *b, Reads reads, int world, int s)
{
    const bool unmasked = reads == READS_FEW && s % 3 == 0;
    char loss[32] = "null", ppl[32] = "null";
    if (!unmasked) {
        snprintf(loss, sizeof loss, "%g", 7 - 0.1 * s);
        snprintf(ppl, sizeof ppl, "%g", exp(7 - 0.1 * s));
    }
    str_printf(b,
               "{\"event\":\"step\",\"time\":%d,\"epoch\":%d,\"step\":%d,\"epochs\":%g,"
               "\"loss\":%s,\"lr\":0.1,\"%s\":%d,\"step_ms\":1000,\"data_wait_ms\":1,"
               "\"comm_wait_ms\":1",
               1000 + s, (s - 1) / 2, s, 0.5 * s, loss, reads ? "sequences_per_s" : "images_per_s",
               50 * world);
    if (reads) str_printf(b, ",\"tokens_per_s\":%d", 6400 * world);
    if (reads >= READS_MASKED)
        str_printf(b, ",\"masked\":%s,\"ppl\":%s", unmasked ? "0" : "0.15", ppl);
    str_add(b, "}\n");
    if (s % 2) return;
    str_printf(b,
               "{\"event\":\"epoch\",\"time\":%d,\"epoch\":%d,\"seconds\":%g,\"%s\":100,"
               "\"steps\":2,\"energy_j\":200}\n",
               1000 + s, s / 2 - 1, 2.0 / world, reads ? "sequences" : "images");
}

/* The least loss is that of the second evaluation, the most words found that of the third. */
static void add_eval(StrBuf *b, Reads reads, int k)
{
    static const double loss[] = { 3, 2, 2.5 }, top1[] = { 0.1, 0.2, 0.3 };
    str_printf(b,
               "{\"event\":\"eval\",\"time\":%d,\"epoch\":%d,\"step\":%d,\"epochs\":%d,\"%s\":10,"
               "\"loss\":%g,\"top1\":%g,\"top5\":0.9",
               1002 + 2 * k, k, 2 + 2 * k, k + 1, reads ? "sequences" : "images", loss[k], top1[k]);
    if (reads) str_add(b, ",\"tokens\":1280");
    if (reads >= READS_MASKED) str_printf(b, ",\"masked\":0.15,\"ppl\":%g", exp(loss[k]));
    str_printf(b,
               "}\n{\"event\":\"spent\",\"time\":%d,\"part\":\"evaluation\",\"step\":%d,"
               "\"host_seconds\":1,\"gpu_j\":1,\"total_host_seconds\":1}\n",
               1002 + 2 * k, 2 + 2 * k);
}

/* A run folder under the scratch folder. */
static void write_run(const char *name, Reads reads, int world)
{
    char path[1200];
    StrBuf b = { 0 };
    str_printf(&b,
               "{\"event\":\"start\",\"time\":1000,\"model\":\"m\",\"world\":%d,\"hosts\":1,"
               "\"%s\":100,\"%s\":10,\"classes\":%d,\"global_batch\":50,\"steps\":8",
               world, reads ? "sequences" : "images", reads ? "val_sequences" : "val_images",
               reads >= READS_MASKED ? 500 : 3);
    if (reads) str_add(&b, ",\"tokens\":128");
    if (reads >= READS_MASKED) str_add(&b, ",\"words\":500");
    str_add(&b, "}\n");
    for (int s = 1; s <= STEPS; s++) {
        add_step(&b, reads, world, s);
        if (s % 2 == 0 && s < STEPS) add_eval(&b, reads, s / 2 - 1);
    }
    str_printf(&b,
               "{\"event\":\"spent\",\"time\":1009,\"part\":\"train\",\"step\":8,\"%s\":400,"
               "\"host_seconds\":8,\"gpu_j\":800,\"total_host_seconds\":8}\n",
               reads ? "sequences" : "images");
    snprintf(path, sizeof path, "%s/%s", test_scratch(), name);
    REQUIRE_OK(fs_make_dirs(path));
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", test_scratch(), name);
    REQUIRE_OK(fs_write_atomic(path, b.text, b.length));
    snprintf(path, sizeof path, "%s/%s/config.yaml", test_scratch(), name);
    REQUIRE_OK(fs_write_atomic(path, "", 0));
    str_free(&b);
}

typedef struct Files { /* of a report; mem_free */
    char *page, *records, *scaling;
} Files;

static char *read_beside(const char *suffix)
{
    char path[1200];
    uint8_t *bytes = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/page%s", test_scratch(), suffix);
    if (fs_exists(path)) CHECK_OK(fs_read_file(path, &bytes, &size));
    return (char *)bytes;
}

static Files report_of(const char *const *names, int count)
{
    char dirs[4][600], out[1200];
    const char *inputs[4];
    for (int i = 0; i < count; i++) {
        snprintf(dirs[i], sizeof dirs[i], "%s/%s", test_scratch(), names[i]);
        inputs[i] = dirs[i];
    }
    snprintf(out, sizeof out, "%s/page.html", test_scratch());
    CHECK_OK(report_write(out, inputs, count));
    return (Files){ read_beside(".html"), read_beside(".csv"), read_beside(".scaling.csv") };
}

static void free_files(Files *f)
{
    mem_free(f->page);
    mem_free(f->records);
    mem_free(f->scaling);
}

TEST(a_page_about_masked_words)
{
    static const char *const parts[] = { "last val loss",
                                         "best val loss",
                                         "<th>tokens/s",
                                         "planned: steps of the whole run. tokens/s: ",
                                         "Training perplexity",
                                         "loss in nats",
                                         "Evaluation: perplexity",
                                         "Evaluation: words found",
                                         "% of the masked words",
                                         "tokens/s over all ranks",
                                         "J/sequence",
                                         "Target: loss of 2.0000, ",
                                         ">6400.0<",
                                         ">2.5000<",
                                         ">2.0000<" };
    write_run("a", READS_MASKED, 1);
    Files f = report_of((const char *const[]){ "a" }, 1);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) CHECK_CONTAINS(f.page, parts[i]);
    CHECK(!strstr(f.page, "top-1") && !strstr(f.page, "images"));
    CHECK_CONTAINS(f.records, "run,event,epoch,step,loss,lr,sequences_per_s,step_ms,data_wait_ms,"
                              "comm_wait_ms,grad_norm,top1,top5,seconds,sequences,tokens_per_s,"
                              "masked,ppl\n");
    CHECK_CONTAINS(f.records, "a,step,0,1,6.9,0.1,50,1000,1,1,,,,,,6400,0.15,992.27");
    CHECK_CONTAINS(f.records, "a,eval,1,4,2,,,,,,,0.2,0.9,,10,,0.15,7.389");
    free_files(&f);
}

TEST(steps_without_masked_words_are_gaps)
{
    write_run("a", READS_FEW, 1);
    Files f = report_of((const char *const[]){ "a" }, 1);
    CHECK_CONTAINS(f.records, "a,step,1,3,,0.1,50,1000,1,1,,,,,,6400,0,\n");
    CHECK(!strstr(f.page, "not a finite number"));
    free_files(&f);
}

TEST(a_page_about_classified_sentences)
{
    write_run("a", READS_CLASSES, 1);
    Files f = report_of((const char *const[]){ "a" }, 1);
    CHECK_CONTAINS(f.page, "best top-1 %");
    CHECK_CONTAINS(f.page, "% of the sequences");
    CHECK_CONTAINS(f.page, "tokens/s over all ranks");
    CHECK_CONTAINS(f.page, "Target: top-1 of 30.00 %, ");
    CHECK(!strstr(f.page, "erplexity") && !strstr(f.page, "images"));
    free_files(&f);
}

TEST(a_page_about_images_is_as_it_was)
{
    write_run("a", READS_IMAGES, 1);
    Files f = report_of((const char *const[]){ "a" }, 1);
    CHECK_CONTAINS(f.page, "planned: steps of the whole run. images/s: median");
    CHECK_CONTAINS(f.page, "J/image");
    CHECK(!strstr(f.page, "tokens") && !strstr(f.page, "equences"));
    CHECK(!strstr(f.page, "in nats") && !strstr(f.page, "erplexity"));
    CHECK_CONTAINS(f.records, ",top1,top5,seconds,images\n");
    free_files(&f);
}

/* Of both kinds there is no common target, and each curve is of its own kind. */
TEST(runs_on_images_and_on_text_share_a_page)
{
    write_run("a", READS_IMAGES, 1);
    write_run("b", READS_MASKED, 1);
    Files f = report_of((const char *const[]){ "a", "b" }, 2);
    CHECK_CONTAINS(f.page, "planned: steps of the whole run. samples/s: median");
    CHECK_CONTAINS(f.page, "images/s over all ranks");
    CHECK_CONTAINS(f.page, "tokens/s over all ranks");
    CHECK_CONTAINS(f.page, "best top-1 %");
    CHECK(!strstr(f.page, "Target: "));
    free_files(&f);
}

TEST(scaling_is_told_in_tokens)
{
    write_run("n1", READS_MASKED, 1);
    write_run("n2", READS_MASKED, 2);
    Files f = report_of((const char *const[]){ "n1", "n2" }, 2);
    CHECK_CONTAINS(f.page, "tokens/s/rank");
    CHECK_CONTAINS(f.page, "Time to train on the 100 sequences of an epoch; ");
    CHECK(!strstr(f.page, "images"));
    REQUIRE(f.scaling != NULL);
    CHECK_CONTAINS(f.scaling, "epoch_half_s,sequences_per_s,speedup,");
    CHECK_CONTAINS(f.scaling, ",joules_per_sequence,epoch_cost,tokens_per_s\n");
    CHECK_CONTAINS(f.scaling, ",6400\n");
    CHECK_CONTAINS(f.scaling, ",12800\n");
    free_files(&f);
}

TEST(the_best_of_masked_words_has_the_least_loss)
{
    char dir[600];
    const char *inputs[] = { dir };
    RunSet set;
    write_run("a", READS_MASKED, 1);
    snprintf(dir, sizeof dir, "%s/a", test_scratch());
    REQUIRE_OK(collect_runs(&set, inputs, 1));
    const EvalRecord *best = report_run_best(&set.runs[0]);
    REQUIRE(best != NULL);
    CHECK_INT(best->step, 4);
    CHECK(report_run_all_masked(set.runs, 1) && report_run_units(set.runs, 1) == &units_text);
    CHECK_INT(set.runs[0].trained_images, 400);
    collect_free(&set);
}
