/* fs.h - file system helpers. Errors name the path. Reading errors are ERR_DATA, writing errors
 * ERR_IO. */
#ifndef CONVOY_BASE_FS_H
#define CONVOY_BASE_FS_H
#include "base/status.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* False only of what is not there; of what cannot be looked at, opening it tells why. */
bool fs_exists(const char *path);
bool fs_holds(const char *dir, const char *name); /* whether dir/name exists */
bool fs_is_dir(const char *path);                 /* follows symlinks */
Status fs_make_dirs(const char *path);            /* mkdir -p */
/* What is read whole has a limit: of what is data (an index, records of a run, a batch of CIFAR),
 * and of what is a description or a table in JSON or text. */
#define FS_DATA_BYTES ((size_t)4 << 30)
#define FS_TEXT_BYTES ((size_t)64 << 20)
/* Returns to caller (mem_free); a NUL follows the last byte. Only regular files: what is a device
 * or a FIFO may never end. ERR_DATA, also for one of more than FS_DATA_BYTES. */
Status fs_read_file(const char *path, uint8_t **out, size_t *bytes);
Status fs_read_limited(const char *path, size_t limit, uint8_t **out, size_t *bytes);
/* The first bytes of a file, of the kernel's too, with a NUL behind them; allocates nothing. -1
 * with errno, and what was read before. */
ssize_t fs_read_head(const char *path, char *out, size_t bytes);
/* Opens a file to write to, for open()'s flags, made where they say O_CREAT. A link at its end is
 * followed only if it belongs to this user, to root, or to the owner of the folder that it lies in:
 * others may have planted it, as the kernel's protected_symlinks takes it. ERR_IO. */
Status fs_open(int *fd, const char *path, int flags);
/* Makes the temporary file that path is written through, and opens it. What lies there already is
 * of a process that died, or planted: it is removed, never written to. ERR_IO names path. */
Status fs_open_temporary(int *fd, const char *temporary, const char *path);
/* Writes path.tmp-PID, fsyncs it, renames it over path, fsyncs the folder: readers see the old file
 * or the new one, never a part. Where path is a symlink, followed as fs_open() does, all this
 * happens to the file that it leads to. A device, a FIFO (waits for its reader), and what is open
 * as standard output or error are written to in place. ERR_IO leaves no temporary file. */
Status fs_write_atomic(const char *path, const void *data, size_t bytes);
/* The same with content from a function: write() fills fd, by fs_write_all(), and is false with
 * errno set if it cannot.
 */
Status fs_write_by(const char *path, bool (*write)(int fd, const void *cookie), const void *cookie);
/* fs_write_atomic() of text, which is freed, where status is OK; else status. */
Status fs_write_text(Status status, const char *path, StrBuf *text);
void fs_close(int *fd); /* if it is open, and errno stays: for FREED_BY */
bool fs_write_all(int fd, const void *data, size_t bytes); /* false with errno set */
/* What lies at a place, up to the end of the file: how many bytes, or -1 with errno set. */
ssize_t fs_read_at(int fd, void *out, size_t bytes, uint64_t at);
/* Whether fs_write_atomic() would be let: for work that is not to be lost to a name that is wrong.
 * ERR_IO. */
Status fs_check_writable(const char *path);
bool fs_same_file(const char *a, const char *b); /* links followed; false where one is not there */
/* Where path is: absolute, without . and .. and links, also where its last parts are not there yet.
 * mem_free; NULL when out of memory. */
char *fs_place(const char *path);
/* Whether path, which need not be there yet, is folder or lies somewhere in it; links followed. */
bool fs_lies_in(const char *path, const char *folder);
/* atomic: new link under a temporary name, then rename */
Status fs_replace_symlink(const char *target, const char *link_path);
Status fs_sync_dir(const char *path);
/* Names in a folder without "." and "..", sorted by strcmp. Returns to caller: one mem_free for the
 * array, which holds the strings. */
Status fs_list(const char *path, char ***names, int64_t *count);
char *fs_join(const char *a, const char *b); /* a/b, mem_free; NULL when out of memory */
char *fs_parent(const char *path);           /* the folder that holds it; the same */
#endif
