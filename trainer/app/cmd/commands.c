/* commands.c - what all subcommands share: finding one by name, its arguments, its help. */
#include "trainer/app/cmd/commands.h"
#include "base/log.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/help.h"
#include "trainer/app/cmd/unread.h"
#include <stdio.h>
#include <string.h>

#define COMMANDS_MAX 24

static Status print_help(const Command *c)
{
    StrBuf text = { 0 };
    help_add(&text, c);
    return log_print_text(OK, &text);
}

static Status run_one_of(const Command *c, int argc, char **argv)
{
    const char *names[COMMANDS_MAX];
    int count = 0;
    if (argc < 1) TRY(print_help(c));
    if (argc < 1) return cmd_silence(ERR_USAGE);
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
        strcmp(argv[0], "help") == 0)
        return print_help(c);
    for (; c->commands[count]; count++) {
        ASSERT(count < COMMANDS_MAX);
        names[count] = help_last_word(c->commands[count]->name);
        if (strcmp(argv[0], names[count]) == 0)
            return commands_run(c->commands[count], argc - 1, argv + 1);
    }
    return args_unknown(argv[0][0] == '-' ? "option" : "command", argv[0], names, count, true);
}

Status commands_run(const Command *c, int argc, char **argv)
{
    char program[64];
    Args args;
    snprintf(program, sizeof program, "convoy%s%s", c->name[0] ? " " : "", c->name);
    log_set_program(program);
    if (c->commands) return run_one_of(c, argc, argv);
    TRY(args_parse(&args, argc, argv, c->args));
    if (args.help) return print_help(c);
    if (args_value(&args, "--verbose")) log_set_verbose();
    if (c->ignores) unread_warn(&args, c->ignores, "");
    return c->by_ranks ? command_run(&args, c->by_ranks) : c->alone(&args);
}
