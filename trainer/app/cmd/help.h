/* help.h - usage and help of a command, from its table (args.h), for people and for scripts. */
#ifndef CONVOY_TRAINER_APP_CMD_HELP_H
#define CONVOY_TRAINER_APP_CMD_HELP_H
#include "trainer/app/cmd/commands.h"

/* What --help prints, in lines of at most 80 columns. */
void help_add(StrBuf *out, const Command *c);
/* The same of c and of all commands in it, for manual pages and completion (scripts/install): a
 * line per thing, fields between tabs.
 *   command  NAME  SUMMARY        what follows belongs to it, until the next such line
 *   usage    TEXT
 *   about    PARAGRAPH
 *   child    NAME  SUMMARY        a command of its own
 *   argument NAME  HELP
 *   option   NAMES HELP  CHOICES
 *   example  LINE
 *   more     LINE */
void help_add_tables(StrBuf *out, const Command *c);
const char *help_last_word(const char *name); /* "model" of "inspect model" */
#endif
