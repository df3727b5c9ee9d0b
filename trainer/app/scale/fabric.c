/* fabric.c - see fabric.h. */
#include "trainer/app/scale/fabric.h"

#include "base/arena.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

static Status read_number(const JsonValue *object, const char *path, const char *key, double *out)
{
    *out = json_double(object, key);
    return *out > 0 ? OK : fail(ERR_DATA, "%s: %s is missing or not above 0", path, key);
}

static Status need_text(const JsonValue *object, const char *path, const char *key,
                        const char **out)
{
    *out = json_text(object, key, "");
    return **out ? OK : fail(ERR_DATA, "%s: %s is missing", path, key);
}

static Status read_link(FabricLink *out, const JsonValue *root, const char *path, const char *key)
{
    const JsonValue *link = json_get(root, key);
    const char *source = NULL;
    double latency_us = 0, busbw = 0;
    if (!link || link->type != JSON_OBJECT) return fail(ERR_DATA, "%s: %s is missing", path, key);
    TRY(read_number(link, path, "latency_us", &latency_us));
    TRY(read_number(link, path, "busbw_gb_per_s", &busbw));
    TRY(need_text(link, path, "latency_source", &source));
    TRY(need_text(link, path, "busbw_source", &source));
    *out = (FabricLink){ .latency_s = 1e-6 * latency_us, .bytes_per_s = 1e9 * busbw };
    if (!json_get(link, "tree_latency_us")) return OK; /* trees are an option of a file */
    TRY(read_number(link, path, "tree_latency_us", &latency_us));
    TRY(need_text(link, path, "tree_latency_source", &source));
    out->tree_s = 1e-6 * latency_us;
    return OK;
}

static Status read_file(Fabric *out, const JsonValue *root, const char *path)
{
    const char *name = "";
    double per_node = 0;
    TRY(need_text(root, path, "name", &name));
    TRY(read_number(root, path, "ranks_per_node", &per_node));
    TRY(read_link(&out->intra, root, path, "intra"));
    TRY(read_link(&out->inter, root, path, "inter"));
    if (per_node != floor(per_node) || per_node > 65536)
        return fail(ERR_DATA, "%s: ranks_per_node is not a whole number up to 65536", path);
    if ((out->intra.tree_s > 0) != (out->inter.tree_s > 0))
        return fail(ERR_DATA, "%s: tree_latency_us is set in only one of intra and inter", path);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->ranks_per_node = (int64_t)per_node;
    return OK;
}

Status fabric_read(Fabric *out, const char *path)
{
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    Arena *arena FREED_BY(arena_destroy_at) = NULL;
    JsonValue *root = NULL;
    TRY(fs_read_limited(path, FS_TEXT_BYTES, &bytes, &size));
    TRY(arena_create(&arena, 0));
    Status status = json_parse(arena, (const char *)bytes, size, &root);
    return status == OK ? read_file(out, root, path) : fail_note(status, "%s", path);
}

Status fabric_read_each(const char *files, const char *option,
                        void (*use)(void *cookie, const Fabric *f), void *cookie)
{
    char path[PATH_BYTES];
    for (const char *p = files; *p;) {
        size_t n = strcspn(p, ",");
        Fabric f;
        if (n == 0 || n >= sizeof path)
            return fail(ERR_USAGE, "%s %s: not a list of files", option, files);
        snprintf(path, sizeof path, "%.*s", (int)n, p);
        TRY(fabric_read(&f, path));
        use(cookie, &f);
        p += n + (p[n] == ',');
    }
    return OK;
}

double fabric_allreduce_s(const Fabric *f, double bytes, int64_t ranks)
{
    if (ranks <= 1) return 0;
    int64_t nodes = (ranks + f->ranks_per_node - 1) / f->ranks_per_node;
    double hops = 2.0 * (double)(ranks - 1), between = 2.0 * (double)(nodes - 1);
    double rate =
        nodes > 1 ? fmin(f->intra.bytes_per_s, f->inter.bytes_per_s) : f->intra.bytes_per_s;
    double moved = 2.0 * (double)(ranks - 1) / (double)ranks * bytes;
    double latency_s = (hops - between) * f->intra.latency_s + between * f->inter.latency_s;
    if (f->intra.tree_s > 0)
        latency_s =
            fmin(latency_s, 2 * (f->intra.tree_s + floor(log2((double)nodes)) * f->inter.tree_s));
    return latency_s + moved / rate;
}
