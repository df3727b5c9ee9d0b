/* Dictionaries made of what a checkpoint keeps, and text that is generated where nobody has any. */
#include "data/data.h"
#include "tests/test.h"
#include <string.h>

#define WORDS "<s>\n<pad>\n</s>\n<unk>\na\nb c\n"

TEST(words_of_a_checkpoint_are_a_dictionary)
{
    Dictionary *d = NULL;
    REQUIRE_OK(dictionary_make(&d, WORDS "<mask>", "run"));
    CHECK_INT(d->words, 7);
    CHECK_INT(d->mask, 6);
    CHECK_INT(dictionary_find(d, "<unk>"), TOKEN_UNK);
    CHECK_INT(dictionary_find(d, "a"), 4);
    CHECK_INT(dictionary_find(d, "b c"), 5);
    CHECK_INT(dictionary_find(d, "b"), -1);
    dictionary_destroy(d);
    REQUIRE_OK(dictionary_make(&d, "", "run"));
    CHECK_INT(d->words, 1);
    CHECK_INT(d->mask, -1);
    dictionary_destroy(d);
}

TEST(another_dictionary_is_told_by_its_first_word)
{
    Dictionary *d = NULL, *same = NULL, *other = NULL, *longer = NULL;
    REQUIRE_OK(dictionary_make(&d, WORDS "<mask>", "here"));
    REQUIRE_OK(dictionary_make(&same, WORDS "<mask>", "there"));
    REQUIRE_OK(dictionary_make(&other, WORDS "d", "there"));
    REQUIRE_OK(dictionary_make(&longer, WORDS "<mask>\nd", "there"));
    CHECK_OK(dictionary_check_like(d, same));
    CHECK_STATUS(dictionary_check_like(d, other), ERR_DATA);
    CHECK_STR(status_message(),
              "here: differs from the dictionary of there: word 6 is \"<mask>\", not \"d\"");
    CHECK_STATUS(dictionary_check_like(d, longer), ERR_DATA);
    CHECK_STR(status_message(),
              "here: differs from the dictionary of there: it has 7 words, not 8");
    dictionary_destroy(d);
    dictionary_destroy(same);
    dictionary_destroy(other);
    dictionary_destroy(longer);
}

static const DatasetOptions generated = { .format = DATA_SYNTHETIC,
                                          .synthetic_images = 10,
                                          .text = { .tokens = 16, .words = 40 } };

TEST(generated_text_fills_its_sequences)
{
    Dataset *d = NULL;
    SequenceFacts facts;
    REQUIRE_OK(dataset_open(&d, &generated));
    REQUIRE(sequences_facts(d, &facts));
    CHECK(!facts.classified && !facts.pairs);
    CHECK_INT(facts.dictionary->words, 40);
    CHECK_INT(facts.dictionary->mask, 39);
    CHECK_INT(facts.sequences, 10);
    CHECK_INT(facts.tokens, 160);
    CHECK_INT(dataset_classes(d), 40);
    CHECK_STR(dataset_format_name(d), "synthetic");
    for (int64_t i = 0; i < 10; i++) CHECK_INT(sequences_tokens(d, i, NULL), 16);
    dataset_close(d);
}

static void read_batch(int32_t out[4 * 16])
{
    Dataset *d = NULL;
    Loader *l = NULL;
    Batch batch;
    bool more = false;
    DatasetOptions o = generated;
    const LoaderOptions wanted = { .threads = 1,
                                   .slots = 3,
                                   .batch = 4,
                                   .world = 1,
                                   .global_batch = 4,
                                   .last_step = 1,
                                   .tokens = 16,
                                   .max_bad_fraction = 1 };
    o.synthetic_classes = 3;
    REQUIRE_OK(dataset_open(&d, &o));
    CHECK_INT(dataset_classes(d), 3);
    CHECK_INT(dataset_class_images(d, 0), 4);
    CHECK_INT(dataset_label(d, 4), 1);
    REQUIRE_OK(loader_create(&l, d, &wanted));
    REQUIRE_OK(loader_next(l, &batch, &more, NULL));
    memcpy(out, loader_field(&batch, "ids"), 4 * 16 * sizeof *out);
    loader_release(l, &batch);
    loader_destroy(l);
    dataset_close(d);
}

TEST(generated_text_is_the_same_each_time)
{
    int32_t ids[4 * 16], again[4 * 16];
    read_batch(ids);
    read_batch(again);
    CHECK(memcmp(ids, again, sizeof ids) == 0);
    for (int i = 0; i < 4 * 16; i++) {
        if (i % 16 == 0) CHECK_INT(ids[i], TOKEN_BOS);
        else if (i % 16 == 15) CHECK_INT(ids[i], TOKEN_EOS);
        else CHECK(ids[i] >= TOKEN_WORDS && ids[i] < 39);
    }
    CHECK(memcmp(ids, ids + 16, 16 * sizeof *ids) != 0);
}
