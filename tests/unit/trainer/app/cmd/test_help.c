/* test_help.c - what a table becomes: help for people, lines for scripts. */
#include "tests/test.h"
#include "trainer/app/cmd/help.h"
#include <string.h>

static const char *const words[] = { "auto", "list", NULL };
static const ArgRow rows[] = {
    { "IMAGE", .help = "a picture", .flags = ARG_REPEATED },
    { "CONFIG", .flags = ARG_OPTIONAL }, /* not listed */
    { "--name", "NAME", .help = "how it is called", .choices = words },
    { "--steps", "N", .help = "number of steps", .also = "-n --iters", .min = 20, .max = 100,
      .fallback = 50 },
    { "--out", "FILE", .help = "where it goes", .needs = "--name", .flags = ARG_REQUIRED },
    { "--wait", "SECONDS",
      .help = "a sentence that is longer than what is left of the line, so "
              "that it goes on below",
      .max = 1e6, .fallback = 2.5 },
    ARG_ROW_SET,
    { "-- train CONFIG", .flags = ARG_REST },
    ARG_ROW_END,
};

static void add_table(StrBuf *out)
{
    str_add(out, "Things:\n  one\n");
}

static const Command one = {
    .name = "show one",
    .summary = "show one thing",
    .about = "First paragraph.\nSecond paragraph.",
    .examples = "convoy show one a.jpg\nconvoy show one b.jpg",
    .args = rows,
    .more = add_table,
};
static const Command two = { .name = "show two", .group = "B", .summary = "show two" },
                     three = { .name = "show three", .group = "B", .summary = "show three" };
static const Command *const both[] = { &one, NULL }, *const grouped[] = { &two, &three, NULL };

TEST(help_is_wrapped)
{
    StrBuf text = { 0 };
    help_add(&text, &one);
    CHECK_STR(text.text,
              "usage: convoy show one IMAGE... [CONFIG] [--name NAME] [--steps N] --out FILE\n"
              "                       [--wait SECONDS] [key=value]... -- train CONFIG\n"
              "\n"
              "First paragraph.\n"
              "\n"
              "Second paragraph.\n"
              "\n"
              "  convoy show one a.jpg\n"
              "  convoy show one b.jpg\n"
              "\n"
              "  IMAGE               a picture\n"
              "  --name NAME         how it is called; one of auto, list\n"
              "  --steps N, -n, --iters\n"
              "                      number of steps (20 to 100, default 50)\n"
              "  --out FILE          with --name: where it goes\n"
              "  --wait SECONDS      a sentence that is longer than what is left of the line,\n"
              "                      so that it goes on below (default 2.5)\n"
              "  --set key=value     override a config key; --set may be left out (convoy\n"
              "                      inspect config lists keys)\n"
              "\n"
              "Things:\n"
              "  one\n");
    str_free(&text);
}

TEST(commands_are_listed_by_their_last_word)
{
    const Command plain = { .name = "show", .commands = both, .about = "See below." },
                  groups = { .name = "", .commands = grouped };
    StrBuf text = { 0 };
    help_add(&text, &plain);
    CHECK_STR(text.text, "usage: convoy show COMMAND [ARGUMENT]...\n\n"
                         "  one         show one thing\n\nSee below.\n");
    str_clear(&text);
    help_add(&text, &groups);
    CHECK_STR(text.text, "usage: convoy COMMAND [ARGUMENT]...\n\n"
                         "B        two        show two\n         three      show three\n");
    str_free(&text);
}

TEST(tables_have_a_line_for_each_thing)
{
    const Command group = { .name = "show", .summary = "show things", .commands = both };
    StrBuf text = { 0 };
    help_add_tables(&text, &group);
    CHECK_STR(
        text.text,
        "command\tconvoy show\tshow things\n"
        "usage\tconvoy show COMMAND [ARGUMENT]...\n"
        "child\tone\tshow one thing\n"
        "command\tconvoy show one\tshow one thing\n"
        "usage\tconvoy show one IMAGE... [CONFIG] [--name NAME] [--steps N] --out FILE "
        "[--wait SECONDS] [key=value]... -- train CONFIG\n"
        "about\tFirst paragraph.\n"
        "about\tSecond paragraph.\n"
        "argument\tIMAGE\ta picture\n"
        "option\t--name NAME\thow it is called; one of auto, list\tauto list\n"
        "option\t--steps N, -n, --iters\tnumber of steps (20 to 100, default 50)\n"
        "option\t--out FILE\twith --name: where it goes\n"
        "option\t--wait SECONDS\ta sentence that is longer than what is left of the line, so "
        "that it goes on below (default 2.5)\n"
        "option\t--set key=value\toverride a config key; --set may be left out (convoy inspect "
        "config lists keys)\n"
        "example\tconvoy show one a.jpg\n"
        "example\tconvoy show one b.jpg\n"
        "more\tThings:\n"
        "more\t  one\n");
    str_free(&text);
}
