/* class_list.c - see class_list.h. Both lists are sorted and walked through together, so that a
 * hundred thousand classes take no time. */
#include "data/index/class_list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

enum { NONE = -1, DIGITS_MAX = 18 };

typedef struct Key { /* a class, to be sorted by its name or number */
    const char *name;
    int64_t number; /* NONE: the name is none */
    int place;
} Key;

typedef int Compare(const void *a, const void *b);

/* ---- lists ---- */

/* *rest: what stands behind the digits. */
static int64_t leading_number(const char *text, const char **rest)
{
    const size_t digits = strspn(text, "0123456789");
    int64_t number = 0;
    *rest = text + digits;
    if (digits == 0 || digits > DIGITS_MAX) return NONE;
    for (const char *p = text; p < *rest; p++) number = 10 * number + (*p - '0');
    return number;
}

/* 3, 03 and, as tables are saved, 3.0. */
static int64_t number_of(const char *name)
{
    const char *rest;
    const int64_t number = leading_number(name, &rest);
    if (rest[0] == '.' && rest[1]) rest += 1 + strspn(rest + 1, "0");
    return rest[0] ? NONE : number;
}

Status class_list_parse(ClassList *out, const char ***names, char *text, bool named,
                        const char *owner)
{
    int count = 1;
    for (const char *p = text; *p; p++) count += *p == '\n';
    *out = (ClassList){ .count = count, .named = named, .owner = owner };
    if (!(*names = mem_alloc((size_t)count * sizeof **names))) return ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        char *end = text + strcspn(text, "\n");
        *end = '\0';
        (*names)[i] = text;
        out->named |= number_of(text) != i || (text[0] == '0' && text[1]);
        text = end + 1;
    }
    out->names = *names;
    return OK;
}

int class_list_misplaced(const ClassList *l)
{
    int first = NONE;
    for (int i = l->count - 1; i >= 0; i--) {
        const int64_t number = number_of(l->names[i]);
        if (number == NONE) return NONE;
        if (number != i) first = i;
    }
    return first;
}

static bool same_lists(const ClassList *a, const ClassList *b)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) same = strcmp(a->names[i], b->names[i]) == 0;
    return same;
}

/* ---- the rule ---- */

static int by_number(const void *pa, const void *pb)
{
    const Key *a = pa, *b = pb;
    return (a->number > b->number) - (a->number < b->number);
}

static int by_name(const void *pa, const void *pb)
{
    return strcmp(((const Key *)pa)->name, ((const Key *)pb)->name);
}

static Key *keys_of(const ClassList *l)
{
    Key *keys = mem_alloc(((size_t)l->count + 1) * sizeof *keys);
    for (int i = 0; keys && i < l->count; i++)
        keys[i] = (Key){ l->names[i], number_of(l->names[i]), i };
    return keys;
}

/* Sorts; whether all are numbers, each another one. */
static bool are_numbers(Key *keys, int count)
{
    qsort(keys, (size_t)count, sizeof *keys, by_number);
    bool numbers = count > 0 && keys[0].number != NONE;
    for (int i = 1; numbers && i < count; i++) numbers = keys[i].number != keys[i - 1].number;
    return numbers;
}

/* Whether names hold numbers behind the same letters, in another order than that of the names:
 * class_10 before class_2. */
static bool disordered(const ClassList *words)
{
    const char *first = words->names[0], *rest;
    size_t same = strlen(first);
    int64_t last = NONE;
    bool back = false;
    for (int i = 1; i < words->count; i++)
        for (size_t k = 0; k < same; k++)
            if (words->names[i][k] != first[k]) same = k;
    while (same > 0 && first[same - 1] >= '0' && first[same - 1] <= '9') same--;
    for (int i = 0; i < words->count; i++) {
        const int64_t number = leading_number(words->names[i] + same, &rest);
        if (number == NONE) return false;
        back |= number < last;
        last = number;
    }
    return back;
}

/* Whether a name is the number of another place, which numbers on the other side may mean. */
static bool contradicts(const ClassList *words, int numbers)
{
    bool yes = disordered(words);
    for (int i = 0; i < words->count && !yes; i++) {
        const int64_t number = number_of(words->names[i]);
        yes = number != NONE && number != i && number < numbers;
    }
    return yes;
}

/* A key that is there twice, on either side, tells nothing. */
static bool alone(const Key *keys, int count, int i, Compare *compare)
{
    return (i == 0 || compare(&keys[i - 1], &keys[i]) != 0) &&
           (i + 1 == count || compare(&keys[i], &keys[i + 1]) != 0);
}

static void walk(int *to, const Key *a, int a_count, const Key *b, int b_count, Compare *compare)
{
    for (int i = 0, k = 0; i < a_count; i++) {
        while (k < b_count && compare(&b[k], &a[i]) < 0) k++;
        if (k < b_count && compare(&b[k], &a[i]) == 0 && alone(a, a_count, i, compare) &&
            alone(b, b_count, k, compare))
            to[a[i].place] = b[k].place;
    }
}

static void match(int *to, ClassesBy *by, const ClassList *of, const ClassList *in, Key *a, Key *b)
{
    const bool numbers = are_numbers(a, of->count) && are_numbers(b, in->count);
    if (!numbers && !(of->named && in->named)) {
        const ClassList *words = of->named ? of : in;
        *by = contradicts(words, words == of ? in->count : of->count) ? CLASSES_UNKNOWN
                                                                      : CLASSES_BY_PLACE;
        for (int i = 0; *by == CLASSES_BY_PLACE && i < of->count && i < in->count; i++) to[i] = i;
        return;
    }
    Compare *compare = numbers ? by_number : by_name;
    qsort(a, (size_t)of->count, sizeof *a, compare);
    qsort(b, (size_t)in->count, sizeof *b, compare);
    walk(to, a, of->count, b, in->count, compare);
    *by = numbers ? CLASSES_BY_NUMBER : CLASSES_BY_NAME;
}

Status class_list_match(int *to, ClassesBy *by, const ClassList *of, const ClassList *in)
{
    const bool same = of->named == in->named && same_lists(of, in);
    for (int i = 0; i < of->count; i++) to[i] = same ? i : NONE;
    *by = of->named ? CLASSES_BY_NAME : CLASSES_BY_NUMBER;
    if (same) return OK;
    Key *a FREED = keys_of(of), *b FREED = keys_of(in);
    if (a && b) match(to, by, of, in, a, b);
    return a && b ? OK : ERR_MEMORY;
}

/* ---- sets ---- */

static int count_name(const ClassList *l, const char *name)
{
    int count = 0;
    for (int i = 0; i < l->count; i++) count += strcmp(l->names[i], name) == 0;
    return count;
}

/* Of a set of numbers that nobody has given a 0. */
static const char *hint_of(const ClassList *l)
{
    return !l->named && l->images && l->images[0] == 0 ? ": do labels start at 1?" : "";
}

static Status refuse_stranger(const ClassList *of, const ClassList *in, int c, ClassesBy by)
{
    const char *name = of->names[c], *near = str_nearest(name, in->names, in->count);
    if (count_name(of, name) > 1 || count_name(in, name) > 1)
        return fail(ERR_DATA, "%s: more than one class is named %s, here or in %s", of->owner, name,
                    in->owner);
    if (by == CLASSES_BY_NUMBER)
        return fail(ERR_DATA,
                    "%s: class %s is not in %s: both number their classes, and the same number "
                    "means the same class%s%s",
                    of->owner, name, in->owner, hint_of(of), in->remedy ? in->remedy : "");
    return fail(ERR_DATA, "%s: class %s is not in %s%s%s%s%s", of->owner, name, in->owner,
                near ? " (did you mean " : "", near ? near : "", near ? "?)" : "",
                in->remedy ? in->remedy : "");
}

/* Each class of `in` must be that of one of `of`. */
static Status check_lacking(const int *to, const ClassList *of, const ClassList *in)
{
    bool *there FREED = mem_calloc((size_t)in->count + 1, sizeof *there);
    int lacking = NONE;
    if (!there) return ERR_MEMORY;
    for (int c = 0; c < of->count; c++)
        if (to[c] != NONE) there[to[c]] = true;
    for (int c = in->count - 1; c >= 0; c--)
        if (!there[c]) lacking = c;
    if (lacking == NONE) return OK;
    return fail(ERR_DATA,
                "%s: has no class %s, but %s has (data.allow_empty_classes: true accepts classes "
                "without images)",
                of->owner, in->names[lacking], in->owner);
}

static Status check_places(const ClassList *of, const ClassList *in)
{
    const ClassList *words = of->named ? of : in, *numbers = of->named ? in : of;
    if (of->count != in->count)
        return fail(ERR_DATA,
                    "%s: %d %s here but %d %s in %s; they can only be matched if both have the "
                    "same names%s",
                    of->owner, of->count, of->named ? "classes" : "numbered classes", in->count,
                    in->named ? "classes" : "numbered classes", in->owner, hint_of(numbers));
    log_warning("%s names its classes and %s numbers them: 0 is taken as %s, and so on to %d as %s",
                words->owner, numbers->owner, words->names[0], words->count - 1,
                words->names[words->count - 1]);
    return OK;
}

void class_list_tell_order(const ClassList *l, const char *path)
{
    const int c = l->named ? class_list_misplaced(l) : -1;
    if (c >= 0)
        log_warning("%s: class folders are numbers in text order: label %d of %s is read as %s "
                    "(data.class_map can order them)",
                    l->owner, c, path, l->names[c]);
}

Status class_list_match_set(int *to, const ClassList *of, const ClassList *in)
{
    ClassesBy by;
    TRY(class_list_match(to, &by, of, in));
    if (by == CLASSES_BY_PLACE) return check_places(of, in);
    if (by == CLASSES_UNKNOWN)
        return fail(
            ERR_DATA,
            "%s: its classes cannot be matched to those of %s: one has only numbers, and names in "
            "the other contain numbers that may mean something else; use the same names in both",
            of->owner, in->owner);
    if (!of->named && !in->named && !in->closed) return OK;
    for (int c = 0; c < of->count; c++)
        if (to[c] == NONE && (!of->images || of->images[c] > 0))
            return refuse_stranger(of, in, c, by);
    return of->named && in->named && !in->may_lack ? check_lacking(to, of, in) : OK;
}
