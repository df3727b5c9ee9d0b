/* test_train.c - whole runs in this process, of a network so small that they take no time: what
 * follows a checkpoint is what would have come. */
#include "base/fs.h"
#include "tests/test.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/report/report_run.h"
#include <stdio.h>
#include <string.h>

enum { STEPS = 10, PATH_BYTES = 600, SET_BYTES = 700 };

/* Two epochs of five steps, each with another learning rate. */
static const char config[] = "model:\n"
                             "  name: mlp\n"
                             "  in_channels: 1\n"
                             "  classes: 7\n"
                             "data:\n"
                             "  format: synthetic\n"
                             "  val: generated\n"
                             "  synthetic_images: 40\n"
                             "  image_size: 8\n"
                             "  mean: [0.5]\n"
                             "  std: [0.25]\n"
                             "  threads: 1\n"
                             "train:\n"
                             "  epochs: 2\n"
                             "  batch_per_rank: 8\n"
                             "optimizer:\n"
                             "  name: adamw\n"
                             "  lr: 0.01\n"
                             "schedule:\n"
                             "  warmup_epochs: 1\n"
                             "checkpoint:\n"
                             "  every_steps: 1\n"
                             "  keep: 10\n"
                             "log:\n"
                             "  every: 1\n"
                             "device:\n"
                             "  backend: cpu\n"
                             "  threads: 1\n";

static void in_scratch(char out[PATH_BYTES], const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s", test_scratch(), name);
}

/* convoy train into the folder NAME of the scratch folder, which is read back: report_run_free. */
static void train(ReportRun *out, const char *name, const char *set)
{
    char path[PATH_BYTES], dir[PATH_BYTES], run_dir[SET_BYTES], more[SET_BYTES];
    char *args[] = { path, run_dir, more };
    *out = (ReportRun){ 0 };
    in_scratch(path, "small.yaml");
    in_scratch(dir, name);
    snprintf(run_dir, sizeof run_dir, "run.dir=%s", dir);
    snprintf(more, sizeof more, "%s", set);
    REQUIRE_OK(fs_write_atomic(path, config, strlen(config)));
    REQUIRE_OK(commands_run(&cmd_train, 3, args));
    REQUIRE_OK(report_run_read(out, dir, name));
    CHECK(out->done && out->code == 0 && out->broken_lines == 0);
}

/* Each step of part is that of whole, to the last bit, from the one behind `first` on. */
static void check_steps(const ReportRun *part, const ReportRun *whole, int first)
{
    REQUIRE(whole->step_count == STEPS && part->step_count == STEPS - first);
    for (int i = 0; i < part->step_count; i++) {
        const StepRecord *a = &part->steps[i], *b = &whole->steps[first + i];
        CHECK_INT(a->step, first + i + 1);
        CHECK_INT(a->epoch, b->epoch);
        CHECK_NEAR(a->lr, b->lr, 0);
        CHECK_NEAR(a->loss, b->loss, 0);
    }
    REQUIRE(whole->eval_count == 2 && part->eval_count == (first < STEPS / 2 ? 2 : 1));
    const EvalRecord *a = &part->evals[part->eval_count - 1], *b = &whole->evals[1];
    CHECK_INT(a->step, STEPS);
    CHECK_NEAR(a->loss, b->loss, 0);
    CHECK_NEAR(a->top1, b->top1, 0);
}

TEST(a_run_goes_on_behind_its_checkpoint)
{
    ReportRun whole, part;
    char path[PATH_BYTES], name[64], set[SET_BYTES];
    train(&whole, "whole", "log.every=1");
    for (int first = 1; first < STEPS; first += 4) {
        snprintf(name, sizeof name, "whole/checkpoints/step-%08d.safetensors", first);
        in_scratch(path, name);
        snprintf(set, sizeof set, "checkpoint.resume=%s", path);
        snprintf(name, sizeof name, "from-%d", first);
        train(&part, name, set);
        CHECK_INT(part.resumes, 1);
        check_steps(&part, &whole, first);
        report_run_free(&part);
    }
    report_run_free(&whole);
}
