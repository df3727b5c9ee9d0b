/* fuse_choice.c - see fuse_choice.h. */
#include "kernels/fuse_choice.h"
#include <stdio.h>
#include <string.h>

/* As models/graph/fuse*.c offers them. */
static const char *const names[] = { "statistics",
                                     "prologue",
                                     "block end",
                                     "block end with shortcut",
                                     "gradient",
                                     "residual gradient",
                                     "shortcut gradient",
                                     "epilogue",
                                     "pool",
                                     "pool gradient",
                                     "signs",
                                     "shortcut" };
enum { NAMES = sizeof names / sizeof *names };

static bool is_word(const char *text, size_t length, const char *name)
{
    size_t i = 0;
    while (i < length && name[i] && (text[i] == '_' ? ' ' : text[i]) == name[i]) i++;
    return i == length && !name[i];
}

unsigned fuse_choice_bit(const char *name)
{
    for (unsigned i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0) return 1U << i;
    return 0;
}

static Status refuse(const char *word, size_t length)
{
    char known[256];
    size_t used = 0;
    for (int i = 0; i < NAMES; i++)
        used +=
            (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    for (char *p = known; *p; p++)
        if (*p == ' ' && p[-1] != ',') *p = '_';
    return fail(ERR_USAGE, "has \"%.*s\"; it must be auto, none or all, or a list of: %s",
                (int)length, word, known);
}

Status fuse_choice_parse(FuseChoice *out, const char *text)
{
    *out = (FuseChoice){ .mode = FUSE_ALL };
    for (int mode = 0; mode < FUSE_MODE_COUNT; mode++)
        if (strcmp(text, fuse_mode_names[mode]) == 0) {
            out->mode = (FuseMode)mode;
            return OK;
        }
    for (const char *word = text;; word++) {
        word += strspn(word, " ");
        size_t length = strcspn(word, ","), trimmed = length;
        unsigned bit = 0;
        while (trimmed > 0 && word[trimmed - 1] == ' ') trimmed--;
        for (unsigned i = 0; i < NAMES; i++)
            if (is_word(word, trimmed, names[i])) bit = 1U << i;
        if (!bit) return refuse(word, trimmed);
        out->only |= bit;
        word += length;
        if (!*word) return OK;
    }
}
