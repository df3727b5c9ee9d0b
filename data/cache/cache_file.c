/* cache_file.c - makes and opens the file of a cache on a disk: see cache.h. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/cache/cache_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_header(int fd, const CacheFile *f)
{
    const CacheHeader header = {
        .magic = CACHE_MAGIC, .token = f->identity, .samples = f->samples, .capacity = f->bytes
    };
    errno = posix_fallocate(fd, 0, (off_t)cache_blocks_at(f->samples));
    return errno == 0 && pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
           fdatasync(fd) == 0;
}

/* Whole or not at all; where another job has made it meanwhile, that one stays. *full: there is no
 * room for it. */
static Status make_file(const CacheFile *f, bool *full)
{
    StrBuf temporary = { 0 };
    int fd = -1;
    /* jobs in containers of their own may have the same process id */
    str_printf(&temporary, "%s.tmp-%ld-%llx", f->path, (long)getpid(),
               (unsigned long long)(1e9 * clock_unix_s()));
    if (temporary.failed) return ERR_MEMORY;
    Status status = fs_open_temporary(&fd, temporary.text, f->path);
    if (status == OK) {
        const bool made =
            write_header(fd, f) && (link(temporary.text, f->path) == 0 || errno == EEXIST);
        *full = !made && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
        if (!made && !*full)
            status = fail(ERR_IO, "cannot create %s: %s", f->path, strerror(errno));
        close(fd);
        unlink(temporary.text);
    }
    str_free(&temporary);
    return status;
}

static Status check_file(const struct stat *info, const CacheFile *f)
{
    if (!S_ISREG(info->st_mode) || info->st_uid != geteuid())
        return fail(ERR_ENV, "%s is not a regular file of this user", f->path);
    if ((size_t)info->st_size < cache_blocks_at(f->samples))
        return fail(ERR_DATA, "%s is not a cache of these files", f->path);
    return OK;
}

static Status use_file(SampleCache *c, const CacheFile *f)
{
    struct stat info;
    c->fd = open(f->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (c->fd < 0 || fstat(c->fd, &info) != 0)
        return fail(ERR_IO, "cannot open %s: %s", f->path, strerror(errno));
    TRY(check_file(&info, f));
    TRY(cache_map(c, c->fd, cache_blocks_at(f->samples)));
    c->token = f->identity;
    c->samples = f->samples;
    if (!cache_is_whole(c)) return fail(ERR_DATA, "%s is not a cache of these files", f->path);
    return OK;
}

Status cache_open_file(SampleCache **out, const CacheFile *f)
{
    *out = NULL;
    bool full = false;
    if (f->bytes > 0 && !fs_exists(f->path)) TRY(make_file(f, &full));
    if (full) return OK;
    SampleCache *c = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    c->fd = -1;
    c->path = mem_strdup(f->path);
    const Status status = c->path ? use_file(c, f) : ERR_MEMORY;
    if (status == OK && f->bytes > 0) cache_set_capacity(c, f->bytes);
    if (status == OK) *out = c;
    else cache_destroy(c);
    return status;
}
