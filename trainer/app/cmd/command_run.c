/* command_run.c - see command_run.h. */
#include "trainer/app/cmd/command_run.h"
#include "base/log.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/guard/signals.h"
#include "trainer/engine/train/meet.h"

#define AGREE_S         600.0 /* for a rank without a config that says it */
#define IMAGENET_IMAGES 1281167

static Status meet_and_work(const Args *args, Comm *comm, Config *c, Status loaded,
                            CommandWork work)
{
    TRY(log_open(NULL, comm->rank, LOG_INFO));
    comm_set_timeout(comm, c ? c->comm.timeout_s : AGREE_S);
    TRY(meet_ranks(comm, c, loaded));
    if (args->installed[0] && c->log.format != LOG_FORMAT_JSON)
        log_info("config: %s", args->installed);
    return work(comm, c, args);
}

void command_run_generate_images(Config *c)
{
    if (c->data.format == DATA_SYNTHETIC) return;
    c->data.format = DATA_SYNTHETIC;
    if (c->data.synthetic_images < IMAGENET_IMAGES) c->data.synthetic_images = IMAGENET_IMAGES;
}

/* The config comes first: its limit for the start holds while MPI starts, too. */
Status command_run(const Args *args, CommandWork work)
{
    Comm *comm = NULL;
    Config *c FREED_BY(config_destroy_at) = NULL;
    Status loaded = run_source_config(&c, args->config, args->sets, args->set_count);
    if (loaded == OK) loaded = args_check_outputs(args, c);
    Status status = comm_create(&comm, c ? c->watchdog.start_s : AGREE_S, signals_stop_requested);
    if (status == OK) {
        status = meet_and_work(args, comm, c, loaded, work);
        status = comm->rank == 0 ? cmd_report(status) : cmd_silence(status);
        comm_destroy(comm);
    }
    return status;
}
