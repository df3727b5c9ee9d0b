/* cache_share.c - see cache_share.h. The first rank of each node makes the memory, all ranks hear
 * of all nodes', each opens its node's. Both datasets lie in it, the training set first. */
#include "trainer/session/cache_share.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"

#define MIB ((size_t)1 << 20)
#define GIB ((double)(1 << 30))

enum { KEY_PID, KEY_FD, KEY_TOKEN, KEY_WORDS };

/* Images that come from files. */
static int64_t file_images(const Dataset *d)
{
    return d && !dataset_in_memory(d) ? dataset_images(d) : 0;
}

static Status choose_bytes(const Config *c, size_t *out)
{
    size_t left = (size_t)process_available_bytes();
    *out = (size_t)c->data.cache_mb * MIB;
    if (c->data.cache_mb == 0 && left == 0)
        return fail(ERR_ENV,
                    "data.cache: cannot find out how much memory is free here: give data.cache_mb");
    if (c->data.cache_mb == 0) *out = left / 2 / MIB * MIB;
    if (left > 0 && *out > left) {
        return fail(ERR_USAGE,
                    "data.cache_mb: %lld MiB are more than the %zu MiB that are left on this node",
                    (long long)c->data.cache_mb, left / MIB);
    }
    return OK;
}

static Status create(SampleCache **out, const Config *c, int64_t samples)
{
    size_t bytes = 0;
    TRY(choose_bytes(c, &bytes));
    TRY(cache_create(out, samples, bytes));
    log_info("data.cache: files are kept in memory once they were read, up to %.1f GiB for the "
             "ranks of a node",
             (double)bytes / GIB);
    return OK;
}

/* The key of this rank's node; every rank takes part. */
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
    CommJob job = {
        .kind = COMM_ALLGATHER, .type = COMM_I64, .data = words, .count = KEY_WORDS, .name = "cache"
    };
    comm_post(comm, &job);
    comm_wait(comm, &job);
    const int64_t *node = words + comm->local_leader * KEY_WORDS;
    *out =
        (CacheKey){ .pid = node[KEY_PID], .fd = node[KEY_FD], .token = (uint64_t)node[KEY_TOKEN] };
    mem_free(words);
    return OK;
}

static Status share(SampleCache **out, Comm *comm, const Config *c, int64_t samples)
{
    bool leads = comm->rank == comm->local_leader;
    CacheKey key;
    TRY(comm_agree(comm, leads ? create(out, c, samples) : OK));
    TRY(exchange(comm, *out, &key));
    return comm_agree(comm, leads ? OK : cache_join(out, &key, samples));
}

Status cache_share(SampleCache **out, Comm *comm, const Config *c, Dataset *train, Dataset *val)
{
    const DataCache kind = c->data.cache;
    int64_t of_train = file_images(train), samples = of_train + file_images(val);
    *out = NULL;
    if (samples == 0) return OK; /* all is in memory anyway */
    if (kind == DATA_CACHE_RAM) {
        Status status = share(out, comm, c, samples);
        if (status != OK) {
            cache_destroy(*out);
            *out = NULL;
            return status;
        }
    }
    if (train) dataset_use_cache(train, kind, *out, 0);
    if (val) dataset_use_cache(val, kind, *out, of_train);
    return OK;
}
