/* safetensors: what is written is read back; what is damaged in any place is refused or reads the
 * same. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tests/test.h"
#include "tests/tools/fault_io.h"
#include "trainer/engine/files/safetensors.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1200 };

static const float weights[6] = { 1, -2, 3.25F, 0, -0.0F, 1e-30F };
static const float bias[3] = { 7, 8, 9 };

static void path_in_scratch(char *out, const char *name)
{
    snprintf(out, PATH_BYTES, "%s/%s", test_scratch(), name);
}

static TensorDesc f32(int rank, int64_t a, int64_t b)
{
    const int64_t dims[2] = { a, b };
    return tensor_desc(DTYPE_F32, rank, dims);
}

static Status write_small(const char *path)
{
    const SafeTensor tensors[] = { { "layer.weight", f32(2, 2, 3), weights },
                                   { "nothing", f32(1, 0, 0), weights },
                                   { "layer.bias", f32(1, 3, 0), bias } };
    const SafePair pairs[] = { { "step", "12" }, { "config", "a: \"b\"\nc: \\d\n" } };
    return safetensors_write(path, tensors, 3, pairs, 2);
}

/* Header, padded to a multiple of 8, and data as they are, without checksums, as other writers make
 * them. */
static void write_raw(const char *path, const char *header, const void *data, size_t data_bytes)
{
    uint8_t file[1024];
    size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    REQUIRE(8 + padded + data_bytes <= sizeof file);
    memset(file, ' ', sizeof file);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    memcpy(file + 8, header, length);
    if (data_bytes > 0) memcpy(file + 8 + padded, data, data_bytes);
    CHECK_OK(fs_write_atomic(path, file, 8 + padded + data_bytes));
}

/* Whether the file at path holds what write_small wrote. */
static bool holds_small(const SafeFile *f)
{
    const SafeTensor *w = safetensors_find(f, "layer.weight"),
                     *b = safetensors_find(f, "layer.bias");
    TensorDesc wd = f32(2, 2, 3), bd = f32(1, 3, 0);
    return safetensors_count(f) == 3 && w && b && w->desc.dtype == DTYPE_F32 &&
           b->desc.dtype == DTYPE_F32 && tensor_same_shape(&w->desc, &wd) &&
           tensor_same_shape(&b->desc, &bd) && memcmp(w->data, weights, sizeof weights) == 0 &&
           memcmp(b->data, bias, sizeof bias) == 0;
}

TEST(reads_back_what_it_wrote)
{
    char path[PATH_BYTES];
    SafeFile *f = NULL;
    path_in_scratch(path, "a.safetensors");
    REQUIRE_OK(write_small(path));
    REQUIRE_OK(safetensors_open(&f, path));
    CHECK(holds_small(f));
    CHECK(safetensors_find(f, "layer") == NULL);
    CHECK_STR(safetensors_metadata(f, "step"), "12");
    CHECK_STR(safetensors_metadata(f, "config"), "a: \"b\"\nc: \\d\n");
    CHECK_STR(safetensors_metadata(f, "format"), "pt");
    CHECK(safetensors_metadata(f, "absent") == NULL);
    for (int i = 0; i < safetensors_count(f); i++)
        CHECK((uintptr_t)safetensors_at(f, i)->data % sizeof(float) == 0);
    safetensors_close(f);
}

TEST(data_begins_at_a_multiple_of_8)
{
    char path[PATH_BYTES];
    uint8_t *file = NULL;
    size_t bytes = 0;
    path_in_scratch(path, "a.safetensors");
    for (int extra = 0; extra < 8; extra++) {
        const SafePair pair = { "padding", &"aaaaaaaa"[extra] };
        const SafeTensor tensor = { "t", f32(1, 3, 0), bias };
        REQUIRE_OK(safetensors_write(path, &tensor, 1, &pair, 1));
        REQUIRE_OK(fs_read_file(path, &file, &bytes));
        CHECK_INT(file[0] % 8, 0);
        CHECK_INT(bytes, 8 + (size_t)file[0] + 256 * (size_t)file[1] + sizeof bias);
        mem_free(file);
    }
}

TEST(overwrites_atomically_and_leaves_no_temporary)
{
    char path[PATH_BYTES], **names = NULL;
    int64_t count = 0;
    path_in_scratch(path, "a.safetensors");
    REQUIRE_OK(write_small(path));
    REQUIRE_OK(write_small(path));
    REQUIRE_OK(fs_list(test_scratch(), &names, &count));
    CHECK_INT(count, 1);
    mem_free(names);
    path_in_scratch(path, "no/such/folder.safetensors");
    CHECK_STATUS(write_small(path), ERR_IO);
    CHECK_CONTAINS(status_message(), "no/such/folder.safetensors");
}

/* A file size limit stands for a full disk: write() fails in the middle of the file. */
TEST(full_disk_keeps_the_old_file)
{
    char path[PATH_BYTES], **names = NULL;
    int64_t count = 0;
    SafeFile *f = NULL;
    path_in_scratch(path, "a.safetensors");
    REQUIRE_OK(write_small(path));
    float *large = mem_calloc(100000, sizeof(float));
    REQUIRE(large != NULL);
    const SafeTensor tensor = { "large", f32(1, 100000, 0), large };
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 65536;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_STATUS(safetensors_write(path, &tensor, 1, NULL, 0), ERR_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_CONTAINS(status_message(), path);
    REQUIRE_OK(fs_list(test_scratch(), &names, &count));
    CHECK_INT(count, 1);
    mem_free(names);
    REQUIRE_OK(safetensors_open(&f, path));
    CHECK(holds_small(f));
    safetensors_close(f);
    mem_free(large);
}

/* Cut off after any number of bytes: always ERR_DATA, with the file's name. */
TEST(every_truncation_is_refused)
{
    char path[PATH_BYTES], cut[PATH_BYTES];
    uint8_t *file = NULL;
    size_t bytes = 0;
    SafeFile *f = NULL;
    path_in_scratch(path, "a.safetensors");
    path_in_scratch(cut, "cut.safetensors");
    REQUIRE_OK(write_small(path));
    REQUIRE_OK(fs_read_file(path, &file, &bytes));
    for (size_t n = 0; n < bytes; n++) {
        FILE *out = fopen(cut, "wb");
        REQUIRE(out != NULL && fwrite(file, 1, n, out) == n);
        fclose(out);
        CHECK_STATUS(safetensors_open(&f, cut), ERR_DATA);
        CHECK(f == NULL);
        CHECK_CONTAINS(status_message(), "cut.safetensors");
    }
    mem_free(file);
}

/* Every byte, changed in three ways: ERR_DATA or the same tensors. Both must occur: a flip in the
 * name of a checksum entry only switches that check off, one in data never passes. */
TEST(every_flipped_byte_is_refused_or_harmless)
{
    static const uint8_t masks[] = { 0x01, 0x80, 0xFF };
    char path[PATH_BYTES], bad[PATH_BYTES];
    uint8_t *file = NULL;
    size_t bytes = 0, refused = 0;
    path_in_scratch(path, "a.safetensors");
    path_in_scratch(bad, "bad.safetensors");
    REQUIRE_OK(write_small(path));
    REQUIRE_OK(fs_read_file(path, &file, &bytes));
    for (size_t i = 0; i < bytes * 3; i++) {
        size_t at = i / 3;
        SafeFile *f = NULL;
        file[at] ^= masks[i % 3];
        FILE *out = fopen(bad, "wb");
        REQUIRE(out != NULL && fwrite(file, 1, bytes, out) == bytes);
        fclose(out);
        file[at] ^= masks[i % 3];
        Status status = safetensors_open(&f, bad);
        if (status == OK) CHECK(holds_small(f));
        else CHECK_STATUS(status, ERR_DATA);
        refused += status != OK;
        if (at >= bytes - sizeof weights - sizeof bias) CHECK(status == ERR_DATA);
        safetensors_close(f);
    }
    CHECK(refused > bytes * 3 * 8 / 10);
    mem_free(file);
}

/* The same without checksums: the checks of the header are all there is. No flip may crash or read
 * outside. */
TEST(flips_without_checksums_never_crash)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[24,40]}}";
    char path[PATH_BYTES], bad[PATH_BYTES];
    uint8_t *file = NULL, data[40] = { 1, 2, 3 };
    size_t bytes = 0;
    uint32_t touched = 0;
    path_in_scratch(path, "raw.safetensors");
    path_in_scratch(bad, "bad.safetensors");
    write_raw(path, header, data, sizeof data);
    REQUIRE_OK(fs_read_file(path, &file, &bytes));
    for (size_t i = 0; i < (bytes - sizeof data) * 8; i++) {
        SafeFile *f = NULL;
        file[i / 8] ^= (uint8_t)(1U << (i % 8));
        FILE *out = fopen(bad, "wb");
        REQUIRE(out != NULL && fwrite(file, 1, bytes, out) == bytes);
        fclose(out);
        file[i / 8] ^= (uint8_t)(1U << (i % 8));
        Status status = safetensors_open(&f, bad);
        CHECK(status == OK || status == ERR_DATA);
        for (int k = 0; f != NULL && k < safetensors_count(f); k++) {
            const SafeTensor *t = safetensors_at(f, k);
            touched = crc32c_update(touched, t->data, tensor_plain_bytes(&t->desc));
        }
        safetensors_close(f);
    }
    CHECK(touched != 0);
    mem_free(file);
}

TEST(hostile_headers_are_refused)
{
    static const struct {
        const char *header, *says;
    } rows[] = {
        { "[]", "not a JSON object" },
        { "{\"a\":7}", "tensor a: not an object" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", "header" },
        { "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "tensor a: no dtype" },
        { "{\"a\":{\"dtype\":\"X9\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "tensor a: dtype is not one of" },
        { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "tensor a: no shape" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
          "tensor a: a dimension is not a whole number" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", "whole number" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,2],\"data_offsets\":[0,8]}}",
          "tensor a: more than 4 dimensions" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]}}",
          "tensor a: size overflows" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "two whole numbers" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}",
          "tensor a: data_offsets are not two whole numbers" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "outside" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "outside" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
          "tensor a: data_offsets do not match the shape" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "after the last" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          "tensor a: overlaps another tensor or leaves a gap" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          "tensor b: overlaps another tensor" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "tensor b: overlaps another tensor" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          "tensor a: appears twice" },
        { "{\"a\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "tensor 0: its name is no" },
        { "{\"\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "its name is no" },
        { "{\"__metadata__\":[],\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "__metadata__" },
    };
    char path[PATH_BYTES];
    path_in_scratch(path, "hostile.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        SafeFile *f = NULL;
        write_raw(path, rows[i].header, weights, 8);
        CHECK_STATUS(safetensors_open(&f, path), ERR_DATA);
        CHECK(f == NULL);
        CHECK_CONTAINS(status_message(), rows[i].says);
        CHECK_CONTAINS(status_message(), "hostile.safetensors");
    }
}

TEST(files_of_other_writers_are_read)
{
    char path[PATH_BYTES];
    SafeFile *f = NULL;
    path_in_scratch(path, "raw.safetensors");
    write_raw(path,
              "{\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]},\"a\":{\"data_"
              "offsets\":[0,4],\"dtype\":\"U8\",\"shape\":[2,2]}} "
              " ",
              weights, 8);
    REQUIRE_OK(safetensors_open(&f, path));
    CHECK_INT(safetensors_count(f), 2);
    const SafeTensor *z = safetensors_find(f, "z"), *a = safetensors_find(f, "a");
    REQUIRE(z != NULL && a != NULL);
    CHECK(z->desc.rank == 1 && z->desc.dims[0] == 1 && *(const float *)z->data == weights[1]);
    CHECK(a->desc.dtype == DTYPE_U8 && tensor_plain_bytes(&a->desc) == 4);
    CHECK(safetensors_metadata(f, "format") == NULL);
    safetensors_close(f);
}

TEST(what_is_no_file_is_refused)
{
    char path[PATH_BYTES];
    SafeFile *f = NULL;
    CHECK_STATUS(safetensors_open(&f, test_scratch()), ERR_DATA);
    path_in_scratch(path, "absent.safetensors");
    CHECK_STATUS(safetensors_open(&f, path), ERR_DATA);
    CHECK_CONTAINS(status_message(), "absent.safetensors");
    CHECK(f == NULL);
    path_in_scratch(path, "fifo.safetensors");
    REQUIRE(mkfifo(path, 0600) == 0);
    CHECK_STATUS(safetensors_open(&f, path), ERR_DATA); /* nobody ever writes to it */
    CHECK_CONTAINS(status_message(), "fifo.safetensors: not a file");
    safetensors_close(NULL);
}

typedef struct Shrinker {
    const char *path;
    off_t bytes;
    atomic_bool stop;
} Shrinker;

static void *shrink_and_grow(void *arg)
{
    Shrinker *s = arg;
    while (!atomic_load(&s->stop)) {
        if (truncate(s->path, s->bytes / 2) != 0 || truncate(s->path, s->bytes) != 0) break;
    }
    return NULL;
}

/* As torch.save writes them: a zip archive, and what it wrote before 1.6. */
TEST(files_of_pytorch_are_told_who_reads_them)
{
    static const char *const starts[] = { "PK\3\4\0\0\10\10", "\x80\2\x8a\nl\xfc\x9c\x46" };
    char path[512];
    for (int i = 0; i < 2; i++) {
        char text[64] = { 0 };
        SafeFile *file = NULL;
        snprintf(path, sizeof path, "%s/w'%d.pth", test_scratch(), i);
        memcpy(text, starts[i], 8);
        REQUIRE_OK(fs_write_atomic(path, text, sizeof text));
        CHECK_STATUS(safetensors_open(&file, path), ERR_DATA);
        CHECK_CONTAINS(status_message(), ".pth: saved by torch.save, not a checkpoint of Convoy");
        text[0] ^= 1; /* something else */
        REQUIRE_OK(fs_write_atomic(path, text, sizeof text));
        CHECK_STATUS(safetensors_open(&file, path), ERR_DATA);
        CHECK_CONTAINS(status_message(), "not a safetensors file, or truncated");
    }
}

/* Pages of a mapping that are no longer in the file would end the process with SIGBUS. */
TEST(a_file_that_shrinks_is_refused)
{
    enum { VALUES = 1 << 18, TRIES = 300 };
    char path[PATH_BYTES];
    float *values = mem_calloc(VALUES, sizeof *values);
    REQUIRE(values != NULL);
    const int64_t dims[] = { VALUES };
    const SafeTensor tensor = { "a", tensor_desc(DTYPE_F32, 1, dims), values };
    path_in_scratch(path, "shrinks.safetensors");
    REQUIRE_OK(safetensors_write(path, &tensor, 1, NULL, 0));
    struct stat st;
    pthread_t thread;
    REQUIRE(stat(path, &st) == 0);
    Shrinker shrinker = { .path = path, .bytes = st.st_size };
    REQUIRE_OK(thread_start(&thread, "shrink", shrink_and_grow, &shrinker));
    int refused = 0;
    for (int i = 0; i < TRIES; i++) {
        SafeFile *f = NULL;
        Status status = safetensors_open(&f, path);
        if (status != OK) CHECK_STATUS(status, ERR_DATA);
        refused += status != OK;
        safetensors_close(f);
    }
    atomic_store(&shrinker.stop, true);
    pthread_join(thread, NULL);
    CHECK(refused > 0);
    mem_free(values);
}

/* A disk that fails at any of the reads. */
TEST(a_file_that_cannot_be_read_is_refused)
{
    char path[PATH_BYTES];
    path_in_scratch(path, "a.safetensors");
    REQUIRE_OK(write_small(path));
    Status status = ERR_DATA;
    int n = 0;
    for (; status != OK && n < 10; n++) {
        SafeFile *f = NULL;
        fault_reads(EIO, n, 1);
        status = safetensors_open(&f, path);
        fault_reads(0, 0, 0);
        safetensors_close(f);
        if (status == OK) continue;
        CHECK_STATUS(status, ERR_DATA);
        CHECK_CONTAINS(status_message(), "a.safetensors: cannot read: Input/output error");
    }
    CHECK_INT(n, 4); /* length, header, data; then none fails */
}

TEST(failing_allocations_are_reported)
{
    char path[PATH_BYTES];
    path_in_scratch(path, "a.safetensors");
    REQUIRE_OK(write_small(path));
    SafeFile *f = NULL;
    Status status = ERR_MEMORY;
    int n = 0;
    while (status == ERR_MEMORY && n < 200) {
        mem_fail_at(++n);
        status = safetensors_open(&f, path);
        CHECK((status == OK) == (f != NULL));
    }
    mem_fail_at(0);
    CHECK_STATUS(status, OK);
    CHECK(n > 3);
    safetensors_close(f);
}
