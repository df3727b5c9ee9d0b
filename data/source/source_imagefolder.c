/* source_imagefolder.c - one file per image, one folder per class; or the files that a list names.
 * Hands over encoded bytes, whatever they hold.
 *
 * The root folder stays open and files are opened relative to it, so a run does not care if
 * somebody moves the tree's parent. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/index/scan.h"
#include "data/source/source.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct FolderSource {
    Source base;
    char *root;
    int root_fd; /* -1: not open */
} FolderSource;

#define MAX_NAME_BYTES 768 /* of a path in messages; a sentence is cut at 1023 anyway */

static void folder_close(Source *base)
{
    FolderSource *s = (FolderSource *)base;
    if (s->root_fd >= 0) close(s->root_fd);
    mem_free(s->root);
    source_free_classes(base);
    mem_free(s);
}

/* Takes root over. */
static Status fill_imagefolder(FolderSource *s, char *root, const Index *index)
{
    s->root = root;
    if (!root) return ERR_MEMORY;
    s->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0)
        return fail(ERR_DATA, "%s: cannot open this folder: %s", root, strerror(errno));
    return source_use_index(&s->base, index);
}

static Status open_root(Source **out, char *root, const Index *index)
{
    FolderSource *s = mem_calloc(1, sizeof *s);
    if (!s) {
        mem_free(root);
        return ERR_MEMORY;
    }
    s->root_fd = -1;
    Status status = fill_imagefolder(s, root, index);
    if (status == OK) *out = &s->base;
    else folder_close(&s->base);
    return status;
}

static Status folder_open(Source **out, const DatasetOptions *o, const Index *index)
{
    return open_root(out, mem_strdup(o->path), index);
}

static Status list_open(Source **out, const DatasetOptions *o, const Index *index)
{
    return open_root(out, fs_parent(o->path), index);
}

static Status list_probe(const char *path, DataRole role, bool *yes)
{
    (void)role;
    *yes = scan_is_list(path) && !fs_is_dir(path);
    return OK;
}

/* The kind to try when nothing else matches: a wrong folder then gives the errors that talk about
 * class folders. */
static Status folder_probe(const char *path, DataRole role, bool *yes)
{
    (void)path;
    (void)role;
    *yes = true;
    return OK;
}

static void folder_describe(const Source *base, int64_t id, char *out, size_t bytes)
{
    const FolderSource *s = (const FolderSource *)base;
    const char *path = index_path(s->base.index, id);
    if (path[0] == '/') snprintf(out, bytes, "%s", path); /* a list's alone */
    else snprintf(out, bytes, "%s/%s", s->root, path);
}

static Status folder_read(const Source *base, int64_t id, ByteBuf *buf, Sample *out)
{
    const FolderSource *s = (const FolderSource *)base;
    char name[MAX_NAME_BYTES];
    folder_describe(base, id, name, sizeof name);
    size_t bytes = 0;
    TRY(source_read_file(s->root_fd, index_path(s->base.index, id), name, buf, &bytes));
    *out = source_file_sample(buf->data, bytes, 0);
    return OK;
}

static void folder_forget(const Source *base, int64_t id, bool *gone)
{
    const FolderSource *s = (const FolderSource *)base;
    source_forget_file(s->root_fd, index_path(s->base.index, id), 0, 0, gone);
}

const SourceKind source_imagefolder = {
    .name = "imagefolder",
    .probe = folder_probe,
    .scan = scan_imagefolder,
    .scan_by_emptiness = true,
    .open = folder_open,
    .read = folder_read,
    .label = source_index_label,
    .describe = folder_describe,
    .forget = folder_forget,
    .close = folder_close,
};

const SourceKind source_list = {
    .name = "list",
    .probe = list_probe,
    .scan = scan_list,
    .several_labels = true,
    .open = list_open,
    .read = folder_read,
    .label = source_index_label,
    .describe = folder_describe,
    .forget = folder_forget,
    .close = folder_close,
};
