/* words.c - see words.h. */
#include "trainer/app/launch/words.h"

#include <stddef.h>
#include <string.h>

void words_add(Words *w, const char *word)
{
    if (w->count == WORDS_MAX) w->full = true;
    else w->word[w->count++] = word;
}

void words_split(Words *w, char *text)
{
    char *rest = NULL;
    for (char *p = strtok_r(text, " \t", &rest); p; p = strtok_r(NULL, " \t", &rest))
        words_add(w, p);
}
