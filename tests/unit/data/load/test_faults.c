/* Failing storage: errors that pass are survived, errors that stay end the run with one line that
 * names the file; a sample that is gone is a bad sample. For every kind of source, while it is
 * scanned and while it is read. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/load/dataset_internal.h"
#include "data/load/pack.h"
#include "tests/test.h"
#include "tests/tools/container_write.h"
#include "tests/tools/dataset_check.h"
#include "tests/tools/fault_io.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int errors[] = { EIO, ESTALE };

static const DataFormat formats[4] = { DATA_IMAGEFOLDER, DATA_WEBDATASET, DATA_TFRECORD,
                                       DATA_SHARDS };

static void make_all(void)
{
    static const char *const names[4] = { "tree", "tars", "records", "shards" };
    PackReport r;
    for (int i = 0; i < 4; i++) scratch_path(i, names[i]);
    tree_write_small(scratch_paths[0]);
    container_write_tars(scratch_paths[0], scratch_paths[1], 2, true);
    container_write_tfrecords(scratch_paths[0], scratch_paths[2], 2);
    Dataset *d = dataset_open_as(scratch_paths[0], DATA_IMAGEFOLDER);
    REQUIRE(d != NULL);
    PackOptions o = { .out = scratch_paths[3], .shard_bytes = 8000, .threads = 1 };
    CHECK_OK(pack_dataset(d, &o, &r));
    dataset_close(d);
}

static int64_t open_files(void)
{
    char **names = NULL;
    int64_t count = 0;
    CHECK_OK(fs_list("/proc/self/fd", &names, &count));
    mem_free(names);
    return count;
}

TEST(errors_that_pass_are_survived)
{
    make_all();
    int64_t before = open_files();
    for (int f = 0; f < 4; f++) {
        for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
            ByteBuf buf = { 0 };
            Sample sample;
            Dataset *d = dataset_open_as(scratch_paths[f], formats[f]);
            REQUIRE(d != NULL);
            const Source *s = dataset_source(d);
            for (int failures = 1; failures <= 3; failures++) {
                fault_reads(errors[e], 0, failures);
                CHECK_OK(s->kind->read(s, failures, &buf, &sample));
            }
            fault_reads(0, 0, 0);
            byte_buf_free(&buf);
            dataset_close(d);
        }
    }
    CHECK_INT(open_files(), before);
}

TEST(errors_that_stay_are_not_the_samples)
{
    make_all();
    int64_t before = open_files();
    for (int f = 0; f < 4; f++) {
        ByteBuf buf = { 0 };
        Sample sample;
        Dataset *d = dataset_open_as(scratch_paths[f], formats[f]);
        REQUIRE(d != NULL);
        const Source *s = dataset_source(d);
        fault_reads(ESTALE, 0, 4);
        CHECK_STATUS(s->kind->read(s, 0, &buf, &sample), ERR_IO);
        CHECK_CONTAINS(status_message(), "n0/n0_0.JPEG");
        CHECK_CONTAINS(status_message(), "cannot be read after 4 tries: Stale file handle");
        fault_reads(0, 0, 0);
        CHECK_OK(s->kind->read(s, 0, &buf, &sample));
        byte_buf_free(&buf);
        dataset_close(d);
    }
    CHECK_INT(open_files(), before);
}

TEST(scans_have_the_same_patience)
{
    make_all();
    static const char *const files[4] = { NULL, "part-0000.tar", "train-00000-of-00002", NULL };
    int64_t before = open_files();
    for (int f = 1; f <= 2; f++) {
        Dataset *d = NULL;
        DatasetOptions o = { .path = scratch_paths[f], .format = formats[f], .scan_threads = 1 };
        fault_reads(EIO, 0, 3);
        CHECK_OK(dataset_open(&d, &o));
        dataset_close(d);
        fault_reads(EIO, 0, 4);
        CHECK_STATUS(dataset_open(&d, &o), ERR_DATA);
        CHECK_CONTAINS(status_message(), files[f]);
        CHECK_CONTAINS(status_message(), "cannot be read after 4 tries: Input/output error");
        fault_reads(0, 0, 0);
    }
    CHECK_INT(open_files(), before);
}

TEST(an_index_that_cannot_be_read_is_made_again)
{
    make_all();
    char kept[800];
    Dataset *d = NULL;
    snprintf(kept, sizeof kept, "%s/kept", test_scratch());
    DatasetOptions o = { .path = scratch_paths[0], .format = DATA_IMAGEFOLDER, .index = kept };
    for (int i = 0; i < 2; i++) {
        fault_reads(EIO, 0, i);
        CHECK_OK(dataset_open(&d, &o));
        if (d) CHECK_INT(dataset_images(d), TREE_CLASSES * TREE_PER_CLASS);
        dataset_close(d);
        fault_reads(0, 0, 0);
    }
}

TEST(what_is_gone_is_a_bad_sample)
{
    static const char *const gone[4] = { "n0/n0_0.JPEG", "part-0000.tar", "train-00000-of-00002",
                                         "shard-00000.bin" };
    make_all();
    for (int f = 0; f < 4; f++) {
        ByteBuf buf = { 0 };
        Sample sample;
        char path[800];
        Dataset *d = dataset_open_as(scratch_paths[f], formats[f]);
        REQUIRE(d != NULL);
        const Source *s = dataset_source(d);
        snprintf(path, sizeof path, "%.690s/%s", scratch_paths[f], gone[f]);
        REQUIRE(unlink(path) == 0);
        int bad = 0;
        for (int64_t i = 0; i < s->images; i++) {
            Status status = s->kind->read(s, i, &buf, &sample);
            if (status == OK) continue;
            CHECK_STATUS(status, ERR_DATA);
            CHECK_CONTAINS(status_message(), gone[f]);
            CHECK_CONTAINS(status_message(), "cannot be read: No such file or directory");
            bad++;
        }
        CHECK(f == 0 ? bad == 1 : bad > 1);
        byte_buf_free(&buf);
        dataset_close(d);
    }
}
