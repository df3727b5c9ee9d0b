/* unread.c - see unread.h. */
#include "trainer/app/cmd/unread.h"
#include "base/log.h"
#include "base/str.h"
#include <string.h>

/* Whether one of the words is the key of n bytes or its section. */
static bool names_key(const char *words, const char *key, size_t n)
{
    for (size_t length; *words; words += length + strspn(words + length, " ")) {
        length = strcspn(words, " ");
        if (strncmp(words, key, length) == 0 && (length == n || key[length] == '.')) return true;
    }
    return false;
}

void unread_warn(const Args *args, const char *keys, const char *advice)
{
    StrBuf list FREED_BY(str_free) = { 0 };
    for (int i = 0; i < args->set_count; i++) {
        const char *set = args->sets[i];
        const size_t n = strcspn(set, "=");
        if (config_is_key(set, n) && names_key(keys, set, n))
            str_printf(&list, "%s%.*s", list.length > 0 ? ", " : "", (int)n, set);
    }
    if (list.length > 0 && !list.failed)
        log_warning("%s: ignored by this command%s", list.text, advice);
}
