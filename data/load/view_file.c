/* view_file.c - one picture by itself, as evaluation would show it: for predictions. */
#include "data/load/view_file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/index/index.h"
#include "data/index/scan.h"
#include "data/load/worker.h"
#include <stdio.h>

typedef struct SingleSource { /* a source of one file, so that errors name it */
    Source base;
    const char *path;
} SingleSource;

static void describe(const Source *s, int64_t id, char *out, size_t bytes)
{
    (void)id;
    snprintf(out, bytes, "%s", ((const SingleSource *)s)->path);
}

static const SourceKind kind = { .name = "file", .describe = describe };

bool view_file_is_picture(const char *path)
{
    return scan_is_picture(path);
}

Status view_file_make(const char *path, const ViewOptions *o, uint8_t *out)
{
    const SingleSource source = { .base = { .kind = &kind, .images = 1 }, .path = path };
    Worker *worker = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    TRY(fs_read_limited(path, INDEX_MAX_SAMPLE_BYTES, &bytes, &size));
    const Sample sample = source_file_sample(bytes, size, 0);
    Status status = worker_create(&worker, NULL);
    if (status == OK) status = worker_show(worker, &source.base, 0, &sample, o, NULL, out);
    worker_destroy(worker);
    mem_free(bytes);
    return status;
}
