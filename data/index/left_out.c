/* left_out.c - a short table; endings beyond it are told as others. */
#include "data/index/left_out.h"
#include "base/log.h"
#include "data/index/scan.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_ending(LeftOut *l, const char *ending, int64_t count)
{
    int i = 0, order = 1;
    while (i < l->endings && (order = strcmp(l->of[i].text, ending)) < 0) i++;
    if (i == LEFT_OUT_ENDINGS) return;
    if (order != 0) {
        if (l->endings < LEFT_OUT_ENDINGS) l->endings++;
        memmove(&l->of[i + 1], &l->of[i], (size_t)(l->endings - i - 1) * sizeof *l->of);
        l->of[i].count = 0;
        snprintf(l->of[i].text, sizeof l->of[i].text, "%s", ending);
    }
    l->of[i].count += count;
}

static int by_count(const void *pa, const void *pb)
{
    const LeftOutEnding *a = pa, *b = pb;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return strcmp(a->text, b->text);
}

static Status check_memory(const StrBuf *text)
{
    return text->failed ? fail(ERR_MEMORY, "out of memory while listing files") : OK;
}

/* Of two paths the first by name; path gets the other. */
static void keep_first(LeftOut *l, StrBuf *path)
{
    const StrBuf first = l->first;
    if (first.text && strcmp(first.text, path->text) <= 0) return;
    l->first = *path;
    *path = first;
}

Status left_out_add(LeftOut *l, const char *folder, const char *name)
{
    char ending[sizeof l->of[0].text] = "";
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    if (dot && strlen(dot) < sizeof ending)
        for (size_t i = 0; dot[i]; i++) ending[i] = (char)tolower((unsigned char)dot[i]);
    count_ending(l, ending, 1);
    l->count++;
    StrBuf path FREED_BY(str_free) = { 0 };
    str_printf(&path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    TRY(check_memory(&path));
    keep_first(l, &path);
    return OK;
}

void left_out_merge(LeftOut *l, LeftOut *other)
{
    if (other->count > 0) keep_first(l, &other->first);
    l->count += other->count;
    for (int i = 0; i < other->endings; i++) count_ending(l, other->of[i].text, other->of[i].count);
}

Status left_out_tell(const LeftOut *l, const char *where)
{
    StrBuf list FREED_BY(str_free) = { 0 };
    LeftOutEnding of[LEFT_OUT_ENDINGS];
    int64_t others = l->count;
    memcpy(of, l->of, sizeof of);
    qsort(of, (size_t)l->endings, sizeof *of, by_count);
    for (int i = 0; i < l->endings && i < LEFT_OUT_TOLD; i++) {
        others -= of[i].count;
        str_printf(&list, "%s%lld %s", i ? ", " : "", (long long)of[i].count,
                   of[i].text[0] ? of[i].text : "without extension");
    }
    if (others > 0) str_printf(&list, ", %lld other", (long long)others);
    TRY(check_memory(&list));
    if (l->count > 0)
        log_warning("%s: files left out: %s; first %s; image files end in " SCAN_PICTURES, where,
                    list.text, l->first.text);
    return OK;
}

void left_out_free(LeftOut *l)
{
    str_free(&l->first);
}
