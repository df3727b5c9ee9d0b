/* Index files: kept and loaded again, found out of date, damaged in every way, shared with another
 * process. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "data/index/index_build.h"
#include "data/index/index_file.h"
#include "data/index/scan.h"
#include "data/load/dataset.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct Tree { /* a tree, and where its index is kept */
    char root[600], kept[700];
    DatasetOptions o;
} Tree;

static void make_tree(Tree *t)
{
    snprintf(t->root, sizeof t->root, "%s/tree", test_scratch());
    snprintf(t->kept, sizeof t->kept, "%s/kept/t.index", test_scratch());
    tree_write(t->root, "b/2.jpg", "two", 3);
    tree_write(t->root, "b/deep/er/3.png", "three", 5);
    tree_write(t->root, "a/1.jpg", "one", 3);
    tree_write(t->root, "a/0.jpeg", "zero", 4);
    t->o = (DatasetOptions){ .path = t->root, .format = DATA_AUTO, .index = t->kept };
}

static int64_t images(const Tree *t)
{
    Dataset *d = NULL;
    CHECK_OK(dataset_open(&d, &t->o));
    int64_t n = d ? dataset_images(d) : -1;
    dataset_close(d);
    return n;
}

/* Sets the times of a folder so that it looks as it did at time n, whatever the clock's steps
 * are. */
static void set_time(const char *root, const char *folder, long n)
{
    char path[800];
    struct timespec times[2] = { { .tv_sec = 1700000000 + n }, { .tv_sec = 1700000000 + n } };
    snprintf(path, sizeof path, "%s/%s", root, folder);
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void set_times(const Tree *t, long n)
{
    static const char *const folders[] = { "", "a", "b", "b/deep", "b/deep/er" };
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        set_time(t->root, folders[i], n);
}

TEST(the_second_start_loads_it)
{
    Tree t;
    make_tree(&t);
    set_times(&t, 1);
    CHECK_INT(images(&t), 4);
    CHECK(fs_exists(t.kept));
    /* A file that no folder's time tells of is not seen: so the index was used. */
    tree_write(t.root, "a/9.jpg", "x", 1);
    set_times(&t, 1);
    CHECK_INT(images(&t), 4);
    Index *index = NULL;
    REQUIRE_OK(index_file_load(&index, t.kept));
    CHECK_INT(index->stamp_count, 5);
    CHECK_STR(index_path(index, 0), "a/0.jpeg");
    CHECK_STR(index_path(index, 3), "b/deep/er/3.png");
    CHECK_INT(index_label(index, 1), 0);
    CHECK_INT(index_label(index, 2), 1);
    CHECK_STR(index_class_name(index, 1), "b");
    CHECK_STR(index_format(index), "imagefolder/full");
    index_destroy(index);
    t.o.index = NULL;
    CHECK_INT(images(&t), 5);
}

TEST(a_change_of_any_folder_makes_it_old)
{
    static const char *const folders[] = { "", "a", "b", "b/deep", "b/deep/er" };
    Tree t;
    make_tree(&t);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        set_times(&t, 1);
        images(&t);
        const char *changed = NULL;
        Index *index = NULL;
        REQUIRE_OK(index_file_load(&index, t.kept));
        CHECK(index_file_is_current(index, t.root, &changed));
        set_time(t.root, folders[i], 2);
        CHECK(!index_file_is_current(index, t.root, &changed));
        CHECK_STR(changed, folders[i]);
        index_destroy(index);
    }
    set_times(&t, 1);
    CHECK_INT(images(&t), 4);
    tree_write(t.root, "b/deep/9.jpg", "x", 1);
    CHECK_INT(images(&t), 5); /* found again, and kept */
    tree_write(t.root, "c/9.jpg", "x", 1);
    CHECK_INT(images(&t), 6);
    CHECK_OK(dataset_check_index(&t.o));
    tree_write(t.root, "c/8.jpg", "x", 1);
    CHECK_STATUS(dataset_check_index(&t.o), ERR_DATA);
    CHECK_CONTAINS(status_message(), "out of date");
}

TEST(a_check_finds_what_no_time_tells)
{
    Tree t;
    make_tree(&t);
    set_times(&t, 1);
    CHECK_STATUS(dataset_check_index(&t.o), ERR_DATA); /* there is none yet */
    images(&t);
    CHECK_OK(dataset_check_index(&t.o));
    tree_write(t.root, "a/9.jpg", "x", 1);
    set_times(&t, 1);
    CHECK_STATUS(dataset_check_index(&t.o), ERR_DATA);
    CHECK_CONTAINS(status_message(), "finds different samples");
}

TEST(the_index_of_another_folder_is_not_used)
{
    Tree t;
    char other[700], log[700], file[800], roots[1500];
    uint8_t *text = NULL;
    size_t bytes = 0;
    make_tree(&t);
    images(&t);
    snprintf(log, sizeof log, "%s/log.txt", test_scratch());
    snprintf(other, sizeof other, "%s/other", test_scratch());
    tree_write(other, "z/0.jpg", "x", 1);
    t.o.path = other;
    REQUIRE_OK(log_open(log, 0, LOG_ERROR));
    CHECK_INT(images(&t), 1);
    log_close();
    snprintf(file, sizeof file, " info %s: this is the index of /",
             t.kept); /* of an absolute path */
    snprintf(roots, sizeof roots, "%s (imagefolder/full); scanning %s (imagefolder/full)\n", t.root,
             other);
    REQUIRE_OK(fs_read_file(log, &text, &bytes));
    CHECK_CONTAINS((const char *)text, file);
    CHECK_CONTAINS((const char *)text, roots);
    mem_free(text);
    t.o.path = t.root; /* and a folder of indexes keeps them apart */
    snprintf(t.kept, sizeof t.kept, "%s/folder", test_scratch());
    CHECK_INT(images(&t), 4);
    t.o.path = other;
    CHECK_INT(images(&t), 1);
    char **names = NULL;
    int64_t count = 0;
    REQUIRE_OK(fs_list(t.kept, &names, &count));
    CHECK_INT(count, 2);
    mem_free(names);
}

TEST(one_that_cannot_be_kept_is_no_error_where_nobody_asked)
{
    Tree t;
    Dataset *d = NULL;
    make_tree(&t);
    tree_write(test_scratch(), "file", "x", 1);
    snprintf(t.kept, sizeof t.kept, "%s/file/t.index", test_scratch());
    CHECK_INT(images(&t), 4);
    t.o.must_keep = true;
    CHECK_STATUS(dataset_open(&d, &t.o), ERR_IO);
    CHECK_CONTAINS(status_message(), "/file: cannot create folder");
    CHECK(d == NULL);
}

/* ---- damage ---- */

TEST(damage_means_another_scan)
{
    Tree t;
    uint8_t *good = NULL;
    size_t bytes = 0;
    make_tree(&t);
    images(&t);
    REQUIRE_OK(fs_read_file(t.kept, &good, &bytes));
    for (size_t at = 0; at < bytes; at += 7) {
        good[at] ^= 0x55;
        tree_write(test_scratch(), "kept/t.index", good, bytes);
        good[at] ^= 0x55;
        Index *index = NULL;
        CHECK_STATUS(index_file_load(&index, t.kept), ERR_DATA);
        CHECK_CONTAINS(status_message(), "t.index: ");
        CHECK_INT(images(&t), 4);
        REQUIRE_OK(index_file_load(&index, t.kept)); /* written anew */
        index_destroy(index);
    }
    char log[700], want[1500];
    uint8_t *text = NULL;
    size_t log_bytes = 0;
    snprintf(log, sizeof log, "%s/log.txt", test_scratch());
    snprintf(want, sizeof want, "; scanning %s again", t.o.path);
    tree_write(test_scratch(), "kept/t.index", "x", 1);
    REQUIRE_OK(log_open(log, 0, LOG_ERROR));
    CHECK_INT(images(&t), 4);
    log_close();
    REQUIRE_OK(fs_read_file(log, &text, &log_bytes));
    CHECK_CONTAINS((const char *)text, want);
    mem_free(text);
    for (size_t length = 0; length < bytes; length += 13) {
        tree_write(test_scratch(), "kept/t.index", good, length);
        Index *index = NULL;
        CHECK_STATUS(index_file_load(&index, t.kept), ERR_DATA);
    }
    CHECK_INT(images(&t), 4);
    mem_free(good);
}

/* Uses everything that an index offers; under the sanitizers a wild pointer shows. */
static size_t touch(const Index *index)
{
    size_t sum = strlen(index_root(index)) + strlen(index_format(index));
    for (int c = 0; c < index->classes; c++)
        sum += strlen(index_class_name(index, c)) + (size_t)index_class_images(index, c);
    for (int64_t i = 0; i < index->images; i++)
        sum += strlen(index_path(index, i)) + (size_t)index_label(index, i);
    for (int i = 0; i < index->stamp_count; i++) sum += strlen(index_stamp_name(index, i));
    return sum;
}

/* Every byte of header and arrays wrong in turn, with the checksum put right: what is not refused
 * must hold together.
 */
TEST(hostile_indexes_are_never_read_out_of_range)
{
    static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
    Tree t;
    uint8_t *good = NULL;
    size_t bytes = 0;
    int refused = 0;
    make_tree(&t);
    images(&t);
    REQUIRE_OK(fs_read_file(t.kept, &good, &bytes));
    for (size_t at = 0; at < bytes; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            uint8_t *block = mem_alloc(bytes);
            Index *index = NULL;
            REQUIRE(block != NULL);
            memcpy(block, good, bytes);
            block[at] = values[v];
            uint32_t crc = index_checksum(block, bytes);
            memcpy(block + offsetof(IndexHeader, crc), &crc, sizeof crc);
            if (index_adopt(&index, block, bytes) == OK) CHECK(touch(index) > 0);
            else refused++;
            index_destroy(index);
        }
    }
    CHECK(refused > 400);
    mem_free(good);
}

/* The block of t's index (two classes, four images) with rows of labels, and its size. */
static uint8_t *give_labels(const Tree *t, size_t *bytes, uint64_t in_first, uint8_t last_row)
{
    size_t at[INDEX_ARRAYS], old_bytes, text;
    uint8_t *good = NULL;
    IndexHeader h;
    CHECK_OK(fs_read_file(t->kept, &good, &old_bytes));
    ASSERT(good != NULL);
    memcpy(&h, good, sizeof h);
    ASSERT(index_layout(&h, at, &old_bytes));
    text = at[INDEX_TEXT];
    h.flags |= INDEX_MULTI;
    ASSERT(index_layout(&h, at, bytes));
    h.block_bytes = *bytes;
    uint8_t *block = mem_calloc(1, *bytes);
    ASSERT(block != NULL);
    memcpy(block, good, text);
    memcpy(block, &h, sizeof h);
    memcpy(block + at[INDEX_TEXT], good + text, old_bytes - text);
    const uint64_t start[] = { 0, in_first, 4 };
    memcpy(block + at[INDEX_CLASS_START], start, sizeof start);
    block[at[INDEX_LABELS] + 3] = last_row;
    const uint32_t crc = index_checksum(block, *bytes);
    memcpy(block + offsetof(IndexHeader, crc), &crc, sizeof crc);
    mem_free(good);
    return block;
}

TEST(rows_of_labels_have_all_images_in_one_class_and_no_bit_beyond)
{
    static const struct {
        uint64_t in_first;
        uint8_t last_row;
        Status expected;
    } cases[] = { { 4, 3, OK }, { 2, 3, ERR_DATA }, { 4, 4, ERR_DATA }, { 4, 0x80, ERR_DATA } };
    Tree t;
    size_t bytes;
    make_tree(&t);
    images(&t);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Index *index = NULL;
        uint8_t *block = give_labels(&t, &bytes, cases[i].in_first, cases[i].last_row);
        CHECK_STATUS(index_adopt(&index, block, bytes), cases[i].expected);
        index_destroy(index);
    }
}

TEST(an_index_with_rows_of_labels_is_not_used_for_folders)
{
    Tree t;
    size_t bytes;
    Dataset *d = NULL;
    make_tree(&t);
    images(&t);
    uint8_t *block = give_labels(&t, &bytes, 4, 3);
    tree_write(test_scratch(), "kept/t.index", block, bytes);
    mem_free(block);
    REQUIRE_OK(dataset_open(&d, &t.o));
    CHECK(dataset_labels(d, 0) == NULL);
    CHECK_INT(dataset_class_images(d, 0), 2);
    dataset_close(d);
}

/* ---- sharing ---- */

TEST(another_process_opens_by_it)
{
    Tree t;
    Dataset *first = NULL, *second = NULL;
    size_t bytes = 0;
    char text[2000], path[800];
    make_tree(&t);
    REQUIRE_OK(dataset_open(&first, &t.o));
    const void *index = dataset_index(first, &bytes);
    REQUIRE(index != NULL);
    CHECK(bytes < 1000);
    REQUIRE_OK(dataset_open_by_index(&second, &t.o, index, bytes));
    CHECK_INT(dataset_images(second), 4);
    CHECK_STR(dataset_format_name(second), "imagefolder");
    dataset_describe_sample(second, 3, text, sizeof text);
    CHECK_CONTAINS(text, "/tree/b/deep/er/3.png");
    SamplePrint theirs[DATASET_PRINTS], mine[DATASET_PRINTS];
    REQUIRE_OK(dataset_prints(first, theirs));
    REQUIRE_OK(dataset_prints(second, mine));
    CHECK_OK(dataset_compare_prints(second, mine, theirs));
    tree_write(t.root, "b/2.jpg", "y", 1);
    REQUIRE_OK(dataset_prints(second, mine));
    CHECK_STATUS(dataset_compare_prints(second, mine, theirs), ERR_DATA);
    CHECK_CONTAINS(status_message(), "ranks see different images: ");
    CHECK_CONTAINS(status_message(), "b/2.jpg: 1 bytes with checksum ");
    snprintf(path, sizeof path, "%s/b/2.jpg", t.root);
    REQUIRE(unlink(path) == 0);
    REQUIRE_OK(dataset_prints(second, mine));
    CHECK_STATUS(dataset_compare_prints(second, mine, theirs), ERR_DATA);
    CHECK_CONTAINS(status_message(), "b/2.jpg: cannot be read here, 3 bytes with checksum ");
    dataset_close(second);
    snprintf(path, sizeof path, "%s/nowhere", t.root);
    t.o.path = path;
    CHECK_STATUS(dataset_open_by_index(&second, &t.o, index, bytes), ERR_DATA);
    CHECK_CONTAINS(status_message(), "/nowhere: no such folder");
    CHECK(second == NULL);
    dataset_close(first);
}

TEST(another_process_opens_a_single_image)
{
    char root[700];
    Dataset *first = NULL, *second = NULL;
    size_t bytes = 0;
    snprintf(root, sizeof root, "%s/one", test_scratch());
    tree_write(root, "only/1.jpg", "one", 3);
    const DatasetOptions o = { .path = root, .format = DATA_AUTO };
    REQUIRE_OK(dataset_open(&first, &o));
    const void *index = dataset_index(first, &bytes);
    REQUIRE_OK(dataset_open_by_index(&second, &o, index, bytes));
    CHECK_INT(dataset_images(second), 1);
    dataset_close(second);
    dataset_close(first);
}

static Status fail_some(void *cookie, int64_t i)
{
    (void)cookie;
    return i % 7 == 3 ? fail(ERR_DATA, "number %lld", (long long)i) : OK;
}

TEST(the_first_failure_by_number_wins)
{
    for (int threads = 1; threads <= 8; threads++) {
        CHECK_STATUS(parallel_run(threads, 1000, "test", fail_some, NULL), ERR_DATA);
        CHECK_STR(status_message(), "number 3");
        CHECK_OK(parallel_run(threads, 3, "test", fail_some, NULL));
        CHECK_OK(parallel_run(threads, 0, "test", fail_some, NULL));
    }
}

TEST(an_image_costs_less_than_100_bytes)
{
    IndexPiece piece = { 0 };
    const char *const names[] = { "n01440764" };
    char name[64];
    const IndexEntry entry = { .bytes = 100000 };
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "n01440764_%d.JPEG", i);
        REQUIRE_OK(index_piece_add(&piece, "n01440764", name, &entry));
    }
    REQUIRE_OK(index_piece_stamp(&piece, "shard-00000.bin", 0, 1));
    Index *index = NULL;
    IndexParts parts = { .format = "shards",
                         .root = "/data",
                         .class_names = names,
                         .classes = 1,
                         .flags = INDEX_PACKED,
                         .pieces = &piece,
                         .piece_count = 1 };
    REQUIRE_OK(index_build(&index, &parts));
    CHECK(index->block_bytes < 100 * 10000);
    CHECK_INT(index->images, 10000);
    CHECK_STR(index_path(index, 1), "n01440764/n01440764_1.JPEG");
    CHECK_STR(index_path(index, 2), "n01440764/n01440764_10.JPEG"); /* in the order of names */
    index_destroy(index);
    index_piece_free(&piece);
}
