/* index_file.c - an index file is the block of an index as it is; see index.h.
 *
 * It is a cache: whatever is wrong with it (missing, damaged, of another version, of another
 * folder, out of date), the answer is to scan again and to say so in one line. Out of date means
 * that the modification time of a folder (or size or time of a container) is not what it was before
 * the scan read it. A change of a file's contents in an ImageFolder touches no folder and needs no
 * new index. */
#include "data/index/index_file.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

char *index_file_name(const char *place, const char *root, const char *format)
{
    if (str_ends_with_nocase(place, ".index")) return mem_strdup(place);
    StrBuf name = { 0 };
    const char *slash = strrchr(root, '/');
    uint32_t key = crc32c_update(crc32c_update(0, root, strlen(root) + 1), format, strlen(format));
    str_printf(&name, "%s/%.80s-%08x.index", place, slash && slash[1] ? slash + 1 : "root", key);
    if (!name.failed) return name.text;
    str_free(&name);
    return NULL;
}

Status index_file_load(Index **out, const char *file)
{
    uint8_t *block = NULL;
    size_t bytes = 0;
    *out = NULL;
    TRY(fs_read_file(file, &block, &bytes));
    Status status = index_adopt(out, block, bytes);
    return status == OK ? OK : fail_note(status, "%s", file);
}

Status index_file_save(const Index *index, const char *file)
{
    char *folder FREED = fs_parent(file);
    if (!folder) return ERR_MEMORY;
    TRY(fs_make_dirs(folder));
    return fs_write_atomic(file, index->block, index->block_bytes);
}

bool index_file_is_current(const Index *index, const char *path, const char **changed)
{
    int root FREED_BY(fs_close) = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_file = root < 0 && errno == ENOTDIR; /* a container by itself */
    *changed = "";
    bool same = root >= 0 || is_file;
    for (int i = 0; same && i < index->stamp_count; i++) {
        const IndexStamp *stamp = &index->stamps[i];
        const char *name = index_stamp_name(index, i);
        struct stat info;
        *changed = name;
        if (is_file) same = stat(path, &info) == 0;
        else same = fstatat(root, name[0] ? name : ".", &info, 0) == 0;
        if (!same) break;
        int64_t mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
        same = (stamp->mtime_ns == 0 || stamp->mtime_ns == mtime_ns) &&
               (S_ISDIR(info.st_mode) ? stamp->bytes == 0 : stamp->bytes == (uint64_t)info.st_size);
    }
    return same;
}

/* OK with *out NULL: there is none that can be used, and it was said why. */
static Status load_current(Index **out, const char *file, const ScanOptions *o)
{
    Index *index FREED_BY(index_destroy_at) = NULL;
    const char *changed = NULL;
    *out = NULL;
    if (!fs_exists(file)) return OK;
    Status status = index_file_load(&index, file);
    if (status == ERR_MEMORY) return status;
    if (status != OK) {
        log_warning("%s; scanning %s again", status_message(), o->path);
        return OK;
    }
    const bool other = strcmp(index_root(index), o->root) != 0;
    if (!other &&
        (strcmp(index_format(index), o->format) != 0 || (index->labels != NULL) != o->multi)) {
        log_info("%s: out of date: %s contains other files or is read differently; scanning again",
                 file, o->path);
    } else if (other) {
        log_info("%s: this is the index of %s (%s); scanning %s (%s)", file, index_root(index),
                 index_format(index), o->path, o->format);
    } else if (!index_file_is_current(index, o->path, &changed)) {
        log_info("%s: out of date: %s%s%s has changed; scanning again", file, o->path,
                 changed[0] ? "/" : "", changed);
    } else {
        *out = index;
        index = NULL;
    }
    return OK;
}

Status index_file_obtain(Index **out, const char *file, IndexScan scan, const ScanOptions *o)
{
    *out = NULL;
    if (file) TRY(load_current(out, file, o));
    if (*out) return OK;
    double start_s = clock_s();
    TRY(scan(out, o));
    if (!file) return OK;
    double seconds = clock_s() - start_s;
    const Status status = index_file_save(*out, file);
    if (status == OK)
        log_detail("%s: %lld images found in %.2f s; index saved to %s", o->path,
                   (long long)(*out)->images, seconds, file);
    if (status == OK) return OK;
    if (!o->must_keep) {
        log_warning("%s: its index cannot be saved: %s", o->path, status_message());
        return OK;
    }
    index_destroy(*out);
    *out = NULL;
    return status;
}
