/* dataset_check.c - see dataset_check.h. */
#include "tests/tools/dataset_check.h"
#include "data/load/dataset_internal.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char scratch_paths[4][700];

const char *scratch_path(int slot, const char *name)
{
    snprintf(scratch_paths[slot], sizeof scratch_paths[slot], "%s/%s", test_scratch(), name);
    return scratch_paths[slot];
}

void tree_write_small(const char *root)
{
    char name[64];
    for (int c = 0; c < TREE_CLASSES; c++)
        for (int i = 0; i < TREE_PER_CLASS; i++) {
            snprintf(name, sizeof name, "n%d/n%d_%d%s.JPEG", c, c, i * 7 % 13, i % 2 ? "-x" : "");
            tree_write_shape(root, name, c, (uint32_t)i, 24 + i);
        }
}

const char *dataset_make_tree(void)
{
    tree_write_small(scratch_path(0, "tree"));
    return scratch_paths[0];
}

Dataset *dataset_open_as(const char *path, DataFormat format)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .format = format };
    if (!test_check_status(dataset_open(&d, &o), OK, __FILE__, __LINE__, path)) return NULL;
    return d;
}

const char *dataset_open_error(const char *path, DataFormat format)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .format = format };
    (void)test_check_status(dataset_open(&d, &o), ERR_DATA, __FILE__, __LINE__, path);
    dataset_close(d);
    return status_message();
}

const char *dataset_open_says(Dataset **out, const DatasetOptions *o)
{
    static char text[8192];
    char path[800];
    snprintf(path, sizeof path, "%s/stderr", test_scratch());
    const int saved = dup(STDERR_FILENO);
    *out = NULL;
    ASSERT(saved >= 0 && freopen(path, "w", stderr));
    (void)dataset_open(out, o);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    FILE *f = fopen(path, "r");
    ASSERT(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    (void)fclose(f);
    return text;
}

static bool differ(const char *what, int64_t at)
{
    printf("  datasets differ in %s %lld: %s\n", what, (long long)at, status_message());
    return false;
}

static bool same_sample(const Dataset *a, const Dataset *b, int64_t id, ByteBuf *ba, ByteBuf *bb)
{
    const Source *sa = dataset_source(a), *sb = dataset_source(b);
    Sample x, y;
    if (sa->kind->read(sa, id, ba, &x) != OK || sb->kind->read(sb, id, bb, &y) != OK) return false;
    int64_t known = source_bytes(sb, id);
    return x.file.size == y.file.size && memcmp(x.file.bytes, y.file.bytes, x.file.size) == 0 &&
           dataset_label(a, id) == dataset_label(b, id) &&
           (known == -1 || known == (int64_t)y.file.size);
}

static bool are_equal(const Dataset *a, const Dataset *b, bool names)
{
    ByteBuf ba = { 0 }, bb = { 0 };
    bool same = true;
    if (!a || !b) return differ("being there", 0);
    if (dataset_images(a) != dataset_images(b)) return differ("images", dataset_images(b));
    if (dataset_classes(a) != dataset_classes(b)) return differ("classes", dataset_classes(b));
    if (dataset_named_classes(b) != names) return differ("names", names);
    for (int c = 0; names && c < dataset_classes(a); c++)
        if (strcmp(dataset_class_name(a, c), dataset_class_name(b, c)) != 0)
            return differ("class", c);
    for (int64_t i = 0; i < dataset_images(a) && same; i++)
        if (!same_sample(a, b, i, &ba, &bb)) same = differ("sample", i);
    byte_buf_free(&ba);
    byte_buf_free(&bb);
    return same;
}

void datasets_check_equal(const Dataset *a, const Dataset *b, bool names)
{
    CHECK(are_equal(a, b, names));
}

/* ---- packing ---- */

PackOptions dataset_pack_options(const char *out)
{
    return (PackOptions){ .out = out, .shard_bytes = 6000, .threads = 3 };
}

void dataset_pack(const Dataset *d, const char *out, PackReport *r)
{
    PackOptions o = dataset_pack_options(out);
    CHECK_OK(pack_dataset(d, &o, r));
    CHECK_OK(pack_verify(d, &o));
}
