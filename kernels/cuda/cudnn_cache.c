/* cudnn_cache.c - plans in a file, so that a second start neither chooses nor times nor compiles again.
 *
 * A line "convoy cudnn plans 1 CRC BYTES" over the rest, CRC-32C in hexadecimal; then for each plan a line with its
 * key, a line "ENGINE MILLISECONDS JSON-BYTES" and its JSON, also ended by a line feed. What the file says is only
 * ever used if the whole of it is intact; readers see an old file or a new one. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn_plan.h"
#include <stdio.h>
#include <string.h>

#define FILE_MARK "convoy cudnn plans 1"

/* ---- writing ---- */

static void add_plan(StrBuf *body, const CudnnPlan *p)
{
    size_t bytes = strlen(p->json);
    str_printf(body, "%s\n%d %.6f %zu\n", p->key, p->engine, p->ms, bytes);
    str_add_n(body, p->json, bytes);
    str_add(body, "\n");
}

Status cudnn_cache_write(const CudnnContext *c)
{
    StrBuf body = { 0 }, file = { 0 };
    for (const CudnnPlan *p = c->plans; p; p = p->next)
        if (p->json) add_plan(&body, p);
    str_printf(&file, "%s %08x %zu\n", FILE_MARK, (unsigned)str_crc32c(0, body.text ? body.text : "", body.length),
               body.length);
    if (body.text) str_add_n(&file, body.text, body.length);
    char *folder = mem_strdup(c->cache_path);
    Status st = body.failed || file.failed || !folder ? ERR_MEMORY : OK;
    if (st == OK) {
        *strrchr(folder, '/') = '\0';
        st = fs_make_dirs(folder[0] ? folder : "/");
    }
    if (st == OK) st = fs_write_atomic(c->cache_path, file.text, file.length);
    mem_free(folder);
    str_free(&body);
    str_free(&file);
    return st;
}

/* ---- reading ---- */

typedef struct Reader {
    char *at, *end; /* *end is NUL */
} Reader;

/* The next line without its line feed, which becomes NUL; NULL at the end. */
static char *next_line(Reader *r)
{
    char *line = r->at, *feed = memchr(line, '\n', (size_t)(r->end - line));
    if (!feed) return NULL;
    *feed = '\0';
    r->at = feed + 1;
    return line;
}

/* One plan, or false if that is not what stands there. */
static bool read_plan(CudnnContext *c, Reader *r)
{
    const char *key = next_line(r), *numbers = next_line(r);
    size_t bytes = 0;
    int engine = 0;
    double ms = 0;
    if (!key || !numbers || sscanf(numbers, "%d %lf %zu", &engine, &ms, &bytes) != 3) return false;
    if (bytes >= (size_t)(r->end - r->at) || r->at[bytes] != '\n') return false;
    r->at[bytes] = '\0';
    CudnnPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return false;
    *p = (CudnnPlan){ .key = mem_strdup(key), .json = mem_strdup(r->at), .engine = engine, .ms = ms };
    snprintf(p->name, sizeof p->name, "cudnn engine %d", engine);
    p->next = c->plans;
    c->plans = p;
    r->at += bytes + 1;
    return p->key && p->json;
}

static bool read_all(CudnnContext *c, Reader *r)
{
    unsigned crc = 0;
    size_t bytes = 0;
    const char *head = next_line(r);
    if (!head || sscanf(head, FILE_MARK " %8x %zu", &crc, &bytes) != 2) return false;
    if (bytes != (size_t)(r->end - r->at) || str_crc32c(0, r->at, bytes) != crc) return false;
    while (r->at < r->end)
        if (!read_plan(c, r)) return false;
    return true;
}

void cudnn_cache_read(CudnnContext *c)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (!fs_exists(c->cache_path)) return;
    if (fs_read_file(c->cache_path, &data, &bytes) != OK) {
        log_warning("cuDNN plans are chosen anew: %s", status_message());
        return;
    }
    Reader r = { (char *)data, (char *)data + bytes };
    if (!read_all(c, &r)) {
        log_warning("%s is damaged: cuDNN plans are chosen anew", c->cache_path);
        for (CudnnPlan *p = c->plans, *next; p; p = next) {
            next = p->next;
            cudnn_plan_destroy(c, p);
        }
        c->plans = NULL;
    }
    mem_free(data);
}
