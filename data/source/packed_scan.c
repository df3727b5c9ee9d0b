/* packed_scan.c - see packed_scan.h. */
#include "data/source/packed_scan.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "data/index/index_build.h"

static Status read_stream(PackedScan *scan, int64_t file, ByteStream *s)
{
    TRY(index_piece_stamp(&scan->pieces[file], scan->files.names[file], byte_stream_mtime_ns(s),
                          byte_stream_bytes(s)));
    return scan->read(scan, file, s);
}

static Status read_file(void *cookie, int64_t file)
{
    PackedScan *scan = cookie;
    ByteStream *s FREED_BY(byte_stream_close_at) = NULL;
    StrBuf path FREED_BY(str_free) = { 0 };
    str_printf(&path, "%s/%s", scan->files.folder, scan->files.names[file]);
    scan->found[file] = mem_calloc(1, scan->found_bytes);
    if (path.failed || !scan->found[file]) return ERR_MEMORY;
    TRY(byte_stream_open(&s, path.text));
    Status status = read_stream(scan, file, s);
    return status == OK || status == ERR_MEMORY ? status : fail_note(status, "%s", path.text);
}

/* Where names decide what is read, it is said. */
static void tell_role(const PackedFiles *f, const ScanOptions *o)
{
    const bool val = o->role == DATA_VAL;
    if (!f->by_role) return;
    log_detail("%s: files for %s by their names: %lld, first %s", o->path,
               val ? "validation" : "training", (long long)f->count, f->names[0]);
    if (val && f->others)
        log_warning("%s: files left out because their names say neither training nor validation: "
                    "%lld, first %s",
                    o->path, (long long)f->others, f->other);
}

Status packed_scan_run(PackedScan *scan, const ScanOptions *o, bool (*is_one)(const char *name),
                       const char *what)
{
    TRY(packed_files_list(&scan->files, o->path, o->role, is_one));
    size_t n = (size_t)scan->files.count;
    TRY(packed_files_check(&scan->files, o->path, what));
    tell_role(&scan->files, o);
    if (fs_is_dir(o->path))
        TRY(packed_files_complete(o->path, (const char *const *)scan->files.names,
                                  scan->files.count));
    scan->pieces = mem_calloc(n, sizeof *scan->pieces);
    scan->found = mem_calloc(n, sizeof *scan->found);
    if (!scan->pieces || !scan->found) return ERR_MEMORY;
    return parallel_run(o->threads, scan->files.count, "scan", read_file, scan);
}

int packed_scan_classes(const PackedScan *scan)
{
    uint32_t highest = 0;
    for (int64_t f = 0; f < scan->files.count; f++)
        for (size_t i = 0; i < scan->pieces[f].count; i++)
            if (scan->pieces[f].entries[i].label > highest)
                highest = scan->pieces[f].entries[i].label;
    return (int)highest + 1;
}

Status packed_scan_build(Index **out, const PackedScan *scan, const ScanOptions *o,
                         const char *const *names, int classes, bool named)
{
    IndexParts parts = { .format = o->format,
                         .root = o->root,
                         .class_names = names,
                         .classes = classes,
                         .flags = INDEX_PACKED | (named ? INDEX_NAMED : 0),
                         .pieces = scan->pieces,
                         .piece_count = (size_t)scan->files.count };
    return index_build(out, &parts);
}

void packed_scan_free(PackedScan *scan)
{
    for (int64_t f = 0; f < scan->files.count; f++) {
        if (scan->pieces) index_piece_free(&scan->pieces[f]);
        if (scan->found) mem_free(scan->found[f]);
    }
    mem_free(scan->pieces);
    mem_free((void *)scan->found);
    packed_files_free(&scan->files);
}
