/* rank_dataset.c - one scan a run, however many ranks.
 *
 * Rank 0 opens the dataset, which loads its index or scans, and sends the index to the others; each
 * of them looks whether its own path holds the same data. Formats without an index (IDX, CIFAR,
 * synthetic) are opened by each rank by itself. */
#include "trainer/session/rank_dataset.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static bool is_set(const char *s)
{
    return s && s[0] != '\0';
}

/* Where data.index says that indexes are kept; *out NULL for nowhere. mem_free. */
static Status index_place(char **out, const Config *c)
{
    const char *wanted = c->data.index, *dir = c->run.dir, *slash = strrchr(dir, '/');
    StrBuf place = { 0 };
    *out = NULL;
    if (strcmp(wanted, "off") == 0) return OK;
    /* auto: beside the run folder, so that the runs of a project share it */
    if (strcmp(wanted, "auto") != 0) str_add(&place, wanted);
    else if (slash && slash[1]) str_printf(&place, "%.*s/index", (int)(slash - dir), dir);
    else if (dir[0]) str_printf(&place, "%s%sindex", slash ? dir : "", slash ? "../" : "");
    else return OK;
    *out = place.text;
    return place.failed ? fail(ERR_MEMORY, "out of memory naming the index") : OK;
}

/* A file named by data.index is the training set's; the validation set's lies beside it under a
 * name of its own. */
static void choose_place(char *place, DataRole role)
{
    if (role == DATA_TRAIN || !place || !str_ends_with_nocase(place, ".index")) return;
    char *slash = strrchr(place, '/');
    if (slash) *slash = '\0';
    else memcpy(place, ".", 2);
}

/* Memory for seek indices: none where nothing would use them. */
static size_t seek_bytes(const Config *c)
{
    bool used = c->data.seek_index == SEEK_AUTO && c->data.decoder == HUFFMAN_FAST;
    return used ? (size_t)c->data.seek_index_mb << 20 : 0;
}

static Status open_here(Dataset **out, const DatasetOptions *o, const char *key)
{
    Status status = dataset_open(out, o);
    return status == OK ? OK : fail_note(status, "%s", key);
}

/* Sends rank 0's index to the others. *bytes 0: the format has none. mem_free(*copy), which is NULL
 * on rank 0. */
static Status share_index(const Dataset *mine, Comm *comm, void **copy, size_t *bytes)
{
    const void *index = mine ? dataset_index(mine, bytes) : NULL;
    int64_t count = (int64_t)*bytes;
    *copy = NULL;
    comm_broadcast(comm, &count, sizeof count, 0, "size of the index");
    *bytes = (size_t)count;
    if (count == 0) return OK;
    /* Rank 0 sends from a copy too: broadcast takes memory that may be written. */
    Status status = (*copy = mem_alloc(*bytes)) ? OK : ERR_MEMORY;
    if (status == OK && index) memcpy(*copy, index, *bytes);
    TRY(comm_agree(comm, status));
    comm_broadcast(comm, *copy, *bytes, 0, "index");
    return OK;
}

static Status open_together(Dataset **out, const DatasetOptions *o, const char *key, Comm *comm)
{
    void *copy = NULL;
    size_t bytes = 0;
    TRY(comm_agree(comm, comm->rank == 0 ? open_here(out, o, key) : OK));
    if (comm->world == 1) return OK;
    Status status = share_index(*out, comm, &copy, &bytes);
    if (status == OK && comm->rank != 0) {
        status = bytes ? dataset_open_by_index(out, o, copy, bytes) : dataset_open(out, o);
        if (status != OK) fail_note(status, "%s", key);
    }
    mem_free(copy);
    return comm_agree(comm, status);
}

Status rank_dataset_open(Dataset **out, const Config *c, DataRole role, Comm *comm)
{
    const char *key = role == DATA_TRAIN ? "data.train" : "data.val";
    const char *path = role == DATA_TRAIN ? c->data.train : c->data.val;
    char *place = NULL;
    *out = NULL;
    Status status = OK;
    if (!is_set(path) && c->data.format != DATA_SYNTHETIC)
        status =
            fail(ERR_USAGE, "%s is not set: name a folder in the config file or with --set %s=DIR",
                 key, key);
    if (status == OK) status = index_place(&place, c);
    choose_place(place, role);
    DatasetOptions o = { .path = path,
                         .format = c->data.format,
                         .role = role,
                         .synthetic_images = c->data.synthetic_images,
                         .synthetic_classes = c->model.classes > 0 ? (int)c->model.classes : 1000,
                         .index = place,
                         .seek_bytes = seek_bytes(c) };
    status = comm_agree(comm, status);
    if (status == OK) status = open_together(out, &o, key, comm);
    mem_free(place);
    if (status == OK) return OK;
    dataset_close(*out);
    *out = NULL;
    return status;
}
