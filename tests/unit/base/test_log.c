/* Who prints what where. Each test redirects the console into files, which the fork per test
 * confines to it. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int saved_stdout, saved_stderr;

static char *path_in_scratch(const char *name)
{
    static char paths[4][1200];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_scratch(), name);
    return path;
}

static void redirect(int from, const char *name)
{
    int fd = open(path_in_scratch(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(fd >= 0 && dup2(fd, from) >= 0);
    close(fd);
}

static void capture(void)
{
    saved_stdout = dup(STDOUT_FILENO);
    saved_stderr = dup(STDERR_FILENO);
    redirect(STDOUT_FILENO, "stdout");
    redirect(STDERR_FILENO, "stderr");
}

static void release(void)
{
    fflush(NULL);
    dup2(saved_stdout, STDOUT_FILENO);
    dup2(saved_stderr, STDERR_FILENO);
}

static void check_file(const char *name, const char *want)
{
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch(name), &data, &bytes));
    CHECK_STR((const char *)data, want);
    mem_free(data);
}

static void say_everything(void)
{
    log_debug("debug %d", 1);
    log_info("info %d", 2);
    log_warning("warning %d", 3);
    log_error("error %d", 4);
    log_progress("progress %d", 5);
    log_progress("%s", "");
}

TEST(rank_zero_speaks)
{
    capture();
    Status status = log_open(path_in_scratch("log.txt"), 0, LOG_INFO);
    say_everything();
    CHECK(!log_console_is_terminal());
    log_close();
    release();
    CHECK_OK(status);
    check_file("stdout", "info 2\nprogress 5\n");
    check_file("stderr", "convoy: warning: warning 3\nconvoy: error: error 4\n");
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch("log.txt"), &data, &bytes));
    CHECK_CONTAINS((const char *)data, "Z info info 2\n");
    CHECK_CONTAINS((const char *)data, "Z warning warning 3\n");
    CHECK_CONTAINS((const char *)data, "Z error error 4\n");
    CHECK(!strstr((const char *)data, "debug"));
    mem_free(data);
}

TEST(other_ranks_print_errors_only)
{
    capture();
    Status status = log_open(path_in_scratch("log.txt"), 3, LOG_DEBUG);
    int rank = log_rank();
    say_everything();
    log_close();
    release();
    CHECK_OK(status);
    CHECK_INT(rank, 3);
    check_file("stdout", "");
    check_file("stderr", "convoy: error: error 4\n");
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch("log.txt"), &data, &bytes));
    CHECK_CONTAINS((const char *)data, "Z info rank 3: info 2\n");
    mem_free(data);
}

TEST(before_open_everything_goes_to_stderr)
{
    capture();
    say_everything();
    release();
    check_file("stdout", "");
    check_file("stderr",
               "info 2\nconvoy: warning: warning 3\nconvoy: error: error 4\nprogress 5\n");
}

/* In a process whose own terminal it is: whoever watches it. */
static int speak_on(const char *terminal)
{
    setsid();
    int fd = open(terminal, O_RDWR);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || log_open(NULL, 0, LOG_INFO) != OK) return 1;
    if (!log_console_is_terminal()) return 2;
    log_progress("%d of 2", 1);
    log_progress("%d of 2", 2);
    log_info("info");
    Status status = log_print("answer: ");
    log_info("info");
    log_progress("3 of 2");
    if (status == OK) status = log_print("table: ");
    log_info("info");
    log_progress("4 of 2");
    log_close();
    return status == OK ? 0 : 3;
}

/* What is printed takes the place of the live line, which is wiped once: what follows it is not. */
TEST(a_terminal_has_one_live_line)
{
    static const char want[] = "1 of 2\r\033[K2 of 2\r\033[Kinfo\r\nanswer: info\r\n"
                               "3 of 2\r\033[Ktable: info\r\n4 of 2\r\033[K";
    char seen[400] = "";
    int status = -1, master = posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(speak_on(ptsname(master)));
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ssize_t n = status == 0;
    for (size_t length = 0; n > 0; length += n > 0 ? (size_t)n : 0) /* until nobody has it open */
        n = read(master, seen + length, sizeof seen - 1 - length);
    CHECK_STR(seen, want);
    close(master);
}

TEST(levels_filter_the_console)
{
    capture();
    Status status = log_open(NULL, 0, LOG_DEBUG);
    log_debug("seen");
    log_close();
    CHECK_OK(log_open(NULL, 0, LOG_ERROR));
    log_info("hidden");
    log_warning("hidden");
    log_close();
    release();
    CHECK_OK(status);
    check_file("stdout", "seen\n");
    check_file("stderr", "");
}

TEST(one_event_is_one_line)
{
    char text[10000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    capture();
    log_error("two\nlines\r\x1b[31m");
    log_error("%s", text);
    release();
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch("stderr"), &data, &bytes));
    CHECK(strncmp((const char *)data, "convoy: error: two\\nlines\\r\\x1b[31m\n", 36) == 0);
    CHECK(bytes > 4000 && bytes < 4200 && data[bytes - 1] == '\n');
    mem_free(data);
}

TEST(log_file_is_appended_to)
{
    capture();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(log_open(path_in_scratch("log.txt"), 0, LOG_INFO));
        log_info("line %d", i);
        log_close();
    }
    Status none = log_open(path_in_scratch("none/log.txt"), 0, LOG_INFO);
    release();
    CHECK_STATUS(none, ERR_IO);
    CHECK_CONTAINS(status_message(), "none/log.txt: cannot open for writing");
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch("log.txt"), &data, &bytes));
    CHECK_CONTAINS((const char *)data, "line 0\n");
    CHECK_CONTAINS((const char *)data, "line 1\n");
    mem_free(data);
}

/* What names and files hold must not steer the terminal, nor make lines of its own. */
#define STEERS "a\033[2J\x9b\xc2\x9b\xe2\x80\xae\nconvoy: error: forged"
#define SHOWN  "a\\x1b[2J\\x9b\\xc2\\x9b\\xe2\\x80\\xae"

TEST(text_of_others_is_shown_escaped)
{
    capture();
    Status opened = log_open(path_in_scratch("log.txt"), 0, LOG_INFO);
    log_info("%s", STEERS);
    log_warning("%s", STEERS);
    log_progress("%s", STEERS);
    Status printed = log_print(STEERS "\n"), screen = log_print_screen("x\033\n");
    log_close();
    release();
    CHECK_OK(opened);
    CHECK_OK(printed);
    CHECK_OK(screen);
    check_file("stdout", SHOWN "\\nconvoy: error: forged\n" SHOWN "\\nconvoy: error: forged\n" SHOWN
                               "\nconvoy: error: forged\n\033[H\033[Jx\\x1b\n");
    check_file("stderr", "convoy: warning: " SHOWN "\\nconvoy: error: forged\n");
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch("log.txt"), &data, &bytes));
    CHECK_CONTAINS((const char *)data, "Z info " SHOWN "\\nconvoy: error: forged\n");
    CHECK(!strchr((const char *)data, '\033'));
    mem_free(data);
}

TEST(print_is_verbatim_and_reports_a_full_disk)
{
    capture();
    Status good = log_print("a\n\tb 100%s\n");
    int full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    Status bad = log_print("lost");
    release();
    CHECK_OK(good);
    CHECK_STATUS(bad, ERR_IO);
    check_file("stdout", "a\n\tb 100%s\n");
}

TEST(lines_that_are_lost_are_not_forgotten)
{
    capture();
    Status opened = log_open("/dev/full", 0, LOG_INFO);
    for (int i = 0; i < 2; i++) log_info("not in the file");
    const Status good = log_check_output();
    const int full = open("/dev/full", O_WRONLY);
    CHECK(dup2(full, STDOUT_FILENO) >= 0);
    log_info("lost");
    const Status bad = log_check_output();
    log_close();
    release();
    CHECK_OK(opened);
    CHECK_OK(good);
    CHECK_STATUS(bad, ERR_IO);
    CHECK_STR(status_message(), "cannot write to standard output: No space left on device");
    check_file("stdout", "not in the file\nnot in the file\n");
    check_file("stderr", "convoy: warning: /dev/full: cannot write: No space left on device; some "
                         "lines are lost\n");
}

TEST(other_ranks_print_nothing)
{
    capture();
    Status opened = log_open(NULL, 3, LOG_INFO), common = log_print("common\n");
    log_close();
    release();
    CHECK_OK(opened);
    CHECK_OK(common);
    check_file("stdout", "");
}

TEST(broken_invariant_aborts_with_one_line)
{
    capture();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        ASSERT(1 + 1 == 3);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    release();
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    uint8_t *data;
    size_t bytes;
    REQUIRE_OK(fs_read_file(path_in_scratch("stderr"), &data, &bytes));
    CHECK_CONTAINS((const char *)data, "convoy: error: rank 0: tests/unit/base/test_log.c:");
    CHECK_CONTAINS((const char *)data, "broken invariant: 1 + 1 == 3\n");
    mem_free(data);
}
