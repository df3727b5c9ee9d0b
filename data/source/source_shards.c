/* source_shards.c - what convoy pack has written (shard.h). The index lies with the data, so no
 * scan is ever needed. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/index/index_file.h"
#include "data/source/shard.h"
#include "data/source/source_packed.h"
#include <string.h>

static Status has_file(const char *folder, const char *name, bool *there)
{
    char *path FREED = fs_join(folder, name);
    if (!path) return ERR_MEMORY;
    *there = fs_exists(path);
    return OK;
}

static Status shards_probe(const char *path, DataRole role, bool *yes)
{
    char name[SHARD_NAME_BYTES];
    (void)role;
    shard_name(name, 0);
    TRY(has_file(path, SHARD_INDEX_FILE, yes));
    return *yes ? OK : has_file(path, name, yes);
}

/* The common index if it is sound and fits the shards; else theirs, merged, which says what is
 * wrong with them. */
static Status load_merged(Index **out, const char *file, const ScanOptions *o)
{
    const char *changed = NULL;
    Status status = index_file_load(out, file);
    if (status == ERR_MEMORY) return status;
    if (status != OK) {
        log_warning("%s; using the indexes in the shards", status_message());
    } else if (strcmp(index_format(*out), SHARD_FORMAT) == 0 &&
               index_file_is_current(*out, o->path, &changed)) {
        return OK;
    }
    index_destroy(*out);
    return shard_merge(out, o);
}

static Status shards_scan(Index **out, const ScanOptions *o)
{
    *out = NULL;
    if (!fs_is_dir(o->path)) return source_no_folder(o->path);
    bool there = false;
    TRY(has_file(o->path, SHARD_INDEX_FILE, &there));
    if (!there) return shard_merge(out, o);
    char *file FREED = fs_join(o->path, SHARD_INDEX_FILE);
    return file ? load_merged(out, file, o) : ERR_MEMORY;
}

const SourceKind source_shards = {
    .name = SHARD_FORMAT,
    .probe = shards_probe,
    .scan = shards_scan,
    .scan_is_cheap = true,
    SOURCE_PACKED_FROM_INDEX,
};
