/* meet.c - see meet.h. */
#include "trainer/engine/train/meet.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/version.h"
#include "trainer/engine/files/run_source.h"
#include "trainer/engine/session/build_info.h"
#include <stdio.h>
#include <string.h>

typedef struct Introduction { /* its layout never changes: builds of any two versions compare it */
    char build[192], host[64];
} Introduction;

/* All ranks must be one program; rank 0 is right. */
static Status check_build(Comm *comm, const Introduction *own, Introduction *first)
{
    *first = *own;
    comm_broadcast(comm, first, sizeof *first, 0, "handshake");
    if (strcmp(own->build, first->build) == 0) return OK;
    return fail(ERR_ENV, "%s runs %s, but rank 0 on %s runs %s; install the same build everywhere",
                own->host, own->build, first->host, first->build);
}

/* All ranks must run the same configuration; only where the data lies may differ from host to
 * host. */
static Status check_config(Comm *comm, const Config *c, const Introduction *own,
                           const Introduction *first)
{
    uint32_t prints[CONFIG_PRINTS_MAX] = { 0 };
    StrBuf text = { 0 };
    Status status = OK;
    config_prints(c, prints);
    comm_broadcast(comm, prints, sizeof prints, 0, "configuration");
    config_add_unlike(c, prints, &text);
    if (text.length > 0)
        status = fail(ERR_USAGE, "the configuration on %s differs from that of rank 0 on %s: %s",
                      own->host, first->host, text.text);
    str_free(&text);
    return status;
}

/* The configuration of the run in c's folder that goes on, or of the checkpoint that c goes on
 * from (*own is false); NULL: of none, or none that can be read, which is said where it is needed.
 * config_destroy. */
static Config *config_before(const Config *c, bool *own)
{
    Config *then = NULL;
    const char *resume = c->checkpoint.resume;
    char *path = fs_join(c->run.dir, "config.yaml");
    *own = fs_holds(c->run.dir, "checkpoints/latest");
    if (strcmp(resume, "none") != 0 && *own && path) (void)config_stored(&then, path);
    else if (!*own && run_source_is_checkpoint(resume))
        (void)run_source_config(&then, resume, NULL, 0);
    mem_free(path);
    return then;
}

/* What a run has had where its config says auto. */
typedef struct Before {
    int64_t goes_on; /* of none: nothing else counts */
    int64_t eval_resize /*-1: of other images*/, precision, precision_auto;
} Before;

static Before find_before(const Config *c)
{
    bool own;
    Config *then = config_before(c, &own);
    if (!then) return (Before){ .goes_on = false };
    const bool same_images = own && strcmp(then->model.name, c->model.name) == 0 &&
                             then->model.stem == c->model.stem &&
                             then->data.image_size == c->data.image_size;
    const Before b = { .goes_on = true,
                       .eval_resize = same_images ? then->data.eval_resize : -1,
                       .precision = then->train.precision,
                       .precision_auto = then->train.precision_auto };
    config_destroy(then);
    return b;
}

/* What auto became when a run began holds until its end. Only rank 0 need see the run folder. */
static void keep_before(Comm *comm, Config *c)
{
    const bool any_precision =
        c->train.precision == CONFIG_OTHER && c->train.precision_auto == CONFIG_OTHER;
    const bool asks = comm->rank == 0 && (any_precision || c->data.eval_resize_auto);
    Before b = asks ? find_before(c) : (Before){ .goes_on = false };
    comm_broadcast(comm, &b, sizeof b, 0, "what auto has been");
    if (b.goes_on && any_precision) {
        c->train.precision = (int)b.precision;
        c->train.precision_auto = (int)b.precision_auto;
    }
    if (b.goes_on && b.eval_resize >= 0 && c->data.eval_resize_auto) {
        c->data.eval_resize_auto = b.eval_resize == c->data.eval_resize;
        c->data.eval_resize = b.eval_resize;
    }
}

Status meet_ranks(Comm *comm, Config *c, Status loaded)
{
    Introduction own = { .host = "" }, first;
    snprintf(own.build, sizeof own.build, "convoy %s %s", version_text(), build_info_kind());
    snprintf(own.host, sizeof own.host, "%s", process_host());
    TRY(comm_agree(comm, check_build(comm, &own, &first)));
    TRY(comm_agree(comm, loaded));
    keep_before(comm, c);
    return comm_agree(comm, check_config(comm, c, &own, &first));
}
