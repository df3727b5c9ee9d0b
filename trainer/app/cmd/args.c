/* args.c - see args.h. */
#include "trainer/app/cmd/args.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/str.h"
#include "trainer/engine/config/foreign_words.h"
#include "trainer/engine/files/outputs.h"
#include <stdio.h>
#include <string.h>

#define SAME_START 3 /* letters that make a word more than near: --output is --out */

static bool is_option(const ArgRow *row)
{
    return row->name[0] == '-' && !(row->flags & ARG_REST);
}

/* The positional argument number n from 0; the last one for those that follow it, if it may be
 * repeated; NULL: there is none. */
static const ArgRow *positional_row(const Args *a, int n)
{
    const ArgRow *last = NULL;
    for (const ArgRow *r = a->rows; r->name; r++) {
        if (is_option(r) || r->flags & ARG_REST) continue;
        if (n-- == 0) return r;
        last = r;
    }
    return last && last->flags & ARG_REPEATED ? last : NULL;
}

static const ArgRow *flagged_row(const Args *a, int flag)
{
    for (const ArgRow *r = a->rows; r->name; r++)
        if (r->flags & flag) return r;
    return NULL;
}

/* Whether the first n bytes of arg are one of the words. */
static bool is_word_of(const char *words, const char *arg, size_t n)
{
    while (words && *words) {
        const size_t length = strcspn(words, " ");
        if (length == n && strncmp(words, arg, n) == 0) return true;
        words += length + strspn(words + length, " ");
    }
    return false;
}

/* The option whose name is the first n bytes of arg, NULL. */
static const ArgRow *find_option(const Args *a, const char *arg, size_t n)
{
    for (const ArgRow *r = a->rows; r->name; r++)
        if (is_option(r) && (is_word_of(r->name, arg, n) || is_word_of(r->also, arg, n))) return r;
    return NULL;
}

Status args_unknown(const char *kind, const char *word, const char *const *names, int count,
                    bool foreign)
{
    StrBuf advice = { 0 };
    const char *nearest = str_nearest(word, names, count);
    const size_t start = word[0] == '-' ? 2 + SAME_START : SAME_START + 1;
    const bool is_near = nearest && strncmp(word, nearest, start) == 0;
    const ForeignWord *row = foreign ? foreign_word_find(word) : NULL;
    if (foreign && !is_near && (word[0] == '-' || (row && row->use)))
        config_add_advice(word, &advice);
    const bool advised = advice.length > 0;
    if (advised) fail(ERR_USAGE, "unknown %s %s; %s", kind, word, advice.text);
    str_free(&advice);
    if (advised) return ERR_USAGE;
    if (nearest) return fail(ERR_USAGE, "unknown %s %s (did you mean %s?)", kind, word, nearest);
    return fail(ERR_USAGE, "unknown %s %s (see %s --help)", kind, word, log_program());
}

static Status fail_unknown(const Args *a, const char *arg, int n)
{
    const char *names[ARGS_ROW_MAX + 1] = { "--help" };
    char name[64];
    int count = 1;
    for (const ArgRow *r = a->rows; r->name; r++)
        if (is_option(r)) names[count++] = r->name;
    snprintf(name, sizeof name, "%.*s", n, arg);
    for (const ArgRow *r = a->rows; r->name; r++)
        if (r->foreign && foreign_word_is(r->foreign, name))
            return fail(ERR_USAGE, "unknown option %s; use %s%s%s", name,
                        is_option(r) ? r->name : "the argument ",
                        is_option(r) && r->value ? " " : "",
                        is_option(r) ? (r->value ? r->value : "") : r->name);
    return args_unknown("option", name, names, count, find_option(a, "--set", 5) != NULL);
}

static Status keep_set(Args *a, const char *value)
{
    if (a->set_count == ARGS_SET_MAX)
        return fail(ERR_USAGE, "more than %d options --set", ARGS_SET_MAX);
    a->sets[a->set_count++] = value;
    return OK;
}

/* Takes the option at argv[*i] and, where it has one, its value; *i moves on to a separate
 * value. */
static Status take_option(Args *a, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    const char *equals = strchr(arg, '=');
    int n = equals ? (int)(equals - arg) : (int)strlen(arg);
    const ArgRow *row = find_option(a, arg, (size_t)n);
    if (!row) return fail_unknown(a, arg, n);
    const char **value = &a->values[row - a->rows];
    if (!row->value && equals) return fail(ERR_USAGE, "%s takes no value", row->name);
    if (*value && !(row->flags & ARG_SETTING))
        return fail(ERR_USAGE, "%s is given twice", row->name);
    *value = "";
    if (row->value) *value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    const bool is_file = row->flags & (ARG_READS | ARG_WRITES);
    if (!*value || (is_file && !**value))
        return fail(ERR_USAGE, "%s needs a value: %s", row->name, row->value);
    return row->flags & ARG_SETTING ? keep_set(a, *value) : OK;
}

/* "optimizer.lr=0.1", but neither "./a=b" nor "/data=1/x.jpg". */
static bool is_setting(const Args *a, const char *arg)
{
    const char *equals = strchr(arg, '=');
    return equals && !memchr(arg, '/', (size_t)(equals - arg)) && flagged_row(a, ARG_SETTING);
}

/* A config of these pages, where it is not in this folder. */
static bool is_installed(Args *a, const char *config)
{
    if (str_starts_with(config, "configs/") && !fs_exists(config) &&
        process_installed(a->installed, sizeof a->installed, config))
        return true;
    a->installed[0] = '\0';
    return false;
}

/* Takes argv[i], which moves to the other positional arguments at the front. */
static Status take_positional(Args *a, char **argv, int i)
{
    char *arg = argv[i];
    const ArgRow *row = positional_row(a, a->positional_count);
    const ArgRow *rest = row ? NULL : flagged_row(a, ARG_REST);
    if (rest)
        return fail(ERR_USAGE, "unexpected argument \"%s\"; the command comes after --: %s", arg,
                    rest->name);
    if (!row)
        return fail(ERR_USAGE, "unexpected argument \"%s\" (see %s --help)", arg, log_program());
    if (row->flags & ARG_CONFIG) a->config = is_installed(a, arg) ? a->installed : arg;
    if (row->flags & ARG_WRITES) a->output = arg;
    for (; i > a->positional_count; i--) argv[i] = argv[i - 1];
    argv[a->positional_count++] = arg;
    return OK;
}

static Status check_complete(const Args *a)
{
    const ArgRow *next = positional_row(a, a->positional_count);
    const bool lacks =
        next && !(next->flags & ARG_OPTIONAL) &&
        !(a->positional_count > 0 && next == positional_row(a, a->positional_count - 1));
    if (lacks)
        return fail(ERR_USAGE, "missing argument %s (see %s --help)", next->name, log_program());
    for (const ArgRow *r = a->rows; r->name; r++) {
        const char *value = a->values[r - a->rows];
        if (r->flags & ARG_REQUIRED && !value)
            return fail(ERR_USAGE, "missing option %s %s (see %s --help)", r->name, r->value,
                        log_program());
        if (value && r->needs && !args_value(a, r->needs))
            return fail(ERR_USAGE, "%s requires %s", r->name, r->needs);
    }
    return OK;
}

/* Whether help is asked for anywhere; looked at first, so that a wrong line can still be helped. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_word_of("--help -h", argv[i], strcspn(argv[i], "="))) return true;
    return false;
}

Status args_check_outputs(const Args *a, const Config *c)
{
    Outputs o = { .written_count = 0 };
    outputs_add_written(&o, "OUT", a->output);
    for (const ArgRow *r = a->rows; r->name; r++) {
        if (!is_option(r)) continue;
        if (r->flags & ARG_WRITES) outputs_add_written(&o, r->name, a->values[r - a->rows]);
        if (r->flags & ARG_READS) outputs_add_read(&o, r->name, a->values[r - a->rows]);
    }
    for (int i = 0; i < a->positional_count; i++)
        if (a->positional[i] != a->output)
            outputs_add_read(&o, "the command line", a->positional[i]);
    if (c) TRY(outputs_check_folders(c));
    if (c) outputs_add_config(&o, c);
    return outputs_check(&o);
}

Status args_parse(Args *out, int argc, char **argv, const ArgRow *rows)
{
    *out = (Args){ .rows = rows,
                   .help = wants_help(argc, argv),
                   .positional = (const char *const *)argv };
    bool options = true;
    if (out->help) return OK;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
            if (!flagged_row(out, ARG_REST)) continue;
            out->rest = argv + i + 1;
            out->rest_count = argc - i - 1;
            break;
        }
        if (options && arg[0] == '-' && arg[1] != '\0') TRY(take_option(out, argc, argv, &i));
        else if (options && is_setting(out, arg)) TRY(keep_set(out, arg));
        else TRY(take_positional(out, argv, i));
    }
    out->checkpoint = args_value(out, "--checkpoint");
    TRY(check_complete(out));
    return args_check_outputs(out, NULL);
}

const char *args_value(const Args *args, const char *option)
{
    const ArgRow *row = find_option(args, option, strlen(option));
    return row ? args->values[row - args->rows] : NULL;
}

Status args_choice(const Args *args, const char *option, int *out)
{
    const ArgRow *row = find_option(args, option, strlen(option));
    const char *value = args_value(args, option);
    StrBuf all = { 0 };
    *out = 0;
    if (!value) return OK;
    for (*out = 0; row->choices[*out]; ++*out)
        if (strcmp(value, row->choices[*out]) == 0) return OK;
    const char *nearest = str_nearest(value, row->choices, *out);
    if (nearest)
        return fail(ERR_USAGE, "%s: unknown value %s (did you mean %s?)", option, value, nearest);
    for (int i = 0; i < *out; i++) str_printf(&all, "%s%s", i > 0 ? ", " : "", row->choices[i]);
    fail(ERR_USAGE, "%s: unknown value %s; it is one of %s", option, value,
         all.text ? all.text : "");
    str_free(&all);
    return ERR_USAGE;
}

static Status read_number(const Args *args, const char *option, bool whole, double *out)
{
    int64_t integer;
    const ArgRow *row = find_option(args, option, strlen(option));
    const char *text = args_value(args, option);
    if (row && row->fallback != 0) *out = row->fallback;
    if (!text) return OK;
    const bool read = str_to_double(text, out) && (!whole || str_to_i64(text, &integer));
    if (read && *out >= row->min && *out <= row->max) return OK;
    return fail(ERR_USAGE, "%s %s: must be a %snumber from %.15g to %.15g", option, text,
                whole ? "whole " : "", row->min, row->max);
}

Status args_number(const Args *args, const char *option, double *out)
{
    return read_number(args, option, false, out);
}

Status args_whole(const Args *args, const char *option, int64_t *out)
{
    double value = (double)*out; /* limits are far below 2^53 */
    TRY(read_number(args, option, true, &value));
    *out = (int64_t)value;
    return OK;
}

Status args_weights(const Args *args, WeightsChoice *out)
{
    const bool ema = args_value(args, "--ema"), raw = args_value(args, "--raw");
    *out = ema ? WEIGHTS_EMA : raw ? WEIGHTS_RAW : WEIGHTS_OF_BEST;
    return ema && raw ? fail(ERR_USAGE, "give either --ema or --raw, not both") : OK;
}

Status args_dataset(const Args *args, DatasetOptions *out)
{
    int format, role, labels;
    TRY(args_choice(args, "--format", &format));
    TRY(args_choice(args, "--role", &role));
    TRY(args_choice(args, "--labels", &labels));
    *out = (DatasetOptions){ .path = args->positional[0],
                             .format = (DataFormat)format,
                             .role = (DataRole)role,
                             .labels = (LabelKind)labels,
                             .allow_empty = args_value(args, "--allow-empty") != NULL };
    return OK;
}
