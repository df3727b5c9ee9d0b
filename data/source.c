/* source.c - what the sources share: numbered class names and reading one file with a patient eye on the file system.
 *
 * A file is read with open, read, close and no fstat: on a network file system each of those is a round trip. */
#include "data/source.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READ_TRIES       4
#define FIRST_READ_BYTES ((size_t)256 << 10)
#define MAX_FILE_BYTES   ((size_t)64 << 20)
#define NUMBER_BYTES     12 /* a decimal int and its NUL */

Status source_number_classes(Source *s, int classes)
{
    size_t n = (size_t)classes;
    s->classes = classes;
    /* One block: the pointers, then the text they point to. */
    s->class_names = mem_alloc(n * (sizeof *s->class_names + NUMBER_BYTES));
    if (!s->class_names) return ERR_MEMORY;
    char *text = (char *)(s->class_names + n);
    for (size_t i = 0; i < n; i++) {
        snprintf(text + i * NUMBER_BYTES, NUMBER_BYTES, "%d", (int)i);
        s->class_names[i] = text + i * NUMBER_BYTES;
    }
    s->class_images = mem_calloc(n, sizeof *s->class_images);
    return s->class_images ? OK : ERR_MEMORY;
}

void source_free_classes(Source *s)
{
    mem_free(s->class_names);
    mem_free(s->class_images);
}

/* One attempt. errno of the failing call is returned, 0 if all was read; *status tells memory and size errors. */
static int read_once(int folder, const char *path, ByteBuf *buf, size_t *bytes, Status *status)
{
    /* O_NONBLOCK: a named pipe among the images must not hang the run; it has no effect on regular files. */
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    int error = 0;
    *bytes = 0;
    for (;;) {
        size_t wanted = *bytes + 1 > FIRST_READ_BYTES ? *bytes + 1 : FIRST_READ_BYTES;
        *status = buf_reserve(buf, wanted);
        if (*status != OK) break;
        size_t room = buf->capacity - *bytes;
        ssize_t got = read(fd, buf->data + *bytes, room);
        if (got < 0) error = errno;
        if (got <= 0) break;
        *bytes += (size_t)got;
        /* A regular file gives less than was asked for at its end alone: no further round trip to hear that. */
        if ((size_t)got < room || *bytes > MAX_FILE_BYTES) break;
    }
    close(fd);
    return error;
}

/* Does errno speak of this file (missing, unreadable, no file at all)? All else, such as EIO or no free descriptor,
 * speaks of the machine, and taking it for a bad sample would change what is trained on. */
static bool is_about_the_file(int error)
{
    static const int errors[] = { ENOENT, EACCES, EPERM, ELOOP, ENOTDIR, EISDIR, ENAMETOOLONG };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (error == errors[i]) return true;
    return false;
}

Status source_read_file(int folder, const char *path, const char *name, ByteBuf *buf, size_t *bytes)
{
    Status status = OK;
    int error = 0;
    double pause_s = 0.01;
    for (int attempt = 0; attempt < READ_TRIES; attempt++, pause_s *= 4) {
        if (attempt > 0) clock_sleep_s(pause_s);
        error = read_once(folder, path, buf, bytes, &status);
        if (status != OK || error == 0 || is_about_the_file(error)) break;
    }
    if (status != OK) return status;
    if (error && !is_about_the_file(error))
        return fail(ERR_IO, "%s: cannot be read after %d tries: %s", name, READ_TRIES, strerror(error));
    if (error) return fail(ERR_DATA, "%s: cannot be read: %s", name, strerror(error));
    if (*bytes == 0) return fail(ERR_DATA, "%s: the file is empty", name);
    if (*bytes > MAX_FILE_BYTES) return fail(ERR_DATA, "%s: larger than %zu MB", name, MAX_FILE_BYTES >> 20);
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
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool asked = fd >= 0 && posix_fadvise(fd, offset, bytes, POSIX_FADV_DONTNEED) == 0;
    if (gone) *gone = asked && is_gone(fd, offset);
    if (fd >= 0) close(fd);
}
