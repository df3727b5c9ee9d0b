/* args.h - the command line of a subcommand, read by its table of arguments: a row per positional
 * argument, in order, and per option. Parser, usage line, help (help.h), manual page and completion
 * are all made from it.
 *
 * --name value and --name=value; -- ends the options; --help or -h anywhere asks for help and
 * nothing else is checked. Where a table has ARG_SETTING, an argument with an equals sign and no
 * slash before it is a value of that option. */
#ifndef CONVOY_TRAINER_APP_CMD_ARGS_H
#define CONVOY_TRAINER_APP_CMD_ARGS_H
#include "data/data.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/weights.h"

#define ARGS_ROW_MAX 24
#define ARGS_SET_MAX 64

enum {
    ARG_OPTIONAL = 1, /* a positional argument that may be left out */
    ARG_REPEATED = 2, /* the last positional argument: one or more */
    ARG_REQUIRED = 4, /* an option that may not be left out */
    ARG_CONFIG = 8,   /* Args.config */
    ARG_SETTING = 16, /* --set: may be repeated, and its name left out */
    ARG_READS = 32,   /* its value is a file that the command reads */
    ARG_WRITES = 64,  /* or writes; a positional one is Args.output */
    ARG_REST = 128,   /* what follows "--"; the row's name is its usage */
};

typedef struct ArgRow {
    const char *name;           /* "--steps"; of a positional argument "CONFIG|RUN" */
    const char *value;          /* "N"; NULL for a flag and a positional argument */
    const char *help;           /* one sentence without a full stop; NULL: not listed */
    const char *also;           /* other names of the option: "-b --minbytes" */
    const char *foreign;        /* options of other programs with this meaning (foreign_words.h) */
    const char *needs;          /* the option without which this one is refused */
    const char *const *choices; /* words that the value may be; NULL at the end */
    double min, max, fallback;  /* of a number; fallback 0: the caller's */
    int flags;
} ArgRow;

/* Rows that several commands share. */
#define ARG_ROW_END                                                                                \
    {                                                                                              \
        .name = NULL                                                                               \
    }
#define ARG_ROW_CONFIG                                                                             \
    {                                                                                              \
        "CONFIG|RUN", .help = "a config file, or the folder of a run", .flags = ARG_CONFIG         \
    }
#define ARG_ROW_SET                                                                                \
    {                                                                                              \
        "--set", "key=value",                                                                      \
            .help =                                                                                \
                "override a config key; --set may be left out (convoy inspect config lists keys)", \
            .flags = ARG_SETTING                                                                   \
    }
#define ARG_ROW_FORMAT                                                                             \
    {                                                                                              \
        "--format", "NAME", .help = "format of the dataset (default auto)",                        \
                            .choices = data_format_names                                           \
    }
#define ARG_ROW_ROLE                                                                               \
    {                                                                                              \
        "--role", "NAME", .help = "which files of a folder that holds both sets (default train)",  \
                          .choices = data_role_names                                               \
    }
#define ARG_ROW_ALLOW_EMPTY                                                                        \
    {                                                                                              \
        "--allow-empty", .help = "folders without images are classes too"                          \
    }
#define ARG_ROW_LABELS                                                                             \
    {                                                                                              \
        "--labels", "KIND",                                                                        \
            .help =                                                                                \
                "of a list: as the key data.labels: one label per image (single, the default), "   \
                "or any number (multi)",                                                           \
            .choices = label_kind_names                                                            \
    }
#define ARG_ROW_VERBOSE                                                                            \
    {                                                                                              \
        "--verbose", .help = "also print what the engine chose: kernels, threads, index, memory"   \
    }
#define ARG_ROW_EMA                                                                                \
    {                                                                                              \
        "--ema", .help = "use the averaged weights (config section ema)"                           \
    }
#define ARG_ROW_RAW                                                                                \
    {                                                                                              \
        "--raw", .help = "use the weights as trained, not averaged"                                \
    }

typedef struct Args {              /* plain data; borrowed from argv and the table */
    bool help;                     /* help is asked for; nothing else was read */
    const char *const *positional; /* [positional_count] */
    int positional_count;
    const char *config;     /* the argument with ARG_CONFIG; NULL where it is absent */
    char installed[1100];   /* configs/... that is not here: config is this installed one */
    const char *checkpoint; /* --checkpoint; NULL if absent */
    const char *output;     /* the positional argument that is written; NULL if there is none */
    char **rest;            /* [rest_count]; behind "--" where the table has ARG_REST */
    int rest_count;
    const char *sets[ARGS_SET_MAX]; /* values of --set in order */
    int set_count;
    const ArgRow *rows;
    const char *values[ARGS_ROW_MAX]; /* by row; "" for a flag that was given; NULL if absent */
} Args;

/* argv: what follows the command's name; positional arguments are moved to its front. ERR_USAGE
 * names the argument, and for an unknown option the nearest one. args_check_outputs() is asked. */
Status args_parse(Args *out, int argc, char **argv, const ArgRow *rows);
/* ERR_USAGE for a word that is none of names, with the nearest one, or with the key or command that
 * a word of another program stands for (foreign). kind: "option", "command". */
Status args_unknown(const char *kind, const char *word, const char *const *names, int count,
                    bool foreign);
/* Whether OUT and options that name files to write spare what the command reads (c: the keys too;
 * NULL ok), each other, and runs (trainer/engine/files/outputs.h). ERR_USAGE. */
Status args_check_outputs(const Args *args, const Config *c);
/* The value of any option, "" for a flag that was given; NULL if absent. */
const char *args_value(const Args *args, const char *option);
/* Which of its row's choices the option's value is; 0 if it was not given. ERR_USAGE with the
 * nearest one. */
Status args_choice(const Args *args, const char *option, int *out);
/* The option's value as a number within its row's limits. Without the option *out becomes the row's
 * fallback, or stays where that is 0. */
Status args_number(const Args *args, const char *option, double *out);
Status args_whole(const Args *args, const char *option, int64_t *out); /* the same, without point */
/* --ema or --raw: which weights of a checkpoint are meant. */
Status args_weights(const Args *args, WeightsChoice *out);
/* The first positional argument with --format, --role and --allow-empty. */
Status args_dataset(const Args *args, DatasetOptions *out);
#endif
