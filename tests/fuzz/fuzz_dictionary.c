/* fuzz_dictionary.c - dict.txt. What is read has words that end, each found again. */
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "data/tokens/dictionary.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

int fuzz_dictionary(const uint8_t *data, size_t size)
{
    Dictionary *d = NULL;
    fuzz_write("dict.txt", data, size);
    char *path = fs_join(fuzz_folder(), "dict.txt");
    ASSERT(path != NULL);
    if (dictionary_load(&d, path, true) == OK) {
        ASSERT(d->words >= d->listed && d->listed > TOKEN_WORDS && d->mask < d->words);
        ASSERT(dictionary_find(d, "<mask>") == d->mask);
        ASSERT(dictionary_classes(d) <= d->listed - TOKEN_WORDS);
        for (int i = 0; i < d->words; i++) {
            const int found = dictionary_find(d, d->names[i]);
            ASSERT(strlen(d->names[i]) <= size + 6 && json_is_utf8(d->names[i]));
            ASSERT(found >= i && strcmp(d->names[found], d->names[i]) == 0 && d->counts[i] >= 0);
        }
    }
    dictionary_destroy(d);
    mem_free(path);
    return 0;
}
