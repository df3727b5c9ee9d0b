/* Checkpoints: written behind the caller's back, linked, pruned, found again; damaged ones passed
 * over. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/fault_io.h"
#include "trainer/engine/files/checkpoint.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1200, FLOATS = 1000 };

static SafeTensor tensor_row(const char *name, int64_t n)
{
    return (SafeTensor){ .name = name, .desc = tensor_desc(DTYPE_F32, 1, &n) };
}

static CheckpointWriter *make_writer(int64_t keep)
{
    const SafeTensor rows[2] = { tensor_row("fc.weight", FLOATS),
                                 tensor_row("optimizer.fc.weight", 3) };
    CheckpointWriter *w = NULL;
    CHECK_OK(checkpoint_writer_create(&w, test_scratch(), rows, 2, keep));
    return w;
}

static CheckpointMeta meta_of(int64_t step)
{
    return (CheckpointMeta){ .step = step,
                             .images = step * 32,
                             .epoch = step / 10,
                             .seed = 0x7EDCBA9876543210,
                             .global_batch = 32,
                             .dataset_images = 320,
                             .best_score = 0.1,
                             .lr_factor = 0.25,
                             .rollbacks = 2,
                             .class_names = "0\n1",
                             .words = "<s>\n<pad>",
                             .named_classes = 1,
                             .pairs = 1,
                             .model = "resnet20",
                             .config = "model:\n  name: \"resnet20\"\n" };
}

/* Tensor values are functions of the step. */
static Status save(CheckpointWriter *w, int64_t step, bool best)
{
    TRY(checkpoint_wait(w));
    float *a = checkpoint_staging(w, 0), *b = checkpoint_staging(w, 1);
    for (int i = 0; i < FLOATS; i++) a[i] = (float)(step + i);
    for (int i = 0; i < 3; i++) b[i] = (float)(-step);
    CheckpointMeta meta = meta_of(step);
    return checkpoint_submit(w, &meta, best);
}

static void path_of(char *out, const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s", test_scratch(), name);
}

static bool exists(const char *name)
{
    char path[PATH_BYTES];
    struct stat st;
    path_of(path, name);
    return lstat(path, &st) == 0;
}

static void check_link(const char *link, const char *target)
{
    char path[PATH_BYTES], found[PATH_BYTES] = "";
    path_of(path, link);
    ssize_t n = readlink(path, found, sizeof found - 1);
    found[n > 0 ? n : 0] = '\0';
    CHECK_STR(found, target);
}

/* Flips a byte in the last tensor. */
static void damage(const char *name)
{
    char path[PATH_BYTES];
    uint8_t *data = NULL;
    size_t bytes = 0;
    path_of(path, name);
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    data[bytes - 5] ^= 4;
    CHECK_OK(fs_write_atomic(path, data, bytes));
    mem_free(data);
}

static void check_found(int64_t step)
{
    SafeFile *f = NULL;
    CheckpointMeta meta;
    char *path = NULL;
    REQUIRE_OK(checkpoint_find(&f, &meta, test_scratch(), INT64_MAX, &path));
    REQUIRE(f != NULL);
    CHECK_INT(meta.step, step);
    const SafeTensor *t = safetensors_find(f, "fc.weight");
    CHECK(t != NULL && ((const float *)t->data)[7] == (float)(step + 7));
    CHECK_CONTAINS(path, ".safetensors");
    mem_free(path);
    safetensors_close(f);
}

TEST(everything_comes_back)
{
    char path[PATH_BYTES];
    SafeFile *f = NULL;
    CheckpointMeta meta;
    CheckpointWriter *w = make_writer(3);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 1234, false));
    CHECK_OK(checkpoint_flush(w));
    path_of(path, "step-00001234.safetensors");
    REQUIRE_OK(checkpoint_open(&f, &meta, path));
    CHECK_INT(meta.step, 1234);
    CHECK_INT(meta.images, 1234 * 32);
    CHECK_INT(meta.epoch, 123);
    CHECK(meta.lr_factor == 0.25);
    CHECK_INT(meta.rollbacks, 2);
    CHECK_STR(meta.class_names, "0\n1");
    CHECK_STR(meta.words, "<s>\n<pad>");
    CHECK_INT(meta.named_classes, 1);
    CHECK_INT(meta.pairs, 1);
    CHECK(meta.seed == 0x7EDCBA9876543210);
    CHECK_INT(meta.global_batch, 32);
    CHECK_INT(meta.dataset_images, 320);
    CHECK(meta.best_score == 0.1);
    CHECK_STR(meta.model, "resnet20");
    CHECK_STR(meta.config, "model:\n  name: \"resnet20\"\n");
    CHECK(((const float *)safetensors_find(f, "optimizer.fc.weight")->data)[2] == -1234);
    check_link("latest", "step-00001234.safetensors");
    CHECK(!exists("best"));
    safetensors_close(f);
    checkpoint_writer_destroy(w);
}

TEST(poll_tells_of_each_file_once)
{
    CheckpointWriter *w = make_writer(3);
    bool done = true;
    int64_t step = -1;
    const char *path = NULL;
    REQUIRE(w != NULL);
    CHECK_OK(checkpoint_poll(w, &done, &step, &path));
    CHECK(!done);
    CHECK_OK(save(w, 5, false));
    CHECK_OK(checkpoint_flush(w));
    CHECK_OK(checkpoint_poll(w, &done, &step, &path));
    CHECK(done && step == 5);
    CHECK_CONTAINS(path, "step-00000005.safetensors");
    CHECK_OK(checkpoint_poll(w, &done, &step, &path));
    CHECK(!done);
    checkpoint_writer_destroy(w);
}

TEST(keeps_the_newest_and_the_best)
{
    CheckpointWriter *w = make_writer(2);
    REQUIRE(w != NULL);
    for (int64_t step = 10; step <= 50; step += 10) CHECK_OK(save(w, step, step == 20));
    CHECK_OK(checkpoint_flush(w));
    CHECK(!exists("step-00000010.safetensors"));
    CHECK(exists("step-00000020.safetensors"));
    CHECK(!exists("step-00000030.safetensors"));
    CHECK(exists("step-00000040.safetensors"));
    CHECK(exists("step-00000050.safetensors"));
    check_link("latest", "step-00000050.safetensors");
    check_link("best", "step-00000020.safetensors");
    checkpoint_writer_destroy(w);
    check_found(50);
}

TEST(a_damaged_newest_is_passed_over)
{
    SafeFile *f = NULL;
    CheckpointMeta meta;
    char path[PATH_BYTES];
    CheckpointWriter *w = make_writer(3);
    REQUIRE(w != NULL);
    for (int64_t step = 1; step <= 3; step++) CHECK_OK(save(w, step, false));
    checkpoint_writer_destroy(w);
    for (int skip = 0; skip < 3; skip++) { /* its length, its header, its data */
        fault_reads(EIO, skip, 1);
        check_found(2);
    }
    check_found(3);
    damage("step-00000003.safetensors");
    check_found(2);
    path_of(path, "step-00000003.safetensors");
    CHECK_STATUS(checkpoint_open(&f, &meta, path), ERR_DATA);
    CHECK_CONTAINS(status_message(), "step-00000003.safetensors");
    CHECK(f == NULL);
    path_of(path, "step-00000002.safetensors");
    CHECK(truncate(path, 100) == 0);
    check_found(1);
    damage("step-00000001.safetensors");
    CHECK_STATUS(checkpoint_find(&f, &meta, test_scratch(), INT64_MAX, NULL), ERR_DATA);
    CHECK_CONTAINS(status_message(), "step-00000003.safetensors");
}

/* A checkpoint with right checksums that has what this program never saves. */
static Status save_with(CheckpointWriter *w, int64_t step, int tensor, float value)
{
    TRY(checkpoint_wait(w));
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < (t == 0 ? FLOATS : 3); i++)
            ((float *)checkpoint_staging(w, t))[i] = (float)(step + i);
    ((float *)checkpoint_staging(w, tensor))[2] = value;
    CheckpointMeta meta = meta_of(step);
    return checkpoint_submit(w, &meta, false);
}

TEST(checkpoints_that_are_not_finite_are_passed_over)
{
    SafeFile *f = NULL;
    CheckpointMeta meta;
    CheckpointWriter *w = make_writer(9);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 1, false));
    CHECK_OK(save(w, 2, false));
    CHECK_OK(save_with(w, 3, 0, (float)NAN));
    CHECK_OK(save_with(w, 4, 1, -(float)INFINITY)); /* the optimizer's */
    checkpoint_writer_destroy(w);
    check_found(2);
    REQUIRE_OK(checkpoint_find(&f, &meta, test_scratch(), 2, NULL));
    REQUIRE(f != NULL);
    CHECK_INT(meta.step, 1);
    safetensors_close(f);
    CHECK_OK(checkpoint_find(&f, &meta, test_scratch(), 1, NULL));
    CHECK(f == NULL);
}

TEST(nothing_but_checkpoints_that_are_not_finite)
{
    SafeFile *f = NULL;
    CheckpointMeta meta;
    CheckpointWriter *w = make_writer(9);
    REQUIRE(w != NULL);
    CHECK_OK(save_with(w, 3, 0, (float)INFINITY));
    checkpoint_writer_destroy(w);
    CHECK_STATUS(checkpoint_find(&f, &meta, test_scratch(), INT64_MAX, NULL), ERR_DATA);
    CHECK_CONTAINS(status_message(), "step-00000003.safetensors: element 2 of tensor fc.weight");
    CHECK(f == NULL);
}

TEST(later_steps_of_a_left_branch_are_set_aside)
{
    CheckpointWriter *w = make_writer(3);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 10, false));
    CHECK_OK(save(w, 20, true));
    CHECK_OK(save(w, 15, false));
    CHECK_OK(checkpoint_flush(w));
    CHECK(!exists("step-00000020.safetensors"));
    CHECK(exists("step-00000020.safetensors.stale"));
    check_link("latest", "step-00000015.safetensors");
    check_link("best", "step-00000020.safetensors.stale");
    checkpoint_writer_destroy(w);
    check_found(15);
}

TEST(later_steps_that_cannot_be_set_aside_are_named)
{
    char path[PATH_BYTES], log[PATH_BYTES];
    uint8_t *text = NULL;
    size_t bytes = 0;
    CheckpointWriter *w = make_writer(3);
    REQUIRE(w != NULL);
    path_of(log, "log.txt");
    REQUIRE_OK(log_open(log, 0, LOG_INFO));
    path_of(path, "step-00000020.safetensors.stale");
    REQUIRE(mkdir(path, 0777) == 0);
    CHECK_OK(save(w, 20, false));
    CHECK_OK(save(w, 15, false));
    CHECK_OK(checkpoint_flush(w));
    checkpoint_writer_destroy(w);
    log_close();
    REQUIRE_OK(fs_read_file(log, &text, &bytes));
    CHECK_CONTAINS((const char *)text, "step-00000020.safetensors has a later step");
    CHECK_CONTAINS((const char *)text, "cannot be renamed");
    mem_free(text);
}

TEST(no_folder_and_no_file_are_no_error)
{
    SafeFile *f = NULL;
    CheckpointMeta meta;
    char path[PATH_BYTES];
    path_of(path, "absent");
    CHECK_OK(checkpoint_find(&f, &meta, path, INT64_MAX, NULL));
    CHECK(f == NULL);
    CHECK_OK(checkpoint_find(&f, &meta, test_scratch(), INT64_MAX, NULL));
    CHECK(f == NULL);
}

TEST(leftovers_go_and_strangers_stay)
{
    char path[PATH_BYTES];
    path_of(path, "step-00000009.safetensors.tmp-4711");
    CHECK_OK(fs_write_atomic(path, "torn", 4));
    path_of(path, "notes.txt");
    CHECK_OK(fs_write_atomic(path, "mine", 4));
    path_of(path, "step-x.safetensors");
    CHECK_OK(fs_write_atomic(path, "mine", 4));
    CheckpointWriter *w = make_writer(1);
    REQUIRE(w != NULL);
    CHECK(exists("step-00000009.safetensors.tmp-4711")); /* not before something is written */
    CHECK_OK(save(w, 1, false));
    CHECK_OK(save(w, 2, false));
    checkpoint_writer_destroy(w);
    CHECK(!exists("step-00000009.safetensors.tmp-4711"));
    CHECK(exists("notes.txt") && exists("step-x.safetensors"));
    CHECK(!exists("step-00000001.safetensors"));
    check_found(2);
}

/* A file size limit stands for a full disk. */
TEST(a_full_disk_is_reported_and_loses_nothing)
{
    struct rlimit before, small;
    bool done = false;
    int64_t step = 0;
    const char *path = NULL;
    CheckpointWriter *w = make_writer(1);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 1, false));
    CHECK_OK(checkpoint_flush(w));
    CHECK_OK(checkpoint_poll(w, &done, &step, &path));
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 2048;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_OK(save(w, 2, true));
    CHECK_STATUS(checkpoint_flush(w), ERR_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_CONTAINS(status_message(), "step-00000002.safetensors");
    CHECK_OK(checkpoint_poll(w, &done, &step, &path));
    CHECK(!done);
    check_link("latest", "step-00000001.safetensors");
    check_found(1);
    CHECK_OK(save(w, 3, false)); /* space again: the writer goes on */
    CHECK_OK(checkpoint_flush(w));
    checkpoint_writer_destroy(w);
    check_found(3);
}

TEST(other_safetensors_are_no_checkpoints)
{
    char path[PATH_BYTES];
    const float x = 1;
    const int64_t one = 1;
    SafeFile *f = NULL;
    CheckpointMeta meta;
    const SafeTensor tensor = { "x", tensor_desc(DTYPE_F32, 1, &one), &x };
    path_of(path, "other.safetensors");
    CHECK_OK(safetensors_write(path, &tensor, 1, NULL, 0));
    CHECK_STATUS(checkpoint_open(&f, &meta, path), ERR_DATA);
    CHECK_CONTAINS(status_message(), "not a convoy checkpoint");
    CHECK(f == NULL);
}

/* Writes the checkpoint of step 3 as another version might have: key has that value, NULL: it is
 * not there. */
static void write_otherwise(const char *key, const char *value)
{
    static const char *const keys[] = {
        "checkpoint_format",
        "step",
        "run_step",
        "images",
        "epoch",
        "seed",
        "global_batch",
        "dataset_images",
        "norm_images",
        "best_top1",
        "stale",
        "val_print",
        "eval_due",
        "lr_factor",
        "rollbacks",
        "diverged",
        "rolled_to",
        "named_classes",
        "teacher",
        "pairs",
        "lookahead_rest",
        "ema_rest",
        "ema_images",
        "class_names",
        "model",
        "lookahead_images",
        "config",
        "words",
        "spent",
    };
    enum { KEYS = sizeof keys / sizeof keys[0] };
    SafePair pairs[KEYS];
    int count = 0;
    SafeFile *f = NULL;
    CheckpointMeta meta;
    char path[PATH_BYTES];
    CheckpointWriter *w = make_writer(9);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 3, false));
    checkpoint_writer_destroy(w);
    path_of(path, "step-00000003.safetensors");
    REQUIRE_OK(checkpoint_open(&f, &meta, path));
    for (int i = 0; i < KEYS; i++) {
        const bool other = strcmp(keys[i], key) == 0;
        pairs[count] = (SafePair){ keys[i], other ? value : safetensors_metadata(f, keys[i]) };
        count += pairs[count].value != NULL;
    }
    CHECK_INT(count, value ? KEYS : KEYS - 1); /* as many as there are, and key is one */
    CHECK_OK(safetensors_write(path, safetensors_at(f, 0), 1, pairs, count));
    safetensors_close(f);
}

TEST(a_checkpoint_of_another_version_is_not_read)
{
    static const struct {
        const char *key, *value, *why;
    } rows[] = {
        { "checkpoint_format", NULL, "no metadata entry checkpoint_format" },
        { "checkpoint_format", "2", "its checkpoint_format is 2, this one's is 1" },
        { "run_step", NULL, "no metadata entry run_step" },
        { "lr_factor", NULL, "no metadata entry lr_factor" },
        { "ema_rest", NULL, "no metadata entry ema_rest" },
        { "class_names", NULL, "no metadata entry class_names" },
        { "spent", NULL, "no metadata entry spent" },
    };
    char path[PATH_BYTES];
    path_of(path, "step-00000003.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        SafeFile *f = NULL;
        CheckpointMeta meta;
        write_otherwise(rows[i].key, rows[i].value);
        CHECK_STATUS(checkpoint_open(&f, &meta, path), ERR_DATA);
        CHECK_CONTAINS(status_message(), path);
        CHECK_CONTAINS(status_message(), "written by another version of convoy and cannot be read");
        CHECK_CONTAINS(status_message(), rows[i].why);
        CHECK(f == NULL);
    }
    write_otherwise("step", "many"); /* this version's, but for a number */
    SafeFile *f = NULL;
    CheckpointMeta meta;
    CHECK_STATUS(checkpoint_open(&f, &meta, path), ERR_DATA);
    CHECK_CONTAINS(status_message(), "step has the invalid value many");
    static const char *const positive[] = { "global_batch", "dataset_images", "lr_factor" };
    for (int i = 0; i < 3; i++) {
        write_otherwise(positive[i], "0");
        CHECK_STATUS(checkpoint_open(&f, &meta, path), ERR_DATA);
        CHECK_CONTAINS(status_message(), "dataset_images and lr_factor must be above 0");
    }
}

/* Where it is the newest, no older one takes its place. */
TEST(a_checkpoint_of_another_version_is_not_passed_over)
{
    SafeFile *f = NULL;
    CheckpointMeta meta;
    CheckpointWriter *w = make_writer(9);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 1, false));
    checkpoint_writer_destroy(w);
    write_otherwise("checkpoint_format", NULL);
    CHECK_STATUS(checkpoint_find(&f, &meta, test_scratch(), INT64_MAX, NULL), ERR_DATA);
    CHECK_CONTAINS(status_message(), "step-00000003.safetensors: was written by another version");
    CHECK(f == NULL);
    check_link("latest", "step-00000003.safetensors");
    CHECK(exists("step-00000001.safetensors"));
}

/* One flipped bit anywhere in the header - position, seed, names - is seen: the header has a
 * checksum of its own. */
TEST(every_flipped_bit_is_refused)
{
    char path[PATH_BYTES], bad[PATH_BYTES];
    uint8_t *data = NULL;
    size_t bytes = 0, accepted = 0;
    CheckpointWriter *w = make_writer(1);
    REQUIRE(w != NULL);
    CHECK_OK(save(w, 1, false));
    checkpoint_writer_destroy(w);
    path_of(path, "step-00000001.safetensors");
    path_of(bad, "bad.safetensors");
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    size_t header_end = bytes - (FLOATS + 3) * sizeof(float);
    for (size_t i = 0; i < header_end; i++) {
        SafeFile *f = NULL;
        CheckpointMeta meta;
        data[i] ^= (uint8_t)(1U << (i % 8));
        FILE *out = fopen(bad, "wb");
        REQUIRE(out != NULL && fwrite(data, 1, bytes, out) == bytes);
        fclose(out);
        data[i] ^= (uint8_t)(1U << (i % 8));
        accepted += checkpoint_open(&f, &meta, bad) == OK;
        safetensors_close(f);
    }
    CHECK_INT(accepted, 0);
    mem_free(data);
}
