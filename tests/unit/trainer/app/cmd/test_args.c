/* test_args.c - usage lines and the arguments held against them. */
#include "tests/test.h"
#include "trainer/app/cmd/args.h"
#include <string.h>

static const char train_help[] =
    "usage: convoy train CONFIG [--set key=value]...\n\nmore text CONFIG --other\n";
static const char eval_help[] =
    "usage: convoy eval CONFIG --checkpoint FILE [--set key=value]...\n";
static const char bench_help[] =
    "usage: convoy bench WHAT [CONFIG] [--steps N] [--nodes] [--set key=value]...\n";

#define PARSE(args, help, ...) parse(args, help, (const char *[]){ __VA_ARGS__, NULL })

/* Parses a NULL-terminated list. The strings outlive args because they are literals. */
static Status parse(Args *args, const char *help, const char **words)
{
    static char *argv[128];
    int argc = 0;
    /* drops const; argv is only read */
    for (; words[argc]; argc++) memcpy(&argv[argc], &words[argc], sizeof argv[0]);
    return args_parse(args, argc, argv, help);
}

TEST(positional_and_sets)
{
    Args a;
    REQUIRE_OK(PARSE(&a, train_help, "--set", "a.b=1", "x.yaml", "--set=c.d=2=3"));
    CHECK(!a.help);
    CHECK_INT(a.positional_count, 1);
    CHECK_STR(a.config, "x.yaml");
    CHECK_STR(a.positional[0], "x.yaml");
    REQUIRE(a.set_count == 2);
    CHECK_STR(a.sets[0], "a.b=1");
    CHECK_STR(a.sets[1], "c.d=2=3");
    CHECK(a.checkpoint == NULL);
}

TEST(an_option_whose_name_may_be_left_out)
{
    static const char help[] = "usage: convoy train CONFIG|RUN [--nodes] [[--set] key=value]...\n";
    Args a;
    REQUIRE_OK(PARSE(&a, help, "a.b=1", "x.yaml", "--set", "c.d=2", "--nodes", "e.f=[3, 4]=5"));
    CHECK_STR(a.config, "x.yaml");
    CHECK_INT(a.positional_count, 1);
    REQUIRE(a.set_count == 3);
    CHECK_STR(a.sets[0], "a.b=1");
    CHECK_STR(a.sets[1], "c.d=2");
    CHECK_STR(a.sets[2], "e.f=[3, 4]=5");
    REQUIRE_OK(PARSE(&a, help, "./a=b", "data.train=/x/y")); /* a file may be written so */
    CHECK_STR(a.config, "./a=b");
    CHECK_INT(a.set_count, 1);
    REQUIRE_OK(PARSE(&a, help, "--", "a=b"));
    CHECK_STR(a.config, "a=b");
    CHECK_STATUS(PARSE(&a, help, "x.yaml", "y.yaml"), ERR_USAGE);
    CHECK_STATUS(PARSE(&a, help, "a.b=1"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "CONFIG|RUN is missing");
    /* where there is no such option it is an argument like others */
    REQUIRE_OK(PARSE(&a, "usage: convoy predict RUN IMAGE...\n", "r", "a=b.jpg"));
    CHECK_STR(a.positional[1], "a=b.jpg");
}

TEST(option_with_value)
{
    Args a;
    REQUIRE_OK(PARSE(&a, eval_help, "x.yaml", "--checkpoint", "f.safetensors"));
    CHECK_STR(a.checkpoint, "f.safetensors");
    REQUIRE_OK(PARSE(&a, eval_help, "--checkpoint=g", "x.yaml"));
    CHECK_STR(a.checkpoint, "g");
    CHECK_STR(args_value(&a, "--checkpoint"), "g");
    CHECK(args_value(&a, "--nodes") == NULL);
}

TEST(option_of_one_letter)
{
    Args a;
    static const char help[] = "usage: convoy x [-n N|auto] [--name NAME] [FILE]\n";
    REQUIRE_OK(PARSE(&a, help, "-n", "auto", "--name", "x", "file"));
    CHECK_STR(args_value(&a, "-n"), "auto");
    CHECK_STR(args_value(&a, "--name"), "x");
    CHECK_STR(a.positional[0], "file");
    CHECK_STATUS(PARSE(&a, help, "-n"), ERR_USAGE);
    CHECK_STATUS(PARSE(&a, help, "-m", "4"), ERR_USAGE);
}

TEST(optional_things)
{
    Args a;
    REQUIRE_OK(PARSE(&a, bench_help, "step"));
    CHECK_STR(a.positional[0], "step");
    CHECK(a.config == NULL);
    CHECK(args_value(&a, "--nodes") == NULL);
    CHECK(args_value(&a, "--steps") == NULL);
    REQUIRE_OK(PARSE(&a, bench_help, "step", "--nodes", "c.yaml", "--steps", "7"));
    CHECK_STR(a.config, "c.yaml");
    CHECK_STR(args_value(&a, "--nodes"), "");
    CHECK_STR(args_value(&a, "--steps"), "7");
}

TEST(double_dash_ends_options)
{
    Args a;
    REQUIRE_OK(PARSE(&a, train_help, "--", "--set"));
    CHECK_STR(a.config, "--set");
    CHECK_INT(a.set_count, 0);
}

TEST(missing_arguments)
{
    Args a;
    CHECK_STATUS(args_parse(&a, 0, NULL, train_help), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "convoy train: CONFIG is missing");
    CHECK_STATUS(PARSE(&a, eval_help, "x.yaml"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "convoy eval: --checkpoint is missing");
    CHECK_STATUS(PARSE(&a, eval_help, "x.yaml", "--checkpoint"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--checkpoint needs a value");
}

TEST(wrong_arguments)
{
    Args a;
    CHECK_STATUS(PARSE(&a, train_help, "x.yaml", "--sett", "a=1"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown option --sett (did you mean --set?)");
    CHECK_STATUS(PARSE(&a, train_help, "x.yaml", "--zzzzzzzz=1"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown option --zzzzzzzz (see convoy train --help)");
    CHECK_STATUS(PARSE(&a, train_help, "x.yaml", "y.yaml"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unexpected argument \"y.yaml\"");
    CHECK_STATUS(PARSE(&a, eval_help, "x", "--checkpoint", "a", "--checkpoint", "b"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--checkpoint is given twice");
    CHECK_STATUS(PARSE(&a, bench_help, "step", "--nodes=3"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--nodes takes no value");
    CHECK_STATUS(PARSE(&a, train_help, "x.yaml", "-x"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown option -x");
}

TEST(too_many_sets)
{
    const char *words[ARGS_SET_MAX + 3] = { "x.yaml" };
    Args a;
    for (int i = 1; i <= ARGS_SET_MAX; i++) words[i] = "--set=a=1";
    CHECK_OK(parse(&a, train_help, words));
    CHECK_INT(a.set_count, ARGS_SET_MAX);
    words[ARGS_SET_MAX + 1] = "--set=a=1";
    CHECK_STATUS(parse(&a, train_help, words), ERR_USAGE);
}

TEST(repeated_arguments_have_no_limit)
{
    enum { MANY = 5000 };
    static const char predict_help[] =
        "usage: convoy predict CHECKPOINT IMAGE... [--json] [--top N]\n";
    static char first[] = "c", file[] = "a.jpg", last[] = "z.jpg", json[] = "--json",
                top[] = "--top", three[] = "3";
    static char *argv[MANY + 3];
    Args a;
    for (int i = 0; i < MANY; i++) argv[i] = file;
    argv[0] = first;
    argv[7] = json; /* options may stand anywhere */
    argv[MANY] = top;
    argv[MANY + 1] = three;
    argv[MANY + 2] = last;
    REQUIRE_OK(args_parse(&a, MANY + 3, argv, predict_help));
    CHECK_INT(a.positional_count, MANY);
    CHECK_STR(a.positional[0], "c");
    CHECK_STR(a.positional[MANY - 2], "a.jpg");
    CHECK_STR(a.positional[MANY - 1], "z.jpg");
    CHECK(args_value(&a, "--json") != NULL);
    CHECK_STR(args_value(&a, "--top"), "3");
}

TEST(help_comes_before_errors)
{
    Args a;
    CHECK_OK(PARSE(&a, train_help, "--bogus", "--help"));
    CHECK(a.help);
    CHECK_OK(PARSE(&a, train_help, "-h"));
    CHECK(a.help);
    CHECK_STATUS(PARSE(&a, train_help, "--", "--help", "x"), ERR_USAGE);
}

TEST(a_usage_of_several_lines_ends_at_two_dashes)
{
    static const char several[] = "usage: convoy x [--one N]\n"
                                  "                [--two N] -- train CONFIG [--three N]\n"
                                  "\n"
                                  "  --four N  is text\n";
    char one[] = "--one", two[] = "--two", value[] = "5", three[] = "--three", config[] = "c.yaml";
    char *good[] = { one, value, two, value }, *unknown[] = { three, value },
         *positional[] = { config };
    Args a;
    REQUIRE_OK(args_parse(&a, 4, good, several));
    CHECK_STR(args_value(&a, "--two"), "5");
    CHECK_STATUS(args_parse(&a, 2, unknown, several), ERR_USAGE);
    CHECK_STATUS(args_parse(&a, 1, positional, several), ERR_USAGE);
}
