/* test_input_report.c - what is said of the input, and what would help it. */
#include "tests/test.h"
#include "trainer/engine/train/input_report.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A stretch of 100 s in which the step waited for `wait_s` of them. */
static LoaderStats stretch(double wait_s, int64_t images, double decode_s, int threads)
{
    LoaderStats s = { .images = images,
                      .batches = 100,
                      .ready_batches = 150,
                      .wait_s = wait_s,
                      .bytes_read = 500000000,
                      .decode_threads = threads,
                      .readers = 4 };
    for (int64_t i = 0; i < images; i++) {
        latency_counts_add(&s.decode, decode_s);
        latency_counts_add(&s.read, 0.002);
    }
    return s;
}

TEST(numbers_of_a_stretch)
{
    InputReport r;
    char text[512];
    LoaderStats s = stretch(1, 10000, 0.005, 2);
    s.cache_hits = 2500;
    s.replaced = 3;
    input_report_make(&r, &s, 100);
    CHECK_NEAR(r.data_wait_percent, 1, 1e-10);
    CHECK_NEAR(r.ready_batches, 1.5, 1e-12);
    CHECK_NEAR(r.read_mb_per_s, 5, 1e-12);
    CHECK_NEAR(r.decode_p50_ms, 5, 0.3);
    CHECK_NEAR(r.read_p99_ms, 2, 0.2);
    CHECK_INT(r.more_decode_threads, 0);
    CHECK(!input_report_warn(&r, 8));
    input_report_describe(&r, text, sizeof text);
    CHECK_CONTAINS(text, "data wait 1.0 %, 1.5 batches ready, decode ");
    CHECK_CONTAINS(text, " on 2 threads, read ");
    CHECK_CONTAINS(text, " with 4 readers, 5.0 MB/s, 25.0 % from the cache, 3 replaced");
    s.images = 100; /* readers are far ahead */
    input_report_make(&r, &s, 100);
    input_report_describe(&r, text, sizeof text);
    CHECK_CONTAINS(text, " 25.0 % from the cache");
    input_report_describe(&r, text, 20); /* cut, not overrun */
    CHECK_INT(strlen(text), 19);
}

/* What input_report_warn() writes to stderr. */
static void check_warning(const InputReport *r, int cpus, const char *part)
{
    char path[1200], line[1024] = "";
    snprintf(path, sizeof path, "%s/stderr", test_scratch());
    int saved = dup(STDERR_FILENO);
    REQUIRE(saved >= 0 && freopen(path, "w", stderr));
    CHECK(input_report_warn(r, cpus));
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    FILE *f = fopen(path, "r");
    REQUIRE(f != NULL);
    CHECK(fgets(line, sizeof line, f) != NULL);
    fclose(f);
    CHECK_CONTAINS(line, "convoy: warning: the input limits training, which waits ");
    CHECK_CONTAINS(line, part);
}

/* 10000 images in 50 s of work are 200/s; at 20 ms each that is 4 threads, and a tenth more. */
TEST(decode_threads_that_are_missing)
{
    InputReport r;
    LoaderStats s = stretch(50, 10000, 0.020, 2);
    input_report_make(&r, &s, 100);
    CHECK_INT(r.more_decode_threads, 3);
    CHECK_INT(r.more_readers, 0); /* nobody lacked bytes */
    check_warning(
        &r, 8, "waits 50 % of the time: 3 more decode threads would be enough (data.threads: 5)");
    check_warning(&r, 4, "(data.threads: 5; a rank may not use that many CPUs)");
    r.storage_limit = true; /* of reads that nothing waits for */
    check_warning(&r, 8, "3 more decode threads would be enough (data.threads: 5)");
    r.data_wait_percent = INPUT_LIMITS_PERCENT; /* as much as is allowed */
    CHECK(!input_report_warn(&r, 8));
}

/* 200/s at 200 ms a read are 40 readers, and a quarter more. */
TEST(readers_that_are_missing)
{
    InputReport r;
    LoaderStats s = stretch(50, 10000, 0.001, 2);
    s.starved_s = 120;
    s.read.seconds = 2000;
    input_report_make(&r, &s, 100);
    CHECK_INT(r.more_readers, 46);
    check_warning(&r, 8, "46 more readers would be enough (data.readers: 50)");
    s.storage_limit = true;
    input_report_make(&r, &s, 100);
    check_warning(&r, 8, "the storage delivers at most 5.0 MB/s, however many readers there are");
}

TEST(nothing_is_divided_by_nothing)
{
    InputReport r;
    LoaderStats s = { 0 };
    char text[512];
    input_report_make(&r, &s, 0);
    CHECK(!input_report_warn(&r, 1));
    input_report_describe(&r, text, sizeof text);
    CHECK_CONTAINS(text, "data wait 0.0 %");
    s = stretch(200, 10, 0.1, 1); /* all of the time, and more by rounding */
    input_report_make(&r, &s, 100);
    CHECK_NEAR(r.data_wait_percent, 100, 0);
    CHECK(r.more_decode_threads > 0);
}
