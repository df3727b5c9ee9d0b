/* test_cache.c - the cache that processes share: filled once, never emptied, and nobody waits for
 * the dead; on a disk also by those who come later, whatever happened to the file. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/cache/cache.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES = 200, SAMPLE_BYTES = 960, SEEK_BYTES = 40 };

typedef struct Shared { /* of this test's processes */
    atomic_int reads, wrong, arrived;
    atomic_int shift; /* of what samples hold */
    atomic_bool blocks, fails, reading;
} Shared;

typedef struct CountedSource {
    Source base;
    Shared *shared;
} CountedSource;

static Status counted_read(const Source *s, int64_t id, ByteBuf *buf, Sample *out)
{
    Shared *shared = ((const CountedSource *)s)->shared;
    atomic_fetch_add(&shared->reads, 1);
    shared->reading = true;
    while (shared->blocks) clock_sleep_s(0.001);
    if (shared->fails) return fail(ERR_DATA, "sample %lld is bad", (long long)id);
    TRY(byte_buf_reserve(buf, SAMPLE_BYTES + SEEK_BYTES));
    memset(buf->data, (int)id + shared->shift, SAMPLE_BYTES + SEEK_BYTES);
    *out = source_file_sample(buf->data, SAMPLE_BYTES, id % 2 ? SEEK_BYTES : 0);
    return OK;
}

static const SourceKind counted = { .name = "counted", .read = counted_read };

static CountedSource make_source(void)
{
    void *p = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return (CountedSource){ .base = { .kind = &counted, .images = SAMPLES }, .shared = p };
}

/* Reads a sample and looks at its bytes. */
static Status read_one(SampleCache *c, const CountedSource *s, int64_t id, bool *hit)
{
    ByteBuf buf = { 0 };
    Sample sample = { 0 };
    Status status = cache_read(c, id, &s->base, id, &buf, &sample, hit);
    if (status == OK) {
        bool good = sample.file.bytes && sample.file.size == SAMPLE_BYTES;
        for (size_t i = 0; good && i < SAMPLE_BYTES; i++)
            good = sample.file.bytes[i] == (uint8_t)id;
        good = good && (sample.file.seek != NULL) == (id % 2 == 1) &&
               (!sample.file.seek || sample.file.seek_bytes == SEEK_BYTES);
        for (size_t i = 0; good && sample.file.seek && i < SEEK_BYTES; i++)
            good = sample.file.seek[i] == (uint8_t)id;
        s->shared->wrong += !good;
    }
    byte_buf_free(&buf);
    return status;
}

TEST(full_cache_keeps_what_it_has)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    CacheStats stats;
    bool hit = false;
    REQUIRE_OK(cache_create(&c, SAMPLES, 16 << 10));
    for (int pass = 0; pass < 3; pass++)
        for (int id = 0; id < SAMPLES; id++) CHECK_OK(read_one(c, &s, id, &hit));
    cache_stats(c, &stats);
    CHECK_INT(stats.samples, 15); /* 1024 or 1088 bytes each */
    CHECK_INT(stats.bytes, 15 * SAMPLE_BYTES);
    CHECK(stats.full);
    CHECK_INT(s.shared->reads, 3 * SAMPLES - 2 * 15);
    CHECK_INT(s.shared->wrong, 0);
    CHECK_OK(read_one(c, &s, 14, &hit));
    CHECK(hit);
    CHECK_OK(read_one(c, &s, 15, &hit));
    CHECK(!hit);
    cache_destroy(c);
}

TEST(processes_share_what_each_has_read)
{
    enum { PROCESSES = 4 };
    CountedSource s = make_source();
    SampleCache *c = NULL;
    bool hit = false;
    pid_t children[PROCESSES];
    REQUIRE_OK(cache_create(&c, SAMPLES, 1 << 20));
    CacheKey key = cache_key(c);
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        REQUIRE(children[p] >= 0);
        if (children[p] > 0) continue;
        SampleCache *joined = NULL;
        Status status = cache_join(&joined, &key, SAMPLES);
        for (int i = 0; i < SAMPLES && status == OK; i++) /* they meet in the middle */
            status = read_one(joined, &s, p % 2 ? SAMPLES - 1 - i : i, &hit);
        cache_destroy(joined);
        _exit(status == OK ? 0 : 1);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status = 0;
        CHECK(waitpid(children[p], &status, 0) == children[p] && status == 0);
    }
    CHECK_INT(s.shared->reads, SAMPLES);
    CHECK_INT(s.shared->wrong, 0);
    cache_destroy(c);
}

/* Two processes ask for each sample at the same moment. */
TEST(who_comes_a_moment_later_does_not_read_it_again)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    bool hit = false;
    REQUIRE_OK(cache_create(&c, SAMPLES, 1 << 20));
    const pid_t other = fork(); /* the memory file is mapped in both */
    REQUIRE(other >= 0);
    for (int id = 0; id < SAMPLES; id++) {
        atomic_fetch_add(&s.shared->arrived, 1);
        while (s.shared->arrived < 2 * (id + 1)) sched_yield();
        CHECK_OK(read_one(c, &s, id, &hit));
    }
    if (other == 0) _exit(0);
    CHECK(waitpid(other, NULL, 0) == other);
    CHECK_INT(s.shared->reads, SAMPLES);
    CHECK_INT(s.shared->wrong, 0);
    cache_destroy(c);
}

TEST(joining_what_is_not_there)
{
    SampleCache *c = NULL, *joined = NULL;
    REQUIRE_OK(cache_create(&c, SAMPLES, 1 << 20));
    CacheKey key = cache_key(c), other = key;
    other.token++;
    CHECK_STATUS(cache_join(&joined, &other, SAMPLES), ERR_ENV);
    CHECK_CONTAINS(status_message(), "a different memory file");
    CHECK_STATUS(cache_join(&joined, &key, SAMPLES + 1000), ERR_ENV);
    other = key;
    other.fd = 987;
    CHECK_STATUS(cache_join(&joined, &other, SAMPLES), ERR_ENV);
    CHECK_CONTAINS(status_message(), "cannot open the memory of process");
    other.fd = STDOUT_FILENO;
    CHECK_STATUS(cache_join(&joined, &other, SAMPLES), ERR_ENV);
    CHECK(joined == NULL);
    cache_destroy(c);
}

/* A process that has begun to load sample 7, which does not get on until the source no longer
 * blocks. */
static pid_t start_loader(SampleCache *c, const CountedSource *s)
{
    bool hit = false;
    s->shared->blocks = true;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        read_one(c, s, 7, &hit);
        for (;;) pause();
    }
    while (child > 0 && !s->shared->reading) clock_sleep_s(0.001);
    return child;
}

TEST(dead_loader_holds_nobody_up)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    bool hit = false;
    REQUIRE_OK(cache_create(&c, SAMPLES, 1 << 20));
    pid_t child = start_loader(c, &s);
    REQUIRE(child > 0);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    s.shared->blocks = false;
    double start_s = clock_s();
    CHECK_OK(read_one(c, &s, 7, &hit));
    CHECK(!hit && clock_s() - start_s < 1.5);
    CHECK_OK(read_one(c, &s, 7, &hit)); /* taken over, not only read */
    CHECK(hit);
    CHECK_INT(s.shared->reads, 2);
    cache_destroy(c);
}

/* A loader that lives but does not get on: others lose patience. */
TEST(slow_loader_holds_nobody_up_for_long)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    bool hit = false;
    REQUIRE_OK(cache_create(&c, SAMPLES, 1 << 20));
    pid_t child = start_loader(c, &s);
    REQUIRE(child > 0);
    kill(child, SIGSTOP);
    s.shared->blocks = false;
    double start_s = clock_s();
    CHECK_OK(read_one(c, &s, 7, &hit));
    CHECK(!hit && clock_s() - start_s < 8);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    cache_destroy(c);
}

TEST(bad_sample_is_bad_for_everybody)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    bool hit = false;
    REQUIRE_OK(cache_create(&c, SAMPLES, 1 << 20));
    s.shared->fails = true;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(read_one(c, &s, 3, &hit), ERR_DATA);
        CHECK_STR(status_message(), "sample 3 is bad");
    }
    s.shared->fails = false;
    CHECK_OK(read_one(c, &s, 3, &hit));
    CHECK_OK(read_one(c, &s, 3, &hit));
    CHECK(hit);
    cache_destroy(c);
}

/* Another that has the memory open must not end those who map it. */
TEST(the_memory_cannot_be_made_shorter)
{
    char path[64];
    struct stat info;
    SampleCache *c = NULL;
    REQUIRE_OK(cache_create(&c, 4, 1 << 20));
    snprintf(path, sizeof path, "/proc/self/fd/%lld", (long long)cache_key(c).fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
    CHECK_INT(info.st_mode & 0777, 0600);
    CHECK(ftruncate(fd, 0) != 0 && errno == EPERM);
    CHECK(ftruncate(fd, (off_t)1 << 30) != 0 && errno == EPERM);
    close(fd);
    cache_destroy(c);
}

/* ---- on a disk ---- */

enum { IDENTITY = 77, ROOM = 1 << 20 };

static const char *disk_path(void)
{
    static char path[1200];
    snprintf(path, sizeof path, "%s/samples.cache", test_scratch());
    return path;
}

static Status open_disk_of(SampleCache **c, uint64_t identity, size_t bytes)
{
    const CacheFile file = {
        .path = disk_path(), .identity = identity, .samples = SAMPLES, .bytes = bytes
    };
    return cache_open_file(c, &file);
}

static Status open_disk(SampleCache **c, size_t bytes)
{
    return open_disk_of(c, IDENTITY, bytes);
}

static void read_all(SampleCache *c, const CountedSource *s)
{
    bool hit = false;
    for (int id = 0; id < SAMPLES; id++) CHECK_OK(read_one(c, s, id, &hit));
}

TEST(a_file_outlives_its_processes)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    CacheStats stats;
    CHECK_STATUS(open_disk(&c, 0), ERR_IO); /* it is to be there */
    REQUIRE_OK(open_disk(&c, ROOM));
    read_all(c, &s);
    read_all(c, &s);
    CHECK_INT(s.shared->reads, SAMPLES);
    cache_destroy(c);
    REQUIRE_OK(open_disk(&c, 0));
    cache_stats(c, &stats);
    CHECK_INT(stats.samples, SAMPLES);
    CHECK_INT((int64_t)stats.capacity, ROOM);
    read_all(c, &s);
    CHECK_INT(s.shared->reads, SAMPLES);
    CHECK_INT(s.shared->wrong, 0);
    cache_destroy(c);
}

TEST(jobs_fill_one_file_together)
{
    enum { JOBS = 4 };
    CountedSource s = make_source();
    pid_t jobs[JOBS];
    for (int j = 0; j < JOBS; j++) {
        jobs[j] = fork();
        REQUIRE(jobs[j] >= 0);
        if (jobs[j] > 0) continue;
        SampleCache *c = NULL;
        bool hit = false;
        Status status = open_disk(&c, ROOM); /* each makes it, one succeeds */
        for (int i = 0; i < SAMPLES && status == OK; i++)
            status = read_one(c, &s, j % 2 ? SAMPLES - 1 - i : i, &hit);
        _exit(status == OK ? 0 : 1);
    }
    for (int j = 0; j < JOBS; j++) {
        int status = 0;
        CHECK(waitpid(jobs[j], &status, 0) == jobs[j] && status == 0);
    }
    CHECK_INT(s.shared->reads, SAMPLES);
    CHECK_INT(s.shared->wrong, 0);
}

TEST(what_is_damaged_on_a_disk_is_read_again)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    bool hit = false;
    REQUIRE_OK(open_disk(&c, ROOM));
    read_all(c, &s);
    int fd = open(disk_path(), O_RDWR | O_CLOEXEC);
    struct stat info;
    REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
    /* a byte of the first sample, then the end of the file */
    CHECK(pwrite(fd, "x", 1, 4096 + 100) == 1);
    CHECK_OK(read_one(c, &s, 0, &hit));
    CHECK(!hit);
    CHECK_OK(read_one(c, &s, 0, &hit)); /* put in anew */
    CHECK(hit);
    CHECK_INT(s.shared->reads, SAMPLES + 1);
    CHECK(ftruncate(fd, 4096 + 3000) == 0);
    read_all(c, &s);
    CHECK_INT(s.shared->wrong, 0);
    const int reads = s.shared->reads;
    CHECK(reads > SAMPLES + 100);
    read_all(c, &s);
    CHECK_INT(s.shared->reads, reads);
    close(fd);
    cache_destroy(c);
}

/* What others do to the file under a run that has it open. */
typedef void (*Change)(int fd, off_t bytes);

static void cut(int fd, off_t bytes)
{
    (void)bytes;
    CHECK(ftruncate(fd, 0) == 0);
}

static void cut_and_grow(int fd, off_t bytes) /* as where another rank puts a sample in meanwhile */
{
    CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, bytes) == 0);
}

static void overwrite(int fd, off_t bytes)
{
    char other[4096];
    memset(other, 0xa5, sizeof other);
    for (off_t at = 0; at < bytes; at += (off_t)sizeof other)
        CHECK(pwrite(fd, other, sizeof other, at) == (ssize_t)sizeof other);
}

TEST(a_file_that_changes_under_a_run_is_used_no_more)
{
    static const Change changes[] = { cut, cut_and_grow, overwrite };
    CountedSource s = make_source();
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        SampleCache *c = NULL;
        struct stat info;
        s.shared->reads = 0;
        REQUIRE_OK(open_disk(&c, ROOM));
        read_all(c, &s);
        CHECK_INT(s.shared->reads, SAMPLES);
        const int fd = open(disk_path(), O_RDWR | O_CLOEXEC);
        REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
        changes[i](fd, info.st_size);
        read_all(c, &s);
        read_all(c, &s);
        CHECK_INT(s.shared->reads, 3 * SAMPLES);
        cache_destroy(c);
        CHECK_STATUS(open_disk(&c, 0), ERR_DATA); /* the next run is told, and makes it anew */
        CHECK(unlink(disk_path()) == 0);
        close(fd);
    }
    CHECK_INT(s.shared->wrong, 0);
}

/* Blocks of other datasets in the place of ours, each under the number of one of ours. */
TEST(samples_of_other_datasets_are_not_taken)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    uint8_t *others = NULL;
    size_t bytes = 0;
    s.shared->shift = 1;
    REQUIRE_OK(open_disk_of(&c, IDENTITY + 1, ROOM));
    read_all(c, &s);
    cache_destroy(c);
    REQUIRE_OK(fs_read_file(disk_path(), &others, &bytes));
    REQUIRE(bytes > 4096 && unlink(disk_path()) == 0);
    s.shared->shift = 0;
    s.shared->wrong = 0;
    REQUIRE_OK(open_disk(&c, ROOM));
    read_all(c, &s);
    const int fd = open(disk_path(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK(pwrite(fd, others + 4096, bytes - 4096, 4096) == (ssize_t)bytes - 4096);
    s.shared->reads = 0;
    read_all(c, &s);
    CHECK_INT(s.shared->reads, SAMPLES);
    CHECK_INT(s.shared->wrong, 0);
    close(fd);
    mem_free(others);
    cache_destroy(c);
}

TEST(no_room_for_a_file_is_no_error)
{
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const struct rlimit limit = { 1000, 1000 };
        SampleCache *c = NULL;
        signal(SIGXFSZ, SIG_IGN);
        _exit(setrlimit(RLIMIT_FSIZE, &limit) == 0 && open_disk(&c, ROOM) == OK && !c ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(!fs_exists(disk_path()));
}

/* As a full disk: no file may grow past a limit. Later there is room. */
TEST(a_disk_that_takes_no_more_ends_nothing)
{
    CountedSource s = make_source();
    SampleCache *c = NULL;
    CacheStats stats;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const struct rlimit limit = { 4096 + 20000, 4096 + 20000 };
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || open_disk(&c, ROOM) != OK) _exit(1);
        read_all(c, &s);
        read_all(c, &s);
        cache_stats(c, &stats);
        const int64_t samples = stats.samples;
        for (int again = 0; again < 200; again++) { /* what was not taken takes no room */
            cache_set_capacity(c, ROOM);
            read_all(c, &s);
        }
        cache_stats(c, &stats);
        _exit(stats.full && samples > 5 && stats.samples < 20 && stats.samples >= samples ? 0 : 2);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_INT(s.shared->wrong, 0);
    REQUIRE_OK(open_disk(&c, 2 * ROOM));
    cache_stats(c, &stats);
    CHECK_INT((int64_t)stats.capacity, 2 * ROOM);
    read_all(c, &s);
    const int reads = s.shared->reads;
    read_all(c, &s);
    CHECK_INT(s.shared->reads, reads);
    CHECK_INT(s.shared->wrong, 0);
    cache_destroy(c);
}

TEST(foreign_files_are_refused_by_name)
{
    SampleCache *c = NULL;
    char link[1300];
    CacheFile other = { .path = disk_path(), .identity = IDENTITY + 1, .samples = SAMPLES };
    REQUIRE_OK(open_disk(&c, ROOM));
    cache_destroy(c);
    CHECK_STATUS(cache_open_file(&c, &other), ERR_DATA);
    CHECK_CONTAINS(status_message(), "samples.cache is not a cache of these files");
    other.identity = IDENTITY;
    other.samples = 100 * SAMPLES;
    CHECK_STATUS(cache_open_file(&c, &other), ERR_DATA);
    snprintf(link, sizeof link, "%s/link", test_scratch());
    REQUIRE(symlink(disk_path(), link) == 0);
    other.samples = SAMPLES;
    other.path = link;
    CHECK_STATUS(cache_open_file(&c, &other), ERR_IO);
    CHECK_CONTAINS(status_message(), "cannot open");
    REQUIRE(truncate(disk_path(), 100) == 0);
    CHECK_STATUS(open_disk(&c, ROOM), ERR_DATA);
    CHECK(c == NULL);
}
