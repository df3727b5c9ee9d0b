/* test_cuda_conv_plan.c - cuDNN's choice of engines for described devices, and the cache of plans.
 *
 * Nothing runs here: the machine needs cuDNN but no GPU. Without cuDNN the tests say so and check
 * nothing. */
#ifndef CONVOY_EMU /* its convolutions are plain loops */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/conv_plan.h"
#include "tests/test.h"
#include "tests/tools/cudnn_there.h"
#include <stdio.h>
#include <string.h>

#define LIMIT ((size_t)256 << 20)

static const struct {
    Precision precision;
    DType io;
} precisions[] = { { PRECISION_FP32, DTYPE_F32 },
                   { PRECISION_TF32, DTYPE_F32 },
                   { PRECISION_BF16, DTYPE_BF16 },
                   { PRECISION_FP16, DTYPE_F16 } };
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

/* n images of c channels and size pixels, window x window, padded to keep the size at stride 1 */
static ConvShape shape(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel_size,
                       int stride)
{
    const int pad = (int)kernel_size / 2;
    const int64_t to = (size + 2 * pad - kernel_size) / stride + 1;
    return (ConvShape){ .n = n,
                        .c = c,
                        .h = size,
                        .w = size,
                        .k = k,
                        .r = kernel_size,
                        .s = kernel_size,
                        .p = to,
                        .q = to,
                        .attr = { stride, stride, pad, pad, pad, pad, 1 },
                        .io = DTYPE_BF16 };
}

/* Every pass, overwriting and adding, finds an engine within the limit. */
static void check_passes(CudaBackend *b, const ConvShape *s)
{
    for (int pass = 0; pass < CONV_PASS_COUNT; pass++)
        for (int added = 0; added < 2; added++) {
            ConvPlan *p = NULL;
            CHECK_OK(conv_plan_create(&p, b, (ConvPass)pass, s, added != 0));
            if (!p) continue;
            CHECK(conv_plan_workspace(p) <= b->workspace_limit);
            CHECK(str_starts_with(conv_plan_name(p), "cudnn engine "));
            conv_plan_destroy(p);
        }
}

TEST(layers_of_networks_get_engines_in_every_precision)
{
    const ConvShape layers[] = {
        shape(64, 8, 224, 64, 7, 2),  shape(64, 64, 56, 64, 1, 1),   shape(64, 64, 56, 64, 3, 1),
        shape(1, 256, 56, 512, 1, 2), shape(256, 512, 7, 512, 3, 1), shape(128, 16, 32, 16, 3, 1),
    };
    CudaBackend b;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    for (int i = 0; i < PRECISIONS; i++)
        for (size_t k = 0; k < sizeof layers / sizeof layers[0]; k++) {
            ConvShape s = layers[k];
            s.io = precisions[i].io;
            s.tf32 = precisions[i].precision == PRECISION_TF32;
            check_passes(&b, &s);
        }
    cudnn_context_destroy(b.cudnn);
}

/* Channels of a group that are no multiple of 8, as in ResNeXt (32 groups of 4), are taken as they
 * are: the tensors' own channels are whole vectors, and cuDNN has an engine for each. */
TEST(narrow_groups_get_engines)
{
    static const struct {
        int64_t channels;
        int groups;
    } rows[] = { { 128, 32 }, { 24, 2 }, { 48, 4 }, { 40, 8 }, { 64, 32 } };
    static const char *const gpus[] = { "h200", "h100", "a100" };
    if (!cudnn_is_there()) return;
    for (size_t g = 0; g < sizeof gpus / sizeof gpus[0]; g++) {
        CudaBackend b;
        REQUIRE_OK(cudnn_open_described(&b, gpus[g], NULL, NULL));
        for (int i = 0; i < PRECISIONS; i++)
            for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
                for (int stride = 1; stride <= 2; stride++) {
                    ConvShape s = shape(16, rows[k].channels, 28, rows[k].channels, 3, stride);
                    s.attr.groups = rows[k].groups;
                    s.io = precisions[i].io;
                    s.tf32 = precisions[i].precision == PRECISION_TF32;
                    check_passes(&b, &s);
                }
        cudnn_context_destroy(b.cudnn);
    }
}

TEST(unusual_windows_and_groups_get_engines)
{
    ConvShape asymmetric = shape(2, 16, 6, 16, 3, 2), grouped = shape(2, 32, 5, 32, 3, 1),
              depthwise = shape(2, 32, 9, 32, 5, 1), small = shape(2, 8, 3, 8, 7, 1);
    CudaBackend b;
    if (!cudnn_is_there()) return;
    asymmetric.attr.pad_top = asymmetric.attr.pad_left = 0;
    asymmetric.p = asymmetric.q = 3;
    grouped.attr.groups = 4;
    depthwise.attr.groups = 32;
    REQUIRE_OK(cudnn_open_described(&b, "a100", NULL, NULL));
    check_passes(&b, &asymmetric);
    check_passes(&b, &grouped);
    check_passes(&b, &depthwise);
    check_passes(&b, &small);
    cudnn_context_destroy(b.cudnn);
}

TEST(strict_f32_takes_other_engines_than_tf32)
{
    ConvShape strict = shape(64, 64, 56, 64, 3, 1), rounded;
    CudaBackend b;
    ConvPlan *p = NULL, *q = NULL;
    if (!cudnn_is_there()) return;
    strict.io = DTYPE_F32;
    rounded = strict;
    rounded.tf32 = true;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    CHECK_OK(conv_plan_create(&p, &b, CONV_FORWARD, &strict, false));
    CHECK_OK(conv_plan_create(&q, &b, CONV_FORWARD, &rounded, false));
    CHECK(p && q && strcmp(conv_plan_name(p), conv_plan_name(q)) != 0);
    conv_plan_destroy(p);
    conv_plan_destroy(q);
    cudnn_context_destroy(b.cudnn);
}

TEST(the_workspace_limit_holds)
{
    /* The first engine listed for it wants some 200 MB. */
    const ConvShape stem = shape(256, 4, 224, 64, 7, 2);
    CudaBackend b;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    b.workspace_limit = 0;
    check_passes(&b, &stem);
    b.workspace_limit = (size_t)1 << 20;
    check_passes(&b, &stem);
    cudnn_context_destroy(b.cudnn);
}

TEST(an_operation_without_engine_says_why)
{
    const ConvShape s = shape(4, 64, 14, 64, 3, 1);
    CudaBackend b;
    ConvPlan *p = NULL;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&b, "a10g", "750", NULL)); /* no bf16 there */
    for (int pass = 0; pass < CONV_PASS_COUNT; pass++) {
        CHECK_STATUS(conv_plan_create(&p, &b, (ConvPass)pass, &s, false), ERR_ENV);
        CHECK(p == NULL);
        CHECK_CONTAINS(status_message(), "cuDNN has no engine for conv ");
        CHECK_CONTAINS(status_message(), "bf16 n4 c64 h14 w14 k64 r3 s3");
        CHECK_CONTAINS(status_message(), "it says ");
    }
    cudnn_context_destroy(b.cudnn);
}

TEST(an_impossible_shape_is_an_error)
{
    ConvShape s = shape(4, 64, 14, 64, 3, 1);
    CudaBackend b;
    ConvPlan *p = NULL;
    if (!cudnn_is_there()) return;
    s.p = 17; /* more rows than the window has places */
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    CHECK(conv_plan_create(&p, &b, CONV_FORWARD, &s, false) != OK);
    CHECK(p == NULL);
    CHECK(status_message()[0] != '\0');
    cudnn_context_destroy(b.cudnn);
}

TEST(equal_operations_share_a_plan)
{
    const ConvShape s = shape(8, 64, 14, 64, 3, 1);
    CudaBackend b;
    ConvPlan *p = NULL, *q = NULL;
    if (!cudnn_is_there()) return;
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    CHECK_OK(conv_plan_create(&p, &b, CONV_BWD_WEIGHTS, &s, false));
    CHECK_OK(conv_plan_create(&q, &b, CONV_BWD_WEIGHTS, &s, false));
    CHECK(p && q && conv_plan_name(p) == conv_plan_name(q));
    conv_plan_destroy(p);
    conv_plan_destroy(q);
    cudnn_context_destroy(b.cudnn);
}

TEST(descriptions_must_be_complete)
{
    CudaBackend b = { .workspace_limit = LIMIT };
    if (!cudnn_is_there()) return;
    CHECK_STATUS(cudnn_context_create(&b.cudnn, &b, "{\"deviceVer\": 900}", NULL), ERR_DATA);
    CHECK(b.cudnn == NULL);
    CHECK_CONTAINS(status_message(), "device properties");
    CHECK_STATUS(cudnn_context_create(&b.cudnn, &b, "no JSON", NULL), ERR_DATA);
    CHECK(b.cudnn == NULL);
}

TEST(a_device_describes_itself_or_is_missing)
{
    CudaBackend b = { .workspace_limit = LIMIT };
    if (!cudnn_is_there()) return;
    Status st = cudnn_context_create(&b.cudnn, &b, NULL, NULL);
    if (st == OK) CHECK_CONTAINS(b.cudnn->properties, "deviceVer");
    else CHECK_STATUS(st, ERR_ENV);
    cudnn_context_destroy(b.cudnn);
}

TEST(timing_that_fails_leaves_the_heuristics_choice)
{
    const ConvShape s = shape(8, 64, 14, 64, 3, 1);
    CudaBackend b;
    ConvPlan *plain = NULL, *timed = NULL;
    int devices = 0;
    if (!cudnn_is_there()) return;
    if (cudaGetDeviceCount(&devices) == cudaSuccess) {
        test_skip("there is a GPU: timing succeeds");
        return;
    }
    REQUIRE_OK(cudnn_open_described(&b, "h200", NULL, NULL));
    CHECK_OK(conv_plan_create(&plain, &b, CONV_FORWARD, &s, false));
    b.workspace_limit--; /* another operation to the context */
    b.cudnn->timed = true;
    CHECK_OK(conv_plan_create(&timed, &b, CONV_FORWARD, &s, false));
    CHECK(plain && timed && strcmp(conv_plan_name(plain), conv_plan_name(timed)) == 0);
    CHECK(b.cudnn->plans && b.cudnn->plans->ms == 0);
    conv_plan_destroy(plain);
    conv_plan_destroy(timed);
    cudnn_context_destroy(b.cudnn);
}

TEST(running_out_of_memory_is_an_error)
{
    const ConvShape s = shape(8, 64, 14, 64, 3, 1);
    CudaBackend b;
    ConvPlan *p = NULL;
    Status st = ERR_MEMORY;
    if (!cudnn_is_there()) return;
    char *json = cudnn_description("h200", NULL);
    REQUIRE(json != NULL);
    for (int64_t at = 1; st == ERR_MEMORY && at < 100; at++) {
        b = (CudaBackend){ .deviceless = true, .workspace_limit = LIMIT };
        mem_fail_at(at);
        st = cudnn_context_create(&b.cudnn, &b, json, NULL);
        if (st == OK) st = conv_plan_create(&p, &b, CONV_FORWARD, &s, false);
        mem_fail_at(0);
        CHECK((st == OK) == (p != NULL));
        conv_plan_destroy(p);
        cudnn_context_destroy(b.cudnn);
    }
    CHECK_OK(st);
    mem_free(json);
}

/* ---- the cache ---- */

static const char *const passes[] = { "conv forward", "conv bwd_data", "conv bwd_weights" };

/* The only file in the cache folder beside its lock; mem_free. */
static char *cache_file(const char *folder)
{
    char **names = NULL, *path = NULL;
    int64_t count = 0;
    if (fs_list(folder, &names, &count) == OK && count == 2) {
        CHECK_CONTAINS(names[1], ".plans.lock"); /* in order of names */
        path = fs_join(folder, names[0]);
    }
    mem_free(names);
    return path;
}

/* Asks for all passes of s; returns how many of them the cache file could not give. */
static int new_plans(const char *gpu, const char *folder, const ConvShape *s)
{
    CudaBackend b;
    int fresh = 0;
    if (cudnn_open_described(&b, gpu, NULL, folder) != OK) return -1;
    for (int pass = 0; pass < CONV_PASS_COUNT; pass++) {
        ConvPlan *p = NULL;
        b.cudnn->unsaved = false;
        if (conv_plan_create(&p, &b, (ConvPass)pass, s, false) != OK) fresh = -100;
        fresh += b.cudnn->unsaved;
        conv_plan_destroy(p);
    }
    b.cudnn->unsaved = fresh > 0;
    cudnn_context_destroy(b.cudnn);
    return fresh;
}

TEST(plans_come_back_from_the_cache)
{
    const ConvShape s = shape(64, 64, 56, 64, 3, 1), other = shape(64, 64, 56, 64, 1, 1);
    if (!cudnn_is_there()) return;
    char *folder = fs_join(test_scratch(), "deep/cache");
    CHECK_INT(new_plans("h200", folder, &s), 3);
    CHECK_INT(new_plans("h200", folder, &s), 0);
    CHECK_INT(new_plans("h200", folder, &other), 3);
    CHECK_INT(new_plans("h200", folder, &s), 0); /* what was not asked for the last time is kept */
    CHECK_INT(new_plans("h200", folder, &other), 0);
    char *path = cache_file(folder);
    REQUIRE(path != NULL);
    uint8_t *data = NULL;
    size_t bytes = 0;
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    for (int i = 0; i < 3; i++) CHECK_CONTAINS((char *)data, passes[i]);
    CHECK_CONTAINS(path, "-sm90-132-heuristic.plans");
    mem_free(data);
    mem_free(path);
    mem_free(folder);
}

TEST(every_operation_has_its_own_plan)
{
    const ConvShape s = shape(64, 64, 56, 64, 3, 1);
    ConvShape others[6];
    if (!cudnn_is_there()) return;
    const char *folder = test_scratch();
    CHECK_INT(new_plans("h200", folder, &s), 3);
    for (int i = 0; i < 6; i++) others[i] = s;
    others[0].n = 32;
    others[1].io = DTYPE_F16;
    others[2].attr.groups = 8;
    others[3] = shape(64, 64, 56, 64, 3, 2);
    others[4].io = DTYPE_F32;
    others[5].io = DTYPE_F32;
    others[5].tf32 = true;
    for (int i = 0; i < 6; i++) CHECK_INT(new_plans("h200", folder, &others[i]), 3);
}

TEST(damaged_caches_are_made_anew)
{
    const ConvShape s = shape(64, 64, 56, 64, 3, 1);
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (!cudnn_is_there()) return;
    const char *folder = test_scratch();
    CHECK_INT(new_plans("h200", folder, &s), 3);
    char *path = cache_file(folder);
    REQUIRE(path != NULL);
    REQUIRE_OK(fs_read_file(path, &data, &bytes));
    for (int i = 0; i <= 8; i++) { /* a byte changed, from the first to the last */
        const size_t at = (size_t)i * (bytes - 1) / 8;
        data[at] ^= 0x20;
        CHECK_OK(fs_write_atomic(path, data, bytes));
        data[at] ^= 0x20;
        CHECK_INT(new_plans("h200", folder, &s), 3);
        CHECK_INT(new_plans("h200", folder, &s), 0);
    }
    for (int i = 0; i < 8; i++) { /* cut short */
        CHECK_OK(fs_write_atomic(path, data, (size_t)i * bytes / 8));
        CHECK_INT(new_plans("h200", folder, &s), 3);
    }
    mem_free(data);
    mem_free(path);
}

/* Replaces the JSON of the file's first plan and makes the file intact around it. */
static Status change_plan(const char *path, const char *json)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    StrBuf body = { 0 }, file = { 0 };
    TRY(fs_read_file(path, &data, &bytes));
    const char *key = strchr((char *)data, '\n') + 1;
    str_printf(&body, "%.*s\n1 0 %zu\n%s\n", (int)strcspn(key, "\n"), key, strlen(json), json);
    str_printf(&file, "convoy cudnn plans 1 %08x %zu\n%s",
               (unsigned)crc32c_update(0, body.text, body.length), body.length, body.text);
    Status st = fs_write_atomic(path, file.text, file.length);
    str_free(&body);
    str_free(&file);
    mem_free(data);
    return st;
}

TEST(plans_that_cudnn_refuses_are_made_anew)
{
    static const char *const refused[] = { "{}", "no JSON at all", "", "{\"engineId\": 62}" };
    const ConvShape s = shape(64, 64, 56, 64, 3, 1);
    if (!cudnn_is_there()) return;
    const char *folder = test_scratch();
    CHECK_INT(new_plans("h200", folder, &s), 3);
    char *path = cache_file(folder);
    REQUIRE(path != NULL);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        REQUIRE_OK(change_plan(path, refused[i]));
        CHECK_INT(new_plans("h200", folder, &s), 3);
        CHECK_INT(new_plans("h200", folder, &s), 0);
    }
    mem_free(path);
}

TEST(plans_of_another_device_are_refused)
{
    const ConvShape s = shape(64, 64, 56, 64, 3, 1);
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (!cudnn_is_there()) return;
    char *hopper = fs_join(test_scratch(), "hopper"), *ampere = fs_join(test_scratch(), "ampere");
    CHECK_INT(new_plans("h200", hopper, &s), 3);
    CHECK_INT(new_plans("a100", ampere, &s), 3);
    char *from = cache_file(hopper), *to = cache_file(ampere);
    REQUIRE(from != NULL && to != NULL);
    REQUIRE_OK(fs_read_file(from, &data, &bytes));
    REQUIRE_OK(fs_write_atomic(to, data, bytes)); /* as if copied by hand under the other name */
    CHECK_INT(new_plans("a100", ampere, &s), 3);
    CHECK_INT(new_plans("a100", ampere, &s), 0);
    mem_free(data);
    mem_free(from);
    mem_free(to);
    mem_free(hopper);
    mem_free(ampere);
}

TEST(a_cache_that_cannot_be_written_costs_nothing_else)
{
    const ConvShape s = shape(64, 64, 56, 64, 3, 1);
    if (!cudnn_is_there()) return;
    char *blocked = fs_join(test_scratch(), "file"), *folder = fs_join(blocked, "below");
    REQUIRE_OK(fs_write_atomic(blocked, "x", 1));
    CHECK_INT(new_plans("h200", folder, &s), 3);
    CHECK_INT(new_plans("h200", folder, &s), 3);
    mem_free(folder);
    mem_free(blocked);
}
#endif
