/* Positions of patches for images of another size, as torchvision and timm make them
 * (tests/golden/positions.txt); weights of another size come back with them. */
#include "base/mem.h"
#include "models/positions.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include "trainer/engine/files/weights.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHANNELS = 2, STREAM = 31, PATH_BYTES = 1200 };

static void check_golden(int side, int now, bool antialias)
{
    static double want[GOLDEN_VALUES];
    static float from[GOLDEN_VALUES], to[GOLDEN_VALUES];
    const PositionGrid grid = { 1, now, now };
    const int had = (1 + side * side) * CHANNELS, count = (1 + now * now) * CHANNELS;
    char name[64];
    snprintf(name, sizeof name, "%s.%d.%d", antialias ? "timm" : "torchvision", side, now);
    REQUIRE(golden_read("positions", name, want) == count);
    for (int i = 0; i < had; i++) from[i] = (float)(2 * network_uniform(STREAM, (uint32_t)i) - 1);
    REQUIRE_OK(positions_resample(&grid, side, CHANNELS, antialias, from, to));
    for (int i = 0; i < count; i++)
        if (!test_check(fabs((double)to[i] - want[i]) <= 2e-6, __FILE__, __LINE__, name))
            printf("    value %d: %.9g, not %.9g\n", i, (double)to[i], want[i]);
}

TEST(positions_become_the_libraries)
{
    static const int sizes[][2] = { { 4, 7 }, { 7, 4 }, { 14, 16 }, { 14, 5 }, { 3, 1 }, { 1, 3 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_golden(sizes[i][0], sizes[i][1], false);
        check_golden(sizes[i][0], sizes[i][1], true);
    }
}

TEST(positions_have_a_side_where_they_are_a_square)
{
    const PositionGrid classed = { 1, 4, 4 }, plain = { 0, 4, 4 }, none = { 0 };
    CHECK_INT(positions_side(&classed, 197), 14);
    CHECK_INT(positions_side(&classed, 196), 0);
    CHECK_INT(positions_side(&classed, 1), 0);
    CHECK_INT(positions_side(&plain, 196), 14);
    CHECK_INT(positions_side(&none, 196), 0);
}

/* ---- weights ---- */

static void open_network(Network *n, const char *model, int size)
{
    ModelOptions o = { .width = 0.125 };
    o.graph = (GraphOptions){
        .batch = 1, .channels = 3, .height = size, .width = size, .classes = 7, .std = { 1, 1, 1 }
    };
    REQUIRE_OK(network_open(n, NETWORK_CPU, model, &o));
    REQUIRE_OK(network_fill(n));
}

static int state_of(const Network *n, const char *name)
{
    for (int i = 0; i < executor_state_count(n->executor); i++)
        if (strcmp(executor_state_name(n->executor, i), name) == 0) return i;
    return -1;
}

static float *values_of(const Network *n, const char *name)
{
    const int state = state_of(n, name);
    float *values = mem_alloc(tensor_plain_bytes(&executor_state(n->executor, state)->desc));
    CHECK_OK(executor_export_state(n->executor, state, values));
    return values;
}

/* The file's positions are its own but for `rows`, where that is not 0. */
static Status pass_weights(Network *to, const Network *from, const char *model, int64_t rows)
{
    char path[PATH_BYTES];
    SafeFile *file = NULL;
    SafeTensor tensors[256];
    const int count = executor_state_count(from->executor);
    ASSERT(count <= 256);
    for (int i = 0; i < count; i++) {
        const char *name = executor_state_name(from->executor, i);
        tensors[i] =
            (SafeTensor){ name, executor_state(from->executor, i)->desc, values_of(from, name) };
        if (rows && strstr(name, "pos_embed")) tensors[i].desc.dims[1] = rows;
    }
    snprintf(path, sizeof path, "%s/positions.safetensors", test_scratch());
    Status status = safetensors_write(path, tensors, count, NULL, 0);
    for (int i = 0; i < count; i++) mem_free((void *)(uintptr_t)tensors[i].data);
    TRY(status);
    TRY(safetensors_open(&file, path));
    status = weights_restore(to->executor, program_graph(to->program), model_find(model), file,
                             path, NULL);
    safetensors_close(file);
    return status;
}

static void check_weights(const char *model, const char *positions, bool antialias)
{
    const PositionGrid grid = { 1, 4, 4 };
    Network small, large;
    open_network(&small, model, 48);
    open_network(&large, model, 64);
    const TensorDesc *d = &executor_state(large.executor, state_of(&large, positions))->desc;
    const size_t bytes = tensor_plain_bytes(d);
    float *from = values_of(&small, positions), *want = mem_alloc(bytes), *got = NULL;
    REQUIRE_OK(positions_resample(&grid, 3, d->dims[2], antialias, from, want));
    CHECK_OK(pass_weights(&large, &small, model, 0));
    got = values_of(&large, positions);
    CHECK(memcmp(got, want, bytes) == 0);
    CHECK_STATUS(pass_weights(&large, &small, model, 9), ERR_DATA); /* 8 patches and the token */
    CHECK_CONTAINS(status_message(), "with another shape: ");
    CHECK_CONTAINS(status_message(), positions);
    mem_free(from);
    mem_free(want);
    mem_free(got);
    network_close(&small);
    network_close(&large);
}

TEST(weights_of_another_image_size_bring_positions_that_fit)
{
    check_weights("vit_b_16", "encoder.pos_embedding", false);
    check_weights("deit_tiny_patch16_224", "pos_embed", true);
}
