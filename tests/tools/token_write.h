/* token_write.h - texts of whitespace-separated words as fairseq-preprocess writes them: dict.txt,
 * NAME.idx and NAME.bin. Errors end the test by abort: they are the test's. */
#ifndef CONVOY_TESTS_TOOLS_TOKEN_WRITE_H
#define CONVOY_TESTS_TOOLS_TOKEN_WRITE_H
#include "base/str.h"
#include "data/tokens/dictionary.h"

typedef enum TokenFormat { TOKENS_U16, TOKENS_I32, TOKENS_LAZY } TokenFormat;

/* The .idx and .bin of sentences: ids, one sentence behind the other, each ending in TOKEN_EOS. */
void token_encode(const int32_t *ids, int64_t count, TokenFormat format, StrBuf *idx, StrBuf *bin);
/* dict.txt of a text: words by falling count, then "madeupword" lines up to a multiple of 8. */
void token_write_dictionary(const char *dir, const char *text);
/* dir/name.idx and dir/name.bin of a text, a sentence a line, by a dictionary. */
void token_write(const char *dir, const char *name, const char *text, const Dictionary *d,
                 TokenFormat format);
/* All of a folder: dictionary and name. */
void token_write_set(const char *dir, const char *name, const char *text);
#endif
