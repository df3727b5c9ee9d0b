/* run.c - see run.h. */
#include "trainer/run.h"
#include "base/log.h"
#include "trainer/cmd.h"

static Status load_and_work(const Args *args, Comm *comm, RunWork work)
{
    Config *config = NULL;
    TRY(log_open(NULL, comm->rank, LOG_INFO));
    Status status = comm_agree(comm, config_load(&config, args->config, args->sets, args->set_count));
    if (status == OK) status = work(comm, config, args);
    config_destroy(config);
    return status;
}

Status run_with_config(const Args *args, RunWork work)
{
    Comm *comm = NULL;
    TRY(comm_create(&comm));
    Status status = load_and_work(args, comm, work);
    status = comm->rank == 0 ? cmd_report(status) : cmd_silence(status);
    comm_destroy(comm);
    return status;
}
