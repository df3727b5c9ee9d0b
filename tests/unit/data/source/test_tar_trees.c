/* Tar files as people make them: of whole trees, whose names have dots, with links, folders without
 * images and other files between them; and with several images of one key. */
#include "base/mem.h"
#include "base/str.h"
#include "data/index/left_out.h"
#include "data/load/dataset_internal.h"
#include "tests/test.h"
#include "tests/tools/container_write.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/dataset_check.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Put { /* a member, "" for the end of a list */
    const char *path;
    const char *text; /* its content; NULL: a folder */
    const char *link; /* begins with the type: '1' hard, '2' symbolic */
} Put;

static void add(StrBuf *tar, const Put *p)
{
    if (p->link) tar_add_link(tar, p->path, p->link[0], p->link + 1, TAR_PAX);
    else if (!p->text) tar_add_header(tar, p->path, '5', 0);
    else tar_add(tar, p->path, p->text, strlen(p->text), TAR_PAX);
}

/* Writes folder/name.tar below the scratch folder. */
static const char *write_tar(int slot, const char *folder, const char *name, const Put *puts)
{
    StrBuf tar = { 0 };
    for (; puts->path; puts++) add(&tar, puts);
    tar_end(&tar);
    tree_write(scratch_path(slot, folder), name, tar.text, tar.length);
    str_free(&tar);
    return scratch_paths[slot];
}

static Dataset *open_tars(const char *path)
{
    return dataset_open_as(path, DATA_WEBDATASET);
}

static void check_sample(const Dataset *d, int64_t id, int label, const char *path,
                         const char *content)
{
    ByteBuf buf = { 0 };
    Sample s = { 0 };
    const Source *source = dataset_source(d);
    CHECK_STR(index_path(source->index, id), path);
    CHECK_INT(dataset_label(d, id), label);
    CHECK_OK(source->kind->read(source, id, &buf, &s));
    CHECK(s.file.size == strlen(content) && memcmp(s.file.bytes, content, s.file.size) == 0);
    byte_buf_free(&buf);
}

TEST(names_with_dots_are_images_of_a_tree)
{
    static const Put puts[] = { { .path = "train/", .text = NULL },
                                { .path = "train/a/" },
                                { "train/a/IMG_2021.05.01.jpg", "1", NULL },
                                { "train/a/IMG_2021.05.02.jpg", "2", NULL },
                                { "train/a/IMG_2021.txt", "no image", NULL },
                                { "train/b/0.edited.JFIF", "3", NULL },
                                { "train/b/0.jpe", "4", NULL },
                                { "train/b/0.jpg", "5", NULL },
                                { "train/b/0.seg.png", "6", NULL },
                                { "train/b/1.gif", "no image", NULL },
                                { "train/b/2.GIF", "no image", NULL },
                                { "train/b/README", "no image", NULL },
                                { NULL } };
    Dataset *d = NULL;
    DatasetOptions o = { .path = write_tar(1, "t", "t.tar", puts) };
    const char *says = dataset_open_says(&d, &o);
    REQUIRE(d != NULL);
    CHECK_CONTAINS(says, "/t: files left out: 2 .gif, 1 without extension, 1 .txt; first "
                         "train/a/IMG_2021.txt; image files end in .jpg, ");
    CHECK_INT(dataset_classes(d), 2);
    REQUIRE(dataset_images(d) == 6);
    static const char *const paths[] = {
        "a/IMG_2021.05.01.jpg", "a/IMG_2021.05.02.jpg", "b/0.edited.JFIF", "b/0.jpe", "b/0.jpg",
        "b/0.seg.png"
    };
    for (int i = 0; i < 6; i++) {
        const char content[] = { (char)('1' + i), '\0' };
        check_sample(d, i, i >= 2, paths[i], content);
    }
    dataset_close(d);
}

TEST(what_has_labels_is_read_by_key)
{
    static const Put puts[] = { { "000.png", "mask", NULL },  { "000.jpg", "image", NULL },
                                { "000.cls", "1", NULL },     { "000.seg.png", "mask", NULL },
                                { "./001.png", "png", NULL }, { "001.cls", "0", NULL },
                                { "002.json", "{}", NULL },   { NULL } };
    Dataset *d = NULL;
    DatasetOptions o = { .path = write_tar(1, "t", "t.tar", puts) };
    const char *says = dataset_open_says(&d, &o);
    REQUIRE(d != NULL);
    CHECK_CONTAINS(says, "/t: images left out: 2, first 000.png; a sample is");
    CHECK_CONTAINS(says, "file: 1, first 002.json");
    REQUIRE(dataset_images(d) == 2);
    check_sample(d, 0, 0, "001.png", "png");
    check_sample(d, 1, 1, "000.jpg", "image");
    dataset_close(d);
    /* labels that nothing belongs to are no reason to read a tree */
    static const Put dotted[] = { { "a/0.1.jpg", "x", NULL },
                                  { "a/0.1.cls", "1", NULL },
                                  { NULL } };
    CHECK_CONTAINS(dataset_open_error(write_tar(2, "u", "u.tar", dotted), DATA_AUTO),
                   "/u: no images in its tar files that share the path up to the first dot");
}

TEST(two_labels_of_a_sample_are_refused_if_they_differ)
{
    static const struct {
        const char *name, *label;
    } cases[] = { { "0.cls", "1" }, { "0.CLS", "1" }, { "0.cls", "0" } };
    for (int i = 0; i < 3; i++) {
        const Put puts[] = { { "0.cls", "0", NULL },
                             { "0.jpg", "x", NULL },
                             { cases[i].name, cases[i].label, NULL },
                             { NULL } };
        const char *path = write_tar(1, "t", "t.tar", puts);
        if (i < 2)
            CHECK_CONTAINS(dataset_open_error(path, DATA_AUTO),
                           ": its sample has two labels, 0 and 1");
        else {
            Dataset *d = open_tars(path);
            REQUIRE(d != NULL && dataset_images(d) == 1);
            dataset_close(d);
        }
    }
}

/* Some files of a set with labels, others without: nobody knows what was meant. */
TEST(labels_are_in_all_tars_of_a_set_or_in_none)
{
    static const Put with[] = { { "a/0.jpg", "x", NULL }, { "a/0.cls", "1", NULL }, { NULL } };
    static const Put without[] = { { "a/1.jpg", "x", NULL }, { "b/2.0.jpg", "x", NULL }, { NULL } };
    write_tar(1, "t", "a.tar", without);
    write_tar(1, "t", "b.tar", with);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                   "/t: a/1.jpg has no .cls file, but other images have one");
}

TEST(links_are_followed)
{
    char lengthy[300], target[320];
    memset(lengthy, 'd', sizeof lengthy);
    memcpy(lengthy, "s/c/", 4);
    memcpy(lengthy + 200, "/9.jpg", 7);
    snprintf(target, sizeof target, "../%s", lengthy + 2);
    const Put puts[] = { { "./s/a/0.jpg", "zero", NULL },
                         { "./s/a/.store/1", "one", NULL },
                         { "./s/a/old.jpg", "old", NULL },
                         { "./s/a/note.txt", "x", NULL },
                         { "./s/b/0.jpg", "", "1./s/a/0.jpg" },
                         { "./s/b/chain.png", "",
                           "22.jpg" }, /* of links, the next one comes later */
                         { "./s/b/2.jpg", "", "2../../s/./a//.store/1" },
                         { "./s/b/note.txt", "", "2../a/note.txt" },
                         { "./s/b/lost.txt", "", "2/elsewhere" },
                         { "./s/b/new.jpg", "", "1./s/a/old.jpg" },
                         { lengthy, "nine", NULL },
                         { "s/b/long.jpg", "", NULL },
                         { "./s/a/old.jpg", "new", NULL }, /* as tar -r puts it there again */
                         { NULL } };
    for (int names = TAR_PAX; names <= TAR_GNU; names++) {
        StrBuf tar = { 0 };
        Dataset *d = NULL;
        for (const Put *p = puts; p->path; p++) {
            if (p->path == lengthy) tar_add(&tar, lengthy, "nine", 4, (TarNames)names);
            else if (strcmp(p->path, "s/b/long.jpg") == 0)
                tar_add_link(&tar, p->path, '2', target, (TarNames)names);
            else add(&tar, p);
        }
        tar_end(&tar);
        tree_write(scratch_path(1, "t"), "t.tar", tar.text, tar.length);
        str_free(&tar);
        DatasetOptions o = { .path = scratch_paths[1] };
        CHECK_CONTAINS(dataset_open_says(&d, &o), "files left out: 3 .txt; first s/a/note.txt");
        REQUIRE(d != NULL);
        CHECK_INT(dataset_classes(d), 3);
        REQUIRE(dataset_images(d) == 8);
        check_sample(d, 0, 0, "a/0.jpg", "zero");
        check_sample(d, 1, 0, "a/old.jpg", "new");
        check_sample(d, 2, 1, "b/0.jpg", "zero");
        check_sample(d, 3, 1, "b/2.jpg", "one");
        check_sample(d, 4, 1, "b/chain.png", "one");
        check_sample(d, 5, 1, "b/long.jpg", "nine");
        check_sample(d, 6, 1, "b/new.jpg", "new");
        check_sample(d, 7, 2, lengthy + 2, "nine");
        dataset_close(d);
    }
}

TEST(links_to_labels_are_followed)
{
    static const Put puts[] = {
        { "labels/one", "1", NULL }, { "0.cls", "0", NULL },         { "0.jpg", "zero", NULL },
        { "1.jpg", "", "10.jpg" },   { "1.cls", "", "2labels/one" }, { "2.jpg", "", "2./0.jpg" },
        { "2.cls", "", "21.cls" },   { "folder", "", "2labels" },    { NULL }
    };
    Dataset *d = open_tars(write_tar(1, "t", "t.tar", puts));
    REQUIRE(d != NULL && dataset_images(d) == 3);
    check_sample(d, 0, 0, "0.jpg", "zero");
    check_sample(d, 1, 1, "1.jpg", "zero");
    check_sample(d, 2, 1, "2.jpg", "zero");
    dataset_close(d);
}

TEST(links_that_lead_nowhere_are_named)
{
    static const struct {
        Put link, other;
        const char *want;
    } cases[] = {
        { { "a/0.jpg", "", "2../../x.jpg" },
          { "b/0.jpg", "x", NULL },
          "a/0.jpg is a link to ../../x.jpg, which is outside the archive; tar --dereference" },
        { { "a/0.jpg", "", "2/data/b/0.jpg" },
          { "data/b/0.jpg", "x", NULL },
          "a link to /data/b/0.jpg, which is outside" },
        { { "a/0.jpg", "", "1b/1.jpg" },
          { "b/0.jpg", "x", NULL },
          "a/0.jpg is a link to b/1.jpg, which is not in the archive" },
        { { "a/0.jpg", "", "2../b" }, { "b/0.jpg", "x", NULL }, "../b, which is a folder" },
        { { "a/0.jpg", "", "21.jpg" }, { "a/1.jpg", "", "20.jpg" }, "which leads back to itself" },
        { { "a/0.jpg", "", "1a/0.jpg" }, { "b/0.jpg", "x", NULL }, "which leads back to itself" },
        { { "s/a", "", "2b" },
          { "s/b/0.jpg", "x", NULL },
          "s/a is a link to b, which is a folder" },
        { { "s/a", "", "2/data/a" },
          { "s/b/0.jpg", "x", NULL },
          "s/a is a link to /data/a, which" },
        { { "s/002.bee", "", "2../out/002.bee" },
          { "s/001.ant/0.jpg", "x", NULL },
          "s/002.bee is a link to ../out/002.bee, which is not in the archive" },
        { { "s/002.bee", "", "2../../out/002.bee" },
          { "s/001.ant/0.jpg", "x", NULL },
          "s/002.bee is a link to ../../out/002.bee, which is outside" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Put puts[] = { cases[i].link, cases[i].other, { "c/1.jpg", "x", NULL }, { NULL } };
        CHECK_CONTAINS(dataset_open_error(write_tar(1, "t", "t.tar", puts), DATA_AUTO),
                       cases[i].want);
        CHECK_CONTAINS(status_message(), "/t");
    }
}

TEST(sparse_files_are_named)
{
    StrBuf tar = { 0 };
    tar_add_pax(&tar, "GNU.sparse.major", "1");
    tar_add(&tar, "a/0.jpg", "x", 1, TAR_PAX);
    tar_end(&tar);
    tree_write(scratch_path(1, "t"), "t.tar", tar.text, tar.length);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                   "t.tar: a/0.jpg is kept as a sparse file");
    str_free(&tar);
}

/* A class of a tree whose folder holds no image is one in its tar as well, wherever it is told. */
TEST(empty_classes_of_a_tar_are_those_of_the_tree)
{
    static const Put one[] = { { .path = "s/" },
                               { .path = "s/a/" },
                               { "s/a/deep/0.jpg", "x", NULL },
                               { .path = "s/b/" },
                               { .path = "s/.git/" },
                               { .path = "s/d/" },
                               { NULL } };
    static const Put two[] = { { "s/c/note.txt", "x", NULL },
                               { "s/d/0.jpg", "x", NULL },
                               { NULL } };
    write_tar(1, "t", "0.tar", one);
    write_tar(1, "t", "1.tar", two);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                   "/t: 2 of 4 class folders have no .jpg, .jpeg, .jpe, .jfif or .png file: b, c "
                   "(data.allow_empty_classes: true accepts them)");
    DatasetOptions o = { .path = scratch_paths[1], .index = test_scratch(), .allow_empty = true };
    Dataset *d = NULL;
    REQUIRE_OK(dataset_open(&d, &o));
    static const char *const names[] = { "a", "b", "c", "d" };
    REQUIRE(dataset_classes(d) == 4);
    for (int c = 0; c < 4; c++) {
        CHECK_STR(dataset_class_name(d, c), names[c]);
        CHECK_INT(dataset_class_images(d, c), c == 0 || c == 3);
    }
    check_sample(d, 1, 3, "d/0.jpg", "x");
    dataset_close(d);
    /* its index is not that of the other way */
    o.allow_empty = false;
    CHECK_STATUS(dataset_open(&d, &o), ERR_DATA);
    /* a folder beside images is none */
    static const Put sub[] = { { "a/0.jpg", "x", NULL }, { .path = "a/more/" }, { NULL } };
    d = open_tars(write_tar(2, "u", "u.tar", sub));
    REQUIRE(d != NULL);
    CHECK_INT(dataset_classes(d), 1);
    CHECK_STR(dataset_class_name(d, 0), "a");
    dataset_close(d);
}

/* Which folder holds the classes; without folders among the members, the one that all share. */
TEST(classes_of_a_tar_are_those_of_the_tree)
{
    static const struct {
        Put puts[7];
        const char *classes, *says; /* names, each with a space behind it */
        int images;
    } cases[] = {
        { { { "s/a/0.jpg", "x", NULL },
            { "s/b/0.jpg", "x", NULL },
            { "s/montage.jpg", "x", NULL } },
          "a b ",
          "/t: images left out because they are in no class folder: 1, first s/montage.jpg",
          2 },
        { { { "0.jpg", "x", NULL },
            { "1.jpg", "x", NULL },
            { "a/0.jpg", "x", NULL },
            { "b/0.jpg", "x", NULL } },
          "a b ",
          "they are in no class folder: 2, first 0.jpg",
          2 },
        { { { .path = "s/" },
            { .path = "s/a/" },
            { "s/a/x/0.jpg", "x", NULL },
            { "s/a/y/0.jpg", "x", NULL } },
          "a ",
          NULL,
          2 },
        { { { .path = "./" }, { "./a/x/0.jpg", "x", NULL }, { "./a/y/0.jpg", "x", NULL } },
          "a ",
          NULL,
          2 },
        { { { .path = "./" },
            { "./s/0.jpg", "x", NULL },
            { "./s/a/0.jpg", "x", NULL },
            { "./s/b/0.jpg", "x", NULL } },
          "s ",
          NULL,
          3 },
        { { { .path = "s/t/" }, { "s/t/a/0.jpg", "x", NULL }, { "s/t/b/0.jpg", "x", NULL } },
          "a b ",
          NULL,
          2 },
        { { { .path = "s/" }, { .path = "s/a/" }, { "s/a/0.jpg", "x", NULL } }, "a ", NULL, 1 },
        { { { .path = "a/" }, { "a/0.jpg", "x", NULL } }, "a ", NULL, 1 },
        { { { "s/a/x/0.jpg", "x", NULL }, { "s/a/y/0.jpg", "x", NULL } }, "x y ", NULL, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Dataset *d = NULL;
        DatasetOptions o = { .path = write_tar(1, "t", "t.tar", cases[i].puts) };
        StrBuf names = { 0 };
        const char *says = dataset_open_says(&d, &o);
        REQUIRE(d != NULL);
        if (cases[i].says) CHECK_CONTAINS(says, cases[i].says);
        else CHECK(strstr(says, "left out") == NULL);
        for (int c = 0; c < dataset_classes(d); c++)
            str_printf(&names, "%s ", dataset_class_name(d, c));
        CHECK_STR(names.text, cases[i].classes);
        CHECK_INT(dataset_images(d), cases[i].images);
        str_free(&names);
        dataset_close(d);
    }
    static const Put bare[] = { { .path = "./" }, { "./0.jpg", "x", NULL }, { NULL } };
    CHECK_CONTAINS(
        dataset_open_error(write_tar(2, "u", "u.tar", bare), DATA_AUTO),
        "/u: 0.jpg: no .cls file with the same name, and no folder to take its class from");
}

TEST(files_left_out_of_a_tree_are_counted)
{
    static const char *const files[] = { "a/0.jpg",  "a/1.jfif", "a/2.JPE", "a/3.gif",
                                         "a/4.avif", "a/5.HEIC", "a/6",     "b/7.webp",
                                         "b/8.png",  "b/9.gif",  "b/a.k1",  "b/a.k2",
                                         "b/a.k3",   "b/a.k4",   "x.jpg",   "x.txt" };
    Dataset *d = NULL;
    DatasetOptions o = { .path = scratch_path(1, "tree") };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tree_write(scratch_paths[1], files[i], "x", 1);
    const char *says = dataset_open_says(&d, &o);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), 4);
    CHECK_CONTAINS(says,
                   "/tree: files left out: 2 .gif, 1 without extension, 1 .avif, 1 .heic, 1 .k1, "
                   "1 .k2, 1 .k3, 1 .k4, 1 other; first a/3.gif; ");
    CHECK_CONTAINS(says, "they are in no class folder: 1, first x.jpg");
    dataset_close(d);
}

TEST(files_left_out_are_counted_in_any_order)
{
    enum { NAMES = LEFT_OUT_ENDINGS + 9 };
    LeftOut l[2] = { { 0 }, { 0 } };
    char name[16];
    for (int i = 0; i < 2 * NAMES; i++)
        for (int back = 0; back < 2; back++) {
            snprintf(name, sizeof name, "x.%d", (back ? 2 * NAMES - 1 - i : i) % NAMES);
            CHECK_OK(left_out_add(&l[back], NULL, name));
        }
    for (int i = 0; i < LEFT_OUT_ENDINGS; i++) {
        CHECK_STR(l[0].of[i].text, l[1].of[i].text);
        CHECK_INT(l[0].of[i].count, 2);
        CHECK_INT(l[1].of[i].count, 2);
    }
    left_out_free(&l[0]);
    left_out_free(&l[1]);
}

TEST(every_failed_allocation_of_a_tree_is_reported)
{
    static const Put puts[] = { { .path = "s/b/" },
                                { "s/a/0.jpg", "x", NULL },
                                { "s/a/1.jpg", "", "20.jpg" },
                                { "s/a/2.jpg", "", "2note.txt" },
                                { "s/a/note.txt", "x", NULL },
                                { "s/c/3.jpg", "x", NULL },
                                { NULL } };
    DatasetOptions o = { .path = write_tar(1, "t", "t.tar", puts),
                         .scan_threads = 1,
                         .allow_empty = true };
    for (int64_t n = 1; n < 2000; n++) {
        Dataset *d = NULL;
        const int64_t before = mem_allocation_count();
        mem_fail_at(n);
        const Status status = dataset_open(&d, &o);
        const int64_t used = mem_allocation_count() - before;
        mem_fail_at(0);
        dataset_close(d);
        if (used < n) {
            CHECK_OK(status);
            break;
        }
        CHECK_STATUS(status, ERR_MEMORY);
    }
}
