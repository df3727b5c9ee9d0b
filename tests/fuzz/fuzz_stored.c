/* fuzz_stored.c - the configuration that a checkpoint or a run folder holds: what it says is
 * compared with a run's own, and what is taken can be written again. */
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/engine/config/config.h"
#include <string.h>

static const Config *defaults(void)
{
    static Config *c; /* lives as long as the process */
    if (!c) ASSERT(config_parse(&c, "") == OK);
    return c;
}

int fuzz_stored(const uint8_t *data, size_t size)
{
    Config *c = NULL;
    StrBuf text = { 0 }, difference = { 0 };
    char *yaml = mem_alloc(size + 1);
    ASSERT(yaml != NULL);
    if (size) memcpy(yaml, data, size);
    yaml[size] = '\0';
    if (config_parse(&c, yaml) == OK) {
        if (config_check_input(c) == OK) ASSERT(c->data.image_size > 0);
        ASSERT(config_dump_yaml(c, &text) == OK);
        ASSERT(config_difference(c, defaults(), &difference) == OK);
        str_clear(&difference);
        ASSERT(config_math_difference(c, defaults(), &difference) == OK);
        fuzz_use((const uint8_t *)difference.text, difference.length);
    }
    config_destroy(c);
    str_free(&difference);
    str_free(&text);
    mem_free(yaml);
    return 0;
}
