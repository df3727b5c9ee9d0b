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

Status apart_check(const Dataset *train, const Dataset *val)
{
    const Source *s = dataset_source(train), *t = dataset_source(val);
    if (!s->kind->is_container || !t->kind->is_container) return OK;
    const Index *a = s->index, *b = t->index;
    const size_t bytes = folder_bytes(a);
    if (bytes != folder_bytes(b) || memcmp(index_root(a), index_root(b), bytes) != 0) return OK;
    if (!fs_is_dir(index_root(a)) && !fs_is_dir(index_root(b))) return OK;
    for (int i = 0; i < b->stamp_count; i++)
        for (int j = 0; j < a->stamp_count; j++)
            if (strcmp(index_stamp_name(a, j), index_stamp_name(b, i)) == 0)
                return fail(ERR_DATA,
                            "data.val: %s is a file of data.train too; give each set its own "
                            "folder or file, or file names with the words train and val (or "
                            "test), or hold images out by data.val_split",
                            index_stamp_name(b, i));
    return OK;
}
