/* Which tar and TFRecord files of a folder are training's and which validation's, and what their
 * records and the files beside them call the classes. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/load/apart.h"
#include "data/load/dataset_internal.h"
#include "data/source/packed_files.h"
#include "tests/test.h"
#include "tests/tools/container_write.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/dataset_check.h"
#include "trainer/engine/config/config.h"
#include <stdio.h>
#include <string.h>

#define NAMES 8

static bool is_tar(const char *name)
{
    return str_ends_with_nocase(name, ".tar");
}

/* A tar with two images, the first called as it is. */
static void write_tar(const char *folder, const char *name)
{
    StrBuf tar = { 0 };
    char member[200];
    snprintf(member, sizeof member, "c/%s.jpg", name);
    tar_add(&tar, member, "x", 1, TAR_PAX);
    tar_add(&tar, "d/0.jpg", "x", 1, TAR_PAX);
    tar_end(&tar);
    tree_write(folder, name, tar.text, tar.length);
    str_free(&tar);
}

/* wanted: as many digits as there are names, 1 training, 2 validation, 0 left out. */
typedef struct Roles {
    const char *names[NAMES];
    const char *wanted;
} Roles;

static void check_roles(const Roles *r, const char *folder)
{
    for (int role = DATA_TRAIN; role <= DATA_VAL; role++) {
        PackedFiles f;
        int64_t at = 0;
        REQUIRE_OK(packed_files_list(&f, folder, (DataRole)role, is_tar));
        for (int i = 0; r->names[i]; i++) {
            if (r->wanted[i] != (role == DATA_TRAIN ? '1' : '2') && r->wanted[i] != '*') continue;
            CHECK(at < f.count);
            if (at < f.count) CHECK_STR(f.names[at], r->names[i]);
            at++;
        }
        CHECK_INT(f.count, at);
        packed_files_free(&f);
    }
}

TEST(whole_words_of_file_names_tell_sets_apart)
{
    static const Roles cases[] = {
        /* names sorted */
        { { "cifar10-test.tar", "cifar10-train.tar" }, "21" },
        { { "retrieval-train-0.tar", "retrieval-train-1.tar", "retrieval-val-0.tar" }, "112" },
        { { "evaluate-train-0.tar", "evaluate-valid-0.tar" }, "12" },
        { { "val-of-a-train-0.tar", "val-of-a-val-0.tar" }, "12" },
        { { "test-train.tar", "test-validation.tar" }, "12" },
        { { "imagenet1k-test-0.tar", "imagenet1k-train-0.tar", "imagenet1k-validation-0.tar" },
          "012" },
        { { "svhn-extra.tar", "svhn-test.tar", "svhn-train.tar" }, "021" },
        { { "TRAIN0.tar", "Val0.tar" }, "12" },
        { { "mySetTest1.tar", "mySetTraining1.tar" }, "21" },
        { { "set_dev.tar", "set_training.tar" }, "21" },
        { { "train-0.tar", "trainval-0.tar", "val-0.tar" }, "102" },
        { { "train.of.val.tar", "val.of.val.tar" }, "12" },
        /* no or one set: all are whoever's asks */
        { { "a.tar", "b.tar" }, "**" },
        { { "intrain-0.tar", "valley-0.tar" }, "**" },
        { { "train-0.tar", "train-1.tar" }, "**" },
        { { "train-0.tar", "train-extra-0.tar" }, "**" },
        { { "a-test-0.tar" }, "*" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu", i);
        for (int n = 0; cases[i].names[n]; n++) write_tar(scratch_path(1, name), cases[i].names[n]);
        check_roles(&cases[i], scratch_paths[1]);
    }
}

static Status open_as_role(const char *path, DataRole role, Dataset **out)
{
    const DatasetOptions o = { .path = path, .role = role, .index = test_scratch() };
    return dataset_open(out, &o);
}

TEST(sets_that_names_leave_open_are_refused)
{
    static const char *const names[2][3] = { { "a-0.tar", "b-test.tar", NULL },
                                             { "test.tar", "val.tar", NULL } };
    static const char *const wants[2] = {
        "/0: b-test.tar names its set, a-0.tar does not; name the set",
        "/1: no file name says that a file is for training; first val.tar"
    };
    for (int i = 0; i < 2; i++) {
        Dataset *d = NULL;
        char folder[2] = { (char)('0' + i), '\0' };
        for (int n = 0; names[i][n]; n++) write_tar(scratch_path(1, folder), names[i][n]);
        CHECK_STATUS(open_as_role(scratch_paths[1], DATA_TRAIN, &d), ERR_DATA);
        CHECK_CONTAINS(status_message(), wants[i]);
    }
}

TEST(what_is_of_neither_set_is_told)
{
    static const char *const names[] = { "s-train.tar", "s-val.tar", "s-test.tar", "s-extra.tar" };
    Dataset *d = NULL;
    for (int i = 0; i < 4; i++) write_tar(scratch_path(1, "s"), names[i]);
    DatasetOptions o = { .path = scratch_paths[1], .role = DATA_VAL };
    CHECK_CONTAINS(dataset_open_says(&d, &o), "/s: files left out because their names say neither "
                                              "training nor validation: 2, first s-extra.tar");
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), 2);
    dataset_close(d);
}

/* An index is made for the files that were there. */
TEST(a_file_that_comes_later_is_read)
{
    Dataset *d = NULL;
    write_tar(scratch_path(1, "s"), "a.tar");
    for (int files = 1; files <= 3; files++) {
        if (files == 2) write_tar(scratch_paths[1], "b.tar");
        if (files == 3) tree_write(scratch_paths[1], "classes.txt", "c\nd\n", 4);
        REQUIRE_OK(open_as_role(scratch_paths[1], DATA_TRAIN, &d));
        CHECK_INT(dataset_images(d), files > 1 ? 4 : 2);
        dataset_close(d);
    }
    write_tar(scratch_path(2, "t"), "s-train.tar");
    REQUIRE_OK(open_as_role(scratch_paths[2], DATA_VAL, &d));
    CHECK_CONTAINS(index_path(dataset_source(d)->index, 0), "s-train");
    dataset_close(d);
    write_tar(scratch_paths[2], "s-val.tar");
    REQUIRE_OK(open_as_role(scratch_paths[2], DATA_VAL, &d));
    CHECK_CONTAINS(index_path(dataset_source(d)->index, 0), "s-val");
    dataset_close(d);
}

/* Opens the two and compares; *want NULL: they are apart. */
static void check_apart(const char *train, const char *val, const char *want)
{
    Dataset *a = NULL, *b = NULL;
    REQUIRE_OK(open_as_role(train, DATA_TRAIN, &a));
    REQUIRE_OK(open_as_role(val, DATA_VAL, &b));
    const char *shared = apart_shared_file(a, b);
    CHECK_STR(shared ? shared : "none", want ? want : "none");
    dataset_close(a);
    dataset_close(b);
}

TEST(training_and_validation_share_no_file)
{
    write_tar(scratch_path(1, "s"), "a.tar");
    write_tar(scratch_paths[1], "b.tar");
    write_tar(scratch_path(2, "r"), "s-train.tar");
    write_tar(scratch_paths[2], "s-val.tar");
    check_apart(scratch_paths[1], scratch_paths[1], "a.tar");
    check_apart(scratch_paths[1], scratch_path(3, "s/b.tar"), "b.tar");
    check_apart(scratch_paths[3], scratch_paths[1], "b.tar");
    check_apart(scratch_paths[3], scratch_path(0, "s/a.tar"), NULL);
    check_apart(scratch_paths[3], scratch_paths[3], NULL); /* named twice, so meant */
    check_apart(scratch_paths[2], scratch_paths[2], NULL);
    check_apart(scratch_paths[1], scratch_paths[2], NULL);
}

TEST(data_dir_takes_files_that_name_their_sets)
{
    char set[1000], want[1000];
    static const char *const names[] = { "files", "folders", "flat", "classes" };
    for (int i = 0; i < 4; i++) {
        Config *c = NULL;
        const char *dir = scratch_path(1, names[i]);
        if (i == 0) write_tar(dir, "s-train.tar");
        if (i == 1) tree_write(dir, "train/a/0.jpg", "x", 1);
        if (i == 2) tree_write(dir, "0.jpg", "x", 1);
        if (i == 3) tree_write(dir, "a/0.jpg", "x", 1);
        snprintf(set, sizeof set, "data.dir=%s", dir);
        const char *const sets[] = { set };
        REQUIRE_OK(config_load(&c, NULL, sets, 1));
        CHECK_STR(c->data.dir, "");
        snprintf(want, sizeof want, "%s%s", dir, i == 0 ? "" : "/train");
        CHECK_STR(c->data.train, want);
        snprintf(want, sizeof want, "%s%s", dir, i == 0 ? "" : "/val");
        CHECK_STR(c->data.val, want);
        config_destroy(c);
    }
}

TEST(sets_under_other_names_are_told)
{
    static const struct {
        const char *train, *val, *missing;
    } cases[] = { { "train", "test", "val" },
                  { "train", "valid", "val" },
                  { "Train", "Val", "train" },
                  { "training", "val", "train" } };
    char set[1000], want[2200], name[32];
    for (int i = 0; i < 4; i++) {
        Config *c = NULL;
        snprintf(name, sizeof name, "d%d", i);
        const char *dir = scratch_path(1, name);
        snprintf(name, sizeof name, "%s/a/0.jpg", cases[i].train);
        tree_write(dir, name, "x", 1);
        tree_write(dir, "test/a/0.jpg", "x", 1); /* not where there is a validation set */
        snprintf(name, sizeof name, "%s/a/0.jpg", cases[i].val);
        tree_write(dir, name, "x", 1);
        snprintf(set, sizeof set, "data.dir=%s", dir);
        const char *const sets[] = { set };
        snprintf(want, sizeof want,
                 "data.dir: %s/%s does not exist; use --set "
                 "'data.train=%s/%s' --set 'data.val=%s/%s'",
                 dir, cases[i].missing, dir, cases[i].train, dir, cases[i].val);
        CHECK_STATUS(config_load(&c, NULL, sets, 1), ERR_USAGE);
        CHECK_CONTAINS(status_message(), want);
    }
}

/* The line says which set is wrong, and does not take sets for classes. */
TEST(a_set_whose_classes_are_others_is_named)
{
    static const char *const names[] = { "0", "1" };
    const ClassList like = { .names = names, .count = 2, .named = true, .owner = "data.train" };
    const char *tree = scratch_path(0, "tree"), *shards = scratch_path(1, "shards");
    Dataset *d = NULL;
    tree_write_shape(tree, "0/0.jpg", 0, 0, 8);
    tree_write_shape(tree, "11/0.jpg", 1, 0, 8);
    REQUIRE((d = dataset_open_as(tree, DATA_AUTO)) != NULL);
    PackReport report;
    dataset_pack(d, shards, &report);
    dataset_close(d);
    for (int i = 0; i < 2; i++) {
        DatasetOptions o = { .path = scratch_paths[i], .role = DATA_VAL, .like = &like };
        CHECK_STATUS(dataset_open(&d, &o), ERR_DATA);
        CHECK_CONTAINS(status_message(), i == 0 ? "/tree: class 11 is not in data.train"
                                                : "/shards: class 11 is not in data.train");
    }
    tree_write(scratch_path(2, "sets"), "train/a/0.jpg", "x", 1);
    tree_write(scratch_paths[2], "test/a/0.jpg", "x", 1);
    DatasetOptions o = { .path = scratch_paths[2], .role = DATA_VAL, .like = &like };
    CHECK_STATUS(dataset_open(&d, &o), ERR_DATA);
    CHECK_CONTAINS(status_message(), "/sets: its folders are sets, not classes; name each");
}

/* ---- names in records, and beside them ---- */

typedef struct Record {
    int64_t label;
    const char *synset, *text, *label_key; /* NULL: image/class/label */
} Record;

static void write_records(const char *name, const Record *r, int count)
{
    StrBuf records = { 0 };
    for (int i = 0; i < count; i++) {
        StrBuf features = { 0 }, example = { 0 };
        char file[20];
        snprintf(file, sizeof file, "%d.jpg", i);
        if (r[i].text)
            tfexample_add_bytes(&features, "image/class/text", r[i].text, strlen(r[i].text));
        tfexample_add_bytes(&features, "image/encoded", "picture", 7);
        tfexample_add_bytes(&features, "image/filename", file, strlen(file));
        tfexample_add_int(&features, r[i].label_key ? r[i].label_key : "image/class/label",
                          r[i].label, i % 2);
        if (r[i].synset)
            tfexample_add_bytes(&features, "image/class/synset", r[i].synset, strlen(r[i].synset));
        tfexample_wrap(&example, &features);
        tfrecord_add(&records, example.text, example.length);
        str_free(&features);
        str_free(&example);
    }
    tree_write(scratch_paths[1], name, records.text, records.length);
    str_free(&records);
}

static int count_records(const Record *r)
{
    int count = 0;
    while (count < 3 && (r[count].synset || r[count].text || r[count].label_key)) count++;
    return count;
}

typedef struct Named {
    Record records[2][3];         /* of two files; the second may have fewer */
    const char *classes, *labels; /* what is in classes.txt, label.labels.txt; NULL: not there */
    const char *names;            /* of classes wanted, with images of each; or an error */
    bool fails, unnamed;
} Named;

static void list_classes(const Dataset *d, StrBuf *out)
{
    for (int c = 0; c < dataset_classes(d); c++)
        str_printf(out, "%s%s:%lld", c ? " " : "", dataset_class_name(d, c),
                   (long long)dataset_class_images(d, c));
}

TEST(classes_of_records_have_the_names_that_are_there)
{
    static const Named cases[] = {
        /* as tensorflow/models counts: from 1, no synset */
        { { { { 1, NULL, "ant", NULL }, { 3, NULL, "cat", NULL }, { 1, NULL, "ant", NULL } },
            { { 2, NULL, "bee", NULL }, { 3, NULL, "cat", NULL }, { 3, NULL, "cat", NULL } } },
          .names = "ant:2 bee:1 cat:3" },
        /* in the order of the labels */
        { { { { 0, NULL, "bee", NULL }, { 1, NULL, "ant", NULL }, { 1, "", "ant", NULL } },
            { { 0, NULL, "bee", NULL }, { 0, NULL, "bee", NULL }, { 0, NULL, "bee", NULL } } },
          .names = "bee:4 ant:2" },
        /* a synset goes before, whatever the texts */
        { { { { 1, "n1", "ant", NULL }, { 3, "n3", "cat", NULL }, { 1, "n1", "another", NULL } },
            { { 3, "n3", "cat", NULL }, { 3, "n3", "ant", NULL }, { 3, "n3", "cat", NULL } } },
          .names = "n1:2 n3:4" },
        { { { { 1, NULL, "ant", NULL }, { 2, NULL, "bee", NULL }, { 2, NULL, "ant", NULL } },
            { { 0 } } },
          .names = "label 2 belongs to both bee and ant",
          .fails = true },
        { { { { 1, NULL, "ant", NULL }, { 2, NULL, "bee", NULL }, { 3, NULL, "ant", NULL } },
            { { 1, NULL, "ant", NULL } } },
          .names = "ant is the name of both label 1 and label 3",
          .fails = true },
        { { { { 1, NULL, "ant", NULL }, { 2, NULL, "bee", NULL }, { 2, NULL, "bee", NULL } },
            { { 2, NULL, "cat", NULL } } },
          .names = "label 2 belongs to both bee and cat",
          .fails = true },
        { { { { 1, NULL, "ant", NULL }, { 2, NULL, "bee", NULL }, { 4, NULL, NULL, NULL } },
            { { 1, NULL, "ant", NULL } } },
          .names = "label 4 has no name in image/class/text, but others have",
          .fails = true },
        { { { { 1, "n1", "ant", NULL }, { 2, NULL, "bee", NULL }, { 2, NULL, "bee", NULL } },
            { { 1, "n1", "ant", NULL } } },
          .names = "label 2 has no name in image/class/synset, but others have",
          .fails = true },
        /* beside classes.txt */
        { { { { 1, NULL, "ant", NULL }, { 3, NULL, "cat", NULL }, { 1, NULL, "ant", NULL } },
            { { 3, NULL, "cat", NULL } } },
          .classes = "ant\nbee\ncat\n",
          .names = "ant:2 bee:0 cat:2" },
        { { { { 1, NULL, "ant", NULL }, { 2, NULL, "bee", NULL }, { 1, NULL, "ant", NULL } },
            { { 2, NULL, "bee", NULL } } },
          .classes = "nothing\nant\nbee\n",
          .names = "nothing:0 ant:2 bee:2" },
        { { { { 1, NULL, "ant", NULL }, { 2, NULL, "bee", NULL }, { 1, NULL, "ant", NULL } },
            { { 2, NULL, "bee", NULL } } },
          .classes = "bee\nant\ncat\n",
          .names = "label 2 is bee in its records, but cat in classes.txt",
          .fails = true },
        { { { { 1, "n1", NULL, NULL }, { 2, "n2", NULL, NULL }, { 1, "n1", NULL, NULL } },
            { { 2, "n2", NULL, NULL } } },
          .classes = "tench\nshark\n",
          .names = "tench:2 shark:2" },
        /* TensorFlow Datasets */
        { { { { 0, NULL, NULL, "label" }, { 2, NULL, NULL, "label" }, { 2, NULL, NULL, "label" } },
            { { 1, NULL, NULL, "label" } } },
          .labels = "plane\ncar\nbird\n",
          .names = "plane:1 car:1 bird:2" },
        { { { { 0, NULL, NULL, "label" }, { 2, NULL, NULL, "label" }, { 2, NULL, NULL, "label" } },
            { { 1, NULL, NULL, "label" } } },
          .labels = "plane\ncar\n",
          .names = "label 2 is beyond the 2 names in label.labels.txt",
          .fails = true },
        { { { { 0, NULL, NULL, "label" }, { 2, NULL, NULL, "label" }, { 2, NULL, NULL, "label" } },
            { { 1, NULL, NULL, "label" } } },
          .classes = "a\nb\nc\n",
          .labels = "plane\ncar\nbird\n",
          .names = "a:1 b:1 c:2" },
        { { { { 5, NULL, "ant", NULL }, { 6, NULL, "bee", NULL }, { 6, NULL, "bee", NULL } },
            { { 6, NULL, "bee", NULL } } },
          .labels = "plane\ncar\nbird\n",
          .names = "ant:1 bee:3" },
        { { { { 1, NULL, NULL, "label" }, { 1, NULL, NULL, "label" }, { 1, NULL, NULL, "label" } },
            { { 1, NULL, NULL, "label" } } },
          .names = "0:0 1:4",
          .unnamed = true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[16];
        StrBuf got = { 0 };
        Dataset *d = NULL;
        const Named *n = &cases[i];
        snprintf(folder, sizeof folder, "r%zu", i);
        DatasetOptions o = { .path = scratch_path(1, folder) };
        write_records("x-00000-of-00002", n->records[0], 3);
        write_records("x-00001-of-00002", n->records[1], count_records(n->records[1]));
        if (n->classes) tree_write(scratch_paths[1], "classes.txt", n->classes, strlen(n->classes));
        if (n->labels)
            tree_write(scratch_paths[1], "label.labels.txt", n->labels, strlen(n->labels));
        tree_write(scratch_paths[1], "features.json", "{}", 2);
        CHECK_STATUS(dataset_open(&d, &o), n->fails ? ERR_DATA : OK);
        if (!n->fails && d) {
            list_classes(d, &got);
            CHECK_STR(got.text, n->names);
            CHECK(dataset_named_classes(d) != n->unnamed);
        } else {
            CHECK_CONTAINS(status_message(), n->names);
            CHECK_CONTAINS(status_message(), folder);
        }
        str_free(&got);
        dataset_close(d);
    }
}

/* Both of a pair in one record: that of ImageNet's converters counts, wherever it stands. */
TEST(one_of_two_labels_counts)
{
    for (int order = 0; order < 2; order++) {
        StrBuf features = { 0 }, example = { 0 }, records = { 0 };
        for (int i = 0; i < 2; i++) {
            const bool first = i == order;
            tfexample_add_int(&features, first ? "image/class/label" : "label", first ? 2 : 7,
                              first);
            tfexample_add_bytes(&features, first ? "image/encoded" : "image",
                                first ? "encoded" : "image", first ? 7 : 5);
        }
        tfexample_wrap(&example, &features);
        tfrecord_add(&records, example.text, example.length);
        tree_write(scratch_path(1, order ? "b" : "a"), "x.tfrecord", records.text, records.length);
        Dataset *d = dataset_open_as(scratch_paths[1], DATA_AUTO);
        REQUIRE(d != NULL);
        CHECK_INT(dataset_label(d, 0), 2);
        CHECK_INT(dataset_source(d)->index->bytes[0], 7);
        dataset_close(d);
        str_free(&features);
        str_free(&example);
        str_free(&records);
    }
}
