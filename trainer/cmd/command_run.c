/* command_run.c - see command_run.h. */
#include "trainer/cmd/command_run.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/cmd/cmd.h"
#include "trainer/files/run_source.h"
#include "trainer/guard/signals.h"
#include "trainer/session/build_info.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AGREE_S 600.0 /* for a rank without a config that says it */

typedef struct Introduction { /* its layout never changes: builds of any two versions compare it */
    char build[192], host[64];
} Introduction;

/* All ranks must be one program; rank 0 is right. */
static Status check_build(Comm *comm, const Introduction *own, Introduction *first)
{
    *first = *own;
    comm_broadcast(comm, first, sizeof *first, 0, "handshake");
    if (strcmp(own->build, first->build) == 0) return OK;
    return fail(ERR_ENV, "on %s this is %s, but rank 0 on %s is %s: install one build everywhere",
                own->host, own->build, first->host, first->build);
}

/* All ranks must run the same configuration; only where the data lies may differ from host to
 * host. */
static Status check_config(Comm *comm, const Config *c, const Introduction *own,
                           const Introduction *first)
{
    uint32_t prints[CONFIG_PRINTS_MAX] = { 0 };
    StrBuf text = { 0 };
    Status status = OK;
    config_prints(c, prints);
    comm_broadcast(comm, prints, sizeof prints, 0, "configuration");
    config_add_unlike(c, prints, &text);
    if (text.length > 0)
        status = fail(ERR_USAGE, "on %s the configuration is not that of rank 0 on %s: %s",
                      own->host, first->host, text.text);
    str_free(&text);
    return status;
}

/* loaded: how c came to be, here. */
static Status meet(Comm *comm, const Config *c, Status loaded)
{
    Introduction own = { .host = "" }, first;
    snprintf(own.build, sizeof own.build, "%s", build_info_name());
    if (gethostname(own.host, sizeof own.host - 1) != 0) own.host[0] = '\0';
    comm_set_timeout(comm, c ? c->comm.timeout_s : AGREE_S);
    TRY(comm_agree(comm, check_build(comm, &own, &first)));
    TRY(comm_agree(comm, loaded));
    return comm_agree(comm, check_config(comm, c, &own, &first));
}

static Status meet_and_work(const Args *args, Comm *comm, const Config *c, Status loaded,
                            CommandWork work)
{
    TRY(log_open(NULL, comm->rank, LOG_INFO));
    TRY(meet(comm, c, loaded));
    return work(comm, c, args);
}

/* The config comes first: its limit for the start holds while MPI starts, too. */
Status command_run(const Args *args, CommandWork work)
{
    Comm *comm = NULL;
    Config *c = NULL;
    Status loaded = run_source_config(&c, args->config, args->sets, args->set_count);
    Status status = comm_create(&comm, c ? c->watchdog.start_s : AGREE_S, signals_stop_requested);
    if (status == OK) {
        status = meet_and_work(args, comm, c, loaded, work);
        status = comm->rank == 0 ? cmd_report(status) : cmd_silence(status);
        comm_destroy(comm);
    }
    config_destroy(c);
    return status;
}
