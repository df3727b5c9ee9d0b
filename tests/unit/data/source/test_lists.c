/* test_lists.c - text files that list images with their classes, and data.class_map. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/load/dataset.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 1024 };

static void path_of(char out[NAME_BYTES], const char *name)
{
    snprintf(out, NAME_BYTES, "%s/%s", test_scratch(), name);
}

/* Lists are beside the folder pictures/, which has a.jpg, b.jpg, c.png and "d e.jpg". */
static Status open_list(Dataset **out, const char *name, const char *text, const char *class_map)
{
    static const char *const pictures[] = { "a.jpg", "b.jpg", "c.png", "d e.jpg" };
    char path[NAME_BYTES], file[64];
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "pictures/%s", pictures[i]);
        tree_write(test_scratch(), file, "x", 1);
    }
    path_of(path, name);
    tree_write(test_scratch(), name, text, strlen(text));
    const DatasetOptions o = { .path = path, .class_map = class_map };
    *out = NULL;
    return dataset_open(out, &o);
}

/* want: "CLASS:PATH ..." of every sample in order; paths begin at pictures/. */
static void check_samples(Dataset *d, const char *want)
{
    char text[2 * NAME_BYTES] = "", name[NAME_BYTES];
    for (int64_t i = 0; d && i < dataset_images(d); i++) {
        dataset_describe_sample(d, i, name, sizeof name);
        const char *at = strstr(name, "pictures/");
        REQUIRE(at != NULL && fs_exists(name));
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d%s:%s", i ? " " : "",
                 dataset_label(d, i), dataset_class_name(d, dataset_label(d, i)), at + 9);
    }
    CHECK_STR(text, want);
}

static void check_list(const char *name, const char *text, const char *want)
{
    Dataset *d = NULL;
    CHECK_OK(open_list(&d, name, text, NULL));
    CHECK(d && strcmp(dataset_format_name(d), "list") == 0);
    check_samples(d, want);
    dataset_close(d);
}

TEST(lists_give_paths_and_classes)
{
    check_list("l.csv", "pictures/b.jpg,dog\npictures/a.jpg,dog\npictures/c.png,cat\n",
               "0cat:c.png 1dog:a.jpg 1dog:b.jpg");
    check_list("l.CSV", "pictures/a.jpg,x", "0x:a.jpg"); /* without the last line's end */
    check_list("l.tsv", "pictures/a.jpg\tbig dog\r\n\r\npictures/d e.jpg\ta, b\r\n",
               "0a, b:d e.jpg 1big dog:a.jpg");
    check_list("l.txt", "pictures/d e.jpg  dog\n\npictures/a.jpg\tcat \n",
               "0cat:a.jpg 1dog:d e.jpg");
    /* numbers are labels */
    check_list("l.lst", "pictures/a.jpg 10\npictures/b.jpg 2\n", "22:b.jpg 1010:a.jpg");
    check_list("l.csv", "pictures/a.jpg,10\npictures/b.jpg,2b\n", "010:a.jpg 12b:b.jpg");
    check_list("l.csv", "pictures/a.jpg,cat\t\npictures/b.jpg,\tcat\n", "0cat:a.jpg 0cat:b.jpg");
    /* equal rows are as many samples */
    check_list("l.csv", "pictures/a.jpg,x\npictures/a.jpg,x\n", "0x:a.jpg 0x:a.jpg");
}

TEST(headers_name_the_columns)
{
    check_list("l.csv", "\xEF\xBB\xBFid,Label,size,FileName\n1,dog,7,pictures/a.jpg\n",
               "0dog:a.jpg");
    check_list("l.csv", "class,image\n\"a \"\"b\"\", c\", pictures/a.jpg \nd\"e,pictures/b.jpg",
               "0a \"b\", c:a.jpg 1d\"e:b.jpg");
}

TEST(absolute_paths_are_taken)
{
    char text[2 * NAME_BYTES], here[NAME_BYTES];
    REQUIRE(getcwd(here, sizeof here) != NULL);
    snprintf(text, sizeof text, "%s/%s/pictures/a.jpg,x\n", here, test_scratch());
    check_list("l.csv", text, "0x:a.jpg");
}

TEST(lists_that_cannot_be_name_file_and_line)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        { "l.csv", "", "l.csv: contains no images" },
        { "l.csv", "path,class\n", "l.csv: contains no images" },
        { "l.csv", "id,breed\n1,dog\n", "l.csv:1: expected an image and its class, or a header" },
        { "l.csv", "pictures/a.jpg,x\n\npictures/b.jpg\n", "l.csv:3: 1 fields, expected 2" },
        { "l.csv", "pictures/a.jpg,\n", "l.csv:1: this row has no class" },
        { "l.txt", "pictures/a.jpg\n", "l.txt:1: this row has no class" },
        { "l.csv", "class,path\n\"x\ny\",pictures/a.jpg\nz,\"pictures\n",
          "l.csv:4: a quotation mark is not closed" },
        { "l.csv", "\"pictures/a.jpg\"x,y\n", "l.csv:1: text after a quoted field" },
        { "l.txt", "pictures/a.jpg 100000\n", "l.txt:1: class 100000 is too large for a label" },
        { "l.csv", "pictures/a.jpg,x\n../lists,y\n", "; 1 of 2 images are unusable" },
        { "l.csv", "pictures/a.jpg,x\npictures/e.jpg,y\npictures/f.jpg,y\n",
          "l.csv:2: pictures/e.jpg: No such file or directory; 2 of 3 images are unusable" },
        { "l.csv", "pictures/a.jpg,x\n././/pictures/a.jpg,y\n",
          "l.csv:2: pictures/a.jpg has class y here but x in line 1" },
        { "l.csv", "pictures/a.jpg,x\npictures/b.jpg,y\npictures/a.jpg,y\n",
          "l.csv:3: pictures/a.jpg has class y here but x in line 1" },
    };
    Dataset *d = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_STATUS(open_list(&d, rows[i].name, rows[i].text, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), rows[i].want);
    }
    CHECK_STATUS(dataset_open(&d, &(DatasetOptions){ .path = "no/such.csv" }), ERR_DATA);
    CHECK_CONTAINS(status_message(), "no/such.csv: cannot open: No such file");
}

TEST(ranks_take_the_list_over_and_miss_what_differs)
{
    static const char text[] = "pictures/b.jpg,dog\npictures/c.png,cat\n";
    Dataset *d = NULL, *received = NULL;
    char path[NAME_BYTES];
    size_t bytes = 0;
    REQUIRE_OK(open_list(&d, "l.csv", text, NULL));
    path_of(path, "l.csv");
    const DatasetOptions o = { .path = path };
    const void *index = dataset_index(d, &bytes);
    REQUIRE_OK(dataset_open_by_index(&received, &o, index, bytes));
    check_samples(received, "0cat:c.png 1dog:b.jpg");
    dataset_close(received);
    tree_write(test_scratch(), "l.csv", text, strlen(text) - 1);
    CHECK_STATUS(dataset_open_by_index(&received, &o, index, bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), "ranks see different images");
    remove(path);
    CHECK_STATUS(dataset_open_by_index(&received, &o, index, bytes), ERR_DATA);
    dataset_close(d);
}

/* What a list has several times stands on one side of a division. */
TEST(equal_rows_are_held_out_together)
{
    StrBuf text = { 0 };
    int64_t sides[2];
    for (int i = 0; i < 30; i++)
        str_printf(&text, "pictures/%s,x\n", (const char *[]){ "a.jpg", "b.jpg", "c.png" }[i % 3]);
    Dataset *d = NULL;
    REQUIRE_OK(open_list(&d, "l.csv", text.text, NULL));
    dataset_close(d);
    str_free(&text);
    char path[NAME_BYTES];
    path_of(path, "l.csv");
    for (int side = 0; side < 2; side++) {
        const DatasetOptions o = { .path = path, .role = (DataRole)side, .val_split = 0.5 };
        REQUIRE_OK(dataset_open(&d, &o));
        sides[side] = dataset_images(d);
        CHECK(sides[side] % 10 == 0);
        dataset_close(d);
    }
    CHECK_INT(sides[0] + sides[1], 30);
    CHECK(sides[1] > 0);
}

/* The kept index of a list follows its size and time. */
TEST(a_changed_list_is_read_again)
{
    char path[NAME_BYTES], kept[NAME_BYTES];
    Dataset *d = NULL;
    REQUIRE_OK(open_list(&d, "l.csv", "pictures/b.jpg,dog\n", NULL));
    dataset_close(d);
    path_of(path, "l.csv");
    path_of(kept, "kept.index");
    const DatasetOptions o = { .path = path, .index = kept };
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(dataset_open(&d, &o));
        check_samples(d, "0dog:b.jpg");
        dataset_close(d);
    }
    CHECK(fs_exists(kept));
    tree_write(test_scratch(), "l.csv", "pictures/a.jpg,cat\npictures/b.jpg,dog\n", 38);
    REQUIRE_OK(dataset_open(&d, &o));
    check_samples(d, "0cat:a.jpg 1dog:b.jpg");
    dataset_close(d);
}

/* ---- any number of labels ---- */

static Status open_multi(Dataset **out, const char *name, const char *text, const char *class_map,
                         const ClassList *like)
{
    char path[NAME_BYTES];
    Dataset *d = NULL;
    CHECK_OK(open_list(&d, "some.csv", "pictures/a.jpg,x\n", NULL)); /* writes the pictures */
    dataset_close(d);
    path_of(path, name);
    tree_write(test_scratch(), name, text, strlen(text));
    *out = NULL;
    return dataset_open(
        out, &(DatasetOptions){
                 .path = path, .labels = LABELS_MULTI, .class_map = class_map, .like = like });
}

/* "PATH:cat, dog ..." of every sample, behind them how many have each class. */
static void check_rows(Dataset *d, const char *want)
{
    char text[2 * NAME_BYTES] = "", name[NAME_BYTES], labels[64];
    for (int64_t i = 0; d && i < dataset_images(d); i++) {
        dataset_describe_sample(d, i, name, sizeof name);
        dataset_describe_labels(d, dataset_labels(d, i), labels, sizeof labels);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s:%s; ",
                 strstr(name, "pictures/") + 9, labels);
    }
    for (int c = 0; d && c < dataset_classes(d); c++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %lld,",
                 dataset_class_name(d, c), (long long)dataset_class_images(d, c));
    CHECK_STR(text, want);
    dataset_close(d);
}

static void check_multi(const char *name, const char *text, const char *want)
{
    Dataset *d = NULL;
    CHECK_OK(open_multi(&d, name, text, NULL, NULL));
    check_rows(d, want);
}

TEST(rows_have_any_number_of_labels)
{
    check_multi("m.csv", "pictures/b.jpg,dog | cat|\npictures/a.jpg,\npictures/c.png,cat\n",
                "a.jpg:no label; b.jpg:cat, dog; c.png:cat; cat 2,dog 1,");
    /* several columns, without a header any number of them */
    check_multi("m.csv", "pictures/a.jpg,x,y\npictures/b.jpg\npictures/c.png,z,x|w,\n",
                "a.jpg:x, y; b.jpg:no label; c.png:w, x, z; w 1,x 2,y 1,z 1,");
    check_multi("m.csv", "label1,image,id,label_2\nx,pictures/a.jpg,7,y\n,pictures/b.jpg,8,\n",
                "a.jpg:x, y; b.jpg:no label; x 1,y 1,");
    check_multi("m.tsv", "path\ttags\npictures/a.jpg\tbig dog|eel\n",
                "a.jpg:big dog, eel; big dog "
                "1,eel 1,");
    check_multi("m.txt", "pictures/a.jpg y|x\npictures/b.jpg\npictures/d e.jpg\npictures/c.png |\n",
                "a.jpg:x, y; b.jpg:no label; c.png:no label; d e.jpg:no label; x 1,y 1,");
    /* numbers are labels, and equal rows as many samples */
    check_multi("m.csv", "pictures/a.jpg,10|2\npictures/a.jpg,2|10\npictures/b.jpg,0\n",
                "a.jpg:2, 10; a.jpg:2, 10; b.jpg:0; "
                "0 1,1 0,2 2,3 0,4 0,5 0,6 0,7 0,8 0,9 0,10 2,");
}

TEST(a_column_for_each_class)
{
    check_multi("m.csv",
                "File,night,day\npictures/a.jpg,1,0\npictures/b.jpg,,\npictures/c.png,0.0,False\n"
                "pictures/d e.jpg,TRUE,1.0\n",
                "a.jpg:night; b.jpg:no label; c.png:no label; d e.jpg:day, night; day 1,night 2,");
    check_multi("m.csv", "path,x,never\npictures/a.jpg,1,0\n", "a.jpg:x; never 0,x 1,");
}

TEST(lists_of_several_labels_that_cannot_be_name_file_and_line)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        { "m.csv", "path,x,y\npictures/a.jpg,1,-1\n",
          "m.csv:2: column y: expected 0 or 1, found -1" },
        { "m.csv", "path,x,\npictures/a.jpg,1,0\n", "m.csv:1: column 3 has no name" },
        { "m.csv", "path,x,y,x\npictures/a.jpg,1,0,0\n",
          "m.csv:1: columns 2 and 4 are both named x" },
        { "m.csv", "path\npictures/a.jpg\n", "m.csv:1: expected an image and its class" },
        { "m.csv", "path,class\npictures/a.jpg,x,y\n", "m.csv:2: 3 fields, expected 2" },
        { "m.csv", "pictures/a.jpg,|\npictures/b.jpg\n", "m.csv: no image has a label" },
        { "m.csv", "pictures/a.jpg,x|y\npictures/b.jpg,x\npictures/a.jpg,y\n",
          "m.csv:3: pictures/a.jpg has other labels here than in line 1" },
        { "m.csv", "pictures/a.jpg,1|100000\n", "m.csv:1: class 100000 is too large for a label" },
    };
    /* read as lists of one label each */
    static const struct {
        const char *name, *text, *want;
    } single[] = {
        { "l.csv", "pictures/a.jpg,x\npictures/b.jpg,x|y\n",
          "l.csv:2: x|y: several labels per image require data.labels: multi" },
        { "l.txt", "pictures/a.jpg x|y\n", "l.txt:1: x|y: several labels per image require" },
        { "l.csv", "path,label1,label2\npictures/a.jpg,x,y\n",
          "l.csv:1: label2: several labels per image require data.labels: multi" },
        { "l.csv", "pictures/a.jpg,x,y\n",
          "l.csv:1: 3 fields, expected 2 (several labels per image require data.labels: multi)" },
        { "l.csv", "path,day,night\npictures/a.jpg,0,1\n",
          "columns path and class (a column per class requires data.labels: multi)" },
    };
    Dataset *d = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_STATUS(open_multi(&d, rows[i].name, rows[i].text, NULL, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), rows[i].want);
    }
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        CHECK_STATUS(open_list(&d, single[i].name, single[i].text, NULL), ERR_DATA);
        CHECK_CONTAINS(status_message(), single[i].want);
    }
    tree_write_idx(test_scratch(), "train", 4, 8, 2, 0);
    const DatasetOptions idx = { .path = test_scratch(), .labels = LABELS_MULTI };
    CHECK_STATUS(dataset_open(&d, &idx), ERR_USAGE);
    CHECK_CONTAINS(status_message(),
                   "data.labels: multi requires a list of images; this is format idx");
}

static const char tagged[] = "pictures/a.jpg,cat|dog\npictures/b.jpg,dog\npictures/c.png,eel|cat\n"
                             "pictures/d e.jpg,\n";

/* Labels follow a map, or another's classes; images stay. */
TEST(rows_follow_other_classes)
{
    char path[NAME_BYTES], text[64] = "eel\ncow\ncat\ndog";
    const char **lines = NULL;
    ClassList like;
    Dataset *d = NULL;
    path_of(path, "map.txt");
    tree_write(test_scratch(), "map.txt", "eel\nmammal\n", 11);
    CHECK_STATUS(open_multi(&d, "m.csv", tagged, path, NULL), ERR_DATA);
    tree_write(test_scratch(), "map.txt", "dog\tmammal\ncat\tmammal\n", 22);
    CHECK_OK(open_multi(&d, "m.csv", tagged, path, NULL));
    check_rows(d, "a.jpg:mammal; b.jpg:mammal; c.png:mammal; d e.jpg:no label; mammal 3,");
    REQUIRE_OK(class_list_parse(&like, &lines, text, true, "the run"));
    like.may_lack = true;
    CHECK_OK(open_multi(&d, "m.csv", tagged, NULL, &like));
    check_rows(d, "a.jpg:cat, dog; b.jpg:dog; c.png:eel, cat; d e.jpg:no label; "
                  "eel 1,cow 0,cat 2,dog 2,");
    mem_free(lines);
}

TEST(ranks_and_sides_have_the_rows_of_the_whole)
{
    char path[NAME_BYTES];
    Dataset *d = NULL, *received = NULL;
    size_t bytes = 0;
    CHECK_OK(open_multi(&d, "m.csv", tagged, NULL, NULL));
    path_of(path, "m.csv");
    DatasetOptions o = { .path = path, .labels = LABELS_MULTI };
    const void *index = dataset_index(d, &bytes);
    REQUIRE_OK(dataset_open_by_index(&received, &o, index, bytes));
    dataset_close(d);
    check_rows(received, "a.jpg:cat, dog; b.jpg:dog; c.png:cat, eel; d e.jpg:no label; "
                         "cat 2,dog 2,eel 1,");
    int64_t images = 0, cats = 0;
    for (int side = 0; side < 2; side++) {
        o.role = (DataRole)side;
        o.val_split = 0.5;
        REQUIRE_OK(dataset_open(&d, &o));
        CHECK_INT(dataset_images(d), 2);
        images += dataset_images(d);
        cats += dataset_class_images(d, 0);
        dataset_close(d);
    }
    CHECK(images == 4 && cats == 2);
}

/* The kept index knows how the list was read. */
TEST(an_index_of_single_labels_is_not_one_of_several)
{
    char path[NAME_BYTES], kept[NAME_BYTES];
    Dataset *d = NULL;
    REQUIRE_OK(open_list(&d, "l.csv", "pictures/b.jpg,dog\n", NULL));
    dataset_close(d);
    path_of(path, "l.csv");
    path_of(kept, "kept.index");
    for (int i = 0; i < 4; i++) {
        const LabelKind labels = i % 2 ? LABELS_MULTI : LABELS_SINGLE;
        REQUIRE_OK(
            dataset_open(&d, &(DatasetOptions){ .path = path, .index = kept, .labels = labels }));
        CHECK_INT(dataset_labels(d, 0) != NULL, labels);
        dataset_close(d);
    }
}

/* ---- class_map ---- */

static const char animals[] = "pictures/a.jpg,cat\npictures/b.jpg,dog\npictures/c.png,eel\n"
                              "pictures/d e.jpg,cat\n";

static Status open_mapped(Dataset **out, const char *name, const char *map, bool allow_empty)
{
    char path[NAME_BYTES], list[NAME_BYTES];
    Dataset *d = NULL;
    CHECK_OK(open_list(&d, "l.csv", animals, NULL));
    dataset_close(d);
    path_of(list, "l.csv");
    path_of(path, name);
    tree_write(test_scratch(), name, map, strlen(map));
    *out = NULL;
    return dataset_open(
        out, &(DatasetOptions){ .path = list, .class_map = path, .allow_empty = allow_empty });
}

static void check_map(const char *name, const char *map, bool allow_empty, const char *want,
                      int classes)
{
    Dataset *d = NULL;
    REQUIRE_OK(open_mapped(&d, name, map, allow_empty));
    check_samples(d, want);
    CHECK_INT(dataset_classes(d), classes);
    dataset_close(d);
}

TEST(a_map_orders_joins_and_leaves_out_classes)
{
    check_map("m.txt", "dog\ncat\n", false, "0dog:b.jpg 1cat:a.jpg 1cat:d e.jpg", 2);
    check_map("m.txt", "eel\tno mammal\ndog\tmammal\ncat\tmammal\n", false,
              "0no mammal:c.png 1mammal:a.jpg 1mammal:d e.jpg 1mammal:b.jpg", 2);
    check_map("m.csv", "eel,\"x, y\"\r\n", false, "0x, y:c.png", 1);
    check_map("m.txt", "cow\ndog\n", true, "1dog:b.jpg", 2);
}

TEST(maps_that_cannot_be_name_file_and_line)
{
    static const struct {
        const char *map, *want;
    } rows[] = {
        { "", "m.txt: contains no classes" },
        { "dog\ncatt\n", "has no class catt (did you mean cat?)" },
        { "dog\nhippopotamus\n", "m.txt:2: " },
        { "dog\ndog\tcat\n", "m.txt:2: class dog appears twice" },
        { "dog\t\n", "m.txt:1: expected a class and, optionally, its new name" },
        { "dog\ta\tb\n", "m.txt:1: expected a class and, optionally, its new name" },
    };
    Dataset *d = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_STATUS(open_mapped(&d, "m.txt", rows[i].map, false), ERR_DATA);
        CHECK_CONTAINS(status_message(), rows[i].want);
        CHECK_CONTAINS(status_message(), "data.class_map: ");
    }
    CHECK_STATUS(open_mapped(&d, "m.txt", "cow\n", true), ERR_DATA);
    CHECK_CONTAINS(status_message(), "belongs to these classes");
    tree_write_idx(test_scratch(), "train", 4, 8, 2, 0);
    const DatasetOptions idx = { .path = test_scratch(), .format = DATA_IDX, .class_map = "m.txt" };
    CHECK_STATUS(dataset_open(&d, &idx), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "data.class_map does not support format idx");
}

/* ---- labels of another's classes ---- */

/* Numbers that a list has in place of names of folders are those folders from then on. */
TEST(numbers_keep_the_names_that_were_learnt)
{
    char text[] = "0\n1", path[NAME_BYTES];
    const char **lines = NULL;
    ClassList like;
    Dataset *d = NULL;
    CHECK_OK(open_list(&d, "l.csv", animals, NULL)); /* which writes the pictures */
    dataset_close(d);
    CHECK_OK(open_list(&d, "n.csv", "pictures/a.jpg,0\npictures/b.jpg,1\n", NULL));
    CHECK(!dataset_named_classes(d));
    dataset_close(d);
    REQUIRE_OK(class_list_parse(&like, &lines, text, true, "the run"));
    path_of(path, "n.csv");
    REQUIRE_OK(dataset_open(&d, &(DatasetOptions){ .path = path, .like = &like }));
    CHECK(dataset_named_classes(d));
    check_samples(d, "00:a.jpg 11:b.jpg");
    dataset_close(d);
    mem_free(lines);
}

/* Of the list with animals, or of folders 1 and 2. */
static Status open_named(Dataset **out, bool folders, const char *names)
{
    char path[NAME_BYTES];
    CHECK_OK(open_list(out, "l.csv", animals, NULL));
    dataset_close(*out);
    tree_write(test_scratch(), "folders/pictures/1/a.jpg", "x", 1);
    tree_write(test_scratch(), "folders/pictures/2/b.jpg", "x", 1);
    path_of(path, folders ? "folders/pictures" : "l.csv");
    *out = NULL;
    char text[64];
    const char **lines = NULL;
    ClassList like;
    snprintf(text, sizeof text, "%s", names);
    CHECK_OK(class_list_parse(&like, &lines, text, false, "the run"));
    like.may_lack = true;
    const Status status = dataset_open(out, &(DatasetOptions){ .path = path, .like = &like });
    mem_free(lines);
    return status;
}

TEST(labels_follow_the_names_of_what_was_learnt)
{
    static const char as_it_is[] = "0cat:a.jpg 0cat:d e.jpg 1dog:b.jpg 2eel:c.png";
    static const struct {
        bool folders;
        const char *names, *want;
    } rows[] = {
        { false, "cat\ndog\neel", as_it_is },
        { false, "eel\ncow\ncat\ndog", "0eel:c.png 2cat:a.jpg 2cat:d e.jpg 3dog:b.jpg" },
        { false, "0\n1\n2", as_it_is }, /* numbers say nothing of words */
        { true, "0\n1\n2", "11:1/a.jpg 22:2/b.jpg" },
        { true, "2\n01", "02:2/b.jpg 101:1/a.jpg" },
        { true, "1\n2", "01:1/a.jpg 12:2/b.jpg" },
    };
    Dataset *d = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        REQUIRE_OK(open_named(&d, rows[i].folders, rows[i].names));
        check_samples(d, rows[i].want);
        dataset_close(d);
    }
    CHECK_STATUS(open_named(&d, false, "cat\ndog"), ERR_DATA);
    CHECK_CONTAINS(status_message(), "class eel is not in the run");
    CHECK_STATUS(open_named(&d, true, "0\n1"), ERR_DATA);
    CHECK_CONTAINS(status_message(), "class 2 is not in the run: both number");
}

/* Opens a list of a picture a label, and returns how its classes were told of. */
static const char *told_of(const int *labels, int count, bool allow_empty)
{
    static char text[4096];
    char log[NAME_BYTES], list[NAME_BYTES];
    StrBuf rows = { 0 };
    uint8_t *said = NULL;
    size_t bytes = 0;
    Dataset *d = NULL;
    path_of(log, "log.txt");
    path_of(list, "n.csv");
    for (int i = 0; i < count; i++) {
        str_printf(&rows, "%d.jpg,%d\n", i, labels[i]);
        snprintf(text, sizeof text, "%d.jpg", i);
        tree_write(test_scratch(), text, "x", 1);
    }
    tree_write(test_scratch(), "n.csv", rows.text, rows.length);
    str_free(&rows);
    remove(log);
    CHECK_OK(log_open(log, 0, LOG_WARNING));
    CHECK_OK(dataset_open(&d, &(DatasetOptions){ .path = list, .allow_empty = allow_empty }));
    log_close();
    dataset_close(d);
    CHECK_OK(fs_read_file(log, &said, &bytes));
    snprintf(text, sizeof text, "%s", said ? (const char *)said : "");
    mem_free(said);
    return text;
}

TEST(numbers_that_no_image_has_are_told)
{
    CHECK_CONTAINS(told_of((int[]){ 1, 2, 3 }, 3, false),
                   "n.csv: no image of class 0, though its labels imply 4 classes: do labels start "
                   "at 1?\n");
    CHECK_CONTAINS(told_of((int[]){ 0, 3, 5 }, 3, false),
                   "no image of classes 1, 2, 4, though its labels imply 6 classes\n");
    CHECK_CONTAINS(told_of((int[]){ 0, 30 }, 2, false),
                   "1, 2, 3, 4, 5, 6, 7, 8 and 21 more, though");
    CHECK_STR(told_of((int[]){ 1, 2, 3 }, 3, true), "");
    CHECK_STR(told_of((int[]){ 0, 1 }, 2, false), "");
}

TEST(labels_that_cannot_be_changed_are_right_or_refused)
{
    static const struct {
        const char *names, *want;
    } rows[] = {
        { "0\n1\n10\n2\n3\n4\n5\n6\n7\n8\n9", "class 2 has label 2 here and 3 in the run, and" },
        { "00\n01\n02\n03", NULL },
        { "1\n2\n3", "class 0 is not in the run: both number" },
        { "a\nb\nc", NULL },
    };
    tree_write_idx(test_scratch(), "train", 6, 8, 3, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        const char **lines = NULL;
        ClassList like;
        Dataset *d = NULL;
        snprintf(text, sizeof text, "%s", rows[i].names);
        REQUIRE_OK(class_list_parse(&like, &lines, text, false, "the run"));
        const DatasetOptions o = { .path = test_scratch(), .like = &like };
        CHECK_STATUS(dataset_open(&d, &o), rows[i].want ? ERR_DATA : OK);
        if (rows[i].want) CHECK_CONTAINS(status_message(), rows[i].want);
        dataset_close(d);
        mem_free(lines);
    }
}
