/* Datasets that Convoy does not read: each is named with the way out, and what it reads is left
 * alone. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/source/other_format.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>

#define IMPORT ", which Convoy does not read; convert it: scripts/import_dataset.py "

static void check_told(const char *path, const char *text)
{
    CHECK_STATUS(other_format_check(path), ERR_DATA);
    CHECK_CONTAINS(status_message(), text);
}

TEST(addresses_are_told_by_how_they_begin)
{
    check_told("s3://b/x", "s3://b/x: an object store, which Convoy does not read; mount it "
                           "(mount-s3, FSx for Lustre) or copy it: aws s3 sync s3://b/x DIR");
    check_told("gs://b", "copy it: gcloud storage rsync -r gs://b DIR");
    check_told("hf://datasets/a/b", "hf download NAME --repo-type dataset --local-dir DIR");
    check_told("http://a/b.tar", "http://a/b.tar: a web address");
    check_told("https://a/b.tar", "https://a/b.tar: a web address");
    CHECK_OK(other_format_check("s3:/b"));
    CHECK_OK(other_format_check("data/s3://b"));
}

TEST(files_are_told_by_name_and_first_bytes)
{
    static const struct {
        const char *name, *bytes, *what; /* what NULL: nothing is told */
    } files[] = {
        { "train-00000-of-00294.PARQUET", "", "Hugging Face parquet" },
        { "index.json", "{\"shards\": [{\"format\": \"mds\"}]}", "MDS (MosaicML Streaming)" },
        { "index.json", "{\"format\": \"other\"}", NULL },
        { "data.mdb", "0123456789abcdef\xde\xc0\xef\xbe", "LMDB" },
        { "access.mdb", "0123456789abcdef", NULL },
        { "train.rec", "\x0a\x23\xd7\xce", "RecordIO (MXNet)" },
        { "train.rec", "", NULL },
        { "parquet", "PAR1", NULL },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[100], text[600];
        snprintf(name, sizeof name, "%zu/%s", i, files[i].name);
        tree_write(test_scratch(), name, files[i].bytes, strlen(files[i].bytes));
        char *file FREED = fs_join(test_scratch(), name), *folder FREED = fs_parent(file);
        if (!files[i].what) {
            CHECK_OK(other_format_check(file));
            CHECK_OK(other_format_check(folder));
            continue;
        }
        snprintf(text, sizeof text, "%s: %s" IMPORT "%s OUT", file, files[i].what, file);
        check_told(file, text);
        snprintf(text, sizeof text, "%s: %s" IMPORT "%s OUT", folder, files[i].what, folder);
        check_told(folder, text);
    }
    char *none FREED = fs_join(test_scratch(), "none.parquet");
    CHECK_OK(other_format_check(none));
}

TEST(a_folder_that_holds_images_or_classes_is_left_alone)
{
    char *hub FREED = fs_join(test_scratch(), "hub");
    tree_write(hub, "data/train.parquet", "", 0);
    tree_write(hub, ".cache/x", "", 0);
    tree_write(hub, "README.md", "", 0);
    check_told(hub, "/hub: Hugging Face parquet");
    tree_write(hub, "data/cat/0.jpg", "", 0);
    CHECK_OK(other_format_check(hub));
    static const char *const beside[] = { "0.jpg", "cat/0.txt" };
    for (int i = 0; i < 2; i++) {
        char name[10];
        snprintf(name, sizeof name, "%d", i);
        char *folder FREED = fs_join(test_scratch(), name);
        tree_write(folder, "a.parquet", "", 0);
        check_told(folder, "Hugging Face parquet");
        tree_write(folder, beside[i], "", 0);
        CHECK_OK(other_format_check(folder));
    }
}
