/* Shards, tar and TFRecord files: the same samples in the same order as the ImageFolder tree they
 * were made from; what is damaged is named, never shown as a picture. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/load/dataset_internal.h"
#include "data/load/pack.h"
#include "tests/test.h"
#include "tests/tools/container_write.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/dataset_check.h"
#include "tests/tools/image_write.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(all_formats_hold_the_same_samples)
{
    PackReport r;
    const char *tree = dataset_make_tree();
    Dataset *folder = dataset_open_as(tree, DATA_AUTO);
    container_write_tars(tree, scratch_path(1, "labelled"), 3, true);
    container_write_tars(tree, scratch_path(2, "plain"), 2, false);
    container_write_tfrecords(tree, scratch_path(3, "records"), 4);
    static const struct {
        const char *name, *format;
        bool names;
    } rows[] = { { "tree", "imagefolder", true },
                 { "labelled", "webdataset", false },
                 { "plain", "webdataset", true },
                 { "records", "tfrecord", true } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Dataset *d = dataset_open_as(scratch_paths[i], DATA_AUTO);
        REQUIRE(d != NULL);
        CHECK_STR(dataset_format_name(d), rows[i].format);
        datasets_check_equal(folder, d, rows[i].names);
        char packed[800];
        snprintf(packed, sizeof packed, "%s/%s-packed", test_scratch(), rows[i].name);
        dataset_pack(d, packed, &r);
        CHECK(r.shards > 2);
        CHECK_INT(r.images, TREE_CLASSES * TREE_PER_CLASS);
        Dataset *shards = dataset_open_as(packed, DATA_AUTO);
        REQUIRE(shards != NULL);
        CHECK_STR(dataset_format_name(shards), "shards");
        datasets_check_equal(folder, shards, rows[i].names);
        dataset_close(shards);
        dataset_close(d);
    }
    dataset_close(folder);
}

TEST(one_tar_or_record_file_by_itself_is_a_dataset)
{
    const char *tree = dataset_make_tree();
    Dataset *folder = dataset_open_as(tree, DATA_AUTO);
    container_write_tars(tree, scratch_path(1, "tars"), 1, false);
    container_write_tfrecords(tree, scratch_path(2, "records"), 1);
    Dataset *tar = dataset_open_as(scratch_path(1, "tars/part-0000.tar"), DATA_AUTO);
    Dataset *records = dataset_open_as(scratch_path(2, "records/train-00000-of-00001"), DATA_AUTO);
    datasets_check_equal(folder, tar, true);
    datasets_check_equal(folder, records, true);
    size_t bytes = 0;
    const void *index = dataset_index(tar, &bytes);
    Dataset *again = NULL;
    DatasetOptions o = { .path = scratch_paths[1] };
    REQUIRE_OK(dataset_open_by_index(&again, &o, index, bytes));
    datasets_check_equal(folder, again, true);
    dataset_close(again);
    o.path = scratch_paths[2];
    CHECK_STATUS(dataset_open_by_index(&again, &o, index, bytes), ERR_DATA);
    dataset_close(tar);
    dataset_close(records);
    dataset_close(folder);
}

TEST(role_chooses_files_where_names_tell)
{
    dataset_make_tree();
    StrBuf tar = { 0 };
    tar_add(&tar, "x.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "x.cls", "1", 1, TAR_USTAR);
    tar_end(&tar);
    tree_write(scratch_path(1, "both"), "set-train-0.tar", tar.text, tar.length);
    tar.length -= 1024;
    tar_add(&tar, "y.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "y.cls", " 2\n", 3, TAR_USTAR);
    tar_end(&tar);
    tree_write(scratch_paths[1], "set-val-0.tar", tar.text, tar.length);
    tree_write(scratch_path(2, "one"), "a-val.tar", tar.text, tar.length);
    str_free(&tar);
    for (int role = DATA_TRAIN; role <= DATA_VAL; role++) {
        Dataset *d = NULL;
        DatasetOptions o = { .path = scratch_paths[1], .role = (DataRole)role };
        REQUIRE_OK(dataset_open(&d, &o));
        CHECK_INT(dataset_images(d), role == DATA_TRAIN ? 1 : 2);
        dataset_close(d);
        o.path = scratch_paths[2];
        REQUIRE_OK(dataset_open(&d, &o));
        CHECK_INT(dataset_images(d), 2);
        dataset_close(d);
    }
}

/* Where names say how many files there are, a part of them is not taken for all. */
TEST(missing_files_are_named)
{
    static const struct {
        const char *files[4], *want; /* NULL: complete */
    } cases[] = {
        { { "t-00002-of-00128.tar" },
          ": 127 of the 128 files t-*-of-00128.tar are missing: 00000, 00001, 00003, 00004, 00005, "
          "..." },
        { { "t-0-of-3.tar", "t-2-of-3.tar" }, ": 1 of the 3 files t-*-of-3.tar are missing: 1" },
        { { "t-1-of-3.tar", "t-2-of-3.tar", "t-3-of-3.tar" }, NULL }, /* numbered from 1 */
        { { "t-1-of-3.tar", "t-2-of-3.tar" }, "missing: 0" },
        { { "t-0-of-2.tar", "t-1-of-2.tar", "u_0_of_2.tar" },
          ": 1 of the 2 files u_*_of_2.tar are missing: 1" },
        { { "one-of-2.tar", "best-of-9.tar", "of-0-of-1.tar" }, NULL },
    };
    StrBuf tar = { 0 };
    tar_add(&tar, "x.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "x.cls", "1", 1, TAR_USTAR);
    tar_end(&tar);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu", i);
        for (int f = 0; cases[i].files[f]; f++)
            tree_write(scratch_path(1, name), cases[i].files[f], tar.text, tar.length);
        if (cases[i].want)
            CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO), cases[i].want);
        else dataset_close(dataset_open_as(scratch_paths[1], DATA_AUTO));
    }
    str_free(&tar);
    container_write_tfrecords(dataset_make_tree(), scratch_path(2, "records"), 8);
    for (int f = 1; f < 8; f++) {
        char path[800];
        snprintf(path, sizeof path, "%s/train-%05d-of-00008", scratch_paths[2], f);
        REQUIRE(unlink(path) == 0);
    }
    CHECK_CONTAINS(dataset_open_error(scratch_paths[2], DATA_AUTO),
                   "/records: 7 of the 8 files train-*-of-00008 are missing: 00001, 00002, ");
    /* one of them, named by itself, is what is meant */
    dataset_close(dataset_open_as(scratch_path(3, "records/train-00000-of-00008"), DATA_AUTO));
}

/* ---- tar ---- */

static void check_tar(StrBuf *tar, const char *want)
{
    tar_end(tar);
    tree_write(scratch_path(1, "t"), "t.tar", tar->text, tar->length);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_WEBDATASET), want);
    CHECK_CONTAINS(status_message(), "/t");
    str_clear(tar);
}

TEST(what_a_tar_may_hold)
{
    StrBuf tar = { 0 };
    char lengthy[300], text[2000];
    memset(lengthy, 'd', sizeof lengthy);
    memcpy(lengthy + 200, "/0001.jpg", 10);
    tar_add_header(&tar, "folder/", '5', 0);
    tar_add(&tar, "./a.b/7.jpg", "seven", 5, TAR_USTAR);
    tar_add(&tar, "./a.b/7.json", "{}", 2, TAR_USTAR);
    tar_add(&tar, "./a.b/7.cls", "3", 1, TAR_USTAR);
    tar_add_link(&tar, "link", '2', "/elsewhere", TAR_USTAR);
    tar_add(&tar, ".hidden", "x", 1, TAR_USTAR);
    tar_add(&tar, "./._9.jpg", "x", 1, TAR_USTAR);
    tar_add(&tar, "a/.git/9.jpg", "x", 1, TAR_USTAR);
    tar_add(&tar, "a/.git/9.cls", "77", 2, TAR_USTAR);
    tar_add(&tar, "8.seg.png", "no picture of the sample", 24, TAR_USTAR);
    tar_add(&tar, "8.CLS", "0\n", 2, TAR_USTAR);
    tar_add(&tar, "8.PNG", "eight", 5, TAR_USTAR);
    for (int names = TAR_PAX; names <= TAR_GNU; names++) {
        tar_add(&tar, lengthy, "long", 4, (TarNames)names);
        memcpy(lengthy + 206, "cls", 4);
        tar_add(&tar, lengthy, "1", 1, (TarNames)names);
        memcpy(lengthy + 206, "jpg", 4);
        lengthy[201]++;
    }
    memcpy(lengthy + 120, "/0002.jpg", 10);
    tar_add(&tar, lengthy, "prefix", 6, TAR_USTAR);
    memcpy(lengthy + 126, "cls", 4);
    tar_add(&tar, lengthy, "1", 1, TAR_USTAR);
    tar_add(&tar, "none.json", "{}", 2, TAR_USTAR); /* left out, with a warning */
    tar_end(&tar);
    tree_write(scratch_path(1, "t"), "t.tar", tar.text, tar.length);
    tree_write(scratch_paths[1], "._t.tar", "of macOS", 8);
    static const char names[] = "zero\none\r\ntwo\nthree\nfour\n\n";
    tree_write(scratch_paths[1], "classes.txt", names, strlen(names));
    Dataset *d = dataset_open_as(scratch_paths[1], DATA_AUTO);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), 5);
    CHECK_INT(dataset_classes(d), 5);
    CHECK_STR(dataset_class_name(d, 1), "one");
    CHECK_STR(dataset_class_name(d, 4), "four");
    CHECK(dataset_named_classes(d));
    static const int labels[] = { 0, 1, 1, 1, 3 };
    for (int64_t i = 0; i < 5; i++) CHECK_INT(dataset_label(d, i), labels[i]);
    dataset_describe_sample(d, 0, text, sizeof text);
    CHECK_CONTAINS(text, "/t/t.tar[8.PNG]");
    dataset_describe_sample(d, 4, text, sizeof text);
    CHECK_CONTAINS(text, "/t/t.tar[a.b/7.jpg]");
    dataset_describe_sample(d, 3, text, sizeof text);
    CHECK_CONTAINS(text, "ddd/1001.jpg]");
    dataset_describe_sample(d, 1, text, sizeof text);
    CHECK_CONTAINS(text, "/t/t.tar[ddd");
    CHECK_CONTAINS(text, "ddd/0002.jpg]");
    ByteBuf buf = { 0 };
    Sample s;
    CHECK_OK(dataset_source(d)->kind->read(dataset_source(d), 4, &buf, &s));
    CHECK(s.file.size == 5 && memcmp(s.file.bytes, "seven", 5) == 0);
    byte_buf_free(&buf);
    dataset_close(d);
    str_free(&tar);
}

/* Its size goes before that of the member's own header, as for files that this has no digits for;
 * what it says beside path and size, and a header for all members, is passed over. */
TEST(what_a_pax_header_says_holds_for_one_member)
{
    static char comment[5000], image[1024]; /* of a picture, and of the padding behind it */
    StrBuf tar = { 0 };
    ByteBuf buf = { 0 };
    Sample s;
    memset(comment, 'c', sizeof comment - 1);
    memset(image, 'i', sizeof image);
    tar_add_header(&tar, "pax_global_header", 'g', 30);
    str_add_n(&tar, comment, 512);
    tar_add_pax(&tar, "comment", comment);
    tar_add_pax(&tar, "path", "b/7.jpg");
    tar_add_pax(&tar, "path", "a/0.jpg"); /* the last word on it */
    tar_add_pax(&tar, "size", "7");
    tar_add_pax(&tar, "size", "1019");
    tar_add_header(&tar, "0.txt", '0', 0);
    str_add_n(&tar, image, sizeof image);
    tar_add(&tar, "a/0.cls", "0", 1, TAR_USTAR);
    tar_add(&tar, "a/1.jpg", "one", 3, TAR_USTAR);
    tar_add(&tar, "a/1.cls", "0", 1, TAR_USTAR);
    tar_end(&tar);
    tree_write(scratch_path(1, "t"), "t.tar", tar.text, tar.length);
    Dataset *d = dataset_open_as(scratch_paths[1], DATA_AUTO);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), 2);
    const Source *source = dataset_source(d);
    CHECK_STR(index_path(source->index, 0), "a/0.jpg");
    CHECK_OK(source->kind->read(source, 0, &buf, &s));
    CHECK(s.file.size == 1019 && memcmp(s.file.bytes, image, s.file.size) == 0);
    CHECK_OK(source->kind->read(source, 1, &buf, &s));
    CHECK(s.file.size == 3 && memcmp(s.file.bytes, "one", 3) == 0);
    byte_buf_free(&buf);
    dataset_close(d);
    str_free(&tar);
}

TEST(wrong_sizes_of_pax_headers_are_named)
{
    static const char *const sizes[] = { "-1", "3.", "4611686018427387905",
                                         "99999999999999999999999999999999999" };
    StrBuf tar = { 0 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tar_add_pax(&tar, "size", sizes[i]);
        tar_add(&tar, "x.txt", "abc", 3, TAR_USTAR);
        check_tar(&tar, "a member of impossible size before byte");
    }
    tar_add_pax(&tar, "size", "4611686018427387904");
    tar_add(&tar, "x.txt", "abc", 3, TAR_USTAR);
    check_tar(&tar, "truncated at byte");
    tar_add_header(&tar, "PaxHeaders/x", 'x', (1 << 20) + 1);
    check_tar(&tar, "an extended header of impossible size before byte 512");
    str_free(&tar);
}

TEST(wrong_tars_are_named)
{
    StrBuf tar = { 0 };
    tar_add(&tar, "a/x.jpg", "abc", 3, TAR_USTAR);
    tar.text[3] ^= 1;
    check_tar(&tar, "t.tar: not a tar header before byte 512");
    tar_add(&tar, "x.jpg", "abc", 3, TAR_USTAR);
    check_tar(&tar, "no .cls file with the same name");
    tar_add(&tar, "a/x.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "a/y.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "a/y.cls", "0", 1, TAR_USTAR);
    check_tar(&tar, "a/x.jpg has no .cls");
    tar_add(&tar, "x.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "x.cls", "cat", 3, TAR_USTAR);
    check_tar(&tar, "x.cls: not a label: cat");
    tar_add(&tar, "x.cls", "-1", 2, TAR_USTAR);
    check_tar(&tar, "not a label");
    tar_add(&tar, "x.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "x.JPG", "abc", 3, TAR_USTAR);
    tar_add(&tar, "x.cls", "1", 1, TAR_USTAR);
    check_tar(&tar, "x.JPG: its sample has two images");
    tar_add_header(&tar, "x.jpg", '0', 1u << 30);
    check_tar(&tar, "larger than 64 MB");
    tar_add_header(&tar, "x.bin", '0', 077777777777);
    check_tar(&tar, "truncated");
    tar_add(&tar, "x.txt", "abc", 3, TAR_USTAR);
    check_tar(&tar, "no images");
    tar_add_header(&tar, "pax", 'x', 12);
    str_add_n(&tar, "99 path=abc\n", 12);
    str_add_n(&tar, (char[500]){ 0 }, 500);
    check_tar(&tar, "damaged pax header");
    tree_write(scratch_path(1, "t"), "classes.txt", "one\n", 4);
    tar_add(&tar, "x.jpg", "abc", 3, TAR_USTAR);
    tar_add(&tar, "x.cls", "1", 1, TAR_USTAR);
    check_tar(&tar, "label 1 is beyond the 1 names");
    str_free(&tar);
}

TEST(tars_cut_anywhere_are_refused)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    container_write_tars(dataset_make_tree(), scratch_path(1, "t"), 1, true);
    REQUIRE_OK(fs_read_file(scratch_path(2, "t/part-0000.tar"), &bytes, &size));
    for (int part = 1; part < 16; part++) {
        size_t cut = (size - 1024) * (size_t)part / 16;
        tree_write(scratch_paths[1], "part-0000.tar", bytes, cut);
        CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                       "part-0000.tar: the archive is truncated");
        tree_write(scratch_paths[1], "part-0000.tar", bytes,
                   cut / 512 * 512); /* between blocks, also between members */
        CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                       "part-0000.tar: the archive is truncated");
    }
    StrBuf two = { 0 };
    for (int i = 0; i < 2; i++) str_add_n(&two, (const char *)bytes, size);
    tree_write(scratch_paths[1], "part-0000.tar", two.text, two.length);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                   "part-0000.tar: the archive has data after its end");
    str_free(&two);
    mem_free(bytes);
}

/* ---- TFRecord ---- */

static void add_record(StrBuf *out, const char *image_key, const char *label_key, int64_t label,
                       const char *synset)
{
    StrBuf features = { 0 }, example = { 0 };
    tfexample_add_bytes(&features, "other", "junk", 4);
    if (image_key) tfexample_add_bytes(&features, image_key, "picture", 7);
    if (label_key) tfexample_add_int(&features, label_key, label, false);
    if (synset) tfexample_add_bytes(&features, "image/class/synset", synset, strlen(synset));
    tfexample_wrap(&example, &features);
    tfrecord_add(out, example.text, example.length);
    str_free(&features);
    str_free(&example);
}

static void check_records(StrBuf *records, const char *want)
{
    tree_write(scratch_path(1, "r"), "x.tfrecord", records->text, records->length);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_TFRECORD), want);
    CHECK_CONTAINS(status_message(), "/r");
    str_clear(records);
}

TEST(labels_of_records)
{
    StrBuf records = { 0 };
    add_record(&records, "image", "label", 0, NULL); /* TensorFlow Datasets: from 0 */
    add_record(&records, "image", "label", 4, NULL);
    tree_write(scratch_path(1, "r"), "x.tfrecord", records.text, records.length);
    Dataset *d = dataset_open_as(scratch_paths[1], DATA_AUTO);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_classes(d), 5);
    CHECK_INT(dataset_label(d, 0), 0);
    CHECK_INT(dataset_label(d, 1), 4);
    CHECK(!dataset_named_classes(d));
    dataset_close(d);
    str_clear(&records);
    tree_write(scratch_paths[1], "notes-1-of-", "no record", 9);
    add_record(&records, "image/encoded", "image/class/label", 3, "n3"); /* ImageNet: from 1 */
    add_record(&records, "image/encoded", "image/class/label", 1, "n1");
    add_record(&records, "image/encoded", "image/class/label", 1025, "middle"); /* more than 1024 */
    add_record(&records, "image/encoded", "image/class/label", 5000, "last"); /* more than twice */
    add_record(&records, "image/encoded", "image/class/label", 1, "n1");
    tree_write(scratch_paths[1], "x.tfrecord", records.text, records.length);
    d = dataset_open_as(scratch_paths[1], DATA_AUTO);
    REQUIRE(d != NULL);
    static const char *const names[] = { "n1", "n3", "middle", "last" };
    CHECK(dataset_named_classes(d));
    REQUIRE(dataset_classes(d) == 4); /* those that have names */
    for (int c = 0; c < 4; c++) {
        CHECK_STR(dataset_class_name(d, c), names[c]);
        CHECK_INT(dataset_class_images(d, c), c == 0 ? 2 : 1);
        CHECK_INT(dataset_label(d, c + (c > 0)), c);
    }
    dataset_close(d);
    str_free(&records);
}

TEST(a_name_with_a_nul_is_refused)
{
    StrBuf records = { 0 }, features = { 0 }, example = { 0 };
    tfexample_add_bytes(&features, "image/encoded", "picture", 7);
    tfexample_add_int(&features, "image/class/label", 1, false);
    tfexample_add_bytes(&features, "image/class/synset", "n1\0x", 4);
    tfexample_wrap(&example, &features);
    tfrecord_add(&records, example.text, example.length);
    check_records(&records, "record 0: image/class/synset is not a valid name");
    str_free(&records);
    str_free(&features);
    str_free(&example);
}

TEST(wrong_records_are_named)
{
    StrBuf records = { 0 };
    add_record(&records, NULL, "label", 0, NULL);
    check_records(&records, "x.tfrecord: record 0: it has no image");
    add_record(&records, "image", "label", 0, NULL);
    add_record(&records, "image", NULL, 0, NULL);
    check_records(&records, "x.tfrecord: record 1: it has no label");
    add_record(&records, "image", "label", -5, NULL);
    check_records(&records, "label -5 is out of range");
    add_record(&records, "image", "image/class/label", 1, "n1");
    add_record(&records, "image", "image/class/label", 1, "n2");
    check_records(&records, "label 1 belongs to both n1 and n2");
    tfrecord_add(&records, "\x0a\x7f no message", 14);
    check_records(&records, "record 0: not a tf.Example");
    /* lists that end within their only value: of bytes, of numbers */
    static const char image[] = "\x0a\x1e\x0a\x0d\x0a\x05image\x12\x04\x0a\x02\x0a\x05"
                                "\x0a\x0d\x0a\x05label\x12\x04\x1a\x02\x08\x01";
    static const char label[] = "\x0a\x1f\x0a\x0e\x0a\x05image\x12\x05\x0a\x03\x0a\x01x"
                                "\x0a\x0d\x0a\x05label\x12\x04\x1a\x02\x08\x80";
    tfrecord_add(&records, image, sizeof image - 1);
    check_records(&records, "record 0: not a tf.Example");
    tfrecord_add(&records, label, sizeof label - 1);
    check_records(&records, "record 0: not a tf.Example");
    str_add_n(&records, "0123456789abcdef", 16);
    check_records(&records, "wrong checksum for its length");
    tree_write(scratch_path(1, "r"), "x.tfrecord", "", 0);
    CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_TFRECORD), "contains no images");
    str_free(&records);
}

TEST(records_cut_or_flipped_anywhere_are_refused)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    container_write_tfrecords(dataset_make_tree(), scratch_path(1, "r"), 1);
    REQUIRE_OK(fs_read_file(scratch_path(2, "r/train-00000-of-00001"), &bytes, &size));
    for (int part = 1; part < 16; part++) {
        tree_write(scratch_paths[1], "train-00000-of-00001", bytes, size * (size_t)part / 16 + 1);
        CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO),
                       "train-00000-of-00001: the record at byte");
    }
    for (size_t at = 0; at < size; at += 97) {
        bytes[at] ^= 0x10;
        tree_write(scratch_paths[1], "train-00000-of-00001", bytes, size);
        bytes[at] ^= 0x10;
        CHECK_CONTAINS(dataset_open_error(scratch_paths[1], DATA_AUTO), "wrong checksum");
        if (at == 0) CHECK_CONTAINS(status_message(), "the record at byte 0 has a wrong checksum");
    }
    mem_free(bytes);
}

/* ---- what changes after the index was made ---- */

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    REQUIRE(f != NULL);
    CHECK(fseek(f, at, SEEK_SET) == 0);
    int c = fgetc(f);
    CHECK(fseek(f, at, SEEK_SET) == 0 && fputc(c ^ 0x20, f) >= 0);
    CHECK(fclose(f) == 0);
}

static void check_damage(const char *folder, const char *file, DataFormat format)
{
    char path[900];
    Dataset *d = dataset_open_as(folder, format);
    REQUIRE(d != NULL);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    const Source *s = dataset_source(d);
    int64_t in_file = -1;
    for (int64_t i = 0; i < s->images && in_file < 0; i++)
        if (strcmp(index_stamp_name(s->index, (int)s->index->file[i]), file) == 0) in_file = i;
    REQUIRE(in_file >= 0);
    ByteBuf buf = { 0 };
    Sample sample;
    flip(path, (long)s->index->offset[in_file] + 5);
    CHECK_STATUS(s->kind->read(s, in_file, &buf, &sample), ERR_DATA);
    CHECK_CONTAINS(status_message(), file);
    CHECK_CONTAINS(status_message(), "the file is damaged");
    flip(path, (long)s->index->offset[in_file] + 5);
    CHECK_OK(s->kind->read(s, in_file, &buf, &sample));
    CHECK(truncate(path, (off_t)s->index->offset[in_file] + 5) == 0);
    CHECK_STATUS(s->kind->read(s, in_file, &buf, &sample), ERR_DATA);
    CHECK_CONTAINS(status_message(), "the container ends before this sample does");
    byte_buf_free(&buf);
    dataset_close(d);
}

TEST(damage_behind_the_index_is_a_bad_sample)
{
    PackReport r;
    const char *tree = dataset_make_tree();
    container_write_tars(tree, scratch_path(1, "t"), 2, true);
    container_write_tfrecords(tree, scratch_path(2, "r"), 2);
    Dataset *d = dataset_open_as(tree, DATA_AUTO);
    dataset_pack(d, scratch_path(3, "s"), &r);
    dataset_close(d);
    check_damage(scratch_paths[1], "part-0001.tar", DATA_WEBDATASET);
    check_damage(scratch_paths[2], "train-00001-of-00002", DATA_TFRECORD);
    check_damage(scratch_paths[3], "shard-00001.bin", DATA_SHARDS);
}

TEST(every_failed_allocation_is_reported)
{
    const char *tree = dataset_make_tree();
    container_write_tars(tree, scratch_path(1, "t"), 2, false);
    container_write_tfrecords(tree, scratch_path(2, "r"), 2);
    for (int which = 1; which <= 2; which++) {
        for (int64_t n = 1;; n++) {
            Dataset *d = NULL;
            PackReport r;
            DatasetOptions data = { .path = scratch_paths[which],
                                    .scan_threads = 1,
                                    .format = which == 1 ? DATA_WEBDATASET : DATA_TFRECORD };
            PackOptions o = dataset_pack_options(scratch_path(3, "s"));
            o.threads = 1;
            char shard[800];
            for (int i = 0; i < 9; i++) { /* from the start each time */
                snprintf(shard, sizeof shard, "%s/shard-%05d.bin", o.out, i);
                unlink(shard);
            }
            int64_t before = mem_allocation_count();
            mem_fail_at(n);
            Status status = dataset_open(&d, &data);
            if (status == OK) status = pack_dataset(d, &o, &r);
            int64_t used = mem_allocation_count() - before;
            mem_fail_at(0);
            dataset_close(d);
            if (used < n) {
                CHECK_OK(status);
                break;
            }
            CHECK_STATUS(status, ERR_MEMORY);
            REQUIRE(n < 2000);
        }
    }
}
