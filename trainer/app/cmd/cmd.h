/* cmd.h - subcommands. Each gets the arguments after its name and returns a Status; main.c turns
 * that into the one exit.
 *
 * WHO PRINTS AN ERROR. main.c passes what a command returns to cmd_report(), which prints the
 * recorded sentence; an empty one means that it was said already or that another rank says it. A
 * command with an open log calls cmd_report() itself, so that log.txt has the line, and ranks that
 * shall be quiet call cmd_silence(). Both give back the status with its sentence emptied. */
#ifndef CONVOY_TRAINER_APP_CMD_CMD_H
#define CONVOY_TRAINER_APP_CMD_CMD_H
#include "base/status.h"

Status cmd_train(int argc, char **argv);
Status cmd_eval(int argc, char **argv);
Status cmd_bench(int argc, char **argv);
Status cmd_find_lr(int argc, char **argv);
Status cmd_preview(int argc, char **argv);
Status cmd_export(int argc, char **argv);
Status cmd_predict(int argc, char **argv);
Status cmd_inspect(int argc, char **argv);
Status cmd_index(int argc, char **argv);
Status cmd_pack(int argc, char **argv);
Status cmd_launch(int argc, char **argv);
Status cmd_drain(int argc, char **argv);
Status cmd_stop(int argc, char **argv);
Status cmd_doctor(int argc, char **argv);
Status cmd_top(int argc, char **argv);
Status cmd_report_runs(int argc, char **argv);
Status cmd_scale(int argc, char **argv);

/* What convoy inspect X runs, with the arguments after X, where that has a file of its own. */
Status cmd_inspect_config(int argc, char **argv);
Status cmd_inspect_dataset(int argc, char **argv);
Status cmd_inspect_memory(int argc, char **argv);

/* A word -> function table, for convoy's subcommands and inspect's. */
typedef struct CmdRow {
    const char *name;
    Status (*run)(int argc, char **argv);
    const char *usage, *about;
} CmdRow;
/* Runs the row that argv[0] names with the arguments after it. what: "command" in "convoy: unknown
 * command x (did you mean y?)". --help prints the rows and tail, and so does no
 * argument at all, which is ERR_USAGE. */
Status cmd_dispatch(const char *program, const char *what, const CmdRow *rows, int count,
                    const char *tail, int argc, char **argv);

/* Prints the sentence of a failed status once: "convoy: error: ..." (ERR_STOPPED is no error: a
 * plain line). OK stays silent. */
Status cmd_report(Status status);
Status cmd_silence(Status status); /* somebody else prints it */
#endif
