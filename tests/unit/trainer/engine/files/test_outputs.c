/* test_outputs.c - files to be written are none that are read, none of each other, and none that a
 * run keeps of itself, whatever links lead there. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/cmd/args.h"
#include "trainer/engine/files/outputs.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A path in the scratch folder; eight may be in use at a time. */
static const char *in_scratch(const char *name)
{
    static char paths[8][1200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_scratch(), name);
    return path;
}

static void make_file(const char *name)
{
    CHECK_OK(fs_write_atomic(in_scratch(name), "x", 1));
}

/* The run folder run, config.yaml and log.txt there under other names too, a list and a picture. */
static void make_run(void)
{
    REQUIRE_OK(fs_make_dirs(in_scratch("run/checkpoints")));
    const char *const files[] = { "run/metrics.jsonl", "run/config.yaml",
                                  "run/log.txt",       "run/checkpoints/step-00000001.safetensors",
                                  "list.csv",          "picture.JPG" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) make_file(files[i]);
    CHECK(symlink("run", in_scratch("link")) == 0);
    CHECK(symlink("link/config.yaml", in_scratch("config.link")) == 0);
    CHECK(symlink("run/launch.jsonl", in_scratch("not_yet")) == 0);
    CHECK(link(in_scratch("run/log.txt"), in_scratch("hard")) == 0);
}

/* As a file of that run; NULL: of none. */
static Status check_one(const char *name, const char *run)
{
    Outputs o = { .run_dir = run ? in_scratch(run) : NULL };
    outputs_add_written(&o, "log.file", in_scratch(name));
    return outputs_check(&o);
}

static Status check_read(const char *run, const char *name)
{
    Outputs o = { .run_dir = run ? in_scratch(run) : NULL };
    outputs_add_read(&o, "data.class_map", in_scratch(name));
    return outputs_check(&o);
}

TEST(places_are_told_whatever_leads_there)
{
    static const char *const same[] = { "a/b/c", "./a//b/../b/c", "link/c", "to_c", "link/../b/c" };
    REQUIRE_OK(fs_make_dirs(in_scratch("a/b")));
    CHECK(symlink("a/b", in_scratch("link")) == 0 && symlink("link/c", in_scratch("to_c")) == 0);
    CHECK(symlink("round", in_scratch("round")) == 0);
    char *want = fs_place(in_scratch("a/b/c")); /* which is not there */
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *got = fs_place(in_scratch(same[i]));
        CHECK_STR(got, want);
        mem_free(got);
    }
    CHECK(chdir(in_scratch("a")) == 0);
    char *got = fs_place("b/c"), *round = fs_place(in_scratch("round/x")), *root = fs_place("/..");
    CHECK_STR(got, want);
    CHECK(round != NULL);
    CHECK_STR(root, "/");
    mem_free(root);
    mem_free(round);
    mem_free(got);
    mem_free(want);
}

TEST(a_run_keeps_its_own_files)
{
    static const char *const own[] = {
        "run/metrics.jsonl", "run/./config.yaml",      "link/log.txt",    "config.link",
        "not_yet",           "run/checkpoints/latest", "run/checkpoints", "run/config-12.yaml",
        "run/hang-0.json",   "run/tensorboard/x",      "run/x/../stop",   "run/launch.status.json",
        "run/trace-0.json",  "link/launch.stop",
    };
    static const char *const others[] = { "run/ranks/0.log",     "run/report.html", "run/best.onnx",
                                          "run/checkpoints.txt", "metrics.jsonl",   "new/log.txt" };
    make_run();
    const char *const runs[] = { NULL, "./run/../run", "another" };
    for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
            CHECK_STATUS(check_one(own[i], runs[run]), ERR_USAGE);
            CHECK_CONTAINS(status_message(), "log.file: ");
            CHECK_CONTAINS(status_message(), "belongs to the run");
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            CHECK_OK(check_one(others[i], runs[run]));
    }
    CHECK_STATUS(check_one("hard", "run"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "(log.txt)");
}

TEST(what_is_read_or_written_already_is_no_output)
{
    Outputs o = { .run_dir = in_scratch("run") };
    make_run();
    outputs_add_written(&o, "monitor.emf", "-");
    outputs_add_written(&o, "monitor.prometheus", "");
    outputs_add_written(&o, "--gallery", "/dev/stdout");
    outputs_add_written(&o, "--per-class", "/dev/stdout");
    outputs_add_written(&o, "--csv", in_scratch("x.csv"));
    outputs_add_read(&o, "data.train", in_scratch("list.csv"));
    CHECK_OK(outputs_check(&o));
    outputs_add_written(&o, "--confusion", in_scratch("run/../x.csv"));
    CHECK_STATUS(outputs_check(&o), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--confusion: ");
    CHECK_CONTAINS(status_message(), "is also written by --csv");
    o.written_count = 0;
    outputs_add_written(&o, "--csv", in_scratch("link/../list.csv"));
    CHECK_STATUS(outputs_check(&o), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "is also read (data.train)");
    Config *c = NULL;
    const char *sets[1];
    char set[1300];
    static const char *const keys[] = { "data.train",          "data.val",   "data.class_map",
                                        "train.class_weights", "model.init", "train.teacher",
                                        "checkpoint.resume" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(set, sizeof set, "%s=%s", keys[i], in_scratch("list.csv"));
        sets[0] = set;
        REQUIRE_OK(config_load(&c, NULL, sets, 1));
        o = (Outputs){ .run_dir = in_scratch("run") };
        outputs_add_config(&o, c);
        outputs_add_written(&o, "--csv", in_scratch("list.csv"));
        CHECK_STATUS(outputs_check(&o), ERR_USAGE);
        snprintf(set, sizeof set, "is also read (%s)", keys[i]);
        CHECK_CONTAINS(status_message(), set);
        config_destroy(c);
    }
    CHECK_STATUS(check_one("picture.JPG", "run"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "contains images");
    REQUIRE_OK(fs_make_dirs(in_scratch("copied/checkpoints"))); /* without records */
    o = (Outputs){ .run_dir = in_scratch("run") };
    outputs_add_read(&o, "model.init", in_scratch("copied"));
    outputs_add_written(&o, "log.file", in_scratch("copied/log"));
    CHECK_OK(outputs_check(&o));
    outputs_add_written(&o, "monitor.emf", in_scratch("copied/checkpoints/x"));
    CHECK_STATUS(outputs_check(&o), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "belongs to the run (checkpoints/*)");
}

/* But for checkpoints and configurations, from which a run goes on. */
TEST(what_a_run_writes_is_no_input)
{
    static const char *const written[] = { "run/log.txt", "link/metrics.jsonl", "hard",
                                           "run/stop" };
    static const char *const others[] = { "run/config.yaml", "list.csv", "run", "new/log.txt",
                                          "run/checkpoints/step-00000001.safetensors" };
    make_run();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_OK(check_read("run", others[i]));
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        CHECK_OK(check_read(NULL, written[i]));
        CHECK_STATUS(check_read("run", written[i]), ERR_USAGE);
        CHECK_CONTAINS(status_message(), "data.class_map: ");
        CHECK_CONTAINS(status_message(), "which writes it");
    }
}

/* Of a folder of files with images, which is no folder of classes. */
TEST(files_of_images_stay_what_they_are)
{
    static const char *const of_set[] = { "test_batch.bin", "batches.meta.txt", "shard-00009.bin",
                                          "t10k-labels-idx1-ubyte", "train-00000-of-00002" };
    static const char *const others[] = { "train.index", "classes.csv", "runs/log.txt", "index" };
    REQUIRE_OK(fs_make_dirs(in_scratch("set")));
    REQUIRE(chdir(in_scratch("set")) == 0);
    const DatasetOptions set = { .path = "../set", .format = DATA_CIFAR };
    for (size_t i = 0; i < sizeof of_set / sizeof *of_set; i++) {
        char beside[64];
        snprintf(beside, sizeof beside, "../%s", of_set[i]);
        CHECK_STATUS(outputs_check_apart("log.file", of_set[i], "data.train", &set), ERR_USAGE);
        CHECK_CONTAINS(status_message(), "is named like a dataset file");
        CHECK_OK(outputs_check_apart("log.file", beside, "data.train", &set));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_OK(outputs_check_apart("log.file", others[i], "data.train", &set));
}

/* By what lies there, not by its name: /dev/shm is a disk. */
TEST(what_lies_below_dev_may_be_a_file)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/convoy-outputs-%d", (int)getpid());
    if (access("/dev/shm", W_OK) != 0) {
        test_skip("no /dev/shm to write to");
        return;
    }
    REQUIRE_OK(fs_write_atomic(path, "x", 1));
    Outputs o = { .written_count = 0 };
    outputs_add_written(&o, "--out", path);
    outputs_add_read(&o, "--checkpoint", path);
    const Status status = outputs_check(&o);
    unlink(path);
    CHECK_STATUS(status, ERR_USAGE);
    o.written_count = 0;
    outputs_add_written(&o, "--out", "/dev/null");
    outputs_add_written(&o, "--csv", "/dev/null");
    CHECK_OK(outputs_check(&o));
}

/* Of a line of at most so many words. */
enum { WORDS_MAX = 8, LINE_BYTES = 200 };
static Status parse(const char *line)
{
    static const ArgRow rows[] = { { "DIR", .help = NULL },
                                   { "OUT", .flags = ARG_WRITES },
                                   { "--out", "FILE", .flags = ARG_WRITES },
                                   { "--checkpoint", "FILE", .flags = ARG_READS },
                                   ARG_ROW_END };
    char text[LINE_BYTES], *argv[WORDS_MAX], *rest = text;
    Args args;
    int argc = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word; argc < WORDS_MAX && (word = strtok_r(rest, " ", &rest));) argv[argc++] = word;
    return args_parse(&args, argc, argv, rows);
}

/* Of a command line: OUT, an option, what else it names. */
TEST(arguments_that_name_files_to_write_are_looked_at)
{
    make_run();
    CHECK(chdir(test_scratch()) == 0);
    CHECK_OK(parse("list.csv shards --out a.html --checkpoint run"));
    CHECK_STATUS(parse("list.csv ./list.csv"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "OUT: ./list.csv is also read");
    CHECK_STATUS(parse("list.csv shards --out b --checkpoint=./b"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--out: b is also read (--checkpoint)");
    CHECK_STATUS(parse("list.csv run/checkpoints/x.safetensors"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "belongs to the run (checkpoints/*)");
}
