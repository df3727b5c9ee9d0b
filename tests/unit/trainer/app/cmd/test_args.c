/* test_args.c - tables of arguments, and command lines held against them. */
#include "tests/test.h"
#include "trainer/app/cmd/args.h"
#include <string.h>

static const ArgRow train_rows[] = { { "CONFIG", .flags = ARG_CONFIG },
                                     { "--set", "key=value", .flags = ARG_SETTING },
                                     ARG_ROW_END };
static const ArgRow eval_rows[] = { { "CONFIG", .flags = ARG_CONFIG },
                                    { "--checkpoint", "FILE", .flags = ARG_REQUIRED },
                                    ARG_ROW_SET,
                                    ARG_ROW_END };
static const ArgRow bench_rows[] = { { "WHAT", .help = NULL },
                                     { "CONFIG", .flags = ARG_CONFIG | ARG_OPTIONAL },
                                     { "--steps", "N", .also = "-n --iters" },
                                     { "--nodes", .help = NULL },
                                     { "--layers", "FILE", .needs = "--nodes" },
                                     ARG_ROW_END };
static const ArgRow predict_rows[] = { { "RUN", .help = NULL },
                                       { "IMAGE", .flags = ARG_REPEATED },
                                       { "--json", .help = NULL },
                                       { "--top", "K", .help = NULL },
                                       ARG_ROW_END };

#define PARSE(args, rows, ...) parse(args, rows, (const char *[]){ __VA_ARGS__, NULL })

/* Parses a NULL-terminated list. The strings outlive args because they are literals. */
static Status parse(Args *args, const ArgRow *rows, const char **words)
{
    static char *argv[128];
    int argc = 0;
    /* drops const; argv is only read */
    for (; words[argc]; argc++) memcpy(&argv[argc], &words[argc], sizeof argv[0]);
    return args_parse(args, argc, argv, rows);
}

TEST(positional_and_sets)
{
    Args a;
    REQUIRE_OK(PARSE(&a, train_rows, "--set", "a.b=1", "x.yaml", "--set=c.d=2=3"));
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
    static const ArgRow rows[] = {
        ARG_ROW_CONFIG, { "--nodes", .help = NULL }, ARG_ROW_SET, ARG_ROW_END
    };
    Args a;
    REQUIRE_OK(PARSE(&a, rows, "a.b=1", "x.yaml", "--set", "c.d=2", "--nodes", "e.f=[3, 4]=5"));
    CHECK_STR(a.config, "x.yaml");
    CHECK_INT(a.positional_count, 1);
    REQUIRE(a.set_count == 3);
    CHECK_STR(a.sets[0], "a.b=1");
    CHECK_STR(a.sets[1], "c.d=2");
    CHECK_STR(a.sets[2], "e.f=[3, 4]=5");
    REQUIRE_OK(PARSE(&a, rows, "./a=b", "data.train=/x/y")); /* a file may be written so */
    CHECK_STR(a.config, "./a=b");
    CHECK_INT(a.set_count, 1);
    REQUIRE_OK(PARSE(&a, rows, "--", "a=b"));
    CHECK_STR(a.config, "a=b");
    CHECK_STATUS(PARSE(&a, rows, "x.yaml", "y.yaml"), ERR_USAGE);
    CHECK_STATUS(PARSE(&a, rows, "a.b=1"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "missing argument CONFIG|RUN");
    /* where there is no such option it is an argument like others */
    REQUIRE_OK(PARSE(&a, predict_rows, "r", "a=b.jpg"));
    CHECK_STR(a.positional[1], "a=b.jpg");
}

TEST(option_with_value)
{
    Args a;
    REQUIRE_OK(PARSE(&a, eval_rows, "x.yaml", "--checkpoint", "f.safetensors"));
    CHECK_STR(a.checkpoint, "f.safetensors");
    REQUIRE_OK(PARSE(&a, eval_rows, "--checkpoint=g", "x.yaml"));
    CHECK_STR(a.checkpoint, "g");
    CHECK_STR(args_value(&a, "--checkpoint"), "g");
    CHECK(args_value(&a, "--nodes") == NULL);
}

TEST(option_of_one_letter)
{
    Args a;
    static const ArgRow rows[] = { { "FILE", .flags = ARG_OPTIONAL },
                                   { "-n", "N|auto", .help = NULL },
                                   { "--name", "NAME", .help = NULL },
                                   ARG_ROW_END };
    REQUIRE_OK(PARSE(&a, rows, "-n", "auto", "--name", "x", "file"));
    CHECK_STR(args_value(&a, "-n"), "auto");
    CHECK_STR(args_value(&a, "--name"), "x");
    CHECK_STR(a.positional[0], "file");
    CHECK_STATUS(PARSE(&a, rows, "-n"), ERR_USAGE);
    CHECK_STATUS(PARSE(&a, rows, "-m", "4"), ERR_USAGE);
}

TEST(optional_things)
{
    Args a;
    REQUIRE_OK(PARSE(&a, bench_rows, "step"));
    CHECK_STR(a.positional[0], "step");
    CHECK(a.config == NULL);
    CHECK(args_value(&a, "--nodes") == NULL);
    CHECK(args_value(&a, "--steps") == NULL);
    REQUIRE_OK(PARSE(&a, bench_rows, "step", "--nodes", "c.yaml", "--steps", "7"));
    CHECK_STR(a.config, "c.yaml");
    CHECK_STR(args_value(&a, "--nodes"), "");
    CHECK_STR(args_value(&a, "--steps"), "7");
}

TEST(double_dash_ends_options)
{
    Args a;
    REQUIRE_OK(PARSE(&a, train_rows, "--", "--set"));
    CHECK_STR(a.config, "--set");
    CHECK_INT(a.set_count, 0);
}

TEST(missing_arguments)
{
    Args a;
    CHECK_STATUS(args_parse(&a, 0, NULL, train_rows), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "missing argument CONFIG (see convoy --help)");
    CHECK_STATUS(PARSE(&a, eval_rows, "x.yaml"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "missing option --checkpoint FILE");
    CHECK_STATUS(PARSE(&a, eval_rows, "x.yaml", "--checkpoint"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--checkpoint needs a value: FILE");
    static const ArgRow writes[] = { ARG_ROW_CONFIG,
                                     { "--csv", "FILE", .help = NULL, .flags = ARG_WRITES },
                                     ARG_ROW_END };
    CHECK_STATUS(PARSE(&a, writes, "x.yaml", "--csv="), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--csv needs a value: FILE");
}

TEST(wrong_arguments)
{
    Args a;
    CHECK_STATUS(PARSE(&a, train_rows, "x.yaml", "--sett", "a=1"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown option --sett (did you mean --set?)");
    CHECK_STATUS(PARSE(&a, train_rows, "x.yaml", "--zzzzzzzz=1"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown option --zzzzzzzz (see convoy --help)");
    CHECK_STATUS(PARSE(&a, train_rows, "x.yaml", "y.yaml"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unexpected argument \"y.yaml\"");
    CHECK_STATUS(PARSE(&a, eval_rows, "x", "--checkpoint", "a", "--checkpoint", "b"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--checkpoint is given twice");
    CHECK_STATUS(PARSE(&a, bench_rows, "step", "--nodes=3"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "--nodes takes no value");
    CHECK_STATUS(PARSE(&a, train_rows, "x.yaml", "-x"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown option -x");
    CHECK_STATUS(PARSE(&a, bench_rows, "step", "--layers", "f"), ERR_USAGE);
    CHECK_STR(status_message(), "--layers requires --nodes");
    CHECK_OK(PARSE(&a, bench_rows, "step", "--layers", "f", "--nodes"));
    CHECK_STATUS(PARSE(&a, predict_rows, "r"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "missing argument IMAGE");
}

TEST(too_many_sets)
{
    const char *words[ARGS_SET_MAX + 3] = { "x.yaml" };
    Args a;
    for (int i = 1; i <= ARGS_SET_MAX; i++) words[i] = "--set=a=1";
    CHECK_OK(parse(&a, train_rows, words));
    CHECK_INT(a.set_count, ARGS_SET_MAX);
    words[ARGS_SET_MAX + 1] = "--set=a=1";
    CHECK_STATUS(parse(&a, train_rows, words), ERR_USAGE);
}

TEST(repeated_arguments_have_no_limit)
{
    enum { MANY = 5000 };
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
    REQUIRE_OK(args_parse(&a, MANY + 3, argv, predict_rows));
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
    CHECK_OK(PARSE(&a, train_rows, "--bogus", "--help"));
    CHECK(a.help);
    CHECK_OK(PARSE(&a, train_rows, "-h"));
    CHECK(a.help);
    CHECK_STATUS(PARSE(&a, train_rows, "--", "--help", "x"), ERR_USAGE);
}

TEST(other_names_of_an_option)
{
    Args a;
    REQUIRE_OK(PARSE(&a, bench_rows, "step", "-n", "5"));
    CHECK_STR(args_value(&a, "--steps"), "5");
    REQUIRE_OK(PARSE(&a, bench_rows, "step", "--iters=6"));
    CHECK_STR(args_value(&a, "--steps"), "6");
    CHECK_STATUS(PARSE(&a, bench_rows, "step", "--iters=6", "-n", "5"), ERR_USAGE);
    CHECK_STATUS(PARSE(&a, bench_rows, "step", "--it", "6"), ERR_USAGE);
}

TEST(what_follows_two_dashes_may_be_kept_apart)
{
    static const ArgRow rows[] = { { "--one", "N", .help = NULL },
                                   { "-- train CONFIG", .flags = ARG_REST },
                                   ARG_ROW_END };
    Args a;
    REQUIRE_OK(PARSE(&a, rows, "--one", "5", "--", "train", "--three", "--"));
    CHECK_STR(args_value(&a, "--one"), "5");
    REQUIRE(a.rest_count == 3);
    CHECK_STR(a.rest[1], "--three");
    CHECK_STATUS(PARSE(&a, rows, "x.yaml"), ERR_USAGE);
    REQUIRE_OK(PARSE(&a, rows, "--one=5"));
    CHECK_INT(a.rest_count, 0);
}

TEST(numbers_and_words_are_of_their_rows)
{
    static const char *const words[] = { "auto", "fp32", "bf16", NULL };
    static const ArgRow rows[] = { { "--steps", "N", .min = 20, .max = 1e5, .fallback = 100 },
                                   { "--wait", "SECONDS", .max = 0.5 },
                                   { "--type", "NAME", .choices = words },
                                   ARG_ROW_END };
    int64_t steps = -1;
    double wait_s = 3;
    int word;
    Args a;
    REQUIRE_OK(PARSE(&a, rows, "--type", "bf16"));
    CHECK_OK(args_whole(&a, "--steps", &steps));
    CHECK_INT(steps, 100);
    CHECK_OK(args_number(&a, "--wait", &wait_s));
    CHECK(wait_s == 3);
    CHECK_OK(args_choice(&a, "--type", &word));
    CHECK_INT(word, 2);
    REQUIRE_OK(PARSE(&a, rows, "--steps", "19", "--wait", "0.25", "--type", "fp23"));
    CHECK_STATUS(args_whole(&a, "--steps", &steps), ERR_USAGE);
    CHECK_STR(status_message(), "--steps 19: must be a whole number from 20 to 100000");
    CHECK_OK(args_number(&a, "--wait", &wait_s));
    CHECK(wait_s == 0.25);
    CHECK_STATUS(args_choice(&a, "--type", &word), ERR_USAGE);
    CHECK_STR(status_message(), "--type: unknown value fp23 (did you mean fp32?)");
    REQUIRE_OK(PARSE(&a, rows, "--steps", "20", "--wait", "0.6", "--type", "xxxxxxxx"));
    CHECK_OK(args_whole(&a, "--steps", &steps));
    CHECK_STATUS(args_number(&a, "--wait", &wait_s), ERR_USAGE);
    CHECK_STATUS(args_choice(&a, "--type", &word), ERR_USAGE);
    CHECK_STR(status_message(), "--type: unknown value xxxxxxxx; it is one of auto, fp32, bf16");
    REQUIRE_OK(args_parse(&a, 0, NULL, rows));
    CHECK_OK(args_choice(&a, "--type", &word));
    CHECK_INT(word, 0);
}
