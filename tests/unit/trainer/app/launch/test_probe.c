/* test_probe.c - asking for hosts: lists that are empty, agents that cannot be run. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/launch/probe.h"
#include <stdio.h>
#include <string.h>

static HostList list;

static void write_list(const char *text)
{
    char *path = fs_join(test_scratch(), "list");
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    mem_free(path);
}

TEST(an_empty_list_leaves_the_last_one)
{
    char script[600];
    snprintf(script, sizeof script, "cat %s/list", test_scratch());
    LaunchOptions o = { .hosts_script = script, .agent = "true", .slots = 1 };
    Probe *p;
    REQUIRE_OK(probe_create(&p, &o));
    write_list("\n");
    CHECK_INT(probe_discover(p)->count, 0);
    CHECK_STR(probe_problem(p), "the hosts script lists no hosts");
    write_list("a\nb\n");
    CHECK_INT(probe_discover(p)->count, 2);
    CHECK_STR(probe_problem(p), "");
    write_list("");
    CHECK_INT(probe_discover(p)->count, 2);
    CHECK_STR(probe_problem(p), "the hosts script lists no hosts");
    write_list("c\n");
    CHECK_STR(probe_discover(p)->host[0].name, "c");
    probe_destroy(p);
}

/* What is said of three hosts that are asked through such an agent. */
static Status ask_through(const char *agent, int *answering)
{
    LaunchOptions o = { .hosts_script = "echo a; echo b; echo c", .agent = agent, .slots = 1 };
    Probe *p = NULL;
    CHECK_OK(probe_create(&p, &o));
    list = *probe_discover(p);
    CHECK(probe_ask(p, &list));
    *answering = list.count;
    Status status = probe_hopeless(p);
    probe_destroy(p);
    return status;
}

TEST(a_host_that_is_named_twice_counts_once_and_is_told_of)
{
    char script[600], *log = fs_join(test_scratch(), "log");
    uint8_t *said = NULL;
    size_t bytes;
    snprintf(script, sizeof script, "cat %s/list", test_scratch());
    LaunchOptions o = { .hosts_script = script, .agent = "true", .slots = 1 };
    Probe *p;
    REQUIRE_OK(probe_create(&p, &o));
    REQUIRE_OK(log_open(log, 0, LOG_INFO));
    write_list("c\nd\nc\n");
    CHECK_INT(probe_discover(p)->count, 2);
    CHECK_STR(probe_problem(p), ""); /* it can be used */
    log_close();
    REQUIRE_OK(fs_read_file(log, &said, &bytes));
    CHECK_CONTAINS((char *)said, "the hosts script lists some hosts twice; each counts once");
    mem_free(said);
    mem_free(log);
    probe_destroy(p);
}

TEST(an_agent_that_cannot_be_run_is_hopeless)
{
    int answering;
    CHECK_STATUS(ask_through("/no/such/agent -x", &answering), ERR_USAGE);
    CHECK_STR(status_message(), "--agent /no/such/agent -x: cannot be run: it does not exist");
    CHECK_STATUS(ask_through("/dev/null", &answering), ERR_USAGE);
    CHECK_STR(status_message(), "--agent /dev/null: cannot be run: it is not executable");
    CHECK_OK(ask_through("false", &answering)); /* the hosts may come */
    CHECK_INT(answering, 0);
    CHECK_OK(ask_through("true", &answering));
    CHECK_INT(answering, 3);
    CHECK_OK(
        /* one host's own trouble */
        ask_through("sh -c 'case $0 in a) exit 127 ;; b) exit 1 ;; esac'", &answering));
    CHECK_INT(answering, 1);
}

TEST(an_agent_that_has_worked_is_waited_for)
{
    char agent[600], *path = fs_join(test_scratch(), "agent");
    LaunchOptions o = { .hosts_script = "echo a", .agent = agent, .slots = 1 };
    Probe *p;
    snprintf(agent, sizeof agent, "sh %s", path);
    CHECK_OK(fs_write_atomic(path, "exit 0\n", 7));
    REQUIRE_OK(probe_create(&p, &o));
    list = *probe_discover(p);
    CHECK(probe_ask(p, &list) && list.count == 1);
    CHECK_OK(fs_write_atomic(path, "exit 127\n", 9));
    CHECK(probe_ask(p, &list) && list.count == 0);
    CHECK_OK(probe_hopeless(p));
    probe_destroy(p);
    mem_free(path);
}
