/* test_foreign_words.c - what other programs call a key leads to a key that exists, with a value
 * that it takes. */
#include "tests/test.h"
#include "trainer/engine/config/config_internal.h"
#include "trainer/engine/config/foreign_words.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void check_key(const char *use)
{
    char key[64];
    const size_t length = strcspn(use, "=");
    CHECK(use[length] == '=' && length < sizeof key);
    snprintf(key, sizeof key, "%.*s", (int)length, use);
    const int at = config_find_key(key);
    CHECK_STR(at < 0 ? "no key" : key, key);
    if (at < 0) return;
    /* A value in capitals stands for the user's own. */
    const char *value = use + length + 1;
    Config *c = NULL;
    CHECK_OK(config_load(&c, NULL, NULL, 0));
    if (!isupper((unsigned char)value[0]))
        CHECK_OK(config_set_text(c, &config_keys[at], value, ""));
    config_destroy(c);
}

TEST(every_answer_is_a_key_with_a_value_or_a_command)
{
    for (int i = 0; i < foreign_word_count; i++) {
        const ForeignWord *row = &foreign_words[i];
        CHECK(row->use || row->note);
        if (!row->use || strncmp(row->use, "convoy ", 7) == 0 ||
            strncmp(row->use, "mpirun ", 7) == 0)
            continue;
        check_key(row->use);
    }
}

TEST(a_word_stands_in_one_row_and_is_found)
{
    for (int i = 0; i < foreign_word_count; i++) {
        char words[256], *rest = words;
        snprintf(words, sizeof words, "%s", foreign_words[i].words);
        for (char *word; (word = strtok_r(rest, " ", &rest));) {
            CHECK_STR(foreign_word_find(word)->words, foreign_words[i].words);
            CHECK(config_find_key(word) < 0);
        }
    }
}

TEST(options_and_keys_of_any_section_are_one_word)
{
    const ForeignWord *row = foreign_word_find("batch_size");
    CHECK(row != NULL);
    CHECK(foreign_word_find("--batch-size") == row && foreign_word_find("-b") == row);
    CHECK(foreign_word_find("train.batch_size") == row && foreign_word_find("BATCH_SIZE") == row);
    CHECK(foreign_word_find("batch_siz") == NULL && foreign_word_find("size") == NULL);
    CHECK(foreign_word_find("") == NULL && foreign_word_find("--") == NULL);
}
