/* probe.c - see probe.h. */
#include "trainer/app/launch/probe.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/child.h"
#include "base/process/process.h"
#include "base/str.h"
#include "trainer/engine/guard/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CANNOT_EXECUTE 126  /* what sh says of a file that is there but is no program */
#define PERIOD_S       0.05 /* between two looks whether we are asked to stop */

/* asks nothing, ends soon */
static const char default_agent[] = "ssh -o BatchMode=yes -o ConnectTimeout=4";

/* What is wrong with the hosts script. Each is said once until it changes, in the words of its
 * first time: those of a failing script may hold a time or a number and differ at every call. */
typedef enum Trouble { NONE, NOT_RUN, KILLED, FAILED, JUNK, EMPTY, TWICE } Trouble;

struct Probe {
    const LaunchOptions *o;
    HostList listed, fresh;
    pid_t asked[HOSTS_MAX];
    /* /dev/null: what ssh says of a dead host every few seconds is our sentence already */
    int nowhere;
    int no_program;   /* 126 or 127 where the script cannot be run */
    int no_agent;     /* the same of the agent, where no host could be asked for it */
    bool agent_works; /* has reached a host */
    Trouble trouble;
    char script_problem[512], host_problem[512];
};

Status probe_create(Probe **out, const LaunchOptions *options)
{
    Probe *p = *out = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->o = options;
    p->nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (p->nowhere < 0)
        return fail(ERR_ENV, "/dev/null: cannot open for writing: %s", strerror(errno));
    if (options->ranks > 0)
        p->listed = (HostList){ .count = 1, .host = { { "localhost", options->ranks } } };
    return OK;
}

void probe_destroy(Probe *p)
{
    if (p && p->nowhere >= 0) close(p->nowhere);
    mem_free(p);
}

/* ---- the hosts script ---- */

static bool is_no_program(int code)
{
    return code == CANNOT_EXECUTE || code == CHILD_CANNOT_START;
}

/* What is wrong with the result; problem says it. TWICE is a list none the less, in p->fresh. EMPTY
 * is none: what a script asks may fail without a word, and a run that is up need not end for
 * that. */
static Trouble read_result(Probe *p, const ChildResult *r, char *problem, size_t bytes)
{
    const char *line = str_last_line(r->errors.text);
    int duplicates = 0;
    p->no_program = is_no_program(r->code) ? r->code : 0;
    if (r->timed_out) {
        snprintf(problem, bytes, "the hosts script was killed after %.0f s", PROBE_SCRIPT_S);
        return KILLED;
    }
    if (r->code != 0) {
        snprintf(problem, bytes, "the hosts script failed with exit code %d%s%.255s", r->code,
                 line[0] ? ": " : "", line);
        return p->no_program ? NOT_RUN : FAILED;
    }
    if (hosts_parse(&p->fresh, &duplicates, r->output.text ? r->output.text : "", p->o->slots) !=
        OK) {
        snprintf(problem, bytes, "the hosts script's output, %s", status_message());
        return JUNK;
    }
    snprintf(problem, bytes, "the hosts script lists %s",
             p->fresh.count == 0 ? "no hosts" : "some hosts twice; each counts once");
    if (p->fresh.count == 0) return EMPTY;
    return duplicates > 0 ? TWICE : NONE;
}

static bool is_usable(Trouble trouble)
{
    return trouble == NONE || trouble == TWICE;
}

const HostList *probe_discover(Probe *p)
{
    const char *argv[] = { "sh", "-c", p->o->hosts_script, NULL };
    char problem[sizeof p->script_problem];
    ChildResult r;
    Trouble trouble = NOT_RUN;
    if (p->o->ranks > 0) return &p->listed;
    Status status = child_run_until(&r, argv, PROBE_SCRIPT_S, signals_stop_requested);
    if (status == OK && signals_stop_requested()) { /* cut short, perhaps */
        child_result_free(&r);
        return &p->listed;
    }
    if (status != OK) {
        snprintf(problem, sizeof problem, "%s", status_message());
    } else {
        trouble = read_result(p, &r, problem, sizeof problem);
        child_result_free(&r);
        if (is_usable(trouble)) p->listed = p->fresh;
    }
    if (trouble == p->trouble) return &p->listed;
    p->trouble = trouble;
    snprintf(p->script_problem, sizeof p->script_problem, "%s", is_usable(trouble) ? "" : problem);
    if (trouble != NONE) log_warning("launch: %s", problem);
    return &p->listed;
}

/* ---- hosts ---- */

static Status ask_one(Probe *p, int i, const char *name)
{
    /* As mpirun calls an agent: words, host, command. */
    const char *agent = p->o->agent ? p->o->agent : default_agent;
    StrBuf command FREED_BY(str_free) = { 0 };
    p->asked[i] = 0;
    if (strcmp(name, "localhost") == 0 || strcmp(name, process_host()) == 0) return OK;
    str_printf(&command, "exec %s \"$@\"", agent);
    const char *argv[] = { "sh", "-c", command.text, "probe", name, "true", NULL };
    return command.failed ? fail(ERR_MEMORY, "out of memory")
                          : child_start(&p->asked[i], argv, p->nowhere, p->nowhere);
}

/* Its exit code; -1: no answer in time, or we are asked to stop. */
static int answer_of(Probe *p, int i, double end)
{
    int code = 0;
    if (p->asked[i] == 0) return 0;
    while (!child_wait(p->asked[i], &code, PERIOD_S)) {
        if (clock_s() < end && !signals_stop_requested()) continue;
        child_kill(p->asked[i]);
        return -1;
    }
    return code;
}

/* Takes the hosts out that do not answer. Returns how many there were. */
static int keep_answering(Probe *p, HostList *hosts)
{
    double end = clock_s() + PROBE_HOST_S;
    int kept = 0, silent = 0, unable = 0;
    for (int i = 0; i < hosts->count; i++) {
        int code = answer_of(p, i, end);
        if (code == 0 && p->asked[i] != 0) p->agent_works = true;
        if (code == 0) hosts->host[kept++] = hosts->host[i];
        else if (silent++ == 0)
            snprintf(p->host_problem, sizeof p->host_problem, "%s does not answer",
                     hosts->host[i].name);
        if (is_no_program(code)) {
            unable++;
            p->no_agent = code;
        }
    }
    if (unable < silent || p->agent_works) p->no_agent = 0;
    hosts->count = kept;
    return silent;
}

bool probe_ask(Probe *p, HostList *hosts)
{
    int started = 0;
    p->host_problem[0] = '\0';
    p->no_agent = 0;
    for (; started < hosts->count; started++)
        if (ask_one(p, started, hosts->host[started].name) != OK) break;
    if (started < hosts->count) {
        snprintf(p->host_problem, sizeof p->host_problem, "%s", status_message());
        for (int i = 0; i < started; i++)
            if (p->asked[i] != 0) child_kill(p->asked[i]);
        return false;
    }
    int silent = keep_answering(p, hosts);
    if (silent > 1)
        snprintf(p->host_problem, sizeof p->host_problem, "%d of the listed hosts do not answer",
                 silent);
    return !signals_stop_requested();
}

const char *probe_problem(const Probe *p)
{
    return p->script_problem[0] ? p->script_problem : p->host_problem;
}

Status probe_hopeless(const Probe *p)
{
    if (p->no_program != 0 && p->listed.count == 0)
        return fail(ERR_USAGE, "--hosts-script %s: %s", p->o->hosts_script, p->script_problem);
    if (p->no_agent == 0) return OK;
    const char *why = p->no_agent == CANNOT_EXECUTE ? "is not executable" : "does not exist";
    if (p->o->agent) return fail(ERR_USAGE, "--agent %s: cannot be run: it %s", p->o->agent, why);
    return fail(ERR_ENV, "%s: cannot be run to reach hosts: ssh %s", default_agent, why);
}
