/* commands.c - what all subcommands share: finding one by name, and its arguments. */
#include "trainer/app/cmd/commands.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/unread.h"
#include <string.h>

#define ROWS_MAX 24

static Status print_rows(const char *program, const char *what, const CommandRow *rows, int count,
                         const char *tail)
{
    StrBuf text = { 0 };
    str_printf(&text, "usage: %s %s ...\n\n", program, what);
    for (int i = 0; i < count; i++)
        str_printf(&text, "  %s %s %s\n      %s\n", program, rows[i].name, rows[i].usage,
                   rows[i].about);
    str_add(&text, tail);
    return log_print_text(OK, &text);
}

Status commands_run(const Command *c, int argc, char **argv)
{
    Args args;
    if (c->by_words) return c->by_words(argc, argv);
    TRY(args_parse(&args, argc, argv, c->help));
    if (args.help) return OK;
    if (c->ignores) unread_warn(&args, c->ignores, "");
    return c->by_ranks ? command_run(&args, c->by_ranks) : c->alone(&args);
}

Status commands_dispatch(const char *program, const char *what, const CommandRow *rows, int count,
                         const char *tail, int argc, char **argv)
{
    const char *names[ROWS_MAX];
    ASSERT(count <= ROWS_MAX);
    for (int i = 0; i < count; i++) names[i] = rows[i].name;
    if (argc < 1) {
        TRY(print_rows(program, what, rows, count, tail));
        return cmd_silence(ERR_USAGE);
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
        strcmp(argv[0], "help") == 0)
        return print_rows(program, what, rows, count, tail);
    for (int i = 0; i < count; i++)
        if (strcmp(argv[0], names[i]) == 0)
            return commands_run(rows[i].command, argc - 1, argv + 1);
    const char *nearest = str_nearest(argv[0], names, count);
    StrBuf advice = { 0 };
    if (!nearest) config_add_advice(argv[0], &advice);
    Status status = advice.length ? fail(ERR_USAGE, "%s: unknown %s %s; %s", program, what, argv[0],
                                         advice.text)
                                  : OK;
    str_free(&advice);
    if (status != OK) return status;
    if (nearest)
        return fail(ERR_USAGE, "%s: unknown %s %s (did you mean %s?)", program, what, argv[0],
                    nearest);
    return fail(ERR_USAGE, "%s: unknown %s %s (see %s --help)", program, what, argv[0], program);
}
