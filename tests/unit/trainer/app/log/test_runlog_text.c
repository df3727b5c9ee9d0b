/* test_runlog_text.c - what a run of a network that reads text prints and records. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/log/run_listener.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file of the folder under the scratch folder; mem_free. */
static char *file_of(const char *dir, const char *name)
{
    char path[1200];
    uint8_t *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s/%s", test_scratch(), dir, name);
    CHECK_OK(fs_read_file(path, &text, &bytes));
    return (char *)text;
}

/* Two steps, an epoch and an evaluation: masks: of masked words; else of a classification. */
static void write_run(const char *dir, bool masks)
{
    char set[1200];
    const char *const sets[] = { set, "log.file=steps.txt" };
    Config *c = NULL;
    Comm *comm = NULL;
    RunListener l = { 0 };
    RunEvents events;
    snprintf(set, sizeof set, "run.dir=%s/%s", test_scratch(), dir);
    REQUIRE_OK(config_load(&c, NULL, sets, 2));
    REQUIRE_OK(comm_self_create(&comm));
    REQUIRE_OK(runlog_open(&l.log, c->run.dir, 0, c));
    l.comm = comm;
    l.config = c;
    events = run_listener_events(&l);
    const StartRecord start = { .model = "roberta_base",
                                .dataset = "d",
                                .backend = "b",
                                .host = "h",
                                .version = "v",
                                .device = "cpu",
                                .device_reason = "",
                                .precision = "fp32",
                                .world = 1,
                                .hosts = 1,
                                .images = 1000,
                                .val_images = 100,
                                .classes = masks ? 50265 : 3,
                                .parameters = 124696665,
                                .global_batch = 32,
                                .steps = 2,
                                .epochs = 0.064,
                                .peak_tflops = 1,
                                .peak_source = "p",
                                .image_gflops = 2,
                                .text = true,
                                .masks = masks,
                                .tokens = 512,
                                .words = 50265 };
    CHECK_OK(events.start(&l, &start, NULL));
    CHECK_OK(events.begin(&l, false, 0));
    for (int i = 1; i <= 2; i++)
        CHECK_OK(events.record(&l, RECORD_STEP,
                               &(StepRecord){ .step = i,
                                              .loss = 6.412,
                                              .lr = 0.0005,
                                              .images_per_s = 32,
                                              .step_ms = 1000,
                                              .images = 32,
                                              .recorded = true,
                                              .text = true,
                                              .masks = masks,
                                              .tokens = 12340,
                                              .tokens_per_s = 12340,
                                              .masked = 0.15,
                                              .ppl = exp(6.412) }));
    CHECK_OK(events.record(&l, RECORD_EPOCH,
                           &(EpochRecord){ .seconds = 2,
                                           .images = 64,
                                           .steps = 2,
                                           .images_per_s = 32,
                                           .text = true,
                                           .tokens = 24680,
                                           .tokens_per_s = 12340,
                                           .has_energy = true,
                                           .energy_j = 64,
                                           .joules_per_image = 1,
                                           .energy_source = "e" }));
    CHECK_OK(events.record(&l, RECORD_EVAL,
                           &(EvalRecord){ .step = 2,
                                          .images = 100,
                                          .classes = masks ? 50265 : 3,
                                          .loss = 2.1,
                                          .top1 = 0.25,
                                          .top5 = 0.5,
                                          .text = true,
                                          .masks = masks,
                                          .tokens = 51200,
                                          .masked = 0.15,
                                          .ppl = exp(2.1),
                                          .has_ema = true,
                                          .ema_loss = 2,
                                          .ema_top1 = 0.5 }));
    events.end(&l);
    runlog_close(l.log);
    config_destroy(c);
    comm_destroy(comm);
}

TEST(masked_words_are_told_in_tokens)
{
    write_run("masked", true);
    char *log = file_of("masked", "log.txt"), *metrics = file_of("masked", "metrics.jsonl"),
         *steps = file_of("masked", "steps.txt");
    CHECK_CONTAINS(log, "roberta_base (125 M parameters): 1000 sequences of at most 512 tokens, "
                        "50265 words, 100 for validation\n");
    CHECK_CONTAINS(steps, "epoch 1 step 1 loss 6.412 ppl 609.11 lr 0.0005 12340.0 tokens/s, ");
    CHECK_CONTAINS(log, "epoch 1 done: 64 sequences (24680 tokens) in 2.0 s, 12340.0 tokens/s\n");
    CHECK_CONTAINS(log, "0.064 kJ, 1 J/sequence, ");
    CHECK_CONTAINS(log, "epoch 1 step 2 eval: loss 2.1000, ppl 8.1662, 25.00 % of the masked words "
                        "found, 100 sequences, 51200 tokens, 15.0 % masked\n");
    CHECK_CONTAINS(log, "eval of averaged weights: loss 2.0000, ppl 7.3891, 50.00 % of the masked "
                        "words found\n");
    CHECK(!strstr(log, "image") && !strstr(metrics, "image"));
    CHECK_CONTAINS(metrics, "\"sequences\":1000,\"val_sequences\":100,\"classes\":50265,");
    CHECK_CONTAINS(metrics, "\"sequence_gflops\":2,");
    CHECK_CONTAINS(metrics, "\"tokens\":512,\"words\":50265}");
    CHECK_CONTAINS(metrics, "\"sequences_per_s\":32,");
    CHECK_CONTAINS(metrics, "\"tokens_per_s\":12340,\"masked\":0.15,\"ppl\":609.1");
    CHECK_CONTAINS(metrics, "\"tokens\":24680,\"tokens_per_s\":12340,");
    CHECK_CONTAINS(metrics, "\"joules_per_sequence\":1,");
    CHECK_CONTAINS(metrics, "\"tokens\":51200,\"masked\":0.15,\"ppl\":8.166");
    mem_free(log);
    mem_free(steps);
    mem_free(metrics);
}

TEST(sentences_are_classified_as_images_are)
{
    write_run("classes", false);
    char *log = file_of("classes", "log.txt"), *metrics = file_of("classes", "metrics.jsonl"),
         *steps = file_of("classes", "steps.txt");
    CHECK_CONTAINS(log, "1000 sequences of at most 512 tokens, 3 classes, 100 for validation\n");
    CHECK_CONTAINS(steps, "step 1 loss 6.412 lr 0.0005 12340.0 tokens/s, ");
    CHECK_CONTAINS(log, "eval on 100 sequences: loss 2.1000, top-1 25.00 %\n");
    CHECK_CONTAINS(metrics, "\"tokens_per_s\":12340}");
    CHECK(!strstr(steps, "ppl") && !strstr(metrics, "ppl") && !strstr(metrics, "words"));
    CHECK(!strstr(metrics, "masked") && !strstr(metrics, "image"));
    mem_free(log);
    mem_free(steps);
    mem_free(metrics);
}

/* What the line that says how far a run is looks like. */
static void read_progress(const StepRecord *s, char out[256])
{
    char path[1200];
    RunLog *r = NULL;
    snprintf(path, sizeof path, "%s/stdout", test_scratch());
    REQUIRE_OK(runlog_open(&r, NULL, 0, NULL));
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    REQUIRE(saved >= 0 && freopen(path, "w", stdout));
    runlog_progress(r, s, 10, 12);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    runlog_close(r);
    FILE *f = fopen(path, "r");
    REQUIRE(f != NULL);
    CHECK(fgets(out, 256, f) != NULL);
    fclose(f);
}

TEST(progress_is_told_in_tokens)
{
    char line[256] = "";
    StepRecord s = { .step = 3, .loss = 6.412, .lr = 0.1, .images_per_s = 8, .ppl = 609.11 };
    read_progress(&s, line);
    CHECK_STR(line, "epoch 1 step 3/10 loss 6.4120 lr 0.1 8.0 images/s, 12 s left\n");
    s.text = s.masks = true;
    s.tokens_per_s = 12340;
    s.masked = 0.15;
    read_progress(&s, line);
    CHECK_STR(line,
              "epoch 1 step 3/10 loss 6.4120 ppl 609.11 lr 0.1 12340.0 tokens/s, 12 s left\n");
    s.masked = 0;
    s.loss = (double)NAN;
    read_progress(&s, line);
    CHECK_CONTAINS(line, "loss nan (no masked word) lr 0.1 ");
}
