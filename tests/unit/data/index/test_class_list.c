/* test_class_list.c - the rule by which two lists of classes are matched, and what it refuses. */
#include "base/mem.h"
#include "base/str.h"
#include "data/index/class_list.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 128 };

typedef struct Names { /* of a text with a comma between two names; "#N": numbers below N alone */
    ClassList list;
    const char **names;
    char text[TEXT_BYTES];
} Names;

static const ClassList *open_names(Names *n, const char *text, const char *owner)
{
    StrBuf lines = { 0 };
    const bool numbers = text[0] == '#';
    int count = numbers ? text[1] - '0' : 0;
    for (int i = 0; i < count; i++) str_printf(&lines, "%s%d", i ? "\n" : "", i);
    snprintf(n->text, sizeof n->text, "%s", numbers ? lines.text : text);
    for (char *p = n->text; *p; p++)
        if (*p == ',') *p = '\n';
    str_free(&lines);
    CHECK_OK(class_list_parse(&n->list, &n->names, n->text, !numbers, owner));
    CHECK(n->list.named == !numbers); /* what is no number alone is of folders */
    return &n->list;
}

TEST(classes_meet_by_number_by_name_or_by_place)
{
    static const struct {
        const char *of, *in, *want;
        ClassesBy by;
    } rows[] = {
        { "a,b", "a,b", "0 1", CLASSES_BY_NAME },
        { "b,a,d", "c,a,b", "2 1 -1", CLASSES_BY_NAME },
        { "0,1,10,2", "0,1,2,10", "0 1 3 2", CLASSES_BY_NUMBER },
        { "#3", "0,1,10,2", "0 1 3", CLASSES_BY_NUMBER },
        { "0,1,10,2", "#3", "0 1 -1 2", CLASSES_BY_NUMBER },
        { "007,010", "7,10", "0 1", CLASSES_BY_NUMBER },
        { "010,7,9", "7,9,10", "2 0 1", CLASSES_BY_NUMBER },
        { "1,10,11", "#3", "1 -1 -1", CLASSES_BY_NUMBER },
        { "#4", "#2", "0 1 -1 -1", CLASSES_BY_NUMBER },
        { "0.0,1.0,10.0,2.0", "#3", "0 1 -1 2", CLASSES_BY_NUMBER },
        { "#2", "1.00,0.", "-1 -1", CLASSES_UNKNOWN }, /* a full stop makes no number */
        { "c_0,c_10,c_2", "#3", "-1 -1 -1", CLASSES_UNKNOWN },
        { "#2", "10 cats,2 dogs", "-1 -1", CLASSES_UNKNOWN },
        { "v2_c10,v2_c11,v2_c12", "#3", "0 1 2", CLASSES_BY_PLACE },
        { "DC-10,DC-3,F-16", "#3", "0 1 2", CLASSES_BY_PLACE }, /* no numbers of classes */
        { "7,07", "07,7", "1 0", CLASSES_BY_NAME },             /* two names of one number */
        { "7,a", "07,a", "-1 1", CLASSES_BY_NAME },
        { "#3", "ant,bee,cat", "0 1 2", CLASSES_BY_PLACE },
        { "ant,bee,cat", "#3", "0 1 2", CLASSES_BY_PLACE },
        { "0,1,other", "#3", "0 1 2", CLASSES_BY_PLACE },
        { "0,10,other", "#3", "0 1 2", CLASSES_BY_PLACE },
        { "0,2,other", "#3", "-1 -1 -1", CLASSES_UNKNOWN },
        { "#3", "1,7,x", "-1 -1 -1", CLASSES_UNKNOWN },
        { "a,a,b", "a,a,b", "0 1 2", CLASSES_BY_NAME }, /* the same list, whatever is in it */
        { "a,a,b", "b,a", "-1 -1 0", CLASSES_BY_NAME },
        { "b,a", "a,a,b", "2 -1", CLASSES_BY_NAME },
        { "99999999999999999999", "#1", "0", CLASSES_BY_PLACE }, /* too long for a number */
        { "-1,0", "#2", "-1 -1", CLASSES_UNKNOWN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Names of, in;
        int to[8];
        char text[TEXT_BYTES] = "";
        ClassesBy by = CLASSES_UNKNOWN;
        const ClassList *a = open_names(&of, rows[i].of, ""), *b = open_names(&in, rows[i].in, "");
        REQUIRE_OK(class_list_match(to, &by, a, b));
        for (int c = 0; c < a->count; c++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", c ? " " : "", to[c]);
        CHECK_STR(text, rows[i].want);
        CHECK_INT(by, rows[i].by);
        mem_free(of.names);
        mem_free(in.names);
    }
}

TEST(sets_whose_classes_cannot_be_known_are_refused)
{
    static const struct {
        const char *of, *in, *want; /* NULL: it is taken */
    } rows[] = {
        { "a,b", "a,b", NULL },
        { "b,a", "a,b", NULL },
        { "a,zebra", "a,bb", "set: class zebra is not in other (do this)" },
        { "a,bb", "a,b", "set: class bb is not in other (did you mean b?) (do this)" },
        { "a,b,c", "a,b", "set: class c is not in other" },
        { "a", "a,b", "set: has no class b, but other has (data.allow_empty_classes: true " },
        { "00,01", "0,1,10", "set: has no class 10, but other has" },
        { "0,1,10", "#2", "set: class 10 is not in other: both number their classes" },
        { "#2", "1,2", "set: class 0 is not in other: both number their classes" },
        { "#2", "0,1,10", NULL },
        { "#4", "#2", NULL },
        { "#2", "a,b,c", "set: 2 numbered classes here but 3 classes in other; " },
        { "a,b,c", "#2", "set: 3 classes here but 2 numbered classes in other; " },
        { "#3", "a,b,c", NULL },
        { "#3", "1,2,x", "set: its classes cannot be matched to those of other" },
        { "a,a,b", "a,b", "set: more than one class is named a, here or in other" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Names of, in;
        int to[8];
        const ClassList *a = open_names(&of, rows[i].of, "set"),
                        *b = open_names(&in, rows[i].in, "other");
        in.list.remedy = " (do this)";
        CHECK_STATUS(class_list_match_set(to, a, b), rows[i].want ? ERR_DATA : OK);
        if (rows[i].want) CHECK_CONTAINS(status_message(), rows[i].want);
        mem_free(of.names);
        mem_free(in.names);
    }
}

TEST(numbers_beyond_those_learnt_are_refused)
{
    static const int64_t from_0[] = { 1, 1, 1 }, from_1[] = { 0, 3, 1 };
    Names of, in;
    int to[8];
    open_names(&of, "#3", "set");
    open_names(&in, "#2", "other");
    in.list.closed = true;
    of.list.images = from_0;
    CHECK_STATUS(class_list_match_set(to, &of.list, &in.list), ERR_DATA);
    CHECK_CONTAINS(status_message(), "set: class 2 is not in other: both number");
    CHECK(!strstr(status_message(), "start at 1"));
    of.list.images = from_1;
    CHECK_STATUS(class_list_match_set(to, &of.list, &in.list), ERR_DATA);
    CHECK_CONTAINS(status_message(), "the same class: do labels start at 1?");
    mem_free(in.names);
    open_names(&in, "a,b", "other");
    CHECK_STATUS(class_list_match_set(to, &of.list, &in.list), ERR_DATA);
    CHECK_CONTAINS(status_message(), "if both have the same names: do labels start at 1?");
    mem_free(in.names);
    mem_free(of.names);
}

TEST(classes_without_images_and_those_that_may_lack_are_no_fault)
{
    static const int64_t images[] = { 0, 3, 1 };
    Names of, in;
    int to[8];
    open_names(&of, "#3", "set"); /* labels that count from 1 */
    open_names(&in, "1,2", "other");
    CHECK_STATUS(class_list_match_set(to, &of.list, &in.list), ERR_DATA);
    of.list.images = images;
    CHECK_OK(class_list_match_set(to, &of.list, &in.list));
    CHECK(to[0] == -1 && to[1] == 0 && to[2] == 1);
    mem_free(of.names);
    mem_free(in.names);
    open_names(&of, "b", "set");
    open_names(&in, "a,b", "other");
    in.list.may_lack = true;
    CHECK_OK(class_list_match_set(to, &of.list, &in.list));
    CHECK_INT(to[0], 1);
    mem_free(of.names);
    mem_free(in.names);
}

TEST(numbers_in_another_order_are_found)
{
    static const struct {
        const char *names;
        int want;
    } rows[] = { { "0,1,2", -1 }, { "000,001", -1 },  { "0,1,10,2", 2 }, { "1,2", 0 },
                 { "a,b", -1 },   { "0,1,10,x", -1 }, { "#9", -1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Names n;
        CHECK_INT(class_list_misplaced(open_names(&n, rows[i].names, "")), rows[i].want);
        mem_free(n.names);
    }
}
