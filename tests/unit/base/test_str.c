/* Text buffers, strict numbers, nearest names, CRC-32C. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include <string.h>

TEST(buffer_grows_and_clears)
{
    StrBuf b = { 0 };
    for (int i = 0; i < 1000; i++) str_printf(&b, "%d,", i);
    str_add(&b, "end");
    str_add_n(&b, "xyz", 1);
    CHECK(!b.failed);
    CHECK_INT(b.length, strlen(b.text));
    CHECK_INT(b.length, 10 * 2 + 90 * 3 + 900 * 4 + 4);
    CHECK(str_starts_with(b.text, "0,1,2,"));
    CHECK_STR(b.text + b.length - 4, "endx");
    str_clear(&b);
    CHECK_STR(b.text, "");
    str_printf(&b, "%s", "");
    CHECK_INT(b.length, 0);
    str_free(&b);
    CHECK(b.text == NULL);
}

TEST(buffer_remembers_a_failure)
{
    StrBuf b = { 0 };
    mem_fail_at(1);
    str_add(&b, "lost");
    CHECK(b.failed);
    str_add(&b, "also lost");
    CHECK(b.text == NULL);
    str_free(&b);
}

TEST(whole_numbers)
{
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } rows[] = {
        { "0", true, 0 },
        { " -17\t", true, -17 },
        { "+5", true, 5 },
        { "007", true, 7 },
        { "9223372036854775807", true, INT64_MAX },
        { "-9223372036854775808", true, INT64_MIN },
        { "9223372036854775808", false, 0 },
        { "", false, 0 },
        { "  ", false, 0 },
        { "-", false, 0 },
        { "1.0", false, 0 },
        { "1e3", false, 0 },
        { "0x10", false, 0 },
        { "12a", false, 0 },
        { "1 2", false, 0 },
        { "- 1", false, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 99;
        bool good = str_to_i64(rows[i].text, &value);
        if (good != rows[i].good || value != (good ? rows[i].value : 99))
            CHECK_STR(rows[i].text, "parsed as the table says");
    }
}

TEST(real_numbers)
{
    static const struct {
        const char *text;
        bool good;
        double value;
    } rows[] = {
        { "0.1", true, 0.1 },  { " 1e-4 ", true, 1e-4 }, { "-.5", true, -0.5 },
        { "5.", true, 5 },     { "+3E+2", true, 300 },   { "1e-400", true, 0 },
        { "1e400", false, 0 }, { "inf", false, 0 },      { "nan", false, 0 },
        { "0x1p3", false, 0 }, { ".", false, 0 },        { "1e", false, 0 },
        { "1e+", false, 0 },   { "", false, 0 },         { "0,5", false, 0 },
        { "1.2.3", false, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 99;
        bool good = str_to_double(rows[i].text, &value);
        if (good != rows[i].good || !(value == (good ? rows[i].value : 99)))
            CHECK_STR(rows[i].text, "parsed as the table says");
    }
}

TEST(truth_values)
{
    static const char *const words[] = { "true", "Yes", "ON", "1", "false", "no", "Off", "0" };
    bool value;
    for (int i = 0; i < 8; i++) {
        value = i >= 4;
        CHECK(str_to_bool(words[i], &value) && value == (i < 4));
    }
    CHECK(!str_to_bool("", &value) && !str_to_bool("2", &value) && !str_to_bool("tru", &value));
}

TEST(beginnings_and_ends)
{
    CHECK(str_starts_with("abc", "ab") && str_starts_with("abc", "") &&
          !str_starts_with("ab", "abc"));
    CHECK(str_ends_with_nocase("photo.JPG", ".jpg") && !str_ends_with_nocase("jpg", ".jpg") &&
          str_ends_with_nocase("x", ""));
}

TEST(nearest_names)
{
    static const char *const keys[] = { "optimizer.lr", "optimizer.momentum", "train.epochs", "sgd",
                                        "adam" };
    CHECK_STR(str_nearest("optimzer.lr", keys, 5), "optimizer.lr");
    CHECK_STR(str_nearest("train.epoch", keys, 5), "train.epochs");
    CHECK_STR(str_nearest("sdg", keys, 5), "sgd");
    CHECK_STR(str_nearest("zebra", keys, 5), NULL);
    CHECK_STR(str_nearest("", keys, 5), NULL);
    CHECK_STR(str_nearest("sgd", keys, 0), NULL);
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const char *const with_longer[] = { longer, "aaab" };
    CHECK_STR(str_nearest("aaac", with_longer, 2), "aaab");
    CHECK_STR(str_nearest(longer, with_longer, 2), NULL);
}

TEST(crc32c_known_answer)
{
    CHECK_INT(crc32c_update(0, "123456789", 9), 0xE3069283);
    CHECK_INT(crc32c_update_portable(0, "123456789", 9), 0xE3069283);
    CHECK_INT(crc32c_update(0, "", 0), 0);
    unsigned char zeros[32] = { 0 };
    CHECK_INT(crc32c_update(0, zeros, 32), 0x8A9136AA); /* RFC 3720 B.4 */
}

TEST(crc32c_both_ways_agree_and_chain)
{
    unsigned char data[300];
    for (int i = 0; i < 300; i++) data[i] = (unsigned char)(i * 37 + i / 5);
    for (size_t n = 0; n <= 300; n += 7) {
        uint32_t whole = crc32c_update(0, data, n);
        CHECK_INT(crc32c_update_portable(0, data, n), whole);
        for (size_t cut = 0; cut <= n; cut += 13) {
            CHECK_INT(crc32c_update(crc32c_update(0, data, cut), data + cut, n - cut), whole);
            CHECK_INT(
                crc32c_update_portable(crc32c_update_portable(0, data, cut), data + cut, n - cut),
                whole);
        }
    }
}

TEST(characters_are_those_of_utf8)
{
    static const struct {
        const char *text;
        int bytes;
        uint32_t code;
    } rows[] = {
        { "a", 1, 'a' },
        { "\xC2\x80", 2, 0x80 },
        { "\xDF\xBF", 2, 0x7FF },
        { "\xE0\xA0\x80", 3, 0x800 },
        { "\xED\x9F\xBF", 3, 0xD7FF },
        { "\xEF\xBF\xBF", 3, 0xFFFF },
        { "\xF0\x90\x80\x80", 4, 0x10000 },
        { "\xF4\x8F\xBF\xBF", 4, 0x10FFFF },
        { "\xC1\xBF", 0, 0 }, /* overlong */
        { "\xE0\x9F\xBF", 0, 0 },
        { "\xF0\x8F\xBF\xBF", 0, 0 },
        { "\xED\xA0\x80", 0, 0 }, /* surrogate */
        { "\xF4\x90\x80\x80", 0, 0 },
        { "\xF5\x80\x80\x80", 0, 0 },
        { "\x80", 0, 0 },
        { "\xFF", 0, 0 },
        { "\xC3", 0, 0 }, /* cut */
        { "\xE2\x82", 0, 0 },
        { "\xF0\x9F\x98", 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t code = 0;
        CHECK_INT(str_character(rows[i].text, &code), rows[i].bytes);
        if (rows[i].bytes > 0) CHECK_INT(code, rows[i].code);
    }
}

TEST(what_steers_is_shown)
{
    char cut[8];
    StrBuf b = { 0 };
    str_add_visible(&b, "a\tb\n\r\x1b\x7f\xC2\x85\xC2\xA9 \xE2\x80\xA8\xFF\xC3", "\n");
    CHECK_STR(b.text, "a\\tb\n\\r\\x1b\\x7f\\xc2\\x85\xC2\xA9 \\xe2\\x80\\xa8\\xff\\xc3");
    str_free(&b);
    str_visible(cut, sizeof cut, "ab\x1b\x1b"); /* no half of an escape, nor of a character */
    CHECK_STR(cut, "ab\\x1b");
    str_visible(cut, sizeof cut, "abcdef\xC3\xA9");
    CHECK_STR(cut, "abcdef");
    str_visible(cut, 1, "a");
    CHECK_STR(cut, "");
}

TEST(patterns_match_whole_texts)
{
    CHECK(str_matches("fc.*", "fc.weight") && str_matches("*.bias", "layer1.0.bn1.bias"));
    CHECK(str_matches("*", "") && str_matches("**", "a") && str_matches("a?c", "abc"));
    CHECK(str_matches("*a*ab", "aaab") && str_matches("l*.0.*1*", "layer1.0.conv1.weight"));
    CHECK(str_matches("", "") && !str_matches("", "a") && !str_matches("?", ""));
    CHECK(!str_matches("fc", "fc.weight") && !str_matches("*.bias", "bias"));
    CHECK(!str_matches("a*b", "abc") && !str_matches("a?c", "ac"));
}

TEST(words_of_a_shell_and_durations)
{
    StrBuf b = { 0 };
    str_add_word(&b, "./convoy");
    str_add_word(&b, "it's here");
    str_add_word(&b, "");
    str_add_word(&b, "a;b$c");
    CHECK_STR(b.text, "./convoy 'it'\\''s here' '' 'a;b$c'");
    str_clear(&b);
    str_add_duration(&b, 45.4);
    str_add(&b, ", ");
    str_add_duration(&b, 200);
    str_add(&b, ", ");
    str_add_duration(&b, 3723);
    str_add(&b, ", ");
    str_add_duration(&b, 2 * 86400 + 3723);
    str_add(&b, ", ");
    str_add_duration(&b, -1);
    CHECK_STR(b.text, "45 s, 3:20, 1:02:03, 2 days 1:02:03, 0 s");
    str_free(&b);
}
