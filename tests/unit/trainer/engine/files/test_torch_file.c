/* Files of PyTorch: what scripts/golden/make_pth_golden.py had torch, timm and Lightning write is
 * read back, in all formats; what is not of weights, or damaged in any place, is refused. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include "tests/tools/container_write.h"
#include "trainer/engine/files/torch_file.h"
#include "trainer/engine/files/weights.h"
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1200, AVERAGED = 100 };

static Status open_golden(SafeFile **out, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "tests/golden/pth/%s", name);
    return weights_open(out, path);
}

static double value_of(const SafeTensor *t, int64_t i)
{
    const char *at = (const char *)t->data + (size_t)i * dtype_bytes(t->desc.dtype);
    float f32;
    double f64;
    uint16_t half;
    int32_t i32;
    int64_t i64;
    memcpy(&half, at, sizeof half);
    switch (t->desc.dtype) {
    case DTYPE_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case DTYPE_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case DTYPE_F16:
        return (double)float_from_f16(half);
    case DTYPE_BF16:
        return (double)float_from_bf16(half);
    case DTYPE_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case DTYPE_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case DTYPE_U8:
    case DTYPE_COUNT:
        break;
    }
    return *(const uint8_t *)at;
}

/* The formula of the script. */
static void check_values(const SafeFile *f, const char *name, int number, int64_t elements)
{
    const SafeTensor *t = safetensors_find(f, name);
    if (!test_check(t != NULL, __FILE__, __LINE__, name)) return;
    CHECK_INT(tensor_elements(&t->desc), elements);
    const bool whole =
        t->desc.dtype == DTYPE_I64 || t->desc.dtype == DTYPE_I32 || t->desc.dtype == DTYPE_U8;
    for (int64_t i = 0; i < elements; i++) {
        const double value = number + 1 + (double)i / 8;
        CHECK(value_of(t, i) == (whole ? number + 1 : value));
    }
}

TEST(every_type_is_read_from_every_format)
{
    static const char *const files[] = { "zip.pth", "legacy.pth", "protocol4.pth" };
    static const char *const names[] = { "float32.weight",  "float64.weight", "float16.weight",
                                         "bfloat16.weight", "int64.weight",   "int32.weight",
                                         "uint8.weight" };
    static const DType types[] = { DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16,
                                   DTYPE_I64, DTYPE_I32, DTYPE_U8 };
    for (int k = 0; k < 3; k++) {
        SafeFile *f = NULL;
        REQUIRE_OK(open_golden(&f, files[k]));
        CHECK_INT(safetensors_count(f), 11);
        CHECK(!safetensors_metadata(f, "config") && !weights_are_checkpoint(f));
        for (int i = 0; i < 7; i++) {
            const SafeTensor *t = safetensors_find(f, names[i]);
            check_values(f, names[i], i, 6);
            CHECK(t->desc.dtype == types[i] && t->desc.rank == 2 && t->desc.dims[0] == 2);
        }
        check_values(f, "scalar", 7, 1);
        CHECK_INT(safetensors_find(f, "scalar")->desc.rank, 1);
        CHECK_INT(safetensors_find(f, "empty")->desc.dims[1], 4);
        check_values(f, "empty", 8, 0);
        check_values(f, "parameter", 9, 3);
        const SafeTensor *flags = safetensors_find(f, "bool");
        CHECK(flags->desc.dtype == DTYPE_U8 && memcmp(flags->data, "\1\0\1", 3) == 0);
        safetensors_close(f);
    }
}

TEST(strides_offsets_and_shared_storages_are_honoured)
{
    static const char *const files[] = { "views.pth", "views_legacy.pth" };
    for (int k = 0; k < 2; k++) {
        SafeFile *f = NULL;
        REQUIRE_OK(open_golden(&f, files[k]));
        check_values(f, "whole", 0, 24);
        check_values(f, "again", 0, 24);
        check_values(f, "images", 1, 24); /* channels last there */
        check_values(f, "tagged", 6, 2);
        CHECK_INT(safetensors_find(f, "images")->desc.dims[1], 3);
        const SafeTensor *turned = safetensors_find(f, "turned"), *row = safetensors_find(f, "row"),
                         *every = safetensors_find(f, "every");
        for (int i = 0; i < 24; i++)
            CHECK(value_of(turned, i) == 1 + (i % 4 * 6 + (double)(i / 4)) / 8);
        for (int i = 0; i < 6; i++) CHECK(value_of(row, i) == 1 + (6 + (double)i) / 8);
        CHECK_INT(every->desc.dims[0], 5);
        for (int i = 0; i < 5; i++) CHECK(value_of(every, i) == 1 + (1 + 5 * (double)i) / 8);
        safetensors_close(f);
    }
}

TEST(checkpoints_of_training_programs_give_both_kinds_of_weights)
{
    static const struct {
        const char *file, *before, *before_averaged;
        int more;
    } files[] = { { "timm.pth", "", "ema.", 0 },
                  { "reference.pth", "_orig_mod.module.", "ema.module.", 1 },
                  { "lightning.pth", "model.", "ema.model.", 0 } };
    static const char *const names[] = { "conv.weight", "conv.bias", "fc.weight", "fc.bias" };
    static const int elements[] = { 2, 2, 6, 3 };
    char name[64];
    for (int k = 0; k < 3; k++) {
        SafeFile *f = NULL;
        REQUIRE_OK(open_golden(&f, files[k].file));
        CHECK_INT(safetensors_count(f), 8 + files[k].more); /* and n_averaged */
        for (int i = 0; i < 8; i++) {
            snprintf(name, sizeof name, "%s%s", i < 4 ? files[k].before : files[k].before_averaged,
                     names[i % 4]);
            check_values(f, name, i % 4 + (i < 4 ? 0 : AVERAGED), elements[i % 4]);
        }
        safetensors_close(f);
    }
}

TEST(what_is_not_of_weights_is_refused_by_its_name)
{
    static const struct {
        const char *file, *words;
    } cases[] = {
        { "module.pth", "module.pth: holds torch.nn.modules.linear.Linear, which is not part of" },
        { "fraction.pth", "holds fractions.Fraction, which is not part of weights" },
        { "sharded.pth", "sharded.pth: holds sharded tensors (torch.distributed.tensor.DTensor)" },
        { "expanded.pth", "tensor weight: an expanded view of fewer elements" },
        { "complex.pth", "tensor weight: unsupported element type torch.ComplexFloatStorage" },
        { "nothing.pth", "no named tensors, such as" },
        { "list.pth", "not a dictionary of tensors such as" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SafeFile *f = NULL;
        CHECK_STATUS(open_golden(&f, cases[i].file), ERR_DATA);
        CHECK_CONTAINS(status_message(), cases[i].words);
        CHECK(!f);
    }
    SafeFile *f = NULL;
    CHECK_STATUS(open_golden(&f, "fraction.pth"), ERR_DATA);
    CHECK_CONTAINS(status_message(), "torch.save(model.state_dict(), FILE)");
    CHECK_STATUS(open_golden(&f, "sharded.pth"), ERR_DATA);
    CHECK_CONTAINS(status_message(), "full_state_dict=True");
}

/* ---- damage ---- */

typedef struct Bytes {
    char path[PATH_BYTES];
    uint8_t *data;
    size_t size;
} Bytes;

static void read_golden(Bytes *b, const char *name)
{
    snprintf(b->path, sizeof b->path, "tests/golden/pth/%s", name);
    REQUIRE_OK(fs_read_file(b->path, &b->data, &b->size));
    snprintf(b->path, sizeof b->path, "%s/damaged.pth", test_scratch());
}

static Status open_bytes(SafeFile **out, const Bytes *b, size_t size)
{
    FILE *file = fopen(b->path, "wb"); /* without the sync of fs_write_atomic() */
    if (!file || fwrite(b->data, 1, size, file) != size || fclose(file) != 0)
        return fail(ERR_IO, "%s", b->path);
    return weights_open(out, b->path);
}

TEST(a_file_that_is_cut_anywhere_is_refused)
{
    static const char *const files[] = { "zip.pth", "legacy.pth" };
    for (int k = 0; k < 2; k++) {
        Bytes b = { .data = NULL };
        read_golden(&b, files[k]);
        for (size_t size = 4; size < b.size; size += 1 + size % 3) {
            SafeFile *f = NULL;
            CHECK_STATUS(open_bytes(&f, &b, size), ERR_DATA);
            CHECK_CONTAINS(status_message(), "damaged.pth");
        }
        mem_free(b.data);
    }
}

TEST(a_damaged_file_is_refused_or_read_within_its_bounds)
{
    static const char *const files[] = { "timm.pth", "views_legacy.pth" };
    static const uint8_t masks[] = { 0x01, 0x80, 0xff };
    for (int k = 0; k < 2; k++) {
        Bytes b = { .data = NULL };
        read_golden(&b, files[k]);
        for (size_t i = 0; i < 3 * b.size; i++) {
            SafeFile *f = NULL;
            double sum = 0;
            b.data[i / 3] ^= masks[i % 3];
            const Status status = open_bytes(&f, &b, b.size);
            if (status != OK) CHECK_STATUS(status, ERR_DATA);
            for (int n = 0; status == OK && n < safetensors_count(f); n++) {
                const SafeTensor *t = safetensors_at(f, n);
                for (int64_t e = 0; e < tensor_elements(&t->desc); e++) sum += value_of(t, e);
            }
            safetensors_close(f);
            b.data[i / 3] ^= masks[i % 3];
            if (sum == 1) printf("\n"); /* looked at */
        }
        mem_free(b.data);
    }
}

/* Puts other bytes wherever the text is in the file. */
static void expect_replaced(const char *file, const char *text, const char *by, size_t bytes,
                            const char *words)
{
    Bytes b = { .data = NULL };
    SafeFile *f = NULL;
    int found = 0;
    read_golden(&b, file);
    for (uint8_t *at = b.data; (at = memmem(at, b.size - (size_t)(at - b.data), text, bytes));
         at += bytes, found++)
        memcpy(at, by, bytes);
    CHECK(found > 0);
    CHECK_STATUS(open_bytes(&f, &b, b.size), ERR_DATA);
    CHECK_CONTAINS(status_message(), words);
    mem_free(b.data);
}

TEST(other_containers_are_refused_with_what_they_are)
{
    static const char legacy_key[] = "little_endianq\2\x88", legacy_big[] = "little_endianq\2\x89";
    expect_replaced("zip.pth", "little", "bigbig", 6, "saved on a big-endian machine");
    expect_replaced("legacy.pth", legacy_key, legacy_big, sizeof legacy_key - 1,
                    "saved on a big-endian machine");
    expect_replaced("zip.pth", "data.pkl", "date.pkl", 8, "a zip archive without data.pkl");
    expect_replaced("legacy.pth", "\xf9\x20\x6a", "\xf9\x20\x6b", 3, "not one of torch.save");
    expect_replaced("legacy.pth", "\x80\2M\xe9\3", "\x80\2M\xea\3", 5,
                    "but not version 1001 of it");
    expect_replaced("zip.pth", "scalar", "sc\1lar", 6, "its name is not UTF-8 text");
    expect_replaced("zip.pth", "scalar", "sc\0lar", 6, "invalid name");
    expect_replaced("zip.pth", "int64.weight", "int32.weight", 12, "int32.weight: appears twice");
    expect_replaced("zip.pth", "/data/3", "/data/x", 7, "tensor bfloat16.weight: outside the file");

    Bytes b = { .data = NULL };
    SafeFile *f = NULL;
    StrBuf tar = { 0 };
    read_golden(&b, "zip.pth");
    for (size_t i = 0; i + 46 < b.size; i++)
        if (memcmp(b.data + i, "PK\1\2", 4) == 0) b.data[i + 10] = 8;
    CHECK_STATUS(open_bytes(&f, &b, b.size), ERR_DATA);
    CHECK_CONTAINS(status_message(), "compressed or encrypted");
    mem_free(b.data);
    tar_add(&tar, "sys_info", "x", 1, TAR_USTAR);
    tar_end(&tar);
    b = (Bytes){ .data = (uint8_t *)tar.text, .size = tar.length };
    snprintf(b.path, sizeof b.path, "%s/damaged.pth", test_scratch());
    CHECK_STATUS(open_bytes(&f, &b, b.size), ERR_DATA);
    CHECK_CONTAINS(status_message(), "a tar archive, which PyTorch wrote before version 0.1.10");
    str_free(&tar);
}

TEST(failing_allocations_are_reported)
{
    SafeFile *f = NULL;
    Status status = ERR_MEMORY;
    int n = 0;
    while (status == ERR_MEMORY && n < 500) {
        mem_fail_at(++n);
        status = open_golden(&f, "views.pth");
        CHECK((status == OK) == (f != NULL));
    }
    mem_fail_at(0);
    CHECK_STATUS(status, OK);
    CHECK(n > 8);
    safetensors_close(f);
}
