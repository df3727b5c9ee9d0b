/* cache.c - see cache.h. The file: header, one word for each entry, blocks. A block is the sample's
 * size in its first 64 bytes, then the sample and its seek index. Blocks are given out from the
 * front by an atomic add and never given back. */
#include "data/cache/cache.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mapping.h"
#include "base/mem.h"
#include "data/cache/cache_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h> /* memfd_create() */
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_S   2.0 /* how long to wait for another that loads a sample */
#define POLL_S       0.0005
#define KIND_SHIFT   62
#define PAYLOAD_MASK (((uint64_t)1 << KIND_SHIFT) - 1)
#define TIME_BITS    32 /* seconds of the node's monotonic clock */
/* a process that takes longer has died, even if a new one has its process id by now */
#define LOADING_MAX_S 60

/* absent is all zero */
typedef enum EntryKind { ENTRY_ABSENT, ENTRY_LOADING, ENTRY_READY, ENTRY_NEVER } EntryKind;

static _Atomic uint64_t *words(const SampleCache *c)
{
    return (_Atomic uint64_t *)(void *)((uint8_t *)c->header + sizeof(CacheHeader));
}

static uint8_t *blocks(const SampleCache *c)
{
    return (uint8_t *)c->header + cache_blocks_at(c->samples);
}

static EntryKind kind_of(uint64_t word)
{
    return (EntryKind)(word >> KIND_SHIFT);
}

static uint64_t make_word(EntryKind kind, uint64_t payload)
{
    return (uint64_t)kind << KIND_SHIFT | (payload & PAYLOAD_MASK);
}

static uint64_t loading_now(void)
{
    return make_word(ENTRY_LOADING, (uint64_t)getpid() << TIME_BITS | (uint32_t)clock_s());
}

static bool is_abandoned(uint64_t word)
{
    pid_t pid = (pid_t)((word & PAYLOAD_MASK) >> TIME_BITS);
    return (uint32_t)clock_s() - (uint32_t)word > LOADING_MAX_S ||
           (kill(pid, 0) != 0 && errno == ESRCH);
}

/* ---- life ---- */

Status cache_map(SampleCache *c, int fd, size_t bytes)
{
    c->header = mapping_open(fd, bytes, true);
    c->bytes = bytes;
    return c->header ? OK : fail(ERR_ENV, "cannot map %zu MiB: %s", bytes >> 20, strerror(errno));
}

static Status make(SampleCache *c, int64_t samples, size_t capacity)
{
    size_t bytes = cache_blocks_at(samples) + capacity;
    c->fd = memfd_create("convoy-cache", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (c->fd < 0 || fchmod(c->fd, 0600) != 0)
        return fail(ERR_ENV, "cannot create a memory file: %s", strerror(errno));
    if (ftruncate(c->fd, (off_t)bytes) != 0)
        return fail(ERR_ENV, "cannot allocate a memory file of %zu MiB: %s", bytes >> 20,
                    strerror(errno));
    /* nobody who joins can make it shorter under the others, which would end them with SIGBUS */
    if (fcntl(c->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return fail(ERR_ENV, "cannot seal a memory file: %s", strerror(errno));
    TRY(cache_map(c, c->fd, bytes));
    struct stat info;
    if (fstat(c->fd, &info) != 0) return fail(ERR_ENV, "%s", strerror(errno));
    c->token =
        (uint64_t)(clock_unix_s() * 1e9) ^ (uint64_t)info.st_ino << 40 ^ (uint64_t)getpid() << 20;
    c->samples = samples;
    *c->header = (CacheHeader){
        .magic = CACHE_MAGIC, .token = c->token, .samples = samples, .capacity = capacity
    };
    return OK;
}

Status cache_create(SampleCache **out, int64_t samples, size_t bytes)
{
    *out = NULL;
    SampleCache *c = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    c->fd = -1;
    Status status = make(c, samples, bytes);
    if (status == OK) *out = c;
    else cache_destroy(c);
    return status;
}

CacheKey cache_key(const SampleCache *c)
{
    return (CacheKey){ .pid = getpid(), .fd = c->fd, .token = c->token };
}

static Status join_file(SampleCache *c, int fd, const CacheKey *key, int64_t samples)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS); /* -1: no memory file */
    if (fstat(fd, &info) != 0 || info.st_uid != geteuid() || seals < 0 ||
        !(seals & F_SEAL_SHRINK) || (size_t)info.st_size < cache_blocks_at(samples))
        return fail(ERR_ENV, "process %lld of this node does not have this memory file",
                    (long long)key->pid);
    TRY(cache_map(c, fd, (size_t)info.st_size));
    c->token = key->token;
    c->samples = samples;
    return cache_is_whole(c) && cache_blocks_at(samples) + c->header->capacity == c->bytes
               ? OK
               : fail(ERR_ENV, "process %lld of this node has a different memory file",
                      (long long)key->pid);
}

Status cache_join(SampleCache **out, const CacheKey *key, int64_t samples)
{
    char path[64];
    *out = NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)key->pid, (long long)key->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return fail(ERR_ENV, "cannot open the memory of process %lld of this node: %s",
                    (long long)key->pid, strerror(errno));
    }
    SampleCache *c = mem_calloc(1, sizeof *c);
    Status status = c ? OK : ERR_MEMORY;
    if (c) c->fd = -1;
    if (status == OK) status = join_file(c, fd, key, samples);
    close(fd);
    if (status == OK) *out = c;
    else cache_destroy(c);
    return status;
}

void cache_destroy(SampleCache *c)
{
    if (!c) return;
    mapping_close(c->header, c->bytes);
    if (c->fd >= 0) close(c->fd);
    mem_free(c->path);
    mem_free(c);
}

/* ---- samples ---- */

bool cache_is_whole(const SampleCache *c)
{
    const volatile CacheHeader *h = c->header; /* of a disk: others may change it */
    return h->magic == CACHE_MAGIC && h->token == c->token && h->samples == c->samples;
}

/* Whether the file on the disk is no longer what was opened; that is said once. */
static bool is_lost(SampleCache *c)
{
    if (!c->path || (!c->lost && cache_is_whole(c))) return c->lost;
    if (!atomic_exchange(&c->lost, true))
        log_warning_here(
            "%s: truncated, overwritten or unreadable; files are read from the dataset instead",
            c->path);
    return true;
}

/* False where a disk no longer has it. */
static bool lend(SampleCache *c, int64_t entry, uint64_t word, ByteBuf *buf, Sample *out)
{
    if (c->path) return cache_disk_get(c, entry, word & PAYLOAD_MASK, buf, out);
    const CacheBlock *b =
        (const CacheBlock *)(const void *)(blocks(c) + (word & PAYLOAD_MASK) * CACHE_BLOCK_ALIGN);
    *out = source_file_sample((const uint8_t *)(b + 1), b->bytes, b->seek_bytes);
    return true;
}

static uint64_t room_of(size_t bytes)
{
    return (sizeof(CacheBlock) + bytes + CACHE_BLOCK_ALIGN - 1) / CACHE_BLOCK_ALIGN *
           CACHE_BLOCK_ALIGN;
}

/* Takes room for a sample: its block's number, or false. */
static bool take_room(SampleCache *c, size_t bytes, uint64_t *block)
{
    const uint64_t need = room_of(bytes);
    uint64_t used = atomic_load(&c->header->used);
    do {
        const uint64_t capacity = atomic_load(&c->header->capacity);
        if (used > capacity || need > capacity - used) return false;
    } while (!atomic_compare_exchange_weak(&c->header->used, &used, used + need));
    *block = used / CACHE_BLOCK_ALIGN;
    return true;
}

/* What the disk did not take; if another has room behind it already, it is lost. */
static void give_back(SampleCache *c, size_t bytes, uint64_t block)
{
    uint64_t end = block * CACHE_BLOCK_ALIGN + room_of(bytes);
    atomic_compare_exchange_strong(&c->header->used, &end, block * CACHE_BLOCK_ALIGN);
}

static void copy_in(SampleCache *c, uint64_t block, const Sample *sample)
{
    CacheBlock *b = (CacheBlock *)(void *)(blocks(c) + block * CACHE_BLOCK_ALIGN);
    b->bytes = sample->file.size;
    b->seek_bytes = sample->file.seek_bytes;
    memcpy(b + 1, sample->file.bytes, b->bytes + b->seek_bytes);
}

/* Puts a sample in, which this thread has the word of; from memory *out then borrows. */
static void store(SampleCache *c, int64_t entry, _Atomic uint64_t *word, Sample *out)
{
    uint64_t block = 0;
    const size_t bytes = out->file.size + out->file.seek_bytes;
    bool in = out->file.bytes && take_room(c, bytes, &block);
    if (in && !c->path) copy_in(c, block, out);
    if (in && c->path && !cache_disk_put(c, entry, block, out)) {
        give_back(c, bytes, block);
        in = false;
    }
    if (!in) {
        if (out->file.bytes) atomic_store(&c->header->full, true);
        atomic_store(word, make_word(ENTRY_NEVER, 0));
        return;
    }
    atomic_fetch_add(&c->header->stored, 1);
    atomic_fetch_add(&c->header->stored_bytes, (int64_t)out->file.size);
    const uint64_t ready = make_word(ENTRY_READY, block);
    atomic_store_explicit(word, ready, memory_order_release);
    if (!c->path) lend(c, entry, ready, NULL, out);
}

/* Waits while another process or thread loads the sample, unless that has died, for PATIENCE_S at
 * most. Returns the entry as it is then. */
static uint64_t await_other(const _Atomic uint64_t *word)
{
    double give_up_s = clock_s() + PATIENCE_S;
    uint64_t now = atomic_load_explicit(word, memory_order_acquire);
    while (kind_of(now) == ENTRY_LOADING && !is_abandoned(now) && clock_s() < give_up_s) {
        clock_sleep_s(POLL_S);
        now = atomic_load_explicit(word, memory_order_acquire);
    }
    return now;
}

Status cache_read(SampleCache *c, int64_t entry, const Source *source, int64_t id, ByteBuf *buf,
                  Sample *out, bool *hit)
{
    ASSERT(entry >= 0 && entry < c->samples);
    _Atomic uint64_t *word = &words(c)[entry];
    bool ours = *hit = false;
    for (bool settled = is_lost(c); !settled;) {
        uint64_t now = atomic_load_explicit(word, memory_order_acquire);
        if (kind_of(now) == ENTRY_LOADING) now = await_other(word);
        *hit = kind_of(now) == ENTRY_READY && lend(c, entry, now, buf, out);
        if (*hit) return OK;
        const bool free_for_us =
            kind_of(now) != ENTRY_NEVER && (kind_of(now) != ENTRY_LOADING || is_abandoned(now));
        const bool damaged = kind_of(now) == ENTRY_READY;
        ours = free_for_us && atomic_compare_exchange_strong(word, &now, loading_now());
        if (ours && damaged) atomic_fetch_sub(&c->header->stored, 1);
        /* where another was quicker the entry is looked at again: it is being loaded now */
        settled = ours || !free_for_us;
    }
    Status status = source->kind->read(source, id, buf, out);
    if (!ours) return status;
    if (status == OK) store(c, entry, word, out);
    else atomic_store(word, 0); /* absent again: the next read tries itself */
    return status;
}

void cache_set_capacity(SampleCache *c, size_t bytes)
{
    const uint64_t used = atomic_load(&c->header->used);
    atomic_store(&c->header->capacity, bytes);
    if (used >= bytes) return;
    /* what had no room may have some now */
    for (int64_t i = 0; i < c->samples; i++) {
        uint64_t never = make_word(ENTRY_NEVER, 0);
        atomic_compare_exchange_strong(&words(c)[i], &never, 0);
    }
    atomic_store(&c->header->full, false);
}

void cache_stats(const SampleCache *c, CacheStats *out)
{
    *out = (CacheStats){ .samples = atomic_load(&c->header->stored),
                         .bytes = atomic_load(&c->header->stored_bytes),
                         .capacity = c->header->capacity,
                         .full = atomic_load(&c->header->full) };
}
