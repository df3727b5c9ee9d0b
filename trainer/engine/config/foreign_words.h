/* foreign_words.h - what options and keys of other training programs are called here.
 *
 * The words are those of timm's train.py, torchvision's references, Lightning's Trainer, torchrun,
 * horovodrun and fairseq-train (docs/coming-from.md has them by program). */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_FOREIGN_WORDS_H
#define CONVOY_TRAINER_ENGINE_CONFIG_FOREIGN_WORDS_H
#include "base/str.h"

typedef struct ForeignWord {
    const char *words; /* lower case, with underscores, separated by blanks */
    /* "KEY=VALUE", or a command that begins with "convoy " or "mpirun "; NULL: there is no need */
    const char *use;
    const char *note; /* a remark on it; NULL for none, but not where use is NULL as well */
} ForeignWord;

extern const ForeignWord foreign_words[];
extern const int foreign_word_count;

/* Whether an option or key, as foreign_word_find() takes it, is one of the words. */
bool foreign_word_is(const char *words, const char *word);
/* The row of an option ("--batch-size", "-b") or key ("data.batch_size", "batch_size"), whatever
 * its section; NULL if it is not in the table. */
const ForeignWord *foreign_word_find(const char *word);
/* "use optimizer.lr=RATE (...)" or "leave it out (...)". */
void foreign_word_describe(const ForeignWord *row, StrBuf *out);
#endif
