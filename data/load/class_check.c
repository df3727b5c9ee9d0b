/* class_check.c - see class_check.h. */
#include "data/load/class_check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/source/source_fairseq.h"
#include <string.h>

enum { EMPTY_SHOWN = 8 }; /* classes that a warning names */

Status class_check_names(const Source *s, const char *path)
{
    for (int i = 0; i < s->classes; i++) {
        const char *name = s->class_names[i];
        const char *wrong = strchr(name, '\n')   ? "contains a line break"
                            : json_is_utf8(name) ? NULL
                                                 : "is not UTF-8 text";
        if (wrong) return fail(ERR_DATA, "%s: the name of class %d (%s) %s", path, i, name, wrong);
    }
    return OK;
}

Status class_check_like(const Source *s, const char *path, const ClassList *like)
{
    const ClassList own = source_class_list(s, path);
    int *to = mem_alloc((size_t)own.count * sizeof *to), c = 0;
    if (!to) return ERR_MEMORY;
    Status status = class_list_match_set(to, &own, like);
    while (c < own.count && (to[c] == c || to[c] < 0)) c++;
    if (status == OK && c < own.count)
        status = fail(ERR_DATA,
                      "%s: class %s has label %d here and %d in %s, and labels of format %s cannot "
                      "be changed; %s",
                      path, own.names[c], c, to[c], like->owner, s->kind->name,
                      source_fairseq_of(s)
                          ? "make both with one dictionary (fairseq-preprocess --srcdict)"
                          : "keep the images in one folder per class, or in a list");
    mem_free(to);
    return status;
}

void class_check_tell_empty(const Source *s, const char *path)
{
    StrBuf text = { 0 };
    int empty = 0;
    if (s->named_classes) return;
    for (int c = 0; c < s->classes; c++) {
        if (s->class_images[c] > 0) continue;
        if (empty++ < EMPTY_SHOWN) str_printf(&text, "%s%d", empty > 1 ? ", " : "", c);
    }
    if (empty > EMPTY_SHOWN) str_printf(&text, " and %d more", empty - EMPTY_SHOWN);
    if (empty > 0 && !text.failed)
        log_warning("%s: no image of %s %s, though its labels imply %d classes%s", path,
                    empty == 1 ? "class" : "classes", text.text, s->classes,
                    s->class_images[0] == 0 ? ": do labels start at 1?" : "");
    str_free(&text);
}
