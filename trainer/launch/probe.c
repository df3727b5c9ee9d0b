/* probe.c - see probe.h. */
#include "trainer/launch/probe.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/launch/child.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CANNOT_EXECUTE 126 /* what sh says of a file that is there but is no program */

struct Probe {
    const LaunchOptions *o;
    HostList listed, fresh;
    pid_t asked[HOSTS_MAX];
    char own_host[HOST_NAME_BYTES];
    int nowhere;    /* /dev/null: what ssh says of a dead host every few seconds is our sentence already */
    int no_program; /* 126 or 127 where the script cannot be run */
    char script_problem[512], host_problem[512], said[512];
};

Status probe_create(Probe **out, const LaunchOptions *options)
{
    Probe *p = *out = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->o = options;
    p->nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (p->nowhere < 0) return fail(ERR_ENV, "/dev/null: cannot open for writing: %s", strerror(errno));
    if (gethostname(p->own_host, sizeof p->own_host - 1) != 0) p->own_host[0] = '\0';
    return OK;
}

void probe_destroy(Probe *p)
{
    if (p && p->nowhere >= 0) close(p->nowhere);
    mem_free(p);
}

/* ---- the hosts script ---- */

/* The last line of text that is not blank, without what would break ours. */
static void last_line(char *out, size_t bytes, const char *text)
{
    out[0] = '\0';
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, "\r\n");
        if (strspn(p, " \t\r\n") < n) snprintf(out, bytes, "%.*s", (int)(n < bytes ? n : bytes - 1), p);
        p += n + (p[n] != '\0');
    }
}

/* Whether the result is a list; if not, problem says why. */
static bool read_result(Probe *p, const ChildResult *r)
{
    char *problem = p->script_problem, line[256];
    size_t bytes = sizeof p->script_problem;
    int duplicates = 0;
    p->no_program = r->code == CANNOT_EXECUTE || r->code == CHILD_CANNOT_START ? r->code : 0;
    last_line(line, sizeof line, r->errors.text);
    if (r->timed_out) {
        snprintf(problem, bytes, "the hosts script was killed after %.0f s", PROBE_SCRIPT_S);
    } else if (r->code != 0) {
        snprintf(problem, bytes, "the hosts script failed with exit code %d%s%s", r->code, line[0] ? ": " : "", line);
    } else if (hosts_parse(&p->fresh, &duplicates, r->output.text ? r->output.text : "", p->o->slots) != OK) {
        snprintf(problem, bytes, "the hosts script's output, %s", status_message());
    } else {
        problem[0] = '\0';
        if (p->fresh.count == 0) snprintf(problem, bytes, "the hosts script names no host");
        else if (duplicates > 0) snprintf(problem, bytes, "the hosts script names hosts twice; once counts");
        return true;
    }
    return false;
}

const HostList *probe_discover(Probe *p)
{
    const char *argv[] = { "sh", "-c", p->o->hosts_script, NULL };
    ChildResult r;
    Status status = child_run(&r, argv, PROBE_SCRIPT_S);
    if (status != OK) snprintf(p->script_problem, sizeof p->script_problem, "%s", status_message());
    else if (read_result(p, &r)) p->listed = p->fresh;
    if (status == OK) child_result_free(&r);
    if (p->script_problem[0] && strcmp(p->said, p->script_problem) != 0) log_warning("launch: %s", p->script_problem);
    snprintf(p->said, sizeof p->said, "%s", p->script_problem);
    return &p->listed;
}

/* ---- hosts ---- */

static bool is_own(const Probe *p, const char *name)
{
    return strcmp(name, "localhost") == 0 || strcmp(name, p->own_host) == 0;
}

/* 0: asked; -1: needs no asking. */
static Status ask_one(Probe *p, int i, const char *name)
{
    char options[1024];
    /* As mpirun calls an agent: words, host, command. ssh shall ask nothing and not wait for ever. */
    const char *agent = p->o->agent ? p->o->agent : "ssh -o BatchMode=yes -o ConnectTimeout=4";
    snprintf(options, sizeof options, "exec %s \"$@\"", agent);
    const char *argv[] = { "sh", "-c", options, "probe", name, "true", NULL };
    p->asked[i] = 0;
    return is_own(p, name) ? OK : child_start(&p->asked[i], argv, p->nowhere, p->nowhere);
}

static bool answers(Probe *p, int i, double end)
{
    int code = 0;
    if (p->asked[i] == 0) return true;
    double left_s = end - clock_s();
    if (child_wait(p->asked[i], &code, left_s > 0 ? left_s : 0)) return code == 0;
    child_kill(p->asked[i]);
    return false;
}

bool probe_ask(Probe *p, HostList *hosts)
{
    double end = clock_s() + PROBE_HOST_S;
    int started = 0, kept = 0, silent = 0;
    p->host_problem[0] = '\0';
    for (; started < hosts->count; started++)
        if (ask_one(p, started, hosts->host[started].name) != OK) break;
    bool all = started == hosts->count;
    for (int i = 0; i < started; i++) {
        bool good = answers(p, i, end);
        if (!all) continue;
        if (!good && silent++ == 0)
            snprintf(p->host_problem, sizeof p->host_problem, "%s does not answer", hosts->host[i].name);
        if (good) hosts->host[kept++] = hosts->host[i];
    }
    if (!all) {
        snprintf(p->host_problem, sizeof p->host_problem, "%s", status_message());
        return false;
    }
    if (silent > 1) snprintf(p->host_problem, sizeof p->host_problem, "%d of the listed hosts do not answer", silent);
    hosts->count = kept;
    return true;
}

const char *probe_problem(const Probe *p)
{
    return p->script_problem[0] ? p->script_problem : p->host_problem;
}

Status probe_hopeless(const Probe *p)
{
    if (p->no_program == 0 || p->listed.count > 0) return OK;
    return fail(ERR_USAGE, "--hosts-script %s: %s", p->o->hosts_script, p->script_problem);
}
