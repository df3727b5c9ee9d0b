/* test_config_text.c - which texts a setting takes: those that YAML gives back as they were. */
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

TEST(texts_are_what_yaml_can_hold)
{
    const char *good[] = { "a~",           "\xC2\xA0",         "\xDF\xBF",
                           "\xE0\xA0\x80", "\xED\x9F\xBF",     "\xEE\x80\x80",
                           "\xEF\xBF\xBD", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF" };
    const char *bad[] = { "\x1F",
                          "\x7F",
                          "\xC2\x9F",
                          "\xDF",
                          "\xE0\x9F\xBF",
                          "\xEF\xBB\xBF",
                          "\xEF\xBF\xBE",
                          "\xEF\xBF\xBF",
                          "\xEF\xBF",
                          "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80" };
    char text[64];
    const char *set = text;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        Config *c = NULL;
        snprintf(text, sizeof text, "data.train=%s", good[i]);
        CHECK_OK(config_load(&c, NULL, &set, 1));
        if (c) CHECK_STR(c->data.train, good[i]);
        config_destroy(c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "data.train=%s", bad[i]);
        Config *c = NULL;
        CHECK_STATUS(config_load(&c, NULL, &set, 1), ERR_USAGE);
        CHECK_CONTAINS(status_message(),
                       "data.train must be UTF-8 text without control characters");
        config_destroy(c);
    }
}
