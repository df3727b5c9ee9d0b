/* fault_io.c - see fault_io.h. The real calls are made directly: the C library's are what is
 * replaced. */
#include "tests/tools/fault_io.h"
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int to_skip, to_fail, with_error;

void fault_reads(int error, int skip, int count)
{
    with_error = error;
    to_skip = skip;
    to_fail = count;
}

static int fails(void)
{
    if (to_fail <= 0 || atomic_fetch_sub(&to_skip, 1) > 0) return 0;
    return atomic_fetch_sub(&to_fail, 1) > 0;
}

ssize_t read(int fd, void *buf, size_t bytes)
{
    if (!fails()) return syscall(SYS_read, fd, buf, bytes);
    errno = with_error;
    return -1;
}

ssize_t pread(int fd, void *buf, size_t bytes, off_t offset)
{
    if (!fails()) return syscall(SYS_pread64, fd, buf, bytes, offset);
    errno = with_error;
    return -1;
}

/* What _FORTIFY_SOURCE makes of the same calls. */
ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t bytes, off_t offset, size_t room);

ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room)
{
    if (bytes > room) abort();
    return read(fd, buf, bytes);
}

ssize_t __pread_chk(int fd, void *buf, size_t bytes, off_t offset, size_t room)
{
    if (bytes > room) abort();
    return pread(fd, buf, bytes, offset);
}
