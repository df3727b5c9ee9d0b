/* test_val_split.c - data.val_split: which samples of a folder are held out; and data.dir. */
#include "base/fs.h"
#include "base/str.h"
#include "data/load/dataset.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "trainer/engine/config/config.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 1024, SAMPLES = 64 };

static void write_sample(const char *class, int number)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%03d.jpg", class, number);
    tree_write(test_scratch(), path, "x", 1);
}

/* Classes of 1, 2, 10 and 41 samples. */
static void write_tree(void)
{
    static const struct {
        const char *name;
        int samples;
    } classes[] = { { "one", 1 }, { "pair", 2 }, { "ten", 10 }, { "wide", 41 } };
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < classes[c].samples; i++) write_sample(classes[c].name, i);
}

static Status open_side(Dataset **out, DataRole role, double split, uint64_t seed)
{
    const DatasetOptions o = { .path = test_scratch(),
                               .format = DATA_AUTO,
                               .role = role,
                               .val_split = split,
                               .val_split_seed = seed };
    return dataset_open(out, &o);
}

/* The names of a side, in its order; the count. */
static int64_t names_of(char names[SAMPLES][NAME_BYTES], DataRole role, double split, uint64_t seed)
{
    Dataset *d = NULL;
    CHECK_OK(open_side(&d, role, split, seed));
    if (!d) return 0;
    const int64_t images = dataset_images(d);
    CHECK_INT(dataset_classes(d), 4); /* labels stay, also of classes without a sample here */
    for (int64_t i = 0; i < images; i++) {
        char *name = names[i];
        dataset_describe_sample(d, i, name, NAME_BYTES);
        char folder[64];
        snprintf(folder, sizeof folder, "/%s/", dataset_class_name(d, dataset_label(d, i)));
        CHECK(strstr(name, folder) != NULL);
    }
    dataset_close(d);
    return images;
}

static int common(char a[SAMPLES][NAME_BYTES], int64_t a_count, char b[SAMPLES][NAME_BYTES],
                  int64_t b_count)
{
    int same = 0;
    for (int64_t i = 0; i < a_count; i++)
        for (int64_t j = 0; j < b_count; j++) same += strcmp(a[i], b[j]) == 0;
    return same;
}

static char train[SAMPLES][NAME_BYTES], val[SAMPLES][NAME_BYTES], other[SAMPLES][NAME_BYTES];

TEST(each_class_gives_its_share)
{
    write_tree();
    Dataset *d = NULL;
    REQUIRE_OK(open_side(&d, DATA_VAL, 0.2, 0));
    const int64_t want[] = { 0, 1, 2, 8 }; /* of 1, 2, 10, 41 */
    for (int c = 0; c < 4; c++) CHECK_INT(dataset_class_images(d, c), want[c]);
    dataset_close(d);
    const int64_t trained = names_of(train, DATA_TRAIN, 0.2, 0),
                  held = names_of(val, DATA_VAL, 0.2, 0);
    CHECK_INT(trained, 54 - 11);
    CHECK_INT(held, 11);
    CHECK_INT(common(train, trained, val, held), 0);
    /* never all of a class */
    CHECK_INT(names_of(other, DATA_TRAIN, 0.99, 0), 4);
}

TEST(the_seed_and_names_alone_decide)
{
    write_tree();
    const int64_t held = names_of(val, DATA_VAL, 0.2, 0);
    CHECK_INT(common(val, held, other, names_of(other, DATA_VAL, 0.2, 0)), held);
    CHECK(common(val, held, other, names_of(other, DATA_VAL, 0.2, 1)) < held);
    /* a larger share holds out the same ones and more */
    CHECK_INT(common(val, held, other, names_of(other, DATA_VAL, 0.5, 0)), held);
    /* new files move at most so many as come to be held out */
    for (int i = 41; i < 45; i++) write_sample("wide", i);
    CHECK(common(val, held, other, names_of(other, DATA_VAL, 0.2, 0)) >= held - 2);
}

/* Base names of the held out side of what lies at path, one behind the other. */
static void held_out(char out[4096], const char *path)
{
    char name[NAME_BYTES];
    Dataset *d = NULL;
    out[0] = '\0';
    REQUIRE_OK(
        dataset_open(&d, &(DatasetOptions){ .path = path, .role = DATA_VAL, .val_split = 0.2 }));
    for (int64_t i = 0; i < dataset_images(d); i++) {
        dataset_describe_sample(d, i, name, sizeof name);
        snprintf(out + strlen(out), 4096 - strlen(out), " %s:%s",
                 dataset_class_name(d, dataset_label(d, i)), strrchr(name, '/') + 1);
    }
    dataset_close(d);
}

TEST(a_list_of_a_folder_holds_out_the_same)
{
    static const char *const before[] = { "", "./", NULL };
    char folder[4096], list[4096], path[2 * NAME_BYTES + 32], above[NAME_BYTES], root[PATH_MAX];
    write_tree();
    held_out(folder, test_scratch());
    CHECK(strlen(folder) > 100);
    REQUIRE(realpath(test_scratch(), root) != NULL);
    for (int where = 0; where < 4; where++) { /* beside it, and above it; absolute names */
        StrBuf rows = { 0 };
        snprintf(above, sizeof above, "%s", test_scratch());
        char *slash = strrchr(above, '/');
        const char *prefix = where < 2 ? before[where] : where == 2 ? root : slash + 1;
        for (int i = 0; i < 54; i++) {
            const char *class = i < 1 ? "one" : i < 3 ? "pair" : i < 13 ? "ten" : "wide";
            const int number = i < 1 ? i : i < 3 ? i - 1 : i < 13 ? i - 3 : i - 13;
            str_printf(&rows, "%s%s%s/%03d.jpg,%s\n", prefix, where < 2 ? "" : "/", class, number,
                       class);
        }
        *slash = '\0';
        snprintf(path, sizeof path, "%s/list-of-%s.csv", where == 3 ? above : test_scratch(),
                 slash + 1);
        CHECK_OK(fs_write_atomic(path, rows.text, rows.length));
        held_out(list, path);
        CHECK_STR(list, folder);
        remove(path);
        str_free(&rows);
    }
}

TEST(ranks_that_get_the_index_have_the_same_side)
{
    write_tree();
    Dataset *d = NULL, *received = NULL;
    size_t bytes = 0;
    REQUIRE_OK(open_side(&d, DATA_VAL, 0.2, 5));
    const void *index = dataset_index(d, &bytes);
    const DatasetOptions o = { .path = test_scratch(),
                               .format = DATA_AUTO,
                               .role = DATA_VAL,
                               .val_split = 0.2,
                               .val_split_seed = 5 };
    REQUIRE_OK(dataset_open_by_index(&received, &o, index, bytes));
    REQUIRE(dataset_images(received) == dataset_images(d));
    for (int64_t i = 0; i < dataset_images(d); i++) {
        dataset_describe_sample(d, i, val[0], NAME_BYTES);
        dataset_describe_sample(received, i, other[0], NAME_BYTES);
        CHECK_STR(other[0], val[0]);
        CHECK_INT(dataset_label(received, i), dataset_label(d, i));
    }
    dataset_close(received);
    dataset_close(d);
}

TEST(what_cannot_be_divided_is_refused)
{
    Dataset *d = NULL;
    write_sample("a", 0);
    write_sample("b", 0);
    CHECK_STATUS(open_side(&d, DATA_VAL, 0.5, 0), ERR_DATA);
    CHECK_CONTAINS(status_message(), "no class has two images");
    const DatasetOptions o = { .path = test_scratch(), .format = DATA_IDX, .val_split = 0.5 };
    CHECK_STATUS(dataset_open(&d, &o), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "format idx does not support data.val_split");
}

/* ---- the keys ---- */

/* Loads text as a file with --set a and b (NULL: none); want: the two folders, or part of the
 * sentence that refuses. */
static void check_sets(const char *text, const char *a, const char *b, const char *want_train,
                       const char *want_val)
{
    char path[512];
    Config *c = NULL;
    const char *const sets[] = { a, b };
    snprintf(path, sizeof path, "%s.yaml", test_scratch());
    CHECK_OK(fs_write_atomic(path, text, strlen(text)));
    Status status = config_load(&c, path, sets, a ? b ? 2 : 1 : 0);
    CHECK_STATUS(status, want_val ? OK : ERR_USAGE);
    if (status != OK) CHECK_CONTAINS(status_message(), want_train);
    if (status == OK) {
        CHECK_STR(c->data.train, want_train);
        CHECK_STR(c->data.val, want_val);
        CHECK_STR(c->data.dir, "");
    }
    config_destroy(c);
    remove(path);
}

TEST(dir_stands_for_two_folders)
{
    check_sets("data: {dir: d}\n", NULL, NULL, "d/train", "d/val");
    check_sets("data: {dir: d, val_split: 0.1}\n", NULL, NULL, "d", "");
    check_sets("data: {dir: d}\n", "data.train=t", NULL, "t", "d/val");
    check_sets("data: {dir: d}\n", "data.val=", NULL, "d/train", "");
    check_sets("data: {train: t, val: v}\n", "data.dir=d", NULL, "d/train", "d/val");
    check_sets("data: {dir: d, val: v}\n", NULL, NULL, "data.dir sets data.train and", NULL);
    check_sets("train: {seed: 1}\n", "data.dir=d", "data.train=t", "command line: data.dir sets",
               NULL);
    check_sets("data: {train: t, val: v}\n", "data.val_split=0.1", NULL,
               "cannot be combined with data.val", NULL);
    check_sets("data: {train: t, val_split: 0.1}\n", "data.val=v", NULL, "t", "v");
}
