/* words.h - a command line under construction: what exec takes. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_WORDS_H
#define CONVOY_TRAINER_APP_LAUNCH_WORDS_H
#include <stdbool.h>

#define WORDS_MAX 256

typedef struct Words { /* zero-initialise; always NULL-ended; words are borrowed */
    const char *word[WORDS_MAX + 1];
    int count;
    bool full; /* one more did not fit: check once at the end */
} Words;
void words_add(Words *w, const char *word);
/* cuts text, which is written to, at its blanks and adds the parts */
void words_split(Words *w, char *text);
#endif
