/* test_main.c - runs the registered unit tests: test_main [--list] [--filter=TEXT] [--without=TEXT]
 * [--timeout=SECONDS]
 *
 * Each test is a child process, so a crash, a hang or a leaked thread ends that test and no other.
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

static TestCase *tests; /* sorted by id */
static int failed_checks;
static char *skip_why; /* WHY_BYTES, shared with the child; "" unless its test is skipped */
static char scratch_root[PATH_BYTES / 2], scratch[PATH_BYTES];
static bool scratch_made;

/* ---- registration ---- */

/* "tests/unit/test_str.c", "empty" -> "str.empty" */
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

_Noreturn static void run_child(const TestCase *test, const char *output, unsigned timeout_s)
{
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

/* *skipped: it did not fail, but could not run either. */
static bool run_test(const TestCase *test, const char *id, unsigned timeout_s, bool *skipped)
{
    char output[PATH_BYTES];
    int wait_status = 0;
    *skipped = false;
    skip_why[0] = '\0';
    snprintf(scratch, sizeof scratch, "%s/%s", scratch_root, id);
    snprintf(output, sizeof output, "%s/%s.out", scratch_root, id);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) run_child(test, output, timeout_s);
    if (pid < 0) {
        printf("FAIL %s: cannot fork: %s\n", id, strerror(errno));
        return false;
    }
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    kill(-pid, SIGKILL); /* whatever the test left running */
    const char *what = verdict(wait_status);
    if (what) {
        printf("FAIL %s: %s\n", id, what);
        show_file(output);
    } else remove_tree(scratch);
    unlink(output);
    *skipped = !what && WEXITSTATUS(wait_status) == EXIT_SKIPPED;
    if (*skipped) printf("skip %s: %s\n", id, skip_why);
    return what == NULL;
}

typedef struct Options {
    const char *filter, *without; /* parts of names; without may be NULL */
    unsigned timeout_s;
    bool list;
} Options;

static bool parse_options(int argc, char **argv, Options *o)
{
    *o = (Options){ .filter = "", .timeout_s = 60 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) o->list = true;
        else if (strncmp(argv[i], "--filter=", 9) == 0) o->filter = argv[i] + 9;
        else if (strncmp(argv[i], "--without=", 10) == 0) o->without = argv[i] + 10;
        else if (strncmp(argv[i], "--timeout=", 10) == 0)
            o->timeout_s = (unsigned)strtoul(argv[i] + 10, NULL, 10);
        else return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    Options options;
    int passed = 0, failed = 0, skips = 0;
    if (!parse_options(argc, argv, &options)) {
        fprintf(stderr, "usage: %s [--list] [--filter=TEXT] [--without=TEXT] [--timeout=SECONDS]\n",
                argv[0]);
        return 2;
    }
    skip_why = mmap(NULL, WHY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (skip_why == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    snprintf(scratch_root, sizeof scratch_root, "build/scratch/%ld", (long)getpid());
    if (!options.list && fs_make_dirs(scratch_root) != OK) {
        fprintf(stderr, "%s\n", status_message());
        return 2;
    }
    for (const TestCase *test = tests; test; test = test->next) {
        char id[ID_BYTES];
        bool skipped = false;
        test_id(test, id);
        if (!strstr(id, options.filter) || (options.without && strstr(id, options.without)))
            continue;
        if (options.list) printf("%s\n", id);
        else if (!run_test(test, id, options.timeout_s, &skipped)) failed++;
        else if (skipped) skips++;
        else passed++;
    }
    if (options.list) return 0;
    rmdir(scratch_root); /* stays if a failed test left its folder */
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skips);
    return failed > 0 || passed + skips == 0;
}
