/* fs.c - files and folders over POSIX calls.
 *
 * What is written becomes visible by rename(): content is fsynced first and the folder after, so
 * that a crash at any moment leaves the old file or the whole new one. Temporary names end in
 * .tmp-PID, so ranks on one host do not meet. A name may also stand for something that must not be
 * replaced: behind a symlink the file that it leads to is, and a device, a FIFO, or what is
 * standard output already is written to where it is.
 *
 * Others may write to the folder too. A temporary file is always a new one (O_EXCL), and what is
 * opened has had its links followed here, one by one, each looked at, and is none itself
 * (O_NOFOLLOW). */
#include "base/fs.h"

#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* one after another, as in the kernel */

bool fs_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool fs_is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static Status make_one_dir(const char *path)
{
    if (mkdir(path, 0777) == 0) return OK;
    int error = errno;
    struct stat info;
    const bool there = stat(path, &info) == 0;
    if (there && S_ISDIR(info.st_mode)) return OK; /* already, or another rank was faster */
    if (!there && error == EEXIST) error = errno;
    return fail(ERR_IO, "%s: cannot create folder: %s", path, strerror(error));
}

Status fs_make_dirs(const char *path)
{
    char *copy FREED = mem_strdup(path);
    if (!copy) return ERR_MEMORY;
    for (char *p = copy + 1; copy[0] && *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        TRY(make_one_dir(copy));
        *p = '/';
    }
    return make_one_dir(copy);
}

static Status cannot_read(const char *path, int error)
{
    return fail(ERR_DATA, "%s: cannot read: %s", path, strerror(error));
}

/* Only what is a file, and not too large; bytes: as fstat() says, a first guess, since files grow,
 * and some report 0. */
static Status measure_file(int fd, const char *path, size_t limit, size_t *bytes)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return cannot_read(path, errno);
    if (S_ISDIR(info.st_mode)) return cannot_read(path, EISDIR);
    if (!S_ISREG(info.st_mode)) return fail(ERR_DATA, "%s: cannot read: not a regular file", path);
    *bytes = (size_t)info.st_size;
    return *bytes <= limit
               ? OK
               : fail(ERR_DATA, "%s: too large: %zu bytes; the limit for this file is %zu", path,
                      *bytes, limit);
}

/* Reads fd to its end. */
static Status read_all(int fd, const char *path, size_t limit, uint8_t **out, size_t *bytes)
{
    size_t length = 0, capacity = 0;
    TRY(measure_file(fd, path, limit, &capacity));
    capacity = capacity > 0 ? capacity + 2 : 4096;
    uint8_t *data FREED = mem_alloc(capacity);
    if (!data) return ERR_MEMORY;
    for (;;) {
        ssize_t n = read(fd, data + length, capacity - length - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || length > limit) return cannot_read(path, n < 0 ? errno : EFBIG);
        if (n == 0) break;
        length += (size_t)n;
        if (capacity - length > 1) continue;
        uint8_t *larger = mem_realloc(data, capacity * 2);
        if (!larger) return ERR_MEMORY;
        data = larger;
        capacity *= 2;
    }
    data[length] = 0;
    *out = data;
    *bytes = length;
    data = NULL;
    return OK;
}

Status fs_read_limited(const char *path, size_t limit, uint8_t **out, size_t *bytes)
{
    *out = NULL;
    *bytes = 0;
    int fd FREED_BY(fs_close) =
        open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* a FIFO would wait */
    if (fd < 0) return fail(ERR_DATA, "%s: cannot open: %s", path, strerror(errno));
    return read_all(fd, path, limit, out, bytes);
}

Status fs_read_file(const char *path, uint8_t **out, size_t *bytes)
{
    return fs_read_limited(path, FS_DATA_BYTES, out, bytes);
}

void fs_close(int *fd)
{
    const int error = errno;
    if (*fd >= 0) close(*fd);
    errno = error;
}

bool fs_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Goes on from place by the names in path. links: followed so far. */
static void walk(char place[PATH_MAX], const char *path, int *links)
{
    char target[PATH_MAX];
    if (path[0] == '/') place[0] = '\0';
    for (int n; *path; path += n) {
        path += strspn(path, "/");
        n = (int)strcspn(path, "/");
        char *end = place + strlen(place), *last = strrchr(place, '/');
        if (n == 2 && strncmp(path, "..", 2) == 0 && last) *last = '\0';
        if (n == 0 || strncmp(path, "..", (size_t)n) == 0) continue; /* none, . and .. */
        snprintf(end, PATH_MAX - (size_t)(end - place), "/%.*s", n, path);
        const ssize_t to = *links < LINKS_MAX ? readlink(place, target, sizeof target - 1) : -1;
        if (to <= 0) continue;
        target[to] = '\0';
        *end = '\0';
        ++*links;
        walk(place, target, links);
    }
}

char *fs_place(const char *path)
{
    char place[PATH_MAX] = "";
    int links = 0;
    if (path[0] != '/' && (!getcwd(place, sizeof place) || !place[1])) place[0] = '\0';
    walk(place, path, &links);
    return mem_strdup(place[0] ? place : "/");
}

bool fs_lies_in(const char *path, const char *folder)
{
    char *at FREED = fs_place(path), *root FREED = fs_place(folder);
    const size_t n = root ? strlen(root) : 0;
    return at && root && strncmp(at, root, n) == 0 && (at[n] == '/' || at[n] == '\0' || n == 1);
}

/* ---- writing ---- */

bool fs_write_all(int fd, const void *data, size_t bytes)
{
    static const size_t piece = (size_t)8 << 20;
    const uint8_t *p = data;
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes < piece ? bytes : piece);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

ssize_t fs_read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (uint8_t *)out + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

char *fs_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = mem_strdup(slash ? path : ".");
    if (folder && slash) folder[slash == path ? 1 : slash - path] = '\0'; /* of /x it is / */
    return folder;
}

static Status cannot_write(const char *path, int error)
{
    return fail(ERR_IO, "%s: cannot write: %s", path, strerror(error));
}

/* ---- links at the end of a name ---- */

/* Others may plant a link where they can write, but not in the name of these. */
static bool is_trusted(uid_t owner, const char *parent)
{
    struct stat folder;
    return owner == geteuid() || owner == 0 ||
           (stat(parent, &folder) == 0 && folder.st_uid == owner);
}

/* Replaces *path, a link, by what it leads to: a file that need not exist yet. *followed is false
 * at the end of the way, a file or one of the kernel's own links (/proc/self/fd/1), whose text is
 * no path. */
static Status follow_link(char **path, bool *followed, const char *name)
{
    char target[PATH_MAX];
    struct stat link, there;
    *followed = false;
    ssize_t n = readlink(*path, target, sizeof target - 1);
    if (n <= 0) return OK;
    target[n] = '\0';
    char *parent FREED = fs_parent(*path);
    if (!parent) return ERR_MEMORY;
    if (lstat(*path, &link) != 0 || !is_trusted(link.st_uid, parent))
        return fail(ERR_IO, "%s: cannot write: %s is a symbolic link of another user", name, *path);
    char *next FREED = target[0] == '/' ? mem_strdup(target) : fs_join(parent, target);
    if (!next) return ERR_MEMORY;
    if (lstat(next, &there) != 0 && stat(*path, &there) == 0) return OK;
    char *before = *path;
    *path = next;
    next = before;
    *followed = true;
    return OK;
}

/* Where the file is that path means; mem_free. */
static Status find_file(char **out, const char *path)
{
    bool followed = true;
    *out = mem_strdup(path);
    Status status = *out ? OK : ERR_MEMORY;
    for (int links = 0; status == OK && followed; links++) {
        status = follow_link(out, &followed, path);
        if (status == OK && links == LINKS_MAX) status = cannot_write(path, ELOOP);
    }
    if (status == OK) return OK;
    mem_free(*out);
    *out = NULL;
    return status;
}

Status fs_open(int *fd, const char *path, int flags)
{
    char *file FREED = NULL;
    struct stat info;
    *fd = -1;
    TRY(find_file(&file, path));
    flags |= O_NOCTTY | O_CLOEXEC;
    *fd = open(file, flags | O_NOFOLLOW, 0666);
    /* a link of the kernel's own: nobody can put another in its place */
    bool kernels = str_starts_with(file, "/proc/") || str_starts_with(file, "/dev/fd/");
    if (*fd < 0 && errno == ELOOP && kernels && stat(file, &info) == 0)
        *fd = open(file, flags & ~O_CREAT);
    int error = errno;
    return *fd >= 0 ? OK : fail(ERR_IO, "%s: cannot open for writing: %s", path, strerror(error));
}

Status fs_open_temporary(int *fd, const char *temporary, const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    *fd = open(temporary, flags, 0666);
    if (*fd < 0 && errno == EEXIST && (unlink(temporary) == 0 || errno == ENOENT))
        *fd = open(temporary, flags, 0666);
    return *fd >= 0 ? OK : cannot_write(path, errno);
}

/* ---- files that become visible whole ---- */

/* Renames the finished temporary over path and makes that durable; removes the temporary if it
 * cannot. */
static Status publish(const char *temporary, const char *path)
{
    if (rename(temporary, path) != 0) {
        int error = errno;
        unlink(temporary);
        return fail(ERR_IO, "%s: cannot replace: %s", path, strerror(error));
    }
    char *parent FREED = fs_parent(path);
    return parent ? fs_sync_dir(parent) : ERR_MEMORY;
}

typedef struct Content {
    bool (*write)(int fd, const void *cookie);
    const void *cookie;
} Content;

/* Fills fd and closes it. What is no file on a disk cannot be synced, and says EINVAL. */
static Status write_content(int fd, const char *path, const Content *content)
{
    bool good = content->write(fd, content->cookie) && (fsync(fd) == 0 || errno == EINVAL);
    int error = errno;
    if (close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    return good ? OK : cannot_write(path, error);
}

/* Opens what is to be written to in place, if path is such a thing; else *fd is -1. */
static Status open_in_place(const char *path, int *fd)
{
    struct stat info, standard;
    *fd = -1;
    if (stat(path, &info) != 0 || S_ISDIR(info.st_mode)) return OK;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO && *fd < 0; i++)
        if (fstat(i, &standard) == 0 && standard.st_dev == info.st_dev &&
            standard.st_ino == info.st_ino)
            /* opened again, it would be written to from its start */
            *fd = fcntl(i, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0 && S_ISREG(info.st_mode)) return OK;
    return *fd < 0 ? fs_open(fd, path, O_WRONLY) : OK;
}

static Status write_temporary(const char *temporary, const char *path, const Content *content)
{
    int fd;
    TRY(fs_open_temporary(&fd, temporary, path));
    Status status = write_content(fd, path, content);
    if (status != OK) unlink(temporary);
    return status;
}

static Status temporary_name(StrBuf *out, const char *path)
{
    str_printf(out, "%s.tmp-%ld", path, (long)getpid());
    return out->failed ? ERR_MEMORY : OK;
}

static Status replace(const char *path, const Content *content)
{
    StrBuf temporary FREED_BY(str_free) = { 0 };
    char *file FREED = NULL;
    TRY(find_file(&file, path));
    TRY(temporary_name(&temporary, file));
    TRY(write_temporary(temporary.text, path, content));
    return publish(temporary.text, file);
}

Status fs_write_by(const char *path, bool (*write)(int fd, const void *cookie), const void *cookie)
{
    const Content content = { write, cookie };
    int fd;
    TRY(open_in_place(path, &fd));
    return fd < 0 ? replace(path, &content) : write_content(fd, path, &content);
}

typedef struct Bytes {
    const void *data;
    size_t count;
} Bytes;

static bool write_bytes(int fd, const void *cookie)
{
    const Bytes *bytes = cookie;
    return fs_write_all(fd, bytes->data, bytes->count);
}

Status fs_write_atomic(const char *path, const void *data, size_t bytes)
{
    const Bytes content = { data, bytes };
    return fs_write_by(path, write_bytes, &content);
}

Status fs_write_text(Status status, const char *path, StrBuf *text)
{
    if (status == OK && text->failed) status = fail(ERR_MEMORY, "%s: out of memory", path);
    if (status == OK) status = fs_write_atomic(path, text->text, text->length);
    str_free(text);
    return status;
}

Status fs_check_writable(const char *path)
{
    char *file FREED = NULL;
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        if (S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
        return access(path, W_OK) == 0 ? OK : cannot_write(path, errno);
    }
    TRY(find_file(&file, path));
    char *parent FREED = fs_parent(file);
    if (!parent) return ERR_MEMORY;
    return access(parent, W_OK | X_OK) == 0 ? OK : cannot_write(path, errno);
}

Status fs_replace_symlink(const char *target, const char *link_path)
{
    StrBuf temporary FREED_BY(str_free) = { 0 };
    TRY(temporary_name(&temporary, link_path));
    unlink(temporary.text); /* left by a killed process of the same number */
    if (symlink(target, temporary.text) != 0)
        return fail(ERR_IO, "%s: cannot create link: %s", link_path, strerror(errno));
    return publish(temporary.text, link_path);
}

Status fs_sync_dir(const char *path)
{
    int fd FREED_BY(fs_close) = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail(ERR_IO, "%s: cannot open folder: %s", path, strerror(errno));
    /* Some network file systems cannot sync a folder and say EINVAL; there is nothing more to do
     * there. */
    if (fsync(fd) == 0 || errno == EINVAL) return OK;
    return fail(ERR_IO, "%s: cannot sync folder: %s", path, strerror(errno));
}

/* ---- listing ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names, each with its NUL, one after another. */
static Status collect_names(DIR *dir, const char *path, StrBuf *names, size_t *count)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        str_add_n(names, entry->d_name, strlen(entry->d_name) + 1);
        (*count)++;
    }
    if (errno != 0) return fail(ERR_DATA, "%s: cannot read folder: %s", path, strerror(errno));
    return names->failed ? ERR_MEMORY : OK;
}

/* One block: count pointers, then the strings they point to. */
static char **pack_names(const StrBuf *names, size_t count)
{
    size_t bytes;
    if (!mem_mul(count, sizeof(char *), &bytes) || !mem_add(bytes, names->length, &bytes)) {
        fail(ERR_MEMORY, "out of memory: %zu file names", count);
        return NULL;
    }
    char **block = mem_alloc(bytes);
    if (!block) return NULL;
    char *text = (char *)(block + count);
    if (names->length) memcpy(text, names->text, names->length);
    for (size_t i = 0; i < count; i++) {
        block[i] = text;
        text += strlen(text) + 1;
    }
    qsort(block, count, sizeof *block, compare_names);
    return block;
}

Status fs_list(const char *path, char ***names, int64_t *count)
{
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(path);
    if (!dir) return fail(ERR_DATA, "%s: cannot read folder: %s", path, strerror(errno));
    StrBuf text FREED_BY(str_free) = { 0 };
    size_t n = 0;
    Status status = collect_names(dir, path, &text, &n);
    closedir(dir);
    TRY(status);
    if (!(*names = pack_names(&text, n))) return ERR_MEMORY;
    *count = (int64_t)n;
    return OK;
}

char *fs_join(const char *a, const char *b)
{
    StrBuf path = { 0 };
    bool slash = a[0] && a[strlen(a) - 1] != '/';
    str_printf(&path, "%s%s%s", a, slash ? "/" : "", b);
    if (!path.failed) return path.text;
    str_free(&path);
    return NULL;
}

bool fs_holds(const char *dir, const char *name)
{
    char *path FREED = fs_join(dir, name);
    return path && fs_exists(path);
}

ssize_t fs_read_head(const char *path, char *out, size_t bytes)
{
    size_t done = 0;
    ssize_t n = 0;
    out[0] = '\0';
    int fd FREED_BY(fs_close) = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    while (done + 1 < bytes && (n = read(fd, out + done, bytes - 1 - done)) > 0) done += (size_t)n;
    out[done] = '\0';
    return n < 0 ? -1 : (ssize_t)done;
}
