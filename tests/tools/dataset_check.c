/* dataset_check.c - see dataset_check.h. */
#include "tests/tools/dataset_check.h"
#include "data/dataset.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>

void tree_write_small(const char *root)
{
    char name[64];
    for (int c = 0; c < TREE_CLASSES; c++)
        for (int i = 0; i < TREE_PER_CLASS; i++) {
            snprintf(name, sizeof name, "n%d/n%d_%d%s.JPEG", c, c, i * 7 % 13, i % 2 ? "-x" : "");
            tree_write_shape(root, name, c, (uint32_t)i, 24 + i);
        }
}

Dataset *dataset_open_as(const char *path, DataFormat format)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .format = format };
    return dataset_open(&d, &o) == OK ? d : NULL;
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
    if (sa->kind->read(sa, id, 0, ba, &x) != OK || sb->kind->read(sb, id, 0, bb, &y) != OK) return false;
    int64_t known = sb->kind->bytes(sb, id);
    return x.bytes == y.bytes && memcmp(x.data, y.data, x.bytes) == 0 && dataset_label(a, id) == dataset_label(b, id) &&
           (known == -1 || known == (int64_t)y.bytes);
}

bool datasets_are_equal(const Dataset *a, const Dataset *b, bool names)
{
    ByteBuf ba = { 0 }, bb = { 0 };
    bool same = true;
    if (!a || !b) return differ("being there", 0);
    if (dataset_images(a) != dataset_images(b)) return differ("images", dataset_images(b));
    if (dataset_classes(a) != dataset_classes(b)) return differ("classes", dataset_classes(b));
    if (dataset_named_classes(b) != names) return differ("names", names);
    for (int c = 0; names && c < dataset_classes(a); c++)
        if (strcmp(dataset_class_name(a, c), dataset_class_name(b, c)) != 0) return differ("class", c);
    for (int64_t i = 0; i < dataset_images(a) && same; i++)
        if (!same_sample(a, b, i, &ba, &bb)) same = differ("sample", i);
    buf_free(&ba);
    buf_free(&bb);
    return same;
}
