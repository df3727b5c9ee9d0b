/* cmd.h - who prints an error.
 *
 * main.c passes what a command returns to cmd_report(), which prints the recorded sentence; an
 * empty one means that it was said already or that another rank says it. A command with an open log
 * calls cmd_report() itself, so that log.txt has the line, and ranks that shall be quiet call
 * cmd_silence(). Both give back the status with its sentence emptied. */
#ifndef CONVOY_TRAINER_APP_CMD_CMD_H
#define CONVOY_TRAINER_APP_CMD_CMD_H
#include "base/status.h"

/* Prints the message of a failed status once, as "convoy COMMAND: error: ...". ERR_STOPPED is not
 * an error: its message is a plain line. Prints nothing for OK. */
Status cmd_report(Status status);
Status cmd_silence(Status status); /* somebody else prints it */
#endif
