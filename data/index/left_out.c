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

static Status check_memory(const StrBuf *text)
{
    return text->failed ? fail(ERR_MEMORY, "out of memory while listing files") : OK;
}

Status left_out_add(LeftOut *l, const char *folder, const char *name)
{
    char ending[sizeof l->of[0].text] = "";
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    if (dot && strlen(dot) < sizeof ending)
        for (size_t i = 0; dot[i]; i++) ending[i] = (char)tolower((unsigned char)dot[i]);
    count_ending(l, ending, 1);
    if (l->count++ == 0)
        str_printf(&l->first, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    return check_memory(&l->first);
}

Status left_out_merge(LeftOut *l, const LeftOut *other)
{
    if (l->count == 0 && other->count > 0) str_add(&l->first, other->first.text);
    l->count += other->count;
    for (int i = 0; i < other->endings; i++) count_ending(l, other->of[i].text, other->of[i].count);
    return check_memory(&l->first);
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
    const Status status = check_memory(&list);
    if (l->count > 0 && status == OK)
        log_warning("%s: files left out: %s; first %s; images end in " SCAN_PICTURES, where,
                    list.text, l->first.text);
    str_free(&list);
    return status;
}

void left_out_free(LeftOut *l)
{
    str_free(&l->first);
}
