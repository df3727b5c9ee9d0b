/* checks_data.c - the way from a dataset's own files to this process: files opened and megabytes
 * read a second by several threads, free space, and how Lustre has spread the files. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/wire.h"
#include "trainer/app/doctor/doctor.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    FILES_MAX = 2048,
    NAMES_A_FOLDER = 64, /* taken evenly out of each */
    DEPTH_MAX = 6,
    THREADS = 8,
    BLOCK_BYTES = 1 << 20,
    FILE_BYTES_MAX = 64 << 20, /* read of one file */
    LAYOUT_BYTES = 65536
};
#define LOOK_S       2.0 /* opening, and as much again for reading */
#define OPENS_FEW    1000
#define FILE_SMALL   (4 << 20)
#define SPACE_LITTLE 0.02
#define LUSTRE       0x0BD00BD0

typedef struct Files {
    char *path[FILES_MAX];
    int count;
    double end_s;
    _Atomic int64_t done, bytes, failed;
} Files;

/* ---- which files ---- */

static void collect(Files *f, const char *folder, int depth)
{
    char **names FREED = NULL;
    int64_t count = 0;
    if (fs_list(folder, &names, &count) != OK) return;
    int64_t step = count > NAMES_A_FOLDER ? count / NAMES_A_FOLDER : 1;
    for (int64_t i = 0; i < count && f->count < FILES_MAX; i += step) {
        char *path = names[i][0] == '.' ? NULL : fs_join(folder, names[i]);
        struct stat st;
        bool there = path && stat(path, &st) == 0;
        if (there && S_ISDIR(st.st_mode) && depth < DEPTH_MAX) collect(f, path, depth + 1);
        if (there && S_ISREG(st.st_mode) && f->count < FILES_MAX) f->path[f->count++] = path;
        else mem_free(path);
    }
}

/* ---- how fast ---- */

static Status open_one(void *cookie, int64_t i)
{
    Files *f = cookie;
    struct stat st;
    if (clock_s() > f->end_s) return OK;
    int fd FREED_BY(fs_close) = open(f->path[i], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) f->failed++;
    else f->bytes += st.st_size;
    f->done++;
    return OK;
}

static Status read_one(void *cookie, int64_t i)
{
    Files *f = cookie;
    if (clock_s() > f->end_s) return OK;
    uint8_t *block FREED = mem_alloc(BLOCK_BYTES);
    int fd FREED_BY(fs_close) = block ? open(f->path[i], O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = 0;
    if (fd >= 0) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    for (int64_t at = 0; fd >= 0 && at < FILE_BYTES_MAX && clock_s() < f->end_s; at += n) {
        n = read(fd, block, BLOCK_BYTES);
        if (n <= 0) break;
        f->bytes += n;
    }
    if (fd < 0 || n < 0) f->failed++;
    f->done++;
    return OK;
}

/* Seconds that all threads took together. */
static double time_files(Files *f, Status (*work)(void *cookie, int64_t i))
{
    double start = clock_s();
    f->done = f->bytes = f->failed = 0;
    f->end_s = start + LOOK_S;
    (void)parallel_run(THREADS, f->count, "doctor", work, f);
    double seconds = clock_s() - start;
    return seconds > 1e-9 ? seconds : 1e-9;
}

static void check_speed(Files *f, DoctorReport *r, const char *path)
{
    double seconds = time_files(f, open_one), opens = (double)f->done / seconds,
           mean = (double)f->bytes / (double)f->done;
    bool slow = opens < OPENS_FEW && mean < FILE_SMALL;
    DOCTOR_JUDGE(
        r, slow, VERDICT_WARN,
        "convoy pack turns many small files into a few large ones; data.readers opens more at once",
        "%s: %.0f files/s opened by %d threads (%lld files of %.1f KB)", path, opens, (int)THREADS,
        (long long)f->done, mean * 1e-3);
    seconds = time_files(f, read_one);
    doctor_find(r, VERDICT_OK, "",
                "%.1f MB/s read by %d threads, %.0f files/s, page cache dropped before where the "
                "system allows it",
                1e-6 * (double)f->bytes / seconds, (int)THREADS, (double)f->done / seconds);
    if (f->failed > 0)
        doctor_find(r, VERDICT_FAIL, "check permissions and the kernel log (dmesg)",
                    "%s: %lld files cannot be read", path, (long long)f->failed);
}

static void check_space(DoctorReport *r, const struct statfs *s)
{
    double unit = (double)s->f_bsize * 1e-9, all = unit * (double)s->f_blocks,
           left = unit * (double)s->f_bavail;
    bool little = left < SPACE_LITTLE * all;
    DOCTOR_JUDGE(r, little, VERDICT_WARN, "checkpoints of runs on this file system may not fit",
                 "%.1f of %.1f GB are free", left, all);
}

/* ---- Lustre ---- */

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)wire_load(p, 4);
}

/* Magic numbers and places are those of Lustre's own header, for programs of users. */
static int add_stripes(const uint8_t *lov, size_t bytes, size_t at, StrBuf *out)
{
    enum { PLAIN = 0x0BD10BD0, POOLED = 0x0BD30BD0, SIZE_AT = 24, COUNT_AT = 28, LEAST = 32 };
    if (at > bytes || bytes - at < LEAST) return 0;
    uint32_t magic = word(lov + at), count = word(lov + at + COUNT_AT) & 0xffff;
    if (magic != PLAIN && magic != POOLED) return 0;
    str_add(out, out->length ? ", then " : "");
    if (count == 0xffff) str_add(out, "all targets");
    else str_printf(out, "%u target%s", count, count == 1 ? "" : "s");
    str_printf(out, " in stripes of %u KiB", word(lov + at + SIZE_AT) >> 10);
    return 1;
}

bool doctor_lustre_layout(const uint8_t *lov, size_t bytes, StrBuf *out)
{
    enum { PARTS = 0x0BD60BD0, PARTS_STORED = 0x0BD40BD0, HEAD = 32, ENTRY = 48, AT = 24 };
    if (bytes < HEAD) return false;
    if (word(lov) != PARTS && word(lov) != PARTS_STORED) return add_stripes(lov, bytes, 0, out) > 0;
    int parts = (int)(word(lov + 14) & 0xffff), found = 0;
    for (int i = 0; i < parts && HEAD + (size_t)(i + 1) * ENTRY <= bytes; i++)
        found += add_stripes(lov, bytes, word(lov + HEAD + (size_t)i * ENTRY + AT), out);
    return found > 0;
}

static void check_lustre(const Files *f, DoctorReport *r, const struct statfs *s)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    struct stat st;
    if ((uint32_t)s->f_type != LUSTRE) return;
    uint8_t *lov FREED = mem_alloc(LAYOUT_BYTES);
    ssize_t bytes = lov ? getxattr(f->path[0], "lustre.lov", lov, LAYOUT_BYTES) : -1;
    bool told = bytes > 0 && doctor_lustre_layout(lov, (size_t)bytes, &text) && !text.failed;
    bool large = stat(f->path[0], &st) == 0 && st.st_size >= 16 * FILE_SMALL;
    DOCTOR_JUDGE(r, large, VERDICT_OK,
                 "large files are read faster from several targets: lfs setstripe -c 4 on the "
                 "folder before they are written",
                 "Lustre: the first file is on %s", told ? text.text : "unknown targets");
}

void doctor_check_data(const DoctorOptions *o, DoctorReport *r)
{
    struct statfs s;
    if (!o->data) return;
    Files *f FREED = mem_calloc(1, sizeof *f);
    if (!f) return;
    collect(f, o->data, 0);
    if (f->count == 0 || statfs(o->data, &s) != 0) {
        doctor_find(r, VERDICT_FAIL, "name a dataset's folder: --data DIR", "%s: no files found",
                    o->data);
    } else {
        check_speed(f, r, o->data);
        check_space(r, &s);
        check_lustre(f, r, &s);
    }
    for (int i = 0; i < f->count; i++) mem_free(f->path[i]);
}
