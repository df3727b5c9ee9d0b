/* command_run.h - what every command that computes does around its work: ranks, config, one message
 * from one rank. */
#ifndef CONVOY_TRAINER_APP_CMD_COMMAND_RUN_H
#define CONVOY_TRAINER_APP_CMD_COMMAND_RUN_H
#include "trainer/app/cmd/args.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"

/* c is its own to change. */
typedef Status (*CommandWork)(Comm *comm, Config *c, const Args *args);

/* Joins the ranks, loads args->config (run_source.h) and --set on all of them, runs work and
 * leaves the ranks together. The returned status is the same on all ranks; it was printed, by rank
 * 0, where it is an error. */
Status command_run(const Args *args, CommandWork work);

/* Images that are generated take the place of c's training set, as many as ImageNet has unless c
 * says more, or that they are generated: for what needs their shape alone. */
void command_run_generate_images(Config *c);
#endif
