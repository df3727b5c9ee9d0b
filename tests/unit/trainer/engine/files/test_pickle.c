/* Pickles as values: what each operation makes, and what no pickle may do. */
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/engine/files/pickle.h"
#include <string.h>

enum { KNOWN = 7 };

static Status find(int *out, void *cookie, const char *name)
{
    (void)cookie;
    *out = strcmp(name, "m.dict") == 0   ? PICKLE_MAKES_DICT
           : strcmp(name, "m.list") == 0 ? PICKLE_MAKES_LIST
                                         : KNOWN;
    return strcmp(name, "os.system") == 0 ? fail(ERR_DATA, "no %s", name) : OK;
}

typedef struct Reading {
    PickleSource source;
    PickleValue *value;
} Reading;

static Status read_bytes(Reading *r, const char *text, size_t bytes)
{
    r->source = (PickleSource){ .at = (const uint8_t *)text,
                                .end = (const uint8_t *)text + bytes,
                                .find = find };
    if (arena_create(&r->source.arena, 0) != OK) return ERR_MEMORY;
    return pickle_read(&r->value, &r->source);
}

#define READ(r, text) read_bytes(r, text, sizeof(text) - 1)

static void done(Reading *r)
{
    arena_destroy(r->source.arena);
}

static void expect_integer(const char *text, size_t bytes, int64_t want)
{
    Reading r;
    CHECK_OK(read_bytes(&r, text, bytes));
    CHECK(r.value && r.value->type == PICKLE_INT);
    if (r.value) CHECK_INT(r.value->integer, want);
    CHECK(r.source.at == r.source.end);
    done(&r);
}

TEST(numbers_have_their_sign_and_size)
{
    expect_integer("K\xff.", 3, 255);
    expect_integer("M\xff\xff.", 4, 65535);
    expect_integer("J\xff\xff\xff\xff.", 6, -1);
    expect_integer("J\0\0\0\x80.", 6, INT32_MIN);
    expect_integer("\x8a\0.", 3, 0);
    expect_integer("\x8a\1\x80.", 4, -128);
    expect_integer("\x8a\2\x80\0.", 5, 128);
    expect_integer("\x8a\x8\0\0\0\0\0\0\0\x80.", 11, INT64_MIN);
    Reading r;
    CHECK_OK(READ(&r, "\x80\2G\xbf\xf8\0\0\0\0\0\0."));
    CHECK(r.value && r.value->type == PICKLE_NONE); /* of no interest */
    done(&r);
    CHECK_OK(READ(&r, "\x8a\x9"
                      "123456789."));
    CHECK(r.value && pickle_is(r.value, "123456789"));
    done(&r);
}

TEST(containers_hold_what_was_put_there)
{
    Reading r;
    /* {"a": (1, 2), "b": [None, True]} */
    CHECK_OK(READ(&r, "\x80\2}q\1(U\1aK\1K\2\x86X\1\0\0\0b]q\0(N\x88"
                      "eu."));
    REQUIRE(r.value != NULL);
    const PickleValue *a = pickle_get(r.value, "a"), *b = pickle_get(r.value, "b");
    REQUIRE(a && b && !pickle_get(r.value, "c"));
    CHECK(a->type == PICKLE_TUPLE && a->count == 2 && a->items[1]->integer == 2);
    CHECK(b->type == PICKLE_LIST && b->count == 2 && b->items[0]->type == PICKLE_NONE);
    CHECK(b->items[1]->type == PICKLE_BOOL && b->items[1]->integer == 1);
    done(&r);
}

TEST(dictionaries_and_sets_may_be_made_of_lists)
{
    Reading r;
    CHECK_OK(READ(&r, "cm\ndict\n](](U\1aK\1e](U\1bK\2ee\x85R.")); /* Python 2's OrderedDict */
    CHECK(r.value && r.value->type == PICKLE_DICT && r.value->count == 4);
    CHECK(pickle_get(r.value, "b") && pickle_get(r.value, "b")->integer == 2);
    done(&r);
    CHECK_OK(READ(&r, "cm\ndict\n)R(U\1aK\1u}b.")); /* with attributes */
    CHECK(r.value && r.value->type == PICKLE_DICT && r.value->count == 2);
    done(&r);
    CHECK_OK(READ(&r, "cm\ndict\ncm\nother\n\x85RU\1aK\1s.")); /* a defaultdict */
    CHECK(r.value && pickle_get(r.value, "a"));
    done(&r);
    CHECK_OK(READ(&r, "cm\ndict\n}U\1aK\5s\x85RU\1bK\6s.")); /* a Counter */
    CHECK(r.value && pickle_get(r.value, "a") && pickle_get(r.value, "b"));
    done(&r);
    CHECK_OK(READ(&r, "cm\nlist\n](K\1K\2e\x85R."));
    CHECK(r.value && r.value->type == PICKLE_LIST && r.value->count == 2);
    done(&r);
}

TEST(a_call_is_only_noted)
{
    Reading r;
    CHECK_OK(READ(&r, "cm\nf\nK\1\x85R."));
    REQUIRE(r.value && r.value->type == PICKLE_CALL);
    CHECK_INT(r.value->items[0]->name, KNOWN);
    CHECK_INT(r.value->items[1]->items[0]->integer, 1);
    done(&r);
    CHECK_OK(READ(&r, "\x80\4\x95\0\0\0\0\0\0\0\0\x8c\1m\x94\x8c\1f\x94\x93\x94)\x81}b."));
    CHECK(r.value && r.value->type == PICKLE_CALL);
    done(&r);
    CHECK_STATUS(READ(&r, "cos\nsystem\nU\2ls\x85R."), ERR_DATA);
    CHECK_CONTAINS(status_message(), "no os.system");
    done(&r);
}

TEST(what_no_pickle_does_is_refused)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *words;
    } cases[] = {
#define CASE(text, words) { text, sizeof(text) - 1, words }
        CASE("", "unexpected end"),
        CASE(".", "no result"),
        CASE("U\5abc", "unexpected end"),
        CASE("X\xff\xff\xff\xff", "unexpected end"),
        CASE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "unexpected end"),
        CASE("cos\nsys", "unexpected end of a name"),
        CASE("t.", "no mark"),
        CASE("K\1(.", "no result"),
        CASE("K\1\x86.", "too few values on the stack"),
        CASE("K\1(\x85.", "too few values on the stack"),
        CASE("K\1a.", "too few values on the stack"),
        CASE("(K\1e.", "too few values on the stack"),
        CASE("}K\1a.", "items added to a value that cannot hold them"),
        CASE(")K\1a.", "items added to a value that cannot hold them"),
        CASE("}(K\1u.", "items added to a value that cannot hold them"),
        CASE("]K\1K\2s.", "items added to a value that cannot hold them"),
        CASE("h\0.", "memo entry does not exist"),
        CASE("q\0.", "nothing to store in the memo"),
        CASE("Nr\xff\xff\xff\x7f.", "memo number out of range"),
        CASE("K\1)R.", "calls something that is not a function"),
        CASE("cm\nf\nK\1R.", "calls something that is not a function"),
        CASE("cm\ndict\n](K\1e\x85R.", "invalid pair"),
        CASE("cm\ndict\nK\1\x85R.", "made from an unsupported value"),
        CASE("K\1Nb.", "attributes for a value that has none"),
        CASE("K\1K\2\x93.", "invalid name"),
        CASE("I1\n.", "operation 0x49 at byte 0, which weights do not need"),
        CASE("N0.", "operation 0x30 at byte 1"),
        CASE("Q.", "too few values on the stack"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Reading r;
        CHECK_STATUS(read_bytes(&r, cases[i].text, cases[i].bytes), ERR_DATA);
        CHECK_CONTAINS(status_message(), cases[i].words);
        CHECK(!r.value);
        done(&r);
    }
}

/* Whatever a pickle repeats, memory has a limit. */
TEST(a_pickle_that_grows_without_end_is_refused)
{
    enum { BYTES = 40 << 20 };
    static const char again[] = "cm\ndict\nh\0\x85R", pair[] = "K\1K\2\x86";
    Reading r;
    char *text = mem_alloc(BYTES);
    REQUIRE(text != NULL);
    memset(text, 'N', BYTES);
    CHECK_STATUS(read_bytes(&r, text, BYTES), ERR_DATA);
    CHECK_CONTAINS(status_message(), "values");
    done(&r);
    /* a list that holds itself, and dictionaries of a long list again and again */
    CHECK_OK(READ(&r, "]q\0h\0a."));
    CHECK(r.value && r.value->items[0] == r.value);
    done(&r);
    memcpy(text, "]q\0(", 4);
    size_t n = 4;
    for (int i = 0; i < 1 << 16; i++, n += sizeof pair - 1) memcpy(text + n, pair, sizeof pair - 1);
    text[n++] = 'e';
    for (int i = 0; i < 1 << 16; i++, n += sizeof again - 1)
        memcpy(text + n, again, sizeof again - 1);
    text[n++] = '.';
    CHECK_STATUS(read_bytes(&r, text, n), ERR_DATA);
    CHECK_CONTAINS(status_message(), "values");
    done(&r);
    mem_free(text);
}
