/* commands.h - subcommands. Each gets the arguments after its name and returns a Status; main.c
 * turns that into the one exit. */
#ifndef CONVOY_TRAINER_APP_CMD_COMMANDS_H
#define CONVOY_TRAINER_APP_CMD_COMMANDS_H
#include "trainer/app/cmd/command_run.h"

typedef struct Command {
    const char *help; /* args.h */
    /* What it does, by one process or by all ranks (command_run.h); or it reads its words
     * itself. */
    Status (*alone)(const Args *args);
    CommandWork by_ranks;
    Status (*by_words)(int argc, char **argv);
    const char *ignores; /* unread.h: keys that --set may name in vain; NULL: none */
} Command;

extern const Command cmd_train, cmd_eval, cmd_bench, cmd_find_lr, cmd_preview, cmd_export,
    cmd_predict, cmd_inspect, cmd_index, cmd_pack, cmd_launch, cmd_drain, cmd_stop, cmd_doctor,
    cmd_top, cmd_report_runs, cmd_scale;
/* What convoy inspect X runs, where that has a file of its own. */
extern const Command cmd_inspect_config, cmd_inspect_dataset, cmd_inspect_memory;

/* argv: what follows the command's name. */
Status commands_run(const Command *c, int argc, char **argv);

/* A word -> command table, for convoy's subcommands and inspect's. */
typedef struct CommandRow {
    const char *name;
    const Command *command;
    const char *usage, *about;
} CommandRow;
/* Runs the row that argv[0] names with the arguments after it. what: "command" in "convoy: unknown
 * command x (did you mean y?)". --help prints the rows and tail, and so does no
 * argument at all, which is ERR_USAGE. */
Status commands_dispatch(const char *program, const char *what, const CommandRow *rows, int count,
                         const char *tail, int argc, char **argv);
#endif
