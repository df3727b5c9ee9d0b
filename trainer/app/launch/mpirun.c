/* mpirun.c - see mpirun.h. Written for Open MPI; the options below exist in 4 and 5. */
#include "trainer/app/launch/mpirun.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/process/child.h"
#include "base/process/process.h"
#include "base/str.h"
#include "trainer/app/launch/words.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Parameters of Open MPI's. Keepalives let mpirun notice a host that fell silent in under a minute
 * instead of eight. No tree: hosts need not reach each other by the agent. Once a rank has ended,
 * Open MPI 4 would leave the others two seconds in which they wait for it. On one host: it is all
 * there is, also in a job of a scheduler, whose hosts mpirun would take. */
static const struct {
    const char *name, *value;
    bool one_host;
} parameters[] = { { "plm_rsh_no_tree_spawn", "1", false },
                   { "oob_tcp_keepalive_time", "10", false },
                   { "oob_tcp_keepalive_intvl", "5", false },
                   { "oob_tcp_keepalive_probes", "3", false },
                   { "odls_base_sigkill_timeout", "0", false },
                   { "ras", "^slurm,tm,pbs,lsf,gridengine,alps,flux", true },
                   { "plm", "^slurm,tm,pbs,lsf,alps,pals", true } };

/* What the user's own words take the place of: mpirun refuses an option that comes twice. Ranks
 * choose their CPUs themselves. */
static const struct {
    const char *option, *value;
} replaceable[] = { { "--map-by", "slot" }, { "--bind-to", "none" } };

static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || isspace((unsigned char)p[-1])) &&
            (p[n] == '\0' || isspace((unsigned char)p[n])))
            return true;
    return false;
}

/* The words between those of the start itself and the program. */
static void add_args(StrBuf *out, const LaunchOptions *o)
{
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
        if ((o->ranks > 0 || !parameters[i].one_host) &&
            !has_word(o->mpirun_args, parameters[i].name))
            str_printf(out, "--mca %s %s ", parameters[i].name, parameters[i].value);
    for (size_t i = 0; i < sizeof replaceable / sizeof replaceable[0]; i++)
        if (!has_word(o->mpirun_args, replaceable[i].option))
            str_printf(out, "%s %s ", replaceable[i].option, replaceable[i].value);
    if (o->ranks > 0 && geteuid() == 0) str_add(out, "--allow-run-as-root ");
    if (o->prefix) str_add(out, "--tag-output ");
    str_add(out, o->mpirun_args);
}

const char *mpirun_path(void)
{
    static char path[PATH_MAX + sizeof "mpirun"];
    if (process_own_path(path, PATH_MAX) != OK) return "mpirun";
    memcpy(strrchr(path, '/') + 1, "mpirun", sizeof "mpirun");
    return access(path, X_OK) == 0 ? path : "mpirun";
}

static Status write_hosts(const char *path, const HostList *hosts)
{
    StrBuf text = { 0 };
    for (int i = 0; i < hosts->count; i++)
        str_printf(&text, "%s slots=%d\n", hosts->host[i].name, hosts->host[i].slots);
    return fs_write_text(OK, path, &text);
}

/* args: the fixed words and the user's; is written to. */
static Status start(pid_t *out, Relay **relay, const LaunchOptions *o, const char *hostfile,
                    char *args, const char *ranks)
{
    Words words = { .count = 0 };
    const char *const first[] = { mpirun_path(), "--hostfile", hostfile, "-np", ranks };
    const char *const agent[] = { "--mca", "plm_rsh_agent", o->agent };
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) words_add(&words, first[i]);
    for (size_t i = 0; o->agent && i < sizeof agent / sizeof agent[0]; i++)
        words_add(&words, agent[i]);
    words_split(&words, args);
    words_add(&words, o->program);
    for (int i = 0; i < o->command_count; i++) words_add(&words, o->command[i]);
    if (words.full) return fail(ERR_USAGE, "more than %d arguments for mpirun", WORDS_MAX);
    return relay_start(relay, out, words.word);
}

Status mpirun_start(pid_t *out, Relay **relay, const LaunchOptions *options, const HostList *hosts)
{
    char ranks[16];
    StrBuf args FREED_BY(str_free) = { 0 };
    snprintf(ranks, sizeof ranks, "%d", hosts_ranks(hosts));
    add_args(&args, options);
    char *hostfile FREED = fs_join(options->run_dir, "launch.hosts");
    TRY(hostfile && !args.failed ? write_hosts(hostfile, hosts)
                                 : fail(ERR_MEMORY, "out of memory"));
    return start(out, relay, options, hostfile, args.text, ranks);
}

Status mpirun_status(int code)
{
    if (code == 0) return OK;
    if (code == CHILD_CANNOT_START) return ERR_ENV;
    for (int s = ERR_USAGE; s >= ERR_DIVERGED; s--)
        if (status_exit_code((Status)s) == code) return (Status)s;
    return ERR_PEER;
}
