/* fairseq's files: both formats, parts, classification with one text or two, and damage that is
 * named. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/wire.h"
#include "data/data.h"
#include "data/load/dataset_internal.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/dataset_check.h"
#include "tests/tools/token_write.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char words[] = "a b c\nb a\n\na c c a b a d\n";

static Status open_tokens(Dataset **d, const char *path, DataRole role, int64_t tokens,
                          TokenBreak mode)
{
    const DatasetOptions o = { .path = path,
                               .role = role,
                               .text = { .tokens = tokens, .break_mode = mode, .mask = .15 } };
    *d = NULL;
    return dataset_open(d, &o);
}

/* The ids of a sample as text. */
static void check_sample(const Dataset *d, int64_t id, const char *want)
{
    ByteBuf buf = { 0 };
    Sample sample;
    StrBuf text = { 0 };
    REQUIRE_OK(source_read(dataset_source(d), id, 0, &buf, &sample));
    const int32_t *ids = (const int32_t *)(const void *)sample.file.bytes;
    for (size_t i = 0; i < sample.file.size / sizeof *ids; i++)
        str_printf(&text, "%s%d", i ? " " : "", ids[i]);
    CHECK_STR(text.text, want);
    str_free(&text);
    byte_buf_free(&buf);
}

static void write_part(const char *name, const char *text, TokenFormat format)
{
    Dictionary *d = NULL;
    char *path = fs_join(test_scratch(), "dict.txt");
    REQUIRE_OK(dictionary_load(&d, path, false));
    token_write(test_scratch(), name, text, d, format);
    dictionary_destroy(d);
    mem_free(path);
}

TEST(formats_and_roles)
{
    static const TokenFormat formats[] = { TOKENS_U16, TOKENS_I32, TOKENS_LAZY };
    for (int i = 0; i < 3; i++) {
        Dataset *d = NULL;
        token_write_set(test_scratch(), "train", words);
        write_part("train", words, formats[i]);
        write_part("valid", "d d zebra\n", formats[i]);
        REQUIRE_OK(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_EOS));
        CHECK_INT(dataset_images(d), 3); /* the last has 8 and <s> */
        check_sample(d, 0, "0 4 5 6 2");
        check_sample(d, 1, "0 5 4 2");
        check_sample(d, 2, "0 2");
        dataset_close(d);
        REQUIRE_OK(open_tokens(&d, test_scratch(), DATA_VAL, 8, BREAK_NONE));
        check_sample(d, 0, "0 7 7 3 2");
        SequenceFacts f;
        CHECK(sequences_facts(d, &f));
        CHECK_INT(f.unknown, 1);
        char name[512];
        dataset_describe_sample(d, 0, name, sizeof name);
        CHECK_CONTAINS(name, "/valid[0]");
        dataset_close(d);
    }
}

TEST(facts_of_a_set)
{
    Dataset *d = NULL;
    SequenceFacts f;
    token_write_set(test_scratch(), "train", words);
    REQUIRE_OK(open_tokens(&d, test_scratch(), DATA_TRAIN, 9, BREAK_COMPLETE));
    CHECK(sequences_facts(d, &f));
    CHECK_INT(f.dictionary->words, 9);
    CHECK_INT(dataset_classes(d), 9);
    CHECK_STR(dataset_class_name(d, 8), "<mask>");
    CHECK(f.sentences == 4 && f.text_tokens == 16 && f.unknown == 0);
    CHECK(f.sequences == 2 && f.tokens == 18 && f.too_long == 0);
    int64_t start = -1;
    CHECK_INT(sequences_tokens(d, 1, &start), 9);
    CHECK_INT(start, 8);
    CHECK(!f.classified && !f.pairs);
    dataset_close(d);
    REQUIRE_OK(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_EOS));
    CHECK(sequences_facts(d, &f));
    CHECK(f.sequences == 3 && f.too_long == 1 && f.too_long_tokens == 9);
    dataset_close(d);
    CHECK_STATUS(open_tokens(&d, test_scratch(), DATA_TRAIN, 4, BREAK_EOS), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "sequences of 4 tokens; from 8 to 32768 are allowed");
}

/* A file that has gone reads as zeros; one that begins with a zero has not. */
TEST(the_first_byte_of_a_text_may_be_zero)
{
    StrBuf text = { 0 };
    char word[16] = "";
    for (int i = 0; i < 300; i++) str_printf(&text, "w%d ", i);
    str_add(&text, "\n");
    token_write_dictionary(test_scratch(), text.text);
    str_free(&text);
    Dictionary *d = NULL;
    char *path = fs_join(test_scratch(), "dict.txt");
    REQUIRE_OK(dictionary_load(&d, path, false));
    for (int i = 0; i < 300 && dictionary_find(d, word) != 256; i++)
        snprintf(word, sizeof word, "w%d", i);
    CHECK_INT(dictionary_find(d, word), 256);
    dictionary_destroy(d);
    mem_free(path);
    write_part("train", word, TOKENS_U16);
    Dataset *set = NULL;
    REQUIRE_OK(open_tokens(&set, test_scratch(), DATA_TRAIN, 8, BREAK_EOS));
    check_sample(set, 0, "0 256 2");
    dataset_close(set);
}

TEST(blocks_go_on_from_part_to_part)
{
    Dataset *d = NULL;
    token_write_set(test_scratch(), "train", "a b c d\n");
    write_part("train1", "c c\n", TOKENS_I32);
    write_part("train2", "b\na\n", TOKENS_LAZY);
    write_part("train4", "d\n", TOKENS_U16); /* there is no train3 */
    REQUIRE_OK(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_NONE));
    CHECK_INT(dataset_images(d), 2);
    check_sample(d, 0, "0 4 5 6 7 2 6 6");
    check_sample(d, 1, "0 2 5 2 4 2");
    dataset_close(d);
}

/* ---- classification ---- */

static char *folder(const char *name)
{
    return fs_join(test_scratch(), name);
}

static void write_set(const char *name, const char *set, const char *text)
{
    char *dir = folder(name);
    token_write_set(dir, set, text);
    mem_free(dir);
}

TEST(a_classification_has_one_text_or_two_and_labels)
{
    Dataset *d = NULL;
    SequenceFacts f;
    write_set("input0", "train", "a b\na\nb b a a a a a a a\n");
    write_set("label", "train", "good\nbad\ngood\n");
    REQUIRE_OK(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_NONE));
    CHECK(sequences_facts(d, &f) && f.classified && !f.pairs);
    CHECK_INT(dataset_classes(d), 2);
    CHECK(dataset_named_classes(d));
    CHECK_STR(dataset_class_name(d, 0), "good");
    CHECK_INT(dataset_class_images(d, 0), 2);
    CHECK_INT(dataset_label(d, 1), 1);
    check_sample(d, 0, "0 4 5 2");
    check_sample(d, 2, "0 5 5 4 4 4 4 4"); /* cut; its </s> too */
    CHECK_INT(f.truncated, 1);
    CHECK_INT(f.tokens, 4 + 3 + 8);
    dataset_close(d);
    write_set("input1", "train", "b\nb b\na\n");
    const DatasetOptions o = { .path = test_scratch(),
                               .role = DATA_TRAIN,
                               .text = { .tokens = 8, .mask = .15 } };
    CHECK_CONTAINS(dataset_open_says(&d, &o),
                   ": 1 of 3 sequences are longer than data.tokens (8) and are cut; pairs without "
                   "any of their second text: 1\n");
    REQUIRE(d != NULL);
    CHECK(sequences_facts(d, &f) && f.classified && f.pairs);
    check_sample(d, 0,
                 "0 4 5 2 2 4 2"); /* by the second text's own ids, which fairseq reads so too */
    check_sample(d, 2, "0 5 5 4 4 4 4 4");
    dataset_close(d);
}

static void refuse_classes(const char *part)
{
    Dataset *d = NULL;
    CHECK_STATUS(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_NONE), ERR_DATA);
    CHECK(d == NULL);
    CHECK_CONTAINS(status_message(), part);
}

TEST(damage_of_a_classification_is_named)
{
    write_set("input0", "train", "a b\na\n");
    refuse_classes("label/dict.txt: no such file");
    write_set("label", "train", "x\ny\nx\n");
    refuse_classes("train: 3 labels for 2 sentences");
    write_set("label", "train", "x y\ny\n");
    refuse_classes("label of sentence 1 is not one word");
    write_set("label", "train", "x\n\n");
    refuse_classes("label </s> of sentence 2 is not a class");
    write_set("label", "train", "x\nz\n");
    char *dir = folder("label");
    tree_write(dir, "dict.txt", "x 1\nz 0\n", 8);
    refuse_classes("label z of sentence 2 is not a class");
    tree_write(dir, "dict.txt", "x 0\nz 0\n", 8);
    refuse_classes("label/dict.txt: no class has a count above 0");
    write_set("label", "train", "x\ny\n");
    write_set("input1", "train", "a\n");
    refuse_classes("train: input1 has 1 sentences, but input0 has 2");
    tree_write(dir, "train.label", "1\n", 2);
    write_set("input1", "train", "a\nb\n");
    refuse_classes("label/train.label: regression targets are not supported");
    mem_free(dir);
}

/* ---- damage ---- */

static const int32_t ids[] = { 4, 5, 2, 6, 2 };
enum { IDS = 5 };

typedef struct Damage {
    TokenFormat format;
    int at; /* of the .idx; -1: of the .bin */
    int from;
    uint8_t to;
    const char *part;
} Damage;

static void write_pair(const StrBuf *idx, size_t idx_bytes, const StrBuf *bin, size_t bin_bytes)
{
    tree_write(test_scratch(), "train.idx", idx->text, idx_bytes);
    tree_write(test_scratch(), "train.bin", bin->text, bin_bytes);
}

static void refuse(const char *part)
{
    Dataset *d = NULL;
    CHECK_STATUS(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_NONE), ERR_DATA);
    CHECK(d == NULL);
    CHECK_CONTAINS(status_message(), part);
}

TEST(damaged_files_are_refused_by_name)
{
    static const Damage cases[] = {
        { TOKENS_U16, 0, 0, 'X', "train.idx: not an index of fairseq's formats" },
        { TOKENS_U16, 0, 9, 2, "train.idx: version 2; only version 1" },
        { TOKENS_U16, 0, 17, 6, "train.idx: element type 6 is not one of integers" },
        { TOKENS_U16, 0, 17, 99, "train.idx: element type 99" },
        { TOKENS_U16, 0, 18, 9, "train.idx: the file is truncated" },
        { TOKENS_U16, 0, 25, 0x40, "train.idx: the file is truncated" },
        { TOKENS_U16, 0, 18, 1, "train.idx: longer than its header says" },
        { TOKENS_U16, 0, 26, 6, "train.idx: sentence 1 ends beyond" },
        { TOKENS_U16, 0, 26, 2, "train.idx: sentence 2 does not follow the one before" },
        { TOKENS_U16, 0, 29, 0x80, "train.idx: sentence 1 has 2147483651 tokens" },
        { TOKENS_U16, 0, 30, 1, "train.bin: 10 bytes, but" },
        { TOKENS_U16, 0, 34, 1, "train.idx: sentence 1 does not follow" },
        { TOKENS_U16, -1, 2, 8, "train.bin: token 2 is <mask>" },
        { TOKENS_U16, -1, 2, 9, "train.bin: token 2 is not a word of" },
        { TOKENS_I32, -1, 7, 0x80, "train.bin: token 2 is not a word of" },
        { TOKENS_LAZY, 0, 8, 0, "train.idx: version 0" },
        { TOKENS_LAZY, 0, 16, 7, "train.idx: element type 7" },
        { TOKENS_LAZY, 0, 24, 8, "train.idx: its elements have 8 bytes, but their type has 4" },
        { TOKENS_LAZY, 0, 32, 3, "train.idx: the file is truncated" },
        { TOKENS_LAZY, 0, 40, 3, "train.idx: a sentence has more than one dimension" },
        { TOKENS_LAZY, 0, 56, 2, "train.idx: a sentence has more than one dimension" },
        { TOKENS_LAZY, 0, 80, 4, "train.idx: sentence 2 does not follow" },
        { TOKENS_LAZY, -1, 0, 0, "train.bin: token 1 is not a word of" },
    };
    tree_write(test_scratch(), "dict.txt", "a 1\nb 1\nc 1\nd 1\n", 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        StrBuf idx = { 0 }, bin = { 0 };
        token_encode(ids, IDS, cases[i].format, &idx, &bin);
        (cases[i].at < 0 ? bin : idx).text[cases[i].from] = (char)cases[i].to;
        if (cases[i].format == TOKENS_LAZY && cases[i].at < 0)
            memset(bin.text, 0, 4); /* stored one too large */
        write_pair(&idx, idx.length, &bin, bin.length);
        refuse(cases[i].part);
        str_free(&idx);
        str_free(&bin);
    }
}

TEST(files_that_are_cut_anywhere_are_refused)
{
    tree_write(test_scratch(), "dict.txt", "a 1\nb 1\nc 1\nd 1\n", 16);
    for (int format = TOKENS_U16; format <= TOKENS_LAZY; format++) {
        StrBuf idx = { 0 }, bin = { 0 };
        token_encode(ids, IDS, (TokenFormat)format, &idx, &bin);
        for (size_t n = 0; n < idx.length; n++) {
            write_pair(&idx, n, &bin, bin.length);
            refuse("train.idx: ");
        }
        for (size_t n = 0; n < bin.length; n++) {
            write_pair(&idx, idx.length, &bin, n);
            refuse("ends beyond");
        }
        str_add_n(&bin, "", 1);
        write_pair(&idx, idx.length, &bin, bin.length);
        refuse("train.bin: ");
        str_free(&idx);
        str_free(&bin);
    }
}

TEST(what_is_missing_or_of_another_format_is_named)
{
    Dataset *d = NULL;
    token_write_set(test_scratch(), "train", words);
    CHECK_STATUS(open_tokens(&d, test_scratch(), DATA_VAL, 8, BREAK_NONE), ERR_DATA);
    CHECK_CONTAINS(status_message(), "valid.idx: no such file");
    tree_write(test_scratch(), "train.idx", "HUFFIDX\0\0", 9);
    refuse("train.idx: Huffman codes are not supported");
    char *path = fs_join(test_scratch(), "train.bin");
    token_write_set(test_scratch(), "train", words);
    unlink(path);
    refuse("train.bin: cannot open: No such file");
    mem_free(path);
    path = fs_join(test_scratch(), "train.idx");
    unlink(path);
    tree_write(test_scratch(), "train.fasta", "a b\n", 4);
    refuse("train.fasta: format fasta is not supported");
    tree_write(test_scratch(), "train", "a b\n", 4);
    refuse("train: format raw is not supported");
    mem_free(path);
    path = fs_join(test_scratch(), "dict.txt");
    token_write_set(test_scratch(), "train", words);
    unlink(path);
    refuse("dict.txt: no such file");
    mem_free(path);
    token_write_set(test_scratch(), "train", "a b c d e f g h i j k\n");
    CHECK_STATUS(open_tokens(&d, test_scratch(), DATA_TRAIN, 8, BREAK_EOS), ERR_DATA);
    CHECK_CONTAINS(status_message(), "train: no sequence fits in data.tokens (8); longer ones: 1");
}
