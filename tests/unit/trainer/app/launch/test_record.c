/* test_record.c - what a supervised run records. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/launch/record.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void write_text(const char *name, const char *text)
{
    char *path = fs_join(test_scratch(), name);
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    mem_free(path);
}

TEST(a_torn_event_is_cut_off)
{
    Record *r = NULL;
    uint8_t *text = NULL;
    size_t bytes = 0;
    write_text("launch.jsonl", "{\"event\":\"start\"}\n{\"event\":\"ru");
    REQUIRE_OK(record_open(&r, test_scratch(), 0, 0));
    json_int(record_begin(r, "exit"), "code", 3);
    record_end(r);
    record_close(r);
    char *path = fs_join(test_scratch(), "launch.jsonl");
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_CONTAINS((const char *)text, "{\"event\":\"start\"}\n{\"event\":\"exit\",\"time\":");
    mem_free(text);
    mem_free(path);
}

/* What record_print_state() says of the run in the scratch folder; mem_free. */
static char *printed_state(void)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    char *path = fs_join(test_scratch(), "printed");
    fflush(stdout);
    int before = dup(STDOUT_FILENO), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    Status status = record_print_state(test_scratch());
    dup2(before, STDOUT_FILENO);
    close(before);
    close(file);
    CHECK_OK(status);
    CHECK_OK(fs_read_file(path, &text, &bytes));
    mem_free(path);
    return (char *)text;
}

static void check_printed(const char *want)
{
    char *text = printed_state();
    CHECK_CONTAINS(text, want);
    mem_free(text);
}

TEST(status_is_that_of_the_supervisor)
{
    static HostList hosts;
    static HostBook book;
    char host[256] = "", want[400];
    int repeated = 0;
    Record *r = NULL;
    REQUIRE(gethostname(host, sizeof host - 1) == 0);
    REQUIRE_OK(hosts_parse(&hosts, &repeated, "h1:2\nh2:3\n", 1));
    hosts_strike(&book, "h3", clock_s(), 60);
    LaunchState state = { .state = "running",
                          .hosts = &hosts,
                          .book = &book,
                          .attempt = 3,
                          .restarts = 2,
                          .max_restarts = 7,
                          .min_hosts = 1,
                          .max_hosts = 4,
                          .since_s = clock_unix_s(),
                          .last = "start 2 failed" };
    REQUIRE_OK(record_open(&r, test_scratch(), 0, 0));
    record_state(r, &state);
    snprintf(want, sizeof want, "supervisor  process %ld on %s\nstate       running for 0 s\n",
             (long)getpid(), host);
    check_printed(want);
    check_printed("hosts       5 ranks on h1:2 h2:3; wanted 1 to 4\ncooldown    h3 for ");
    check_printed(" s, lost 1 times\nstarted     3 times; 2 of 7 restarts after failures used\n");
    check_printed("last        start 2 failed\n");
    record_close(r);
    snprintf(want, sizeof want, " on %s (disappeared)\n", host);
    check_printed(want);
    REQUIRE_OK(record_open(&r, test_scratch(), 0, 0));
    state.state = "done";
    state.max_hosts = 0;
    record_state(r, &state);
    record_close(r);
    snprintf(want, sizeof want, " on %s (has ended)\nstate       done ", host);
    check_printed(want);
    check_printed("; wanted 1 to any number\n");
}

TEST(status_of_no_run_is_an_error)
{
    CHECK_STATUS(record_print_state(test_scratch()), ERR_USAGE);
    write_text("launch.status.json", "{\"state\":");
    CHECK_STATUS(record_print_state(test_scratch()), ERR_DATA);
}
