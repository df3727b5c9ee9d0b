/* config_text.c - values that are a small language of their own: patterns of file names, ranges of
 * steps. */
#include "base/process/process.h"
#include "base/str.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

Status config_file_name(char **out, const char *key, const char *pattern, int rank, int world)
{
    StrBuf name = { 0 };
    bool names_rank = false;
    *out = NULL;
    if (!pattern[0]) return OK;
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            str_add_n(&name, p, 1);
            continue;
        }
        switch (*++p) {
        case 'r':
            str_printf(&name, "%d", rank);
            names_rank = true;
            break;
        case 'w':
            str_printf(&name, "%d", world);
            break;
        case 'h':
            str_add(&name, process_host());
            break;
        case '%':
            str_add(&name, "%");
            break;
        default:
            str_free(&name);
            return fail(
                ERR_USAGE,
                "%s: \"%s\": %% must be followed by r (rank), w (number of ranks), h (host) or %%",
                key, pattern);
        }
    }
    if (!names_rank && world > 1) {
        str_free(&name);
        return fail(ERR_USAGE,
                    "%s: \"%s\" is the same file for all ranks; use %%r for the rank in the name",
                    key, pattern);
    }
    *out = name.text; /* grown by mem_realloc */
    return name.failed ? ERR_MEMORY : OK;
}

Status config_parse_trace_steps(const char *text, int64_t *first, int64_t *last)
{
    char begin[32];
    const char *dash = strchr(text, '-');
    snprintf(begin, sizeof begin, "%.*s", (int)(dash ? dash - text : (long)strlen(text)), text);
    if (str_to_i64(begin, first) && str_to_i64(dash ? dash + 1 : begin, last) && *first >= 1 &&
        *last >= *first)
        return OK;
    return fail(ERR_USAGE, "is \"%s\"; it must be a step or a range of steps, for example 100-104",
                text);
}
