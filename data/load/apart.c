/* apart.c - see apart.h. */
#include "data/load/apart.h"
#include "base/fs.h"
#include "data/load/dataset_internal.h"
#include <string.h>

/* Bytes of the folder that an index's containers lie in, at the beginning of its root. */
static size_t folder_bytes(const Index *index)
{
    const char *root = index_root(index), *slash = strrchr(root, '/');
    return fs_is_dir(root) || !slash ? strlen(root) : (size_t)(slash - root);
}

const char *apart_shared_file(const Dataset *train, const Dataset *val)
{
    const Source *s = dataset_source(train), *t = dataset_source(val);
    if (!s->kind->is_container || !t->kind->is_container) return NULL;
    const Index *a = s->index, *b = t->index;
    const size_t bytes = folder_bytes(a);
    if (bytes != folder_bytes(b) || memcmp(index_root(a), index_root(b), bytes) != 0) return NULL;
    if (!fs_is_dir(index_root(a)) && !fs_is_dir(index_root(b))) return NULL;
    for (int i = 0; i < b->stamp_count; i++)
        for (int j = 0; j < a->stamp_count; j++)
            if (strcmp(index_stamp_name(a, j), index_stamp_name(b, i)) == 0)
                return index_stamp_name(b, i);
    return NULL;
}

bool apart_is_same(const Dataset *train, const Dataset *val)
{
    const Index *a = dataset_source(train)->index, *b = dataset_source(val)->index;
    if (!a || !b || a->stamp_count == 0 || a->stamp_count != b->stamp_count) return false;
    for (int i = 0; i < a->stamp_count; i++)
        if (strcmp(index_stamp_name(a, i), index_stamp_name(b, i)) != 0) return false;
    return fs_same_file(train->path, val->path);
}
