/* fuzz_config.c - a configuration as a user gives it: a YAML file and settings. First byte: with
 * bit 0 set the rest is the file; else the file ends at the first zero byte, and behind it come
 * settings, each ended by another. What is taken must be written, and read back as the same. */
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

#define SETS_MAX 16

static void write_and_read(const Config *c)
{
    Config *again = NULL;
    StrBuf text = { 0 }, difference = { 0 };
    ASSERT(config_dump_yaml(c, &text) == OK);
    if (config_parse(&again, text.text) != OK) {
        fprintf(stderr, "fuzz_config: %s\n%s\n", status_message(), text.text);
        ASSERT(!"what was written cannot be read");
    }
    ASSERT(config_difference(c, again, &difference) == OK);
    ASSERT(difference.length == 0 && config_math_difference(c, again, &difference) == OK);
    ASSERT(difference.length == 0);
    config_destroy(again);
    str_free(&difference);
    str_free(&text);
}

int fuzz_config(const uint8_t *data, size_t size)
{
    Config *c = NULL;
    char path[160];
    const char *sets[SETS_MAX];
    int count = 0;
    if (size < 1) return 0;
    char *text = mem_alloc(size);
    ASSERT(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    size_t file = data[0] & 1 ? size - 1 : strlen(text);
    for (size_t at = file + 1; at < size && count < SETS_MAX; at += strlen(text + at) + 1)
        sets[count++] = text + at;
    fuzz_write("config.yaml", (const uint8_t *)text, file);
    snprintf(path, sizeof path, "%s/config.yaml", fuzz_folder());
    if (config_load(&c, path, sets, count) == OK) write_and_read(c);
    config_destroy(c);
    mem_free(text);
    return 0;
}
