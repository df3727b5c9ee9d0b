/* source.c - what the sources share: numbered class names, and reading one file with retries
 * where the file system fails.
 *
 * A file is read with open, read, close and no fstat: on a network file system each of those is a
 * round trip. */
#include "data/source/source.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/index/class_names.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_TRIES       4
#define FIRST_READ_BYTES ((size_t)256 << 10)
#define MAX_FILE_BYTES   INDEX_MAX_SAMPLE_BYTES

Status source_read(const Source *s, int64_t id, int size, ByteBuf *buf, Sample *out)
{
    return s->kind->make ? s->kind->make(s, id, size, buf, out) : s->kind->read(s, id, buf, out);
}

Status source_number_classes(Source *s, int classes)
{
    s->classes = classes;
    s->class_names = (void *)class_names_numbers(classes);
    if (!s->class_names) return ERR_MEMORY;
    s->class_images = mem_calloc((size_t)classes, sizeof *s->class_images);
    return s->class_images ? OK : ERR_MEMORY;
}

ClassList source_class_list(const Source *s, const char *owner)
{
    return (ClassList){ .names = s->class_names,
                        .images = s->class_images,
                        .count = s->classes,
                        .named = s->named_classes,
                        .owner = owner };
}

void source_free_classes(Source *s)
{
    mem_free(s->class_names);
    mem_free(s->class_images);
}

typedef struct FileRead {
    int folder;
    const char *path;
    ByteBuf *buf;
    size_t bytes;
} FileRead;

static int read_once(void *cookie, int n, Status *status)
{
    FileRead *r = cookie;
    (void)n;
    /* O_NONBLOCK, O_NOCTTY: a named pipe or a terminal among the images must not hang or take the
     * run; no effect on regular files. A socket cannot be opened: ENXIO. */
    int fd = openat(r->folder, r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return errno;
    int error = 0;
    r->bytes = 0;
    for (;;) {
        size_t wanted = r->bytes + 1 > FIRST_READ_BYTES ? r->bytes + 1 : FIRST_READ_BYTES;
        *status = byte_buf_reserve(r->buf, wanted);
        if (*status != OK) break;
        size_t room = r->buf->capacity - r->bytes;
        ssize_t got = read(fd, r->buf->data + r->bytes, room);
        if (got < 0) error = errno;
        if (got <= 0) break;
        r->bytes += (size_t)got;
        /* A regular file gives less than was asked for at its end alone: no further round trip to
         * hear that. */
        if ((size_t)got < room || r->bytes > MAX_FILE_BYTES) break;
    }
    /* Only then, for the sake of the round trip: what a device says of itself is not EIO. */
    struct stat info;
    if (r->bytes == 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) error = ENXIO;
    close(fd);
    return error;
}

/* Does errno speak of this file (missing, unreadable, no file at all)? All else, such as EIO or no
 * free descriptor, speaks of the machine, and taking it for a bad sample would change what is
 * trained on. */
static bool is_about_the_file(int error)
{
    static const int errors[] = {
        ENOENT, EACCES, EPERM, ELOOP, ENOTDIR, EISDIR, ENAMETOOLONG, ENXIO
    };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (error == errors[i]) return true;
    return false;
}

Status source_retry(const char *name, int (*attempt)(void *cookie, int n, Status *status),
                    void *cookie)
{
    Status status = OK;
    int error = 0;
    double pause_s = 0.01;
    for (int n = 0; n < READ_TRIES; n++, pause_s *= 4) {
        if (n > 0) clock_sleep_s(pause_s);
        error = attempt(cookie, n, &status);
        if (status != OK || error == 0 || is_about_the_file(error)) break;
    }
    if (status != OK || error == 0) return status;
    if (!is_about_the_file(error))
        return fail(ERR_IO, "%s: cannot be read after %d tries: %s", name, READ_TRIES,
                    strerror(error));
    return fail(ERR_DATA, "%s: cannot be read: %s", name,
                error == ENXIO ? "not a regular file" : strerror(error));
}

Status source_read_file(int folder, const char *path, const char *name, ByteBuf *buf, size_t *bytes)
{
    FileRead r = { .folder = folder, .path = path, .buf = buf };
    TRY(source_retry(name, read_once, &r));
    *bytes = r.bytes;
    if (*bytes == 0) return fail(ERR_DATA, "%s: the file is empty", name);
    if (*bytes > MAX_FILE_BYTES)
        return fail(ERR_DATA, "%s: larger than %zu MB", name, MAX_FILE_BYTES >> 20);
    return OK;
}

/* Is the page that holds offset no longer in memory? */
static bool is_gone(int fd, int64_t offset)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    unsigned char resident = 1;
    void *p = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, fd, offset / page * page);
    if (p == MAP_FAILED) return false;
    bool known = mincore(p, (size_t)page, &resident) == 0;
    munmap(p, (size_t)page);
    return known && !(resident & 1);
}

void source_forget_file(int folder, const char *path, int64_t offset, int64_t bytes, bool *gone)
{
    const int64_t page = sysconf(_SC_PAGESIZE), first = offset / page * page;
    int64_t length = bytes > 0 ? offset + bytes - first : 0;
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* Only whole pages are forgotten: those that are shared with neighbours too. */
    length = (length + page - 1) / page * page;
    bool asked = fd >= 0 && posix_fadvise(fd, first, length, POSIX_FADV_DONTNEED) == 0;
    if (gone) *gone = asked && is_gone(fd, offset);
    if (fd >= 0) close(fd);
}

/* ---- sources with an index ---- */

Status source_use_index(Source *s, const Index *index)
{
    size_t classes = (size_t)index->classes;
    s->index = index;
    s->images = index->images;
    s->classes = index->classes;
    s->named_classes = index->header->flags & INDEX_NAMED;
    s->class_names = mem_alloc(classes * sizeof *s->class_names);
    s->class_images = mem_alloc(classes * sizeof *s->class_images);
    if (!s->class_names || !s->class_images) return ERR_MEMORY;
    s->labels = index->labels;
    s->label_bytes = index->label_bytes;
    for (int c = 0; c < s->classes; c++) s->class_names[c] = index_class_name(index, c);
    index_count_images(index, s->class_images);
    return OK;
}

int source_index_label(const Source *s, int64_t id)
{
    return index_label(s->index, id);
}

int64_t source_bytes(const Source *s, int64_t id)
{
    return s->index && s->index->bytes ? (int64_t)s->index->bytes[id] : -1;
}

static Status check_containers(const Index *index, int root, const char *path)
{
    for (int i = 0; i < index->stamp_count; i++) {
        const char *name = index_stamp_name(index, i);
        struct stat info;
        int error = root >= 0 ? fstatat(root, name, &info, 0) : stat(path, &info);
        if (error || (uint64_t)info.st_size != index->stamps[i].bytes)
            return fail(ERR_DATA, "ranks see different images: %s/%s: %s", path, name,
                        error ? strerror(errno) : "its size differs");
    }
    return OK;
}

Status source_no_folder(const char *path)
{
    return fail(ERR_DATA, "%s: %s", path, fs_exists(path) ? "not a folder" : "no such folder");
}

Status source_check_index(const Index *index, const char *path)
{
    bool files = index->stamp_count > 0 && index->stamps[0].bytes > 0;
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 && (errno != ENOTDIR || !files)) return source_no_folder(path);
    Status status = files ? check_containers(index, root, path) : OK;
    if (root >= 0) close(root);
    return status;
}
