/* dict.txt: ids, <mask>, words that come twice, classes, and damage that is named. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/tokens/dictionary.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>

static Status load(Dictionary **out, const char *text, size_t bytes, bool masked)
{
    tree_write(test_scratch(), "dict.txt", text, bytes);
    char *path = fs_join(test_scratch(), "dict.txt");
    const Status status = path ? dictionary_load(out, path, masked) : ERR_MEMORY;
    mem_free(path);
    return status;
}

TEST(lines_have_ids_from_four_and_mask_follows)
{
    Dictionary *d = NULL;
    const char *text = "the 50\nof the 7\r\n\xC3\xA9 3 \nmadeupword0000 0";
    REQUIRE_OK(load(&d, text, strlen(text), true));
    CHECK_INT(d->words, 9);
    CHECK_INT(d->listed, 8);
    CHECK_INT(d->mask, 8);
    CHECK_STR(d->names[5], "of the");
    CHECK_INT(d->counts[4], 50);
    CHECK_INT(d->counts[8], 0);
    CHECK_INT(dictionary_find(d, "<s>"), TOKEN_BOS);
    CHECK_INT(dictionary_find(d, "<pad>"), TOKEN_PAD);
    CHECK_INT(dictionary_find(d, "</s>"), TOKEN_EOS);
    CHECK_INT(dictionary_find(d, "<unk>"), TOKEN_UNK);
    CHECK_INT(dictionary_find(d, "\xC3\xA9"), 6);
    CHECK_INT(dictionary_find(d, "<mask>"), 8);
    CHECK_INT(dictionary_find(d, "no"), -1);
    CHECK_INT(dictionary_classes(d), 3);
    dictionary_destroy(d);
}

TEST(mask_may_be_a_line_and_words_may_be_overwritten)
{
    Dictionary *d = NULL;
    const char *text = "a 5\n<mask> 0\na 4 #fairseq:overwrite\n<unk> 1 #fairseq:overwrite\n";
    REQUIRE_OK(load(&d, text, strlen(text), true));
    CHECK_INT(d->words, 8);
    CHECK_INT(d->mask, 5);
    CHECK_INT(dictionary_find(d, "a"), 6);
    CHECK_INT(dictionary_find(d, "<unk>"), 7);
    dictionary_destroy(d);
    REQUIRE_OK(load(&d, text, strlen(text), false));
    CHECK_INT(d->mask, -1);
    dictionary_destroy(d);
}

TEST(many_words_are_found_again)
{
    StrBuf text = { 0 };
    Dictionary *d = NULL;
    char word[16];
    int wrong = 0;
    for (int i = 0; i < 3000; i++) str_printf(&text, "w%d %d\n", i * 7, i);
    REQUIRE_OK(load(&d, text.text, text.length, true));
    for (int i = 0; i < 3000; i++) {
        snprintf(word, sizeof word, "w%d", i * 7);
        wrong += dictionary_find(d, word) != i + 4;
        snprintf(word, sizeof word, "w%d", i * 7 + 1);
        wrong += dictionary_find(d, word) != -1;
    }
    CHECK_INT(wrong, 0);
    dictionary_destroy(d);
    str_free(&text);
}

TEST(damage_is_named_with_its_line)
{
    static const struct {
        const char *text, *part;
        size_t bytes;
    } cases[] = {
        { "", "is empty", 0 },
        { "a 1\nb\n", "dict.txt:2: expected a word, a blank and its count", 0 },
        { "a 1\n\nb 2\n", "dict.txt:2: expected", 0 },
        { "a 1\nb 2x\n", "dict.txt:2: expected", 0 },
        { "a -1\n", "dict.txt:1: expected", 0 },
        { " 5\n", "dict.txt:1: expected", 0 },
        { "a #fairseq:overwrite\n", "dict.txt:1: expected", 0 },
        { "a 1\nb 2\na 3\n", "dict.txt:3: a: the dictionary has this word already", 0 },
        { "</s> 3\n", "dict.txt:1: </s>: the dictionary has this word already", 0 },
        { "\xFF\xFE 3\n", "dict.txt:1: not UTF-8 text", 0 },
        { "a\0 3\n", "not a text file", 5 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Dictionary *d = NULL;
        const size_t bytes = cases[i].bytes ? cases[i].bytes : strlen(cases[i].text);
        CHECK_STATUS(load(&d, cases[i].text, bytes, true), ERR_DATA);
        CHECK(d == NULL);
        CHECK_CONTAINS(status_message(), cases[i].part);
    }
}
