/* cudnn_cache.c - plans in a file, so that a second start neither chooses nor times nor compiles
 * again.
 *
 * A line "convoy cudnn plans 1 CRC BYTES" over the rest, CRC-32C in hexadecimal; then for each plan
 * a line with its key, a line "ENGINE MILLISECONDS JSON-BYTES" and its JSON, also ended by a line
 * feed. What the file says is only ever used if the whole of it is intact; readers see an old file
 * or a new one. Writers take turns by a lock on a file beside it, .lock, and keep what others
 * wrote. */
#include "kernels/cuda/cudnn/cudnn_cache.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define FILE_MARK "convoy cudnn plans 1"

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
static bool read_plan(CudnnPlan **list, Reader *r)
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
    *p = (CudnnPlan){
        .key = mem_strdup(key), .json = mem_strdup(r->at), .engine = engine, .ms = ms
    };
    snprintf(p->name, sizeof p->name, "cudnn engine %d", engine);
    p->next = *list;
    *list = p;
    r->at += bytes + 1;
    return p->key && p->json;
}

static bool read_all(CudnnPlan **list, Reader *r)
{
    unsigned crc = 0;
    size_t bytes = 0;
    const char *head = next_line(r);
    if (!head || sscanf(head, FILE_MARK " %8x %zu", &crc, &bytes) != 2) return false;
    if (bytes != (size_t)(r->end - r->at) || crc32c_update(0, r->at, bytes) != crc) return false;
    while (r->at < r->end)
        if (!read_plan(list, r)) return false;
    return true;
}

/* The file's plan in the place of ours, whose address stays. */
static void replace(const CudnnContext *c, CudnnPlan *ours, CudnnPlan *files)
{
    CudnnPlan old = *ours;
    *ours = *files;
    ours->next = old.next;
    *files = old;
    cudnn_plan_destroy(c, files);
}

static void join(CudnnContext *c, CudnnPlan *files)
{
    CudnnPlan *ours = cudnn_plan_find(c, files->key);
    if (!ours) {
        files->next = c->plans;
        c->plans = files;
    } else if (ours->held) {
        cudnn_plan_destroy(c, files);
    } else {
        replace(c, ours, files);
    }
}

bool cudnn_cache_join(CudnnContext *c)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    CudnnPlan *list = NULL;
    if (!fs_exists(c->cache_path)) return true;
    if (fs_read_limited(c->cache_path, FS_TEXT_BYTES, &data, &bytes) != OK) return false;
    Reader r = { (char *)data, (char *)data + bytes };
    bool intact = read_all(&list, &r);
    mem_free(data);
    if (!intact) fail(ERR_DATA, "%s is damaged", c->cache_path);
    for (CudnnPlan *p = list, *next; p; p = next) {
        next = p->next;
        if (intact) join(c, p);
        else cudnn_plan_destroy(c, p);
    }
    return intact;
}

void cudnn_cache_read(CudnnContext *c)
{
    if (!cudnn_cache_join(c)) log_warning("cuDNN plans are chosen again: %s", status_message());
}

/* ---- writing ---- */

static void add_plan(StrBuf *body, const CudnnPlan *p)
{
    size_t bytes = strlen(p->json);
    str_printf(body, "%s\n%d %.6f %zu\n", p->key, p->engine, p->ms, bytes);
    str_add_n(body, p->json, bytes);
    str_add(body, "\n");
}

/* Taken until it is closed; -1 where the file system has no locks: then the last of several writers
 * wins. */
static int take_lock(const char *path)
{
    StrBuf name = { 0 };
    str_printf(&name, "%s.lock", path);
    int fd = -1;
    if (!name.failed) (void)fs_open(&fd, name.text, O_RDWR | O_CREAT);
    str_free(&name);
    if (fd < 0 || flock(fd, LOCK_EX) == 0) return fd;
    close(fd);
    return -1;
}

static Status write_plans(const CudnnContext *c)
{
    StrBuf body = { 0 }, file = { 0 };
    for (const CudnnPlan *p = c->plans; p; p = p->next)
        if (p->json) add_plan(&body, p);
    str_printf(&file, "%s %08x %zu\n", FILE_MARK,
               (unsigned)crc32c_update(0, body.text ? body.text : "", body.length), body.length);
    if (body.text) str_add_n(&file, body.text, body.length);
    Status st = body.failed || file.failed ? ERR_MEMORY
                                           : fs_write_atomic(c->cache_path, file.text, file.length);
    str_free(&body);
    str_free(&file);
    return st;
}

static Status write_file(CudnnContext *c)
{
    char *folder = mem_strdup(c->cache_path);
    if (!folder) return ERR_MEMORY;
    *strrchr(folder, '/') = '\0';
    Status st = fs_make_dirs(folder[0] ? folder : "/");
    mem_free(folder);
    if (st != OK) return st;
    int lock = take_lock(c->cache_path);
    cudnn_cache_join(c); /* a damaged file is replaced */
    st = write_plans(c);
    if (lock >= 0) close(lock);
    return st;
}

void cudnn_cache_save(CudnnContext *c)
{
    if (!c->cache_path || !c->unsaved) return;
    c->unsaved = false;
    if (write_file(c) == OK) return;
    log_warning("cuDNN plans are not saved for the next start: %s", status_message());
    mem_free(c->cache_path);
    c->cache_path = NULL;
}
