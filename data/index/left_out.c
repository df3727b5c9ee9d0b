/* left_out.c - a short table; endings beyond it are told as others. */
#include "data/index/left_out.h"
#include "base/log.h"
#include "data/index/scan.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void count_ending(LeftOut *l, const char *ending, int64_t count)
{
    int i = 0;
    while (i < l->endings && strcmp(l->of[i].text, ending) != 0) i++;
    if (i == LEFT_OUT_ENDINGS) return;
    if (i == l->endings) {
        l->endings++;
        snprintf(l->of[i].text, sizeof l->of[i].text, "%s", ending);
    }
    l->of[i].count += count;
}

static Status count_more(LeftOut *l, const char *folder, const char *name, int64_t count)
{
    if (l->count == 0)
        str_printf(&l->first, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    l->count += count;
    return l->first.failed ? fail(ERR_MEMORY, "out of memory while listing files") : OK;
}

Status left_out_add(LeftOut *l, const char *folder, const char *name)
{
    char ending[sizeof l->of[0].text] = "";
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    if (dot && strlen(dot) < sizeof ending)
        for (size_t i = 0; dot[i]; i++) ending[i] = (char)tolower((unsigned char)dot[i]);
    TRY(count_more(l, folder, name, 1));
    count_ending(l, ending, 1);
    return OK;
}

Status left_out_merge(LeftOut *l, const LeftOut *other)
{
    if (other->count == 0) return OK;
    TRY(count_more(l, NULL, other->first.text, other->count));
    for (int i = 0; i < other->endings; i++) count_ending(l, other->of[i].text, other->of[i].count);
    return OK;
}

Status left_out_tell(const LeftOut *l, const char *where)
{
    StrBuf list = { 0 };
    int64_t others = l->count;
    for (int i = 0; i < l->endings; i++) {
        others -= l->of[i].count;
        str_printf(&list, "%s%lld %s", i ? ", " : "", (long long)l->of[i].count,
                   l->of[i].text[0] ? l->of[i].text : "without ending");
    }
    if (others > 0) str_printf(&list, ", %lld others", (long long)others);
    const bool failed = list.failed;
    if (l->count > 0 && !failed)
        log_warning("%s: files left out: %s; first %s; images end in " SCAN_PICTURES, where,
                    list.text, l->first.text);
    str_free(&list);
    return failed ? ERR_MEMORY : OK;
}

void left_out_free(LeftOut *l)
{
    str_free(&l->first);
}
