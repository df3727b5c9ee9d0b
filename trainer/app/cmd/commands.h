/* commands.h - subcommands. Each gets the arguments after its name and returns a Status; main.c
 * turns that into the one exit. */
#ifndef CONVOY_TRAINER_APP_CMD_COMMANDS_H
#define CONVOY_TRAINER_APP_CMD_COMMANDS_H
#include "base/str.h"
#include "trainer/app/cmd/command_run.h"

typedef struct Command Command;
struct Command {
    const char *name;       /* "eval", "inspect model"; "" for convoy itself */
    const char *group;      /* heading in the list of commands; NULL: none */
    const char *summary;    /* what it does, in a line of that list */
    const char *about;      /* paragraphs, a newline between them */
    const char *examples;   /* lines */
    const ArgRow *args;     /* ends with ARG_ROW_END */
    void (*more)(StrBuf *); /* a table at the end of its help; NULL: none */
    /* What it does, by one process or by all ranks (command_run.h); or it has commands of its own,
     * NULL at the end. */
    Status (*alone)(const Args *args);
    CommandWork by_ranks;
    const Command *const *commands;
    const char *ignores; /* unread.h: keys that --set may name in vain; NULL: none */
};

extern const Command cmd_train, cmd_eval, cmd_bench, cmd_find_lr, cmd_preview, cmd_export,
    cmd_predict, cmd_inspect, cmd_index, cmd_pack, cmd_launch, cmd_drain, cmd_stop, cmd_doctor,
    cmd_top, cmd_report_runs, cmd_scale;
/* What convoy inspect X runs, where that has a file of its own. */
extern const Command cmd_inspect_config, cmd_inspect_dataset, cmd_inspect_memory;

/* argv: what follows the command's name. --help prints its help (help.h); so does no argument at
 * all where it has commands of its own, which is ERR_USAGE. */
Status commands_run(const Command *c, int argc, char **argv);
#endif
