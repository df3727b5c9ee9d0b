/* other_format.c - see other_format.h. One table: a format is told by an address, or by the end of
 * a file's name and what its first bytes hold. */
#include "data/source/other_format.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/index/scan.h"
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES 4096
#define TO_IMPORT  .way = "convert it: scripts/import_dataset.py", .after = " OUT"

typedef struct OtherFormat {
    const char *address; /* how the path begins; NULL: it is a file */
    const char *ending;  /* of the file's name */
    const char *mark;    /* its first bytes hold this; NULL: the name is enough */
    const char *what;
    const char *way, *after; /* what to do; the path stands between them if after is not NULL */
} OtherFormat;

static const OtherFormat formats[] = {
    { .address = "s3://",
      .what = "an object store",
      .way = "mount it (mount-s3, FSx for Lustre) or copy it: aws s3 sync",
      .after = " DIR" },
    { .address = "gs://",
      .what = "an object store",
      .way = "mount it (gcsfuse) or copy it: gcloud storage rsync -r",
      .after = " DIR" },
    { .address = "hf://",
      .what = "a dataset on the Hugging Face Hub",
      .way = "download it (hf download NAME --repo-type dataset --local-dir DIR), then run "
             "scripts/import_dataset.py DIR OUT" },
    { .address = "http://", .what = "a web address", .way = "download it first" },
    { .address = "https://", .what = "a web address", .way = "download it first" },
    { .ending = ".parquet", .what = "Hugging Face parquet", TO_IMPORT },
    { .ending = "index.json", .mark = "\"mds\"", .what = "MDS (MosaicML Streaming)", TO_IMPORT },
    { .ending = ".mdb", .mark = "\xde\xc0\xef\xbe", .what = "LMDB", TO_IMPORT },
    { .ending = ".rec", .mark = "\x0a\x23\xd7\xce", .what = "RecordIO (MXNet)", TO_IMPORT },
};

static bool has_mark(const char *path, const char *mark)
{
    char head[HEAD_BYTES + 1];
    struct stat info; /* a named pipe would wait */
    if (!mark) return true;
    if (stat(path, &info) || !S_ISREG(info.st_mode)) return false;
    const ssize_t bytes = fs_read_head(path, head, sizeof head);
    return bytes > 0 && memmem(head, (size_t)bytes, mark, strlen(mark));
}

static const OtherFormat *find_file(const char *path)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const OtherFormat *f = &formats[i];
        if (f->ending && str_ends_with_nocase(path, f->ending) && has_mark(path, f->mark)) return f;
    }
    return NULL;
}

/* The first file of such a format in a folder. *others: it holds images, or folders except data. */
static Status find_in(const OtherFormat **out, const char *dir, bool *others)
{
    char **names FREED = NULL;
    int64_t count = 0;
    *others = false;
    const Status status = fs_list(dir, &names, &count);
    if (status != OK) return status == ERR_MEMORY ? status : OK; /* whoever opens it tells why */
    for (int64_t i = 0; i < count && !*others; i++) {
        char *path FREED = fs_join(dir, names[i]);
        if (!path) return ERR_MEMORY;
        if (!*out) *out = find_file(path);
        *others = names[i][0] != '.' && strcmp(names[i], "data") != 0 &&
                  (scan_is_picture(names[i]) || fs_is_dir(path));
    }
    return OK;
}

static Status find_at(const OtherFormat **out, const char *path)
{
    bool others = false;
    char *data FREED = fs_join(path, "data");
    if (!data) return ERR_MEMORY;
    for (size_t i = 0; i < sizeof formats / sizeof *formats && !*out; i++)
        if (formats[i].address && str_starts_with(path, formats[i].address)) *out = &formats[i];
    if (!*out && fs_exists(path) && !fs_is_dir(path)) *out = find_file(path);
    if (*out || !fs_is_dir(path)) return OK;
    TRY(find_in(out, path, &others));
    if (!*out && !others && fs_is_dir(data)) TRY(find_in(out, data, &others));
    if (others) *out = NULL;
    return OK;
}

Status other_format_check(const char *path)
{
    const OtherFormat *f = NULL;
    TRY(find_at(&f, path));
    if (!f) return OK;
    return fail(ERR_DATA, "%s: %s, which Convoy does not read; %s%s%s%s", path, f->what, f->way,
                f->after ? " " : "", f->after ? path : "", f->after ? f->after : "");
}
