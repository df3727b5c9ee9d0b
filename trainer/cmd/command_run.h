/* command_run.h - what every command that computes does around its work: ranks, config, one message
 * from one rank. */
#ifndef CONVOY_TRAINER_CMD_COMMAND_RUN_H
#define CONVOY_TRAINER_CMD_COMMAND_RUN_H
#include "trainer/cmd/args.h"
#include "trainer/comm/comm.h"
#include "trainer/config/config.h"

/* c is its own to change. */
typedef Status (*CommandWork)(Comm *comm, Config *c, const Args *args);

/* Joins the ranks, loads args->config (run_source.h) and --set on all of them, runs work and
 * leaves the ranks together. The returned status is the same on all ranks; it was printed, by rank
 * 0, where it is an error. */
Status command_run(const Args *args, CommandWork work);
#endif
