/* test_main.c - runs the registered unit tests: test_main [--list] [--filter=TEXT] [--without=TEXT]
 * [--tests=FILE] [--timeout=SECONDS] [--jobs=N]
 *
 * FILE names tests, one a line: these alone run, in that order.
 * Each test is a child process, so a crash, a hang or a leaked thread ends that test and no other.
 * As many run at a time as there are cores, or N.
 * What a child prints goes to a file and is shown only if the test fails. The child leads a process
 * group of its own, which is killed when the test is over. A test that cannot run here says why in
 * a line "skip ID: why". The last line is "N passed, N failed, N skipped"; the exit status is 0
 * only if none failed and there was at least one. */
#include "tests/test.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Statuses that no exit() in a test's way would use: ending before the test's own end is a failure,
 * too. */
enum { EXIT_PASSED = 42, EXIT_FAILED = 43, EXIT_SKIPPED = 44 };

#define ID_BYTES   256
#define PATH_BYTES 1024
#define WHY_BYTES  512
#define JOBS_MAX   16

static TestCase *tests; /* sorted by id */
static int failed_checks;
static char
    *skip_why; /* WHY_BYTES, shared with the parent; "" unless the child's test is skipped */
static char scratch_root[PATH_BYTES / 2], scratch[PATH_BYTES];
static bool scratch_made;

/* A test that runs; test is NULL where a place is free. */
typedef struct Job {
    const TestCase *test;
    pid_t pid;
    char *why;
} Job;

typedef struct Tally {
    int passed, failed, skipped;
} Tally;

/* ---- registration ---- */

/* "tests/unit/base/test_str.c", "empty" -> "str.empty" */
static void test_id(const TestCase *test, char *out)
{
    const char *slash = strrchr(test->file, '/'), *file = slash ? slash + 1 : test->file;
    if (strncmp(file, "test_", 5) == 0) file += 5;
    snprintf(out, ID_BYTES, "%.*s.%s", (int)strcspn(file, "."), file, test->name);
}

void test_register(TestCase *test)
{
    char id[ID_BYTES], other[ID_BYTES];
    TestCase **at = &tests;
    test_id(test, id);
    for (; *at; at = &(*at)->next) {
        test_id(*at, other);
        if (strcmp(id, other) < 0) break;
    }
    test->next = *at;
    *at = test;
}

/* ---- checks; these run in the child ---- */

bool test_check(bool good, const char *file, int line, const char *text)
{
    if (good) return true;
    failed_checks++;
    printf("  %s:%d: failed: %s\n", file, line, text);
    return false;
}

bool test_check_status(Status got, Status want, const char *file, int line, const char *text)
{
    if (got == want) return true;
    failed_checks++;
    printf("  %s:%d: %s: status %s", file, line, text, status_name(got));
    if (got != OK) printf(" (%s)", status_message());
    printf(", wanted %s\n", status_name(want));
    return false;
}

bool test_check_int(int64_t got, int64_t want, const char *file, int line, const char *text)
{
    if (got == want) return true;
    failed_checks++;
    printf("  %s:%d: failed: %s: got %lld, wanted %lld\n", file, line, text, (long long)got,
           (long long)want);
    return false;
}

bool test_check_near(double got, double want, double tolerance, const char *file, int line,
                     const char *text)
{
    if (fabs(got - want) <= tolerance || (isinf(got) && got == want)) return true;
    failed_checks++;
    printf("  %s:%d: failed: %s: got %.17g, wanted %.17g within %g; off by %g\n", file, line, text,
           got, want, tolerance, fabs(got - want));
    return false;
}

bool test_check_string(const char *got, const char *want, const char *file, int line,
                       const char *text)
{
    if (got == want || (got && want && strcmp(got, want) == 0)) return true;
    failed_checks++;
    printf("  %s:%d: failed: %s:\n    got    %s\n    wanted %s\n", file, line, text,
           got ? got : "(null)", want ? want : "(null)");
    return false;
}

bool test_check_contains(const char *got, const char *part, const char *file, int line,
                         const char *text)
{
    if (got && strstr(got, part)) return true;
    failed_checks++;
    printf("  %s:%d: failed: %s: got \"%s\", which does not contain \"%s\"\n", file, line, text,
           got ? got : "(null)", part);
    return false;
}

void test_skip(const char *why)
{
    snprintf(skip_why, WHY_BYTES, "%s", why[0] ? why : "no reason given");
}

const char *test_scratch(void)
{
    if (scratch_made) return scratch;
    if (fs_make_dirs(scratch) != OK) {
        printf("  %s\n", status_message());
        exit(2);
    }
    scratch_made = true;
    return scratch;
}

/* ---- running ---- */

static void remove_tree(const char *path)
{
    struct stat st;
    char **names;
    int64_t count;
    if (lstat(path, &st) != 0) return;
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    if (fs_list(path, &names, &count) != OK) return;
    for (int64_t i = 0; i < count; i++) {
        char *inside = fs_join(path, names[i]);
        if (inside) remove_tree(inside);
        mem_free(inside);
    }
    mem_free(names);
    rmdir(path);
}

static void output_path(const char *id, char *path)
{
    snprintf(path, PATH_BYTES, "%s/%s.out", scratch_root, id);
}

_Noreturn static void run_child(const TestCase *test, unsigned timeout_s)
{
    char id[ID_BYTES], output[PATH_BYTES];
    test_id(test, id);
    output_path(id, output);
    snprintf(scratch, sizeof scratch, "%s/%s", scratch_root, id);
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    setpgid(0, 0);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(3);
    setvbuf(stdout, NULL, _IONBF, 0); /* nothing is lost in a crash */
    alarm(timeout_s);
    test->run();
    exit(failed_checks ? EXIT_FAILED
         : skip_why[0] ? EXIT_SKIPPED
                       : EXIT_PASSED); /* not _exit: the leak checker runs at exit */
}

/* How the child ended, in words; NULL if nothing failed. */
static const char *verdict(int wait_status)
{
    static char text[80];
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_PASSED) return NULL;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_SKIPPED) return NULL;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_FAILED) return "failed checks";
    if (WIFEXITED(wait_status))
        snprintf(text, sizeof text, "ended with exit status %d", WEXITSTATUS(wait_status));
    else if (WTERMSIG(wait_status) == SIGALRM) return "took too long";
    else
        snprintf(text, sizeof text, "was killed by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    return text;
}

static void show_file(const char *path)
{
    char line[1024];
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) fputs(line, stdout);
    fclose(f);
}

static void start(Job *job, const TestCase *test, unsigned timeout_s)
{
    *job = (Job){ test, .why = job->why };
    skip_why = job->why;
    skip_why[0] = '\0';
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0) run_child(test, timeout_s);
}

/* Counts the test, and says what is to be said of it. */
static void finish(Job *job, int wait_status, Tally *tally)
{
    char id[ID_BYTES], output[PATH_BYTES], folder[PATH_BYTES];
    test_id(job->test, id);
    output_path(id, output);
    snprintf(folder, sizeof folder, "%s/%s", scratch_root, id);
    kill(-job->pid, SIGKILL); /* whatever the test left running */
    const char *what = verdict(wait_status);
    if (what) {
        tally->failed++;
        printf("FAIL %s: %s\n", id, what);
        show_file(output);
    } else if (WEXITSTATUS(wait_status) == EXIT_SKIPPED) {
        tally->skipped++;
        printf("skip %s: %s\n", id, job->why);
    } else tally->passed++;
    if (!what) remove_tree(folder);
    unlink(output);
    job->test = NULL;
}

/* Waits for one of the tests that run; false if none does. */
static bool finish_one(Job *jobs, Tally *tally)
{
    int wait_status = 0;
    pid_t pid = 0;
    do pid = waitpid(-1, &wait_status, 0);
    while (pid < 0 && errno == EINTR);
    for (int i = 0; pid > 0 && i < JOBS_MAX; i++)
        if (jobs[i].test && jobs[i].pid == pid) finish(&jobs[i], wait_status, tally);
    return pid > 0;
}

static Job *free_job(Job *jobs, int count)
{
    for (int i = 0; i < count; i++)
        if (!jobs[i].test) return &jobs[i];
    return NULL;
}

typedef struct Options {
    const char *filter, *without; /* parts of names; without may be NULL */
    const char *file;             /* of names; NULL: all tests */
    unsigned timeout_s;
    int jobs;
    bool list;
} Options;

static bool parse_options(int argc, char **argv, Options *o)
{
    *o = (Options){ .filter = "", .timeout_s = 120, .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN) };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) o->list = true;
        else if (strncmp(argv[i], "--filter=", 9) == 0) o->filter = argv[i] + 9;
        else if (strncmp(argv[i], "--without=", 10) == 0) o->without = argv[i] + 10;
        else if (strncmp(argv[i], "--tests=", 8) == 0) o->file = argv[i] + 8;
        else if (strncmp(argv[i], "--timeout=", 10) == 0)
            o->timeout_s = (unsigned)strtoul(argv[i] + 10, NULL, 10);
        else if (strncmp(argv[i], "--jobs=", 7) == 0) o->jobs = (int)strtol(argv[i] + 7, NULL, 10);
        else return false;
    }
    if (o->jobs < 1) o->jobs = 1;
    if (o->jobs > JOBS_MAX) o->jobs = JOBS_MAX;
    return true;
}

static bool chosen(const TestCase *test, const Options *o, char *id)
{
    test_id(test, id);
    return strstr(id, o->filter) && !(o->without && strstr(id, o->without));
}

static void run_tests(Job *jobs, const Options *o, Tally *tally)
{
    char id[ID_BYTES];
    for (const TestCase *test = tests; test; test = test->next) {
        Job *job;
        if (!chosen(test, o, id)) continue;
        while (!(job = free_job(jobs, o->jobs))) finish_one(jobs, tally);
        start(job, test, o->timeout_s);
        if (job->pid > 0) continue;
        printf("FAIL %s: cannot fork: %s\n", id, strerror(errno));
        job->test = NULL;
        tally->failed++;
    }
    while (finish_one(jobs, tally)) {
    }
}

static void list_tests(const Options *o)
{
    char id[ID_BYTES];
    for (const TestCase *test = tests; test; test = test->next)
        if (chosen(test, o, id)) printf("%s\n", id);
}

static TestCase *take_test(const char *wanted)
{
    for (TestCase **at = &tests; *at; at = &(*at)->next) {
        char id[ID_BYTES];
        TestCase *test = *at;
        test_id(test, id);
        if (strcmp(id, wanted) != 0) continue;
        *at = test->next;
        return test;
    }
    return NULL;
}

/* Leaves in `tests` those that the file names, in its order. */
static bool keep_named(const char *path)
{
    char line[ID_BYTES];
    TestCase *kept = NULL, **end = &kept;
    FILE *f = fopen(path, "r");
    bool good = f != NULL;
    if (!f) fprintf(stderr, "%s: %s\n", path, strerror(errno));
    while (good && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        *end = take_test(line);
        good = *end != NULL;
        if (good) end = &(*end)->next;
        else fprintf(stderr, "%s: there is no test %s\n", path, line);
    }
    if (f) fclose(f);
    *end = NULL;
    tests = kept;
    return good;
}

int main(int argc, char **argv)
{
    Options options;
    Job jobs[JOBS_MAX] = { 0 };
    Tally tally = { 0 };
    if (!parse_options(argc, argv, &options)) {
        fprintf(stderr,
                "usage: %s [--list] [--filter=TEXT] [--without=TEXT] [--tests=FILE] "
                "[--timeout=SECONDS] [--jobs=N]\n",
                argv[0]);
        return 2;
    }
    if (options.file && !keep_named(options.file)) return 2;
    if (options.list) {
        list_tests(&options);
        return 0;
    }
    char *whys =
        mmap(NULL, JOBS_MAX * WHY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (whys == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    for (int i = 0; i < JOBS_MAX; i++) jobs[i].why = whys + i * WHY_BYTES;
    snprintf(scratch_root, sizeof scratch_root, "build/scratch/%ld", (long)getpid());
    if (fs_make_dirs(scratch_root) != OK) {
        fprintf(stderr, "%s\n", status_message());
        return 2;
    }
    run_tests(jobs, &options, &tally);
    rmdir(scratch_root); /* stays if a failed test left its folder */
    printf("%d passed, %d failed, %d skipped\n", tally.passed, tally.failed, tally.skipped);
    return tally.failed > 0 || tally.passed + tally.skipped == 0;
}
