/* test_runlog.c - the run folder and metrics.jsonl, read back with our own JSON reader. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/log/runlog.h"
#include "trainer/engine/train/input_report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES_MAX 32

typedef struct Lines {
    Arena *arena;
    JsonValue *line[LINES_MAX]; /* NULL where a line is no JSON */
    int count;
} Lines;

static void in_scratch(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", test_scratch(), name);
}

/* Reads metrics.jsonl of the run folder dir under the scratch folder. */
static void read_lines(Lines *l, const char *dir)
{
    char path[512], name[128];
    uint8_t *text = NULL;
    size_t bytes = 0;
    memset(l, 0, sizeof *l);
    snprintf(name, sizeof name, "%s/metrics.jsonl", dir);
    in_scratch(path, name);
    REQUIRE_OK(arena_create(&l->arena, 0));
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK(bytes > 0 && text[bytes - 1] == '\n');
    for (char *p = (char *)text, *end; p < (char *)text + bytes; p = end + 1) {
        end = strchr(p, '\n');
        REQUIRE(end != NULL && l->count < LINES_MAX);
        if (json_parse(l->arena, p, (size_t)(end - p), &l->line[l->count]) != OK)
            l->line[l->count] = NULL;
        l->count++;
    }
    mem_free(text);
}

static void check_event(const Lines *l, int index, const char *event)
{
    REQUIRE(index < l->count);
    const JsonValue *v = json_get(l->line[index], "event");
    REQUIRE(v != NULL && v->type == JSON_STRING);
    CHECK_STR(v->string, event);
    CHECK(json_get(l->line[index], "time") != NULL);
}

static double number(const Lines *l, int index, const char *key)
{
    const JsonValue *v = index < l->count ? json_get(l->line[index], key) : NULL;
    return v && v->type == JSON_NUMBER ? v->number : (double)NAN;
}

static const char *string(const Lines *l, int index, const char *key)
{
    const JsonValue *v = index < l->count ? json_get(l->line[index], key) : NULL;
    return v && v->type == JSON_STRING ? v->string : "none";
}

static Config *some_config(void)
{
    Config *c = NULL;
    CHECK_OK(config_load(&c, NULL, NULL, 0));
    return c;
}

/* Every number of the records that write_all_events() writes. */
static const struct {
    int line;
    const char *key;
    double value;
} numbers[] = {
    { 0, "world", 2 },
    { 0, "images", 50000 },
    { 0, "val_images", 10000 },
    { 0, "classes", 10 },
    { 0, "parameters", 272474 },
    { 0, "global_batch", 128 },
    { 0, "steps", 5859 },
    { 0, "peak_tflops", 989.4 },
    { 0, "image_gflops", 24.25 },
    { 1, "step", 7 },
    { 2, "epoch", 1 },
    { 2, "step", 8 },
    { 2, "loss", 0.1 },
    { 2, "lr", 1.0 / 3 },
    { 2, "images_per_s", 1000 },
    { 2, "step_ms", 12.5 },
    { 2, "data_wait_ms", 0 },
    { 2, "comm_wait_ms", 1e-9 },
    { 2, "grad_norm", 2.5 },
    { 2, "mfu", 0.375 },
    { 3, "epoch", 1 },
    { 3, "seconds", 2.5 },
    { 3, "images", 1000 },
    { 3, "images_per_s", 400 },
    { 4, "epoch", 1 },
    { 4, "step", 8 },
    { 4, "images", 100 },
    { 4, "loss", 2 },
    { 4, "top1", 0.25 },
    { 4, "top5", 0.75 },
    { 5, "step", 8 },
    { 6, "code", 0 },
};

/* Every text of them, as JSON has it and as it was. */
static const struct {
    int line;
    const char *key, *value;
} strings[] = {
    { 0, "model", "resnet20" },    { 0, "dataset", "idx" },
    { 0, "backend", "cpu \"x\"" }, { 0, "device", "cpu" },
    { 0, "precision", "fp32" },    { 0, "host", "h" },
    { 0, "version", "1.2-a" },     { 1, "path", "checkpoints/step-7" },
    { 1, "changed", "" },          { 5, "path", "a\nb" },
    { 6, "reason", "completed" },
};

/* One record of each kind, in the run folder "run". */
static void write_all_events(void)
{
    char dir[512];
    RunLog *r = NULL;
    Config *c = some_config();
    in_scratch(dir, "run");
    REQUIRE_OK(runlog_open(&r, dir, 0, c));
    CHECK(runlog_is_new(r));
    REQUIRE_OK(runlog_begin(r, c, 1));
    CHECK_OK(runlog_record(r, RECORD_START,
                           &(StartRecord){ .model = "resnet20",
                                           .dataset = "idx",
                                           .backend = "cpu \"x\"",
                                           .host = "h",
                                           .version = "1.2-a",
                                           .device = "cpu",
                                           .precision = "fp32",
                                           .device_reason = "cpu in fp32",
                                           .world = 2,
                                           .images = 50000,
                                           .val_images = 10000,
                                           .classes = 10,
                                           .parameters = 272474,
                                           .global_batch = 128,
                                           .steps = 5859,
                                           .peak_tflops = 989.4,
                                           .peak_source = "a sheet",
                                           .image_gflops = 24.25 }));
    CHECK_OK(
        runlog_record(r, RECORD_RESUME, &(ResumeRecord){ 7, "checkpoints/step-7", "", false }));
    CHECK_OK(runlog_record(r, RECORD_STEP,
                           &(StepRecord){ .epoch = 1,
                                          .step = 8,
                                          .loss = 0.1,
                                          .lr = 1.0 / 3,
                                          .images_per_s = 1e3,
                                          .step_ms = 12.5,
                                          .data_wait_ms = 0,
                                          .comm_wait_ms = 1e-9,
                                          .mfu = 0.375,
                                          .measured = true,
                                          .grad_norm = 2.5 }));
    CHECK_OK(runlog_record(
        r, RECORD_EPOCH,
        &(EpochRecord){
            .epoch = 1, .seconds = 2.5, .images = 1000, .steps = 20, .images_per_s = 400 }));
    CHECK_OK(runlog_record(
        r, RECORD_EVAL,
        &(EvalRecord){
            .epoch = 1, .step = 8, .images = 100, .loss = 2, .top1 = 0.25, .top5 = 0.75 }));
    CHECK_OK(runlog_record(r, RECORD_CHECKPOINT, &(CheckpointRecord){ 8, "a\nb" }));
    runlog_done(r, 0, "completed");
    runlog_close(r);
    config_destroy(c);
}

TEST(events_have_their_fields)
{
    write_all_events();
    Lines l;
    read_lines(&l, "run");
    REQUIRE(l.count == 7);
    static const char *const events[] = { "start", "resume",     "step", "epoch",
                                          "eval",  "checkpoint", "done" };
    for (int i = 0; i < 7; i++) check_event(&l, i, events[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        /* all digits: equal, not near */
        CHECK_NEAR(number(&l, numbers[i].line, numbers[i].key), numbers[i].value, 0);
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        CHECK_STR(string(&l, strings[i].line, strings[i].key), strings[i].value);
    arena_destroy(l.arena);
}

TEST(nan_is_null)
{
    char dir[512];
    RunLog *r = NULL;
    Lines l;
    in_scratch(dir, "run");
    REQUIRE_OK(runlog_open(&r, dir, 0, NULL));
    CHECK_OK(runlog_record(r, RECORD_STEP, &(StepRecord){ .loss = NAN, .lr = INFINITY }));
    CHECK_OK(runlog_record(r, RECORD_STEP,
                           &(StepRecord){ .loss = 1, .measured = true, .grad_norm = INFINITY }));
    runlog_close(r);
    read_lines(&l, "run");
    REQUIRE(l.count == 2);
    CHECK(json_get(l.line[0], "grad_norm") == NULL);
    CHECK_INT(json_get(l.line[1], "grad_norm")->type, JSON_NULL);
    CHECK_INT(json_get(l.line[0], "loss")->type, JSON_NULL);
    CHECK_INT(json_get(l.line[0], "lr")->type, JSON_NULL);
    arena_destroy(l.arena);
}

/* What file NAME of the folder run holds; mem_free. */
static char *content(const char *name)
{
    char path[512];
    uint8_t *text = NULL;
    size_t bytes;
    in_scratch(path, name);
    CHECK_OK(fs_read_file(path, &text, &bytes));
    return (char *)text;
}

/* What follows event and time in records that few runs have, a line each. */
static const char *const rare[] = {
    "\"step\":7,\"loss\":null,\"tensor\":\"fc1.weight\",\"then\":\"rollback\","
    "\"lr_factor\":0.5,\"rollbacks\":2}\n",
    "\"step\":9,\"loss\":3,\"tensor\":\"\",\"then\":\"stop\",\"lr_factor\":1,\"rollbacks\":0}\n",
    "\"step\":20,\"outcome\":\"timed out\",\"code\":137,\"seconds\":1.5}\n",
    "\"gpu\":0,\"uuid\":\"u\",\"utilization\":0.5,\"utilization_min\":0.25,\"utilization_max\":0."
    "75,"
    "\"memory_used_bytes\":1024,\"power_w\":300,\"temperature_c\":54,\"sm_clock_mhz\":1755,"
    "\"throttle_reasons\":0}\n",
    "\"gpu\":3,\"uuid\":\"u\",\"power_w\":200,\"throttle_reasons\":64}\n", /* NaN: not known */
    "\"epoch\":1,\"seconds\":2.5,\"images\":1000,\"steps\":20,\"images_per_s\":400,\"data_wait_"
    "percent\":25,"
    "\"ready_batches\":1.5,\"decode_p50_ms\":2000,\"decode_p99_ms\":3000,\"read_p50_ms\":4000,"
    "\"read_p99_ms\":5000,\"read_mb_per_s\":6,\"cache_hits\":7,\"replaced\":8,\"decode_threads\":9,"
    "\"readers\":10}\n",
    "\"epoch\":0,\"step\":4,\"epochs\":0.5,\"images\":5,\"loss\":1,\"top1\":0.5,\"top5\":1,"
    "\"checkpoint\":\"c.safetensors\"}\n",
};

TEST(records_that_few_runs_have)
{
    const double nan = (double)NAN;
    const GpuRecord gpus[] = { { 0, "u", 0.5, 0.25, 0.75, 1024, 300, 54, 1755, 0 },
                               { 3, "u", nan, nan, nan, nan, 200, nan, nan, 64 } };
    const InputReport input = { 25,
                                1.5,
                                2e3,
                                3e3,
                                4e3,
                                5e3,
                                6,
                                .cache_hits = 7,
                                .replaced = 8,
                                .decode_threads = 9,
                                .readers = 10 };
    char dir[512];
    RunLog *r = NULL;
    in_scratch(dir, "run");
    REQUIRE_OK(runlog_open(&r, dir, 0, NULL));
    CHECK_OK(runlog_record(r, RECORD_DIVERGED,
                           &(DivergedRecord){ 7, nan, "fc1.weight", "rollback", 0.5, 2 }));
    CHECK_OK(runlog_record(r, RECORD_DIVERGED, &(DivergedRecord){ 9, 3, "", "stop", 1, 0 }));
    CHECK_OK(runlog_record(r, RECORD_ON_SAVE, &(OnSaveRecord){ 20, "timed out", 137, 1.5 }));
    for (int i = 0; i < 2; i++) CHECK_OK(runlog_record(r, RECORD_GPU, &gpus[i]));
    CHECK_OK(runlog_record(r, RECORD_EPOCH,
                           &(EpochRecord){ .epoch = 1,
                                           .seconds = 2.5,
                                           .images = 1000,
                                           .steps = 20,
                                           .images_per_s = 400,
                                           .has_input = true,
                                           .input = input }));
    CHECK_OK(runlog_record(r, RECORD_EVAL,
                           &(EvalRecord){ .step = 4,
                                          .epochs = 0.5,
                                          .images = 5,
                                          .loss = 1,
                                          .top1 = 0.5,
                                          .top5 = 1,
                                          .checkpoint = "c.safetensors" }));
    runlog_close(r);
    char *text = content("run/metrics.jsonl"), *at = text;
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        const char *found = strstr(at, rare[i]);
        at = strchr(at, '\n');
        REQUIRE(at != NULL);
        if (!test_check(found && found < at, __FILE__, __LINE__, rare[i]))
            printf("    the file: %s\n", text);
        at++;
    }
    CHECK(*at == '\0');
    mem_free(text);
}

/* The smallest that fp16 training falls to, too; other precisions have none. */
TEST(a_loss_scale_is_recorded_where_there_is_one)
{
    static const double scales[] = { 0, 1, 0.5, 65536 };
    char dir[512];
    RunLog *r = NULL;
    Lines l;
    in_scratch(dir, "run");
    REQUIRE_OK(runlog_open(&r, dir, 0, NULL));
    for (int i = 0; i < 4; i++)
        CHECK_OK(
            runlog_record(r, RECORD_STEP, &(StepRecord){ .loss_scale = scales[i], .skipped = i }));
    runlog_close(r);
    read_lines(&l, "run");
    REQUIRE(l.count == 4);
    CHECK(json_get(l.line[0], "loss_scale") == NULL && json_get(l.line[0], "skipped") == NULL);
    for (int i = 1; i < 4; i++) {
        CHECK_NEAR(number(&l, i, "loss_scale"), scales[i], 0);
        CHECK_INT(number(&l, i, "skipped"), i);
    }
    arena_destroy(l.arena);
}

TEST(run_folder_is_complete)
{
    char dir[512], path[512];
    RunLog *r = NULL;
    uint8_t *text = NULL;
    size_t bytes;
    Config *c = some_config();
    StrBuf want = { 0 };
    in_scratch(dir, "deep/er/run");
    REQUIRE_OK(runlog_open(&r, dir, 0, c));
    REQUIRE_OK(runlog_begin(r, c, 1));
    CHECK_OK(runlog_record(r, RECORD_EPOCH, &(EpochRecord){ .epoch = 41 }));
    runlog_close(r);
    in_scratch(path, "deep/er/run/checkpoints");
    CHECK(fs_is_dir(path));
    in_scratch(path, "deep/er/run/config.yaml");
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    REQUIRE_OK(config_dump_yaml(c, &want));
    CHECK_STR((const char *)text, want.text);
    mem_free(text);
    in_scratch(path, "deep/er/run/log.txt");
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_CONTAINS((const char *)text, "epoch 42 done");
    mem_free(text);
    str_free(&want);
    config_destroy(c);
}

TEST(a_folder_stays_until_the_run_begins)
{
    static const char *const names[] = { "run/config.yaml", "run/log.txt", "run/metrics.jsonl" };
    char dir[512], path[512], *before[3];
    RunLog *r = NULL;
    Config *c = some_config();
    write_all_events();
    for (int i = 0; i < 3; i++) before[i] = content(names[i]);
    in_scratch(dir, "run");
    c->train.max_steps = 77;
    for (int good = 0; good < 2; good++) {
        REQUIRE_OK(runlog_open(&r, dir, 0, c));
        CHECK(!runlog_is_new(r));
        log_info("said before");
        CHECK_OK(runlog_record(
            r, RECORD_RESUME, &(ResumeRecord){ 8, "x", "train.max_steps was 0 and is 77", false }));
        runlog_last_words(r, 76, "not begun");
        if (good) REQUIRE_OK(runlog_begin(r, c, 1));
        runlog_done(r, good ? 0 : 64, "at the end");
        runlog_close(r);
        for (int i = 0; i < 3; i++) {
            char *now = content(names[i]);
            CHECK_INT(strcmp(now, before[i]) != 0, good);
            if (i == 1 && good) CHECK_CONTAINS(now, "info said before");
            if (i == 2 && good)
                CHECK_CONTAINS(now, "\"changed\":\"train.max_steps was 0 and is 77");
            if (i == 2 && good) CHECK(strstr(now, "not begun") == NULL);
            mem_free(now);
        }
        in_scratch(path, "run/config-1.yaml");
        CHECK_INT(fs_exists(path), good);
    }
    char *kept = content("run/config-1.yaml");
    CHECK_STR(kept, before[0]);
    mem_free(kept);
    for (int i = 0; i < 3; i++) mem_free(before[i]);
    config_destroy(c);
}

TEST(torn_line_is_cut_off)
{
    char dir[512], path[512];
    RunLog *r = NULL;
    Lines l;
    in_scratch(dir, "run");
    in_scratch(path, "run/metrics.jsonl");
    REQUIRE_OK(fs_make_dirs(dir));
    FILE *f = fopen(path, "w");
    REQUIRE(f != NULL);
    fputs("{\"event\":\"done\",\"time\":1}\n{\"event\":\"st", f);
    fclose(f);
    REQUIRE_OK(runlog_open(&r, dir, 0, NULL));
    CHECK_OK(runlog_record(r, RECORD_CHECKPOINT, &(CheckpointRecord){ 3, "x" }));
    CHECK_OK(runlog_record(r, RECORD_CHECKPOINT, &(CheckpointRecord){ 4, "y" }));
    runlog_close(r);
    read_lines(&l, "run");
    REQUIRE(l.count == 3);
    check_event(&l, 0, "done");
    check_event(&l, 1, "checkpoint");
    check_event(&l, 2, "checkpoint");
    arena_destroy(l.arena);
}

TEST(other_ranks_write_nothing)
{
    char dir[512];
    RunLog *r = NULL;
    in_scratch(dir, "run");
    REQUIRE_OK(runlog_open(&r, dir, 1, NULL));
    CHECK_OK(runlog_record(r, RECORD_STEP, &(StepRecord){ .step = 1 }));
    CHECK_OK(runlog_record(r, RECORD_EPOCH, &(EpochRecord){ .epoch = 1 }));
    CHECK_OK(runlog_record(r, RECORD_EVAL, &(EvalRecord){ .epoch = 1 }));
    CHECK_OK(runlog_record(r, RECORD_CHECKPOINT, &(CheckpointRecord){ 1, "x" }));
    runlog_progress(r, &(StepRecord){ .step = 1 }, 10, 3);
    runlog_done(r, 0, "completed");
    runlog_close(r);
    CHECK(!fs_exists(dir));
}

TEST(console_only_without_folder)
{
    RunLog *r = NULL;
    REQUIRE_OK(runlog_open(&r, NULL, 0, NULL));
    CHECK_OK(runlog_record(r, RECORD_STEP, &(StepRecord){ .step = 1 }));
    runlog_done(r, 0, "completed");
    runlog_close(r);
}

TEST(steps_allocate_nothing)
{
    char dir[512], sentence[1024];
    RunLog *r = NULL;
    in_scratch(dir, "run");
    memset(sentence, '\x01', sizeof sentence - 1); /* escaped to six bytes each */
    sentence[sizeof sentence - 1] = '\0';
    REQUIRE_OK(runlog_open(&r, dir, 0, NULL));
    int64_t before = mem_allocation_count();
    for (int i = 0; i < 10; i++)
        CHECK_OK(runlog_record(r, RECORD_STEP,
                               &(StepRecord){ .step = i, .loss = 1.0 / 3, .lr = 1e-300 }));
    CHECK_OK(runlog_record(r, RECORD_CHECKPOINT, &(CheckpointRecord){ 3, sentence }));
    runlog_done(r, 65, sentence);
    CHECK_INT(mem_allocation_count(), before);
    runlog_close(r);
}

TEST(unwritable_folder_is_io)
{
    char dir[512], path[512];
    RunLog *r = NULL;
    in_scratch(path, "file");
    FILE *f = fopen(path, "w");
    REQUIRE(f != NULL);
    fclose(f);
    in_scratch(dir, "file/run");
    CHECK_STATUS(runlog_open(&r, dir, 0, NULL), ERR_IO);
    CHECK(r == NULL);
}

TEST(full_disk_is_io_and_done_keeps_the_sentence)
{
    char dir[512], path[512];
    RunLog *r = NULL;
    in_scratch(dir, "run");
    in_scratch(path, "run/metrics.jsonl");
    REQUIRE_OK(fs_make_dirs(dir));
    REQUIRE_OK(fs_replace_symlink("/dev/full", path)); /* every write fails with ENOSPC */
    REQUIRE_OK(runlog_open(&r, dir, 0, NULL));
    CHECK_STATUS(runlog_record(r, RECORD_STEP, &(StepRecord){ .step = 1 }), ERR_IO);
    CHECK_CONTAINS(status_message(), "metrics.jsonl: cannot write");
    fail(ERR_DATA, "the cause");
    runlog_done(r, 65, status_message());
    CHECK_STR(status_message(), "the cause");
    runlog_close(r);
}
