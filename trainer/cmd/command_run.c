/* command_run.c - see command_run.h. */
#include "trainer/cmd/command_run.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/cmd/cmd.h"

/* All ranks must run the same configuration; only where the data lies may differ from host to
 * host. */
static Status check_equal(Comm *comm, const Config *c)
{
    char none[] = "";
    StrBuf text = { 0 };
    Config local = *c; /* shares its strings */
    local.data.train = local.data.val = none;
    Status status = config_dump_yaml(&local, &text);
    bool equal =
        comm_all_equal(comm, status == OK ? (int64_t)crc32c_update(0, text.text, text.length) : -1);
    str_free(&text);
    TRY(status);
    return equal ? OK : fail(ERR_USAGE, "the ranks were given different configurations");
}

static Status load_and_work(const Args *args, Comm *comm, CommandWork work)
{
    Config *config = NULL;
    TRY(log_open(NULL, comm->rank, LOG_INFO));
    Status status =
        comm_agree(comm, config_load(&config, args->config, args->sets, args->set_count));
    if (status == OK) status = comm_agree(comm, check_equal(comm, config));
    if (status == OK) comm_set_timeout(comm, config->comm.timeout_s);
    if (status == OK) status = work(comm, config, args);
    config_destroy(config);
    return status;
}

Status command_run(const Args *args, CommandWork work)
{
    Comm *comm = NULL;
    TRY(comm_create(&comm));
    Status status = load_and_work(args, comm, work);
    status = comm->rank == 0 ? cmd_report(status) : cmd_silence(status);
    comm_destroy(comm);
    return status;
}
