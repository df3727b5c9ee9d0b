/* cache_share.c - see cache_share.h. The first rank of each node makes the memory, all ranks hear
 * of all nodes', each opens its node's; a file on a disk has a name that all know. Both datasets
 * lie in it, the training set first. */
#include "trainer/engine/session/cache_share.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((double)(1 << 30))

enum { KEY_PID, KEY_FD, KEY_TOKEN, KEY_WORDS };

/* Images that come from files. */
static int64_t file_images(const Dataset *d)
{
    return d && !dataset_in_memory(d) ? dataset_images(d) : 0;
}

static Status name_key(Status status, const char *key)
{
    return status == OK || status == ERR_MEMORY ? status : fail_note(status, "%s", key);
}

static Status choose_bytes(const Config *c, size_t *out)
{
    size_t left = (size_t)process_available_bytes();
    *out = (size_t)c->data.cache_mb * MIB;
    if (c->data.cache_mb == 0 && left == 0)
        return fail(ERR_ENV,
                    "data.cache: cannot find out how much memory is free; set data.cache_mb");
    if (c->data.cache_mb == 0) *out = left / 2 / MIB * MIB;
    if (left > 0 && *out > left) {
        return fail(ERR_USAGE,
                    "data.cache_mb: %lld MiB are more than the %zu MiB of free memory on this node",
                    (long long)c->data.cache_mb, left / MIB);
    }
    return OK;
}

static Status create(SampleCache **out, const Config *c, int64_t samples)
{
    size_t bytes = 0;
    TRY(choose_bytes(c, &bytes));
    TRY(name_key(cache_create(out, samples, bytes), "data.cache"));
    log_info("data.cache: files are kept in memory after the first read, up to %.1f GiB per node",
             (double)bytes / GIB);
    return OK;
}

/* The key of this rank's node, zeros where it has no cache; every rank takes part. */
static Status exchange(Comm *comm, const SampleCache *cache, CacheKey *out)
{
    int64_t *words = mem_calloc((size_t)comm->world * KEY_WORDS, sizeof *words);
    Status status = comm_agree(comm, words ? OK : ERR_MEMORY);
    if (status != OK) {
        mem_free(words);
        return status;
    }
    if (cache) {
        CacheKey own = cache_key(cache);
        int64_t *mine = words + comm->rank * KEY_WORDS;
        mine[KEY_PID] = own.pid;
        mine[KEY_FD] = own.fd;
        mine[KEY_TOKEN] = (int64_t)own.token;
    }
    comm_allgather(comm, words, KEY_WORDS * sizeof *words, "cache");
    const int64_t *node = words + comm->local_leader * KEY_WORDS;
    *out =
        (CacheKey){ .pid = node[KEY_PID], .fd = node[KEY_FD], .token = (uint64_t)node[KEY_TOKEN] };
    mem_free(words);
    return OK;
}

static Status share_memory(SampleCache **out, Comm *comm, const Config *c, int64_t samples)
{
    bool leads = comm->rank == comm->local_leader;
    CacheKey key;
    TRY(comm_agree(comm, leads ? create(out, c, samples) : OK));
    TRY(exchange(comm, *out, &key));
    return comm_agree(comm, leads ? OK
                                  : name_key(cache_join(out, &key, samples),
                                             "data.cache (page needs no shared memory)"));
}

/* ---- on a disk ---- */

/* Of all paths, classes and stamps in the index. */
static uint64_t identity_of(const Dataset *d)
{
    size_t bytes = 0;
    const void *index = d ? dataset_index(d, &bytes) : NULL;
    return (uint64_t)crc32c_update(0, index, bytes) << 32 | (uint32_t)bytes;
}

/* What a new file may take: of what is free, to which what an old one has taken is added. 0 where
 * that is next to nothing and nobody asked for more. */
static Status choose_disk_bytes(CacheFile *file, const Config *c, size_t used)
{
    struct statvfs disk;
    const char *dir = c->data.cache_dir;
    TRY(name_key(fs_make_dirs(dir), "data.cache_dir"));
    if (statvfs(dir, &disk) != 0)
        return fail(ERR_IO, "data.cache_dir: %s: %s", dir, strerror(errno));
    const size_t left = (size_t)disk.f_bavail * disk.f_frsize + used;
    file->bytes = (size_t)c->data.cache_mb * MIB;
    if (c->data.cache_mb == 0) file->bytes = left / 2 / MIB * MIB;
    if (file->bytes > left)
        return fail(ERR_USAGE, "data.cache_mb: %s has %zu MiB free, less than %zu", dir, left / MIB,
                    file->bytes / MIB);
    return OK;
}

static Status open_file(SampleCache **out, const CacheFile *file)
{
    return name_key(cache_open_file(out, file), "data.cache_dir");
}

/* The first of the node. *out stays NULL where the disk is full. */
static Status open_first(SampleCache **out, const Config *c, CacheFile *file)
{
    CacheStats stats = { 0 };
    Status status = fs_exists(file->path) ? open_file(out, file) : OK;
    if (status == ERR_DATA) { /* torn: its name is made of what it is for */
        log_warning("%s; it is created again", status_message());
        if (unlink(file->path) == 0) status = OK;
    }
    TRY(status);
    if (*out) {
        cache_stats(*out, &stats);
        file->bytes = stats.capacity;
    }
    if (!*out || c->data.cache_mb > 0) TRY(choose_disk_bytes(file, c, (size_t)stats.bytes));
    if (*out) cache_set_capacity(*out, file->bytes);
    else if (file->bytes > 0) TRY(open_file(out, file));
    if (!*out)
        log_warning_here("data.cache_dir: %s has no space for %s; files are read without the cache",
                         c->data.cache_dir, file->path);
    else
        log_info("data.cache: files are kept in %s after the first read, up to %.1f GiB; it "
                 "already has %lld",
                 file->path, (double)file->bytes / GIB, (long long)stats.samples);
    return OK;
}

static Status share_disk(SampleCache **out, Comm *comm, const Config *c, CacheFile *file)
{
    const bool leads = comm->rank == comm->local_leader;
    CacheKey key;
    TRY(comm_agree(comm, leads ? open_first(out, c, file) : OK));
    TRY(exchange(comm, *out, &key));
    return comm_agree(comm, leads || key.pid == 0 ? OK : open_file(out, file));
}

static Status share_file(SampleCache **out, Comm *comm, const Config *c, const Dataset *train,
                         const Dataset *val, int64_t samples)
{
    StrBuf path = { 0 };
    const uint64_t of_val = identity_of(val);
    CacheFile file = { .identity = identity_of(train) ^ (of_val << 1 | of_val >> 63),
                       .samples = samples };
    str_printf(&path, "%s/%016llx.cache", c->data.cache_dir, (unsigned long long)file.identity);
    Status status = comm_agree(comm, path.failed ? ERR_MEMORY : OK);
    file.path = path.text;
    if (status == OK) status = share_disk(out, comm, c, &file);
    str_free(&path);
    return status;
}

Status cache_share(SampleCache **out, Comm *comm, const Config *c, Dataset *train, Dataset *val)
{
    DataCache kind = c->data.cache;
    int64_t of_train = file_images(train), samples = of_train + file_images(val);
    *out = NULL;
    if (samples == 0) return OK; /* all is in memory anyway */
    Status status = OK;
    if (kind == DATA_CACHE_RAM) status = share_memory(out, comm, c, samples);
    if (kind == DATA_CACHE_DISK) status = share_file(out, comm, c, train, val, samples);
    if (status != OK) {
        cache_destroy(*out);
        *out = NULL;
        return status;
    }
    if (kind == DATA_CACHE_DISK && !*out) kind = DATA_CACHE_PAGE;
    if (train) dataset_use_cache(train, kind, *out, 0);
    if (val) dataset_use_cache(val, kind, *out, of_train);
    return OK;
}
