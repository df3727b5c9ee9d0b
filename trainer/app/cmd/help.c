/* help.c - see help.h. A tab in text that is to be wrapped is a blank at which no line ends. */
#include "trainer/app/cmd/help.h"
#include <string.h>

#define COLUMNS     80
#define NAMES_WIDTH 18 /* wider ones have their text in the next line */
#define GROUP       9  /* columns of a group's heading */

const char *help_last_word(const char *name)
{
    const char *blank = strrchr(name, ' ');
    return blank ? blank + 1 : name;
}

/* From column on; lines after the first begin at indent. */
static void add_wrapped(StrBuf *out, const char *text, int column, int indent)
{
    bool begins = true; /* a line */
    while (*text) {
        const int n = (int)strcspn(text, " \n");
        if (!begins && column + 1 + n > COLUMNS) {
            str_printf(out, "\n%*s", indent, "");
            column = indent;
        } else if (!begins) {
            str_add(out, " ");
            column++;
        }
        for (int i = 0; i < n; i++) str_add_n(out, text[i] == '\t' ? " " : &text[i], 1);
        column += n;
        text += n;
        begins = *text == '\n';
        if (begins) str_printf(out, "\n\n%*s", indent, "");
        if (begins) column = indent;
        text += *text != '\0';
    }
    str_add(out, "\n");
}

static void add_program(StrBuf *out, const Command *c)
{
    str_printf(out, "convoy%s%s", c->name[0] ? " " : "", c->name);
}

static void add_arg_usage(StrBuf *out, const ArgRow *r)
{
    const bool option = r->value || r->name[0] == '-', dots = r->flags & ARG_REPEATED;
    const bool must =
        r->flags & ARG_REST || (option ? r->flags & ARG_REQUIRED : !(r->flags & ARG_OPTIONAL));
    if (r->flags & ARG_SETTING) str_printf(out, " [%s]...", r->value);
    else
        str_printf(out, " %s%s%s%s%s%s", must ? "" : "[", r->name, r->value ? "\t" : "",
                   r->value ? r->value : "", must ? "" : "]", dots ? "..." : "");
}

static void add_usage(StrBuf *out, const Command *c)
{
    add_program(out, c);
    if (c->commands) str_add(out, " COMMAND [ARGUMENT]...");
    for (const ArgRow *r = c->args; r && r->name; r++) add_arg_usage(out, r);
}

/* "--min-bytes N, -b, --minbytes" */
static void add_names(StrBuf *out, const ArgRow *r)
{
    str_printf(out, "%s%s%s%s", r->name, r->value ? " " : "", r->value ? r->value : "",
               r->also ? ", " : "");
    for (const char *p = r->also; p && *p; p++)
        str_add_n(out, *p == ' ' ? ", " : p, *p == ' ' ? 2 : 1);
}

/* Its sentence, with what else the row says. */
static void add_sentence(StrBuf *out, const ArgRow *r)
{
    const bool open = r->max >= 1e6, limits = r->max > 1 && (!open || r->min > 1);
    if (r->needs) str_printf(out, "with %s: ", r->needs);
    str_add(out, r->help);
    for (int i = 0; r->choices && r->choices[i]; i++)
        str_printf(out, "%s%s", i == 0 ? "; one of " : ", ", r->choices[i]);
    if (!limits && r->fallback == 0) return;
    str_add(out, " (");
    if (limits && open) str_printf(out, "at least %.15g", r->min);
    else if (limits) str_printf(out, "%.15g to %.15g", r->min, r->max);
    if (r->fallback != 0) str_printf(out, "%sdefault %.15g", limits ? ", " : "", r->fallback);
    str_add(out, ")");
}

static void add_rows(StrBuf *out, const Command *c)
{
    const int width = NAMES_WIDTH;
    for (const ArgRow *r = c->args; r->name; r++) {
        StrBuf names = { 0 }, text = { 0 };
        if (!r->help) continue;
        add_names(&names, r);
        add_sentence(&text, r);
        str_printf(out, "  %-*s", width, names.failed ? "" : names.text);
        if ((int)names.length > width) str_printf(out, "\n  %*s", width, "");
        str_add(out, "  ");
        add_wrapped(out, text.failed ? "" : text.text, width + 4, width + 4);
        str_free(&names);
        str_free(&text);
    }
}

static void add_commands(StrBuf *out, const Command *c)
{
    const char *group = NULL;
    for (int i = 0; c->commands[i]; i++) {
        const Command *own = c->commands[i];
        const bool same = group && own->group && strcmp(group, own->group) == 0;
        if (own->group) str_printf(out, "%-*s", GROUP, same ? "" : own->group);
        str_printf(out, "%s%-*s%s\n", own->group ? "" : "  ", own->group ? 11 : 12,
                   help_last_word(own->name), own->summary);
        group = own->group;
    }
}

/* Lines as they are, each behind what begins it. */
static void add_lines(StrBuf *out, const char *begin, const char *text)
{
    while (text && *text) {
        const size_t n = strcspn(text, "\n");
        str_add(out, begin);
        str_add_n(out, text, n);
        str_add(out, "\n");
        text += n + (text[n] != '\0');
    }
}

void help_add(StrBuf *out, const Command *c)
{
    StrBuf usage = { 0 };
    add_usage(&usage, c);
    str_add(out, "usage: ");
    add_wrapped(out, usage.failed ? "" : usage.text, 7, 14 + (int)strlen(c->name) + !!c->name[0]);
    str_free(&usage);
    str_add(out, "\n");
    if (c->commands) add_commands(out, c);
    else add_wrapped(out, c->about, 0, 0);
    if (c->examples) str_add(out, "\n");
    add_lines(out, "  ", c->examples);
    if (c->args && c->args->name) str_add(out, "\n");
    if (c->args) add_rows(out, c);
    if (c->commands && c->about) str_add(out, "\n");
    if (c->commands && c->about) add_wrapped(out, c->about, 0, 0);
    if (c->more) str_add(out, "\n");
    if (c->more) c->more(out);
}

/* ---- for scripts ---- */

static void add_row_line(StrBuf *out, const ArgRow *r)
{
    if (!r->help) return;
    str_add(out, r->name[0] == '-' ? "option\t" : "argument\t");
    add_names(out, r);
    str_add(out, "\t");
    add_sentence(out, r);
    for (int i = 0; r->choices && r->choices[i]; i++)
        str_printf(out, "%s%s", i == 0 ? "\t" : " ", r->choices[i]);
    str_add(out, "\n");
}

void help_add_tables(StrBuf *out, const Command *c)
{
    StrBuf usage = { 0 }, more = { 0 };
    str_add(out, "command\t");
    add_program(out, c);
    str_printf(out, "\t%s\nusage\t", c->summary);
    add_usage(&usage, c);
    for (char *p = usage.text; p && *p; p++)
        if (*p == '\t') *p = ' ';
    str_printf(out, "%s\n", usage.failed ? "" : usage.text);
    add_lines(out, "about\t", c->about);
    for (int i = 0; c->commands && c->commands[i]; i++)
        str_printf(out, "child\t%s\t%s\n", help_last_word(c->commands[i]->name),
                   c->commands[i]->summary);
    for (const ArgRow *r = c->args; r && r->name; r++) add_row_line(out, r);
    add_lines(out, "example\t", c->examples);
    if (c->more) c->more(&more);
    add_lines(out, "more\t", more.failed ? "" : more.text);
    out->failed = out->failed || usage.failed || more.failed;
    str_free(&usage);
    str_free(&more);
    for (int i = 0; c->commands && c->commands[i]; i++) help_add_tables(out, c->commands[i]);
}
