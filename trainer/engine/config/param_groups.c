/* param_groups.c - see param_groups.h. */
#include "trainer/engine/config/param_groups.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

#define FACTOR_MAX 1e6
#define BLANKS     " \t"
enum { WORD_BYTES = 64 };

/* The next word of *at, up to end, cut to bytes; false: there is none. */
static bool next_word(const char **at, const char *end, char *word, size_t bytes)
{
    *at += strspn(*at, BLANKS);
    size_t length = strcspn(*at, BLANKS);
    if (*at >= end || length == 0) return false;
    if (*at + length > end) length = (size_t)(end - *at);
    snprintf(word, bytes, "%.*s", (int)length, *at);
    *at += length;
    return true;
}

static Status set_factor(ParamGroup *g, const char *word)
{
    double value = 0;
    const bool lr = str_starts_with(word, "lr="), decay = str_starts_with(word, "decay=");
    if (!lr && !decay)
        return fail(ERR_USAGE, "has \"%s\" after \"%s:\"; expected lr=FACTOR or decay=FACTOR", word,
                    g->pattern);
    const bool cut = strlen(word) + 1 == WORD_BYTES;
    if (cut || !str_to_double(strchr(word, '=') + 1, &value) || value < 0 || value > FACTOR_MAX)
        return fail(ERR_USAGE, "has \"%s\" for \"%s\"; a factor must be a number from 0 to %g",
                    word, g->pattern, FACTOR_MAX);
    if (lr && value == 0)
        return fail(ERR_USAGE, "has \"%s\" for \"%s\"; to freeze parameters, use model.freeze",
                    word, g->pattern);
    *(lr ? &g->lr : &g->decay) = value;
    return OK;
}

static Status parse_group(ParamGroup *g, const char *text, const char *end)
{
    char word[WORD_BYTES];
    const char *colon = memchr(text, ':', (size_t)(end - text)), *at = text;
    *g = (ParamGroup){ .lr = 1, .decay = PARAM_GROUPS_SAME };
    if (!colon || !next_word(&at, colon, g->pattern, sizeof g->pattern) ||
        next_word(&at, colon, word, sizeof word))
        return fail(
            ERR_USAGE,
            "must be a list such as \"fc.*: lr=10; *.bias: lr=64 decay=0\"; cannot parse \"%.*s\"",
            (int)(end - text), text);
    if (strlen(g->pattern) + 1 == sizeof g->pattern)
        return fail(ERR_USAGE, "has a pattern of more than %d characters: \"%s...\"",
                    PARAM_GROUPS_PATTERN_BYTES - 2, g->pattern);
    at = colon + 1;
    if (!next_word(&at, end, word, sizeof word))
        return fail(ERR_USAGE, "has no factor for \"%s\"; give lr=FACTOR, decay=FACTOR or both",
                    g->pattern);
    do TRY(set_factor(g, word));
    while (next_word(&at, end, word, sizeof word));
    return OK;
}

Status param_groups_parse(ParamGroups *out, const char *text)
{
    out->count = 0;
    while (text[strspn(text, BLANKS)] != '\0') {
        const char *end = text + strcspn(text, ";");
        if (out->count == PARAM_GROUPS_MAX)
            return fail(ERR_USAGE, "has more than %d groups", PARAM_GROUPS_MAX);
        TRY(parse_group(&out->list[out->count++], text, end));
        text = *end ? end + 1 : end;
    }
    return OK;
}
