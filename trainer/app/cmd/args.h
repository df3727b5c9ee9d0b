/* args.h - the command line of a subcommand, read by the usage line of its own help text.
 *
 * USAGE LINE. A help text begins "usage: convoy eval RUN|CONFIG [--checkpoint FILE] [[--set]
 * key=value]...\n". Lower-case words are the command. Upper-case words are positional arguments.
 * --name VALUE (or -n VALUE) is an option with a value, [--name] a flag. Brackets make a thing
 * optional, dots behind the bracket let an option be repeated (--set alone), and dots behind the
 * last positional argument that one. [--name] in brackets of its own may be left out: an argument
 * with an equals sign, and no slash before it, is a value of that option. So what the help says and
 * what is accepted cannot differ. The usage goes on in lines that begin with a blank, and ends at a
 * word "--": arguments behind it are the command's own business.
 *
 * ACCEPTED. --name value and --name=value; -- ends the options; --help or -h anywhere prints the
 * help text and nothing else is checked. */
#ifndef CONVOY_TRAINER_APP_CMD_ARGS_H
#define CONVOY_TRAINER_APP_CMD_ARGS_H
#include "data/data.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/weights.h"

#define ARGS_OPTION_MAX     24
#define ARGS_POSITIONAL_MAX 4
#define ARGS_SET_MAX        64

typedef struct ArgsOption {                      /* one option of the usage line */
    char name[24];                               /* "--checkpoint" */
    bool has_value, required, repeated, implied; /* implied: its name may be left out */
    const char *value; /* as given; "" for a flag that was given; NULL if absent */
} ArgsOption;

typedef struct Args {              /* plain data; borrowed from argv */
    bool help;                     /* the help was printed: there is nothing more to do */
    const char *const *positional; /* [positional_count] */
    int positional_count;
    /* the positional argument that may be a CONFIG; NULL where it is optional and absent */
    const char *config;
    const char *checkpoint;         /* --checkpoint; NULL if absent */
    const char *output;             /* the positional argument OUT; NULL if there is none */
    const char *sets[ARGS_SET_MAX]; /* values of --set in order */
    int set_count;
    ArgsOption options[ARGS_OPTION_MAX];
    int option_count;
} Args;

/* argv: what follows the command's name; positional arguments are moved to its front. ERR_USAGE
 * names the argument, and for an unknown option the nearest one. args_check_outputs() is asked. */
Status args_parse(Args *out, int argc, char **argv, const char *help);
/* Whether OUT and options that name files to write spare what the command reads (c: the keys too;
 * NULL ok), each other, and runs (trainer/engine/files/outputs.h). ERR_USAGE. */
Status args_check_outputs(const Args *args, const Config *c);
/* The value of any option, "" for a flag that was given; NULL if absent. */
const char *args_value(const Args *args, const char *option);
/* Which of names (NULL at the end) the option's value is; 0 if it was not given. ERR_USAGE with the
 * nearest name. */
Status args_choice(const Args *args, const char *option, const char *const *names, int *out);
/* The option's value as a number of seconds; *out stays where it was not given. */
Status args_seconds(const Args *args, const char *option, double *out);
/* --ema or --raw: which weights of a checkpoint are meant. */
Status args_weights(const Args *args, WeightsChoice *out);
/* The first positional argument with --format, --role and --allow-empty. */
Status args_dataset(const Args *args, DatasetOptions *out);
/* The option's value as a whole number from min to max; fallback if it was not given. */
Status args_count(const Args *args, const char *option, int64_t fallback, int64_t min, int64_t max,
                  int64_t *out);
#endif
