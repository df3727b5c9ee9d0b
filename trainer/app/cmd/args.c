/* args.c - see args.h: first the usage line is turned into a table, then argv is held against
 * it. */
#include "trainer/app/cmd/args.h"

#include "base/log.h"
#include "base/str.h"
#include "trainer/engine/files/outputs.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WORD_BYTES 24

typedef struct Usage {
    char command[160]; /* "convoy eval" */
    char positional[ARGS_POSITIONAL_MAX][WORD_BYTES];
    int positional_count, required;
    bool repeats; /* the last positional argument */
} Usage;

/* ---- the usage line: written by us, so a broken one is a bug and asserted ---- */

typedef struct Token {
    char word[64]; /* without brackets and dots */
    int opens;     /* brackets before it */
    bool closes, repeats;
} Token;

static int count_of(const char *text, size_t n, char c)
{
    int count = 0;
    for (size_t i = 0; i < n; i++) count += text[i] == c;
    return count;
}

/* Cuts the next blank-separated token off *line. False at the end of the line. */
static bool next_token(const char **line, Token *token)
{
    const char *p = *line + strspn(*line, " ");
    if (p[0] == '\n' && p[1] == ' ') p += strspn(p, "\n ");
    size_t n = strcspn(p, " \n");
    *line = p + n;
    if (n == 0) return false;
    const int opens = count_of(p, n, '['), closes = count_of(p, n, ']');
    *token = (Token){ .opens = opens,
                      .closes = closes > 0 && closes >= opens,
                      .repeats = p[n - 1] == '.' };
    p += opens;
    n = strcspn(p, "] .\n");
    ASSERT(n < sizeof token->word);
    memcpy(token->word, p, n);
    return true;
}

/* last: the token that ends the option, its value's or its own. */
static void add_option(Args *a, const Token *name, const Token *last)
{
    ASSERT(a->option_count < ARGS_OPTION_MAX && strlen(name->word) < WORD_BYTES);
    ArgsOption *o = &a->options[a->option_count++];
    memcpy(o->name, name->word, strlen(name->word) + 1);
    o->has_value = last != name;
    o->required = !name->opens;
    o->implied = name->opens > 1;
    o->repeated = last->repeats;
    ASSERT(!o->repeated || strcmp(o->name, "--set") == 0); /* Args has room for one list */
}

static void add_positional(Usage *u, const Token *token)
{
    ASSERT(u->positional_count < ARGS_POSITIONAL_MAX && strlen(token->word) < WORD_BYTES);
    /* nothing follows what may be repeated */
    ASSERT(!u->repeats);
    ASSERT(token->opens || u->required == u->positional_count); /* required ones come first */
    memcpy(u->positional[u->positional_count++], token->word, strlen(token->word) + 1);
    if (!token->opens) u->required++;
    u->repeats = token->repeats;
}

static void add_command_word(Usage *u, const char *word)
{
    size_t n = strlen(u->command);
    ASSERT(n < 64);
    snprintf(u->command + n, sizeof u->command - n, "%s%s", n ? " " : "", word);
}

static void read_usage(Usage *u, Args *a, const char *help)
{
    static const char prefix[] = "usage: ";
    ASSERT(str_starts_with(help, prefix));
    const char *line = help + strlen(prefix);
    Token token, value;
    while (next_token(&line, &token) && strcmp(token.word, "--") != 0) {
        if (token.word[0] == '-') {
            bool has_value = !token.closes && next_token(&line, &value);
            add_option(a, &token, has_value ? &value : &token);
        } else if (isupper((unsigned char)token.word[0])) {
            add_positional(u, &token);
        } else {
            add_command_word(u, token.word);
        }
    }
}

/* ---- argv ---- */

/* The option whose name is the first n bytes of arg, NULL. */
static ArgsOption *find_option(Args *a, const char *arg, size_t n)
{
    for (int i = 0; i < a->option_count; i++)
        if (strlen(a->options[i].name) == n && strncmp(a->options[i].name, arg, n) == 0)
            return &a->options[i];
    return NULL;
}

static Status fail_unknown(const Usage *u, Args *a, const char *arg, int n)
{
    const char *names[ARGS_OPTION_MAX + 1];
    char name[64];
    for (int i = 0; i < a->option_count; i++) names[i] = a->options[i].name;
    names[a->option_count] = "--help";
    snprintf(name, sizeof name, "%.*s", n, arg);
    StrBuf advice = { 0 };
    if (find_option(a, "--set", 5)) config_add_advice(name, &advice);
    Status status =
        advice.length ? fail(ERR_USAGE, "%s: unknown option %s; %s", u->command, name, advice.text)
                      : OK;
    str_free(&advice);
    if (status != OK) return status;
    const char *nearest = str_nearest(name, names, a->option_count + 1);
    if (nearest)
        return fail(ERR_USAGE, "%s: unknown option %s (did you mean %s?)", u->command, name,
                    nearest);
    return fail(ERR_USAGE, "%s: unknown option %s (see %s --help)", u->command, name, u->command);
}

static Status keep_set(const Usage *u, Args *a, const char *value)
{
    if (a->set_count == ARGS_SET_MAX)
        return fail(ERR_USAGE, "%s: more than %d times --set", u->command, ARGS_SET_MAX);
    a->sets[a->set_count++] = value;
    return OK;
}

/* Takes the option at argv[*i] and, where it has one, its value; *i moves on to a separate
 * value. */
static Status take_option(const Usage *u, Args *a, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    const char *equals = strchr(arg, '=');
    int n = equals ? (int)(equals - arg) : (int)strlen(arg);
    ArgsOption *o = find_option(a, arg, (size_t)n);
    if (!o) return fail_unknown(u, a, arg, n);
    if (!o->has_value && equals)
        return fail(ERR_USAGE, "%s: %s takes no value", u->command, o->name);
    if (o->value && !o->repeated)
        return fail(ERR_USAGE, "%s: %s is given twice", u->command, o->name);
    o->value = "";
    if (o->has_value) o->value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    if (!o->value) return fail(ERR_USAGE, "%s: %s needs a value", u->command, o->name);
    return o->repeated ? keep_set(u, a, o->value) : OK;
}

/* "optimizer.lr=0.1", but neither "./a=b" nor "/data=1/x.jpg". */
static bool is_setting(const Args *a, const char *arg)
{
    const char *equals = strchr(arg, '=');
    if (!equals || memchr(arg, '/', (size_t)(equals - arg))) return false;
    for (int i = 0; i < a->option_count; i++)
        if (a->options[i].implied) return true;
    return false;
}

/* Takes argv[i], which moves to the other positional arguments at the front: so many as there are
 * find place. */
static Status take_positional(const Usage *u, Args *a, char **argv, int i)
{
    char *arg = argv[i];
    if (a->positional_count >= u->positional_count && !u->repeats)
        return fail(ERR_USAGE, "%s: unexpected argument \"%s\" (see %s --help)", u->command, arg,
                    u->command);
    if (a->positional_count < u->positional_count &&
        strstr(u->positional[a->positional_count], "CONFIG"))
        a->config = arg;
    for (; i > a->positional_count; i--) argv[i] = argv[i - 1];
    argv[a->positional_count++] = arg;
    return OK;
}

static Status check_required(const Usage *u, const Args *a)
{
    const char *missing =
        a->positional_count < u->required ? u->positional[a->positional_count] : NULL;
    for (int i = 0; i < a->option_count && !missing; i++)
        if (a->options[i].required && !a->options[i].value) missing = a->options[i].name;
    return missing ? fail(ERR_USAGE, "%s: %s is missing (see %s --help)", u->command, missing,
                          u->command)
                   : OK;
}

/* Whether help is asked for anywhere; looked at first, so that a wrong line can still be helped. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

Status args_check_outputs(const Args *a, const Config *c)
{
    static const char *const writing[] = { "--out",     "--csv",    "--per-class", "--confusion",
                                           "--gallery", "--layers", "--dump" };
    static const char *const reading[] = { "--checkpoint", "--classes", "--replay", "--gpu" };
    Outputs o = { .written_count = 0 };
    outputs_add_written(&o, "OUT", a->output);
    for (size_t i = 0; i < sizeof writing / sizeof *writing; i++)
        outputs_add_written(&o, writing[i], args_value(a, writing[i]));
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++)
        outputs_add_read(&o, reading[i], args_value(a, reading[i]));
    for (int i = 0; i < a->positional_count; i++)
        if (a->positional[i] != a->output)
            outputs_add_read(&o, "the command line", a->positional[i]);
    if (c) TRY(outputs_check_folders(c));
    if (c) outputs_add_config(&o, c);
    return outputs_check(&o);
}

Status args_parse(Args *out, int argc, char **argv, const char *help)
{
    Usage usage = { 0 };
    *out = (Args){ .help = wants_help(argc, argv), .positional = (const char *const *)argv };
    read_usage(&usage, out, help);
    if (out->help) return log_print(help);
    bool options = true;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) options = false;
        else if (options && arg[0] == '-' && arg[1] != '\0')
            TRY(take_option(&usage, out, argc, argv, &i));
        else if (options && is_setting(out, arg)) TRY(keep_set(&usage, out, arg));
        else TRY(take_positional(&usage, out, argv, i));
    }
    out->checkpoint = args_value(out, "--checkpoint");
    for (int i = 0; i < usage.positional_count && i < out->positional_count; i++)
        if (strcmp(usage.positional[i], "OUT") == 0) out->output = out->positional[i];
    TRY(check_required(&usage, out));
    return args_check_outputs(out, NULL);
}

const char *args_value(const Args *args, const char *option)
{
    for (int i = 0; i < args->option_count; i++)
        if (strcmp(args->options[i].name, option) == 0) return args->options[i].value;
    return NULL;
}

Status args_choice(const Args *args, const char *option, const char *const *names, int *out)
{
    const char *value = args_value(args, option);
    *out = 0;
    if (!value) return OK;
    for (*out = 0; names[*out]; ++*out)
        if (strcmp(value, names[*out]) == 0) return OK;
    const char *nearest = str_nearest(value, names, *out);
    return fail(ERR_USAGE, "%s %s: no such choice%s%s%s", option, value,
                nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
}

Status args_dataset(const Args *args, DatasetOptions *out)
{
    int format, role;
    TRY(args_choice(args, "--format", data_format_names, &format));
    TRY(args_choice(args, "--role", data_role_names, &role));
    *out = (DatasetOptions){ .path = args->positional[0],
                             .format = (DataFormat)format,
                             .role = (DataRole)role,
                             .allow_empty = args_value(args, "--allow-empty") != NULL };
    return OK;
}

Status args_weights(const Args *args, WeightsChoice *out)
{
    const bool ema = args_value(args, "--ema"), raw = args_value(args, "--raw");
    *out = ema ? WEIGHTS_EMA : raw ? WEIGHTS_RAW : WEIGHTS_OF_BEST;
    return ema && raw ? fail(ERR_USAGE, "--ema and --raw: one of them") : OK;
}

Status args_seconds(const Args *args, const char *option, double *out)
{
    const char *text = args_value(args, option);
    if (!text || (str_to_double(text, out) && *out >= 0)) return OK;
    return fail(ERR_USAGE, "%s %s: must be a number of seconds", option, text);
}

Status args_count(const Args *args, const char *option, int64_t fallback, int64_t min, int64_t max,
                  int64_t *out)
{
    const char *text = args_value(args, option);
    *out = fallback;
    if (!text || (str_to_i64(text, out) && *out >= min && *out <= max)) return OK;
    return fail(ERR_USAGE, "%s %s: not a whole number from %lld to %lld", option, text,
                (long long)min, (long long)max);
}
