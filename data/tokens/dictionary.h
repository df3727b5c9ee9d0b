/* dictionary.h - the words of a text and their ids: fairseq's dict.txt.
 *
 * A line is a word, a blank and how often it came. Four words of every dictionary come first, so
 * line n, from 0, has id n + 4; <mask> follows the last line, unless it is one of them. A word that
 * comes twice is an error, but where its line ends in "#fairseq:overwrite": from there on it has
 * the later id. */
#ifndef CONVOY_DATA_TOKENS_DICTIONARY_H
#define CONVOY_DATA_TOKENS_DICTIONARY_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { TOKEN_BOS = 0, TOKEN_PAD = 1, TOKEN_EOS = 2, TOKEN_UNK = 3, TOKEN_WORDS = 4 };

typedef struct Dictionary {
    char *path;
    int words;          /* ids are below; with <mask> */
    int listed;         /* the same of those that the file has: a text holds no others */
    int mask;           /* id of <mask>; -1 without */
    const char **names; /* [words] */
    int64_t *counts;    /* [words]; 0 of words that the file has not */
    char *text;
    int32_t *slots; /* hash table: ids, -1: free */
    uint32_t slot_count;
} Dictionary;

/* masked: with <mask>. ERR_DATA names file and line. */
Status dictionary_load(Dictionary **out, const char *path, bool masked);
/* The same of all its words, one a line in the order of their ids, as a checkpoint has them; path:
 * of the checkpoint. ERR_MEMORY, or ERR_DATA where there are too many. */
Status dictionary_make(Dictionary **out, const char *words, const char *path);
/* ERR_DATA names the first word of d that is another one in `like`. */
Status dictionary_check_like(const Dictionary *d, const Dictionary *like);
void dictionary_destroy(Dictionary *d);                     /* NULL ok */
int dictionary_find(const Dictionary *d, const char *word); /* id, -1: none of its words */
/* Of a dictionary of labels: the words up to the last that came at all, without the first four;
 * fairseq-preprocess fills the rest up to a round number. Class c has id c + TOKEN_WORDS. */
int dictionary_classes(const Dictionary *d);
#endif
