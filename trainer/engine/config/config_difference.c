/* config_difference.c - what must stay the same on resume, and what differs between two runs. */
#include "base/crc32c.h"
#include "base/str.h"
#include "trainer/engine/config/config_internal.h"
#include <string.h>

static void add_difference(const Config *then, const Config *now, const ConfigKey *key, StrBuf *out)
{
    StrBuf a FREED_BY(str_free) = { 0 }, b FREED_BY(str_free) = { 0 };
    config_add_value(then, key, &a);
    config_add_value(now, key, &b);
    if (a.failed || b.failed) out->failed = true;
    else if (strcmp(a.text, b.text) != 0)
        str_printf(out, "%s%s was %s and is %s", out->length ? "; " : "", key->key, a.text, b.text);
}

static bool is_compared(const char *key)
{
    return strcmp(key, "run.dir") != 0 && !str_starts_with(key, "scale.") &&
           !str_starts_with(key, "cost.");
}

static Status add_differences(const Config *then, const Config *now, bool math, StrBuf *out)
{
    for (int i = 0; i < config_key_count; i++) {
        const ConfigKey *key = &config_keys[i];
        if (math ? key->flags & KEY_MATH : is_compared(key->key))
            add_difference(then, now, key, out);
    }
    return out->failed ? fail(ERR_MEMORY, "out of memory comparing configurations") : OK;
}

Status config_math_difference(const Config *then, const Config *now, StrBuf *out)
{
    return add_differences(then, now, true, out);
}

Status config_difference(const Config *then, const Config *now, StrBuf *out)
{
    return add_differences(then, now, false, out);
}

int config_next_difference(const Config *const *list, int count, int from, const char **name)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    const Config *base = NULL;
    for (int i = 0; i < count && !base; i++) base = list[i];
    for (; from < config_key_count; from++) {
        *name = config_keys[from].key;
        for (int i = 0; i < count && is_compared(*name) && text.length == 0; i++)
            if (list[i]) add_difference(base, list[i], &config_keys[from], &text);
        if (text.length > 0) break;
    }
    return from < config_key_count ? from : -1;
}

void config_add_key(const Config *c, int index, StrBuf *out)
{
    config_add_value(c, &config_keys[index], out);
}

int config_prints(const Config *c, uint32_t prints[CONFIG_PRINTS_MAX])
{
    StrBuf value FREED_BY(str_free) = { 0 };
    for (int i = 0; i < config_key_count; i++) {
        const char *key = config_keys[i].key;
        const bool local = strcmp(key, "data.train") == 0 || strcmp(key, "data.val") == 0;
        str_clear(&value);
        config_add_value(c, &config_keys[i], &value);
        prints[i] = local || value.failed ? 0 : crc32c_update(1, value.text, value.length);
    }
    return config_key_count;
}

void config_add_unlike(const Config *c, const uint32_t prints[CONFIG_PRINTS_MAX], StrBuf *out)
{
    uint32_t own[CONFIG_PRINTS_MAX];
    for (int i = 0, count = config_prints(c, own); i < count; i++) {
        if (own[i] == prints[i]) continue;
        str_printf(out, "%s%s is ", out->length ? "; " : "", config_keys[i].key);
        config_add_value(c, &config_keys[i], out);
    }
}
