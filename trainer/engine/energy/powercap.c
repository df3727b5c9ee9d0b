/* powercap.c - see powercap.h. */
#include "trainer/engine/energy/powercap.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ZONES_MAX = 64, PATH_BYTES = 512, TEXT_BYTES = 64 };

typedef struct Zone {
    char path[PATH_BYTES]; /* of its counter */
    int64_t last_uj, range_uj;
} Zone;

struct Powercap {
    int packages, count;
    double joules;
    Zone zone[ZONES_MAX];
};

/* A file of one line, without its end. */
static Status read_line(const char *path, char out[TEXT_BYTES])
{
    if (fs_read_head(path, out, TEXT_BYTES) < 0)
        return fail(ERR_ENV, "%s: %s", path, strerror(errno));
    out[strcspn(out, "\n")] = '\0';
    return OK;
}

static Status read_count(const char *path, int64_t *out)
{
    char text[TEXT_BYTES];
    TRY(read_line(path, text));
    return str_to_i64(text, out) && *out >= 0
               ? OK
               : fail(ERR_ENV, "%s: \"%s\" is not a count", path, text);
}

/* One of dir's folders, if it counts. */
static Status add_zone(Powercap *p, const char *dir, const char *name)
{
    char path[PATH_BYTES], kind[TEXT_BYTES];
    Zone *z = &p->zone[p->count];
    if (!str_starts_with(name, "intel-rapl:") || p->count == ZONES_MAX) return OK;
    snprintf(path, sizeof path, "%s/%s/name", dir, name);
    TRY(read_line(path, kind));
    const bool package = str_starts_with(kind, "package");
    if (!package && strcmp(kind, "dram") != 0) return OK;
    snprintf(path, sizeof path, "%s/%s/max_energy_range_uj", dir, name);
    TRY(read_count(path, &z->range_uj));
    snprintf(z->path, sizeof z->path, "%s/%s/energy_uj", dir, name);
    TRY(read_count(z->path, &z->last_uj));
    p->count++;
    p->packages += package;
    return OK;
}

Status powercap_open(Powercap **out, const char *dir)
{
    char **names FREED = NULL;
    int64_t count = 0;
    *out = NULL;
    if (!fs_is_dir(dir)) return OK;
    Powercap *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    Status status = fs_list(dir, &names, &count);
    for (int64_t i = 0; i < count && status == OK; i++) status = add_zone(p, dir, names[i]);
    if (status == OK && p->packages > 0) *out = p;
    else powercap_close(p);
    return status;
}

void powercap_close(Powercap *p)
{
    mem_free(p);
}

int powercap_packages(const Powercap *p)
{
    return p->packages;
}

Status powercap_read(Powercap *p, double *joules)
{
    Status status = OK;
    for (int i = 0; i < p->count; i++) {
        Zone *z = &p->zone[i];
        int64_t now;
        Status own = read_count(z->path, &now);
        if (own != OK) {
            status = own;
            continue;
        }
        const int64_t used = now - z->last_uj;
        p->joules += 1e-6 * (double)(used < 0 ? used + z->range_uj + 1 : used);
        z->last_uj = now;
    }
    *joules = p->joules;
    return status;
}
