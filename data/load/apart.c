/* apart.c - see apart.h. Files are told by device and inode: links to them are the same files. */
#include "data/load/apart.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/load/dataset_internal.h"
#include <stdlib.h>
#include <sys/stat.h>

typedef struct Container {
    dev_t device;
    ino_t inode;
} Container;

static int by_file(const void *pa, const void *pb)
{
    const Container *a = pa, *b = pb;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return a->inode < b->inode ? -1 : a->inode > b->inode;
}

static Status look(const Index *index, int stamp, Container *out)
{
    struct stat info = { 0 };
    const char *root = index_root(index);
    StrBuf path = { 0 };
    str_add(&path, root);
    if (fs_is_dir(root)) str_printf(&path, "/%s", index_stamp_name(index, stamp));
    Status status = path.failed ? ERR_MEMORY : OK;
    if (status == OK && stat(path.text, &info) == 0) *out = (Container){ info.st_dev, info.st_ino };
    str_free(&path);
    return status;
}

static Status compare(const Index *train, const Index *val, Container *files)
{
    const size_t count = (size_t)train->stamp_count;
    for (int i = 0; i < train->stamp_count; i++) TRY(look(train, i, &files[i]));
    qsort(files, count, sizeof *files, by_file);
    for (int i = 0; i < val->stamp_count; i++) {
        Container file = { 0 };
        TRY(look(val, i, &file));
        if (file.inode && bsearch(&file, files, count, sizeof *files, by_file))
            return fail(
                ERR_DATA,
                "data.val: %s is a file of data.train too; file names with the words train "
                "and val (or test) tell the sets apart, or give each its own folder or file",
                index_stamp_name(val, i));
    }
    return OK;
}

Status apart_check(const Dataset *train, const Dataset *val)
{
    const Source *a = dataset_source(train), *b = dataset_source(val);
    if (!a->kind->is_container || !b->kind->is_container) return OK;
    const bool one = !fs_is_dir(index_root(a->index)) && !fs_is_dir(index_root(b->index));
    if (one) return OK;
    Container *files = mem_calloc((size_t)a->index->stamp_count + 1, sizeof *files);
    if (!files) return ERR_MEMORY;
    Status status = compare(a->index, b->index, files);
    mem_free(files);
    return status;
}
