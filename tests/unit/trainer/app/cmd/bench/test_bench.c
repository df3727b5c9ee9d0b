/* test_bench.c - what benchmarks print, as people and scripts read it: the numbers of a row belong
 * together, and to the network that was run. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/cmd/commands.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MAX = 16, ARG_BYTES = 600 };

/* Batches of 8 images of 3 x 32 x 32. */
static const char config[] = "model:\n"
                             "  name: mlp\n"
                             "  in_channels: 3\n"
                             "  classes: 7\n"
                             "data:\n"
                             "  format: synthetic\n"
                             "  synthetic_images: 40\n"
                             "  image_size: 32\n"
                             "  threads: 1\n"
                             "train:\n"
                             "  batch_per_rank: 8\n"
                             "optimizer:\n"
                             "  clip_norm: 1\n"
                             "device:\n"
                             "  backend: cpu\n"
                             "  threads: 1\n";

/* convoy bench with these words, one after the other; CONFIG is the file above. What it prints:
 * mem_free. */
static char *bench(const char *words)
{
    char path[ARG_BYTES], said[ARG_BYTES], text[ARGS_MAX][ARG_BYTES], *args[ARGS_MAX + 1];
    uint8_t *out = NULL;
    size_t bytes;
    int count = 0, used = 0;
    snprintf(path, sizeof path, "%s/small.yaml", test_scratch());
    snprintf(said, sizeof said, "%s/said", test_scratch());
    CHECK_OK(fs_write_atomic(path, config, strlen(config)));
    for (; count < ARGS_MAX && sscanf(words, "%599s%n", text[count], &used) == 1; words += used) {
        if (strcmp(text[count], "CONFIG") == 0) memcpy(text[count], path, sizeof path);
        args[count] = text[count];
        count++;
    }
    args[count] = NULL;
    fflush(stdout);
    const int console = dup(STDOUT_FILENO), file = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(console >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    CHECK_OK(commands_run(&cmd_bench, count, args));
    fflush(stdout);
    CHECK(dup2(console, STDOUT_FILENO) >= 0);
    close(console);
    close(file);
    CHECK_OK(fs_read_file(said, &out, &bytes));
    return (char *)out;
}

/* ---- where the time of a step goes ---- */

/* Time and rate are printed with three digits and one behind the point. */
static void check_product(double ms, double rate, double want)
{
    CHECK_NEAR(ms * rate, want, 0.0006 * rate + 0.06 * ms);
}

/* The row of an operation: millions of floating-point operations (NaN: not told) and of bytes. */
static void check_row(const char *table, const char *operation, double mflop, double mbyte)
{
    char line[64];
    double ms, share, gflops, gbytes;
    snprintf(line, sizeof line, "\n%s ", operation);
    const char *row = strstr(table, line);
    REQUIRE(row != NULL);
    row += strlen(line);
    REQUIRE(sscanf(row, "%lf %lf%% %lf %lf", &ms, &share, &gflops, &gbytes) == 4);
    check_product(ms, gflops, mflop);
    check_product(ms, gbytes, mbyte);
}

TEST(operations_of_a_step_do_what_the_network_asks_for)
{
    const double inputs[] = { 3072, 512, 512 }, outputs[] = { 512, 512, 7 };
    double weights = 0, biases = 0, images = 0;
    for (int i = 0; i < 3; i++) {
        weights += 1e-6 * inputs[i] * outputs[i];
        biases += 1e-6 * outputs[i];
        images += 1e-6 * 8 * (inputs[i] + outputs[i]);
    }
    const double params = weights + biases, flops = 2 * 8 * weights;
    char *table = bench("step CONFIG --nodes --steps 8 --warmup 1");
    check_row(table, "linear", flops, 4 * (params + images));
    check_row(table, "linear_bwd_weights", flops, 4 * (params + images));
    check_row(table, "grad_squares", 0, 4 * params);
    /* gradient; parameter and momentum, there and back */
    check_row(table, "update", 0, 4 * 5 * params);
    mem_free(table);
}

/* The number behind a name at the start of a line. */
static double value_of(const char *said, const char *name)
{
    char line[64];
    double value = 0;
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(said, line);
    CHECK(at != NULL && sscanf(at + strlen(line), "%lf", &value) == 1);
    return value;
}

TEST(rates_are_of_the_steps_that_count)
{
    char *said = bench("step CONFIG --steps 50 --warmup 1000");
    const double rate = value_of(said, "images_per_s"), mean = value_of(said, "mean_images_per_s");
    CHECK_NEAR(rate * value_of(said, "step_ms"), 8e3, 0.001 * 8e3 + 0.001 * rate);
    /* With the first 1000 steps it would be 1/21 of the rate. */
    CHECK(mean > rate / 7 && mean < rate * 3);
    mem_free(said);
}

/* ---- nccl-tests ---- */

TEST(sums_have_the_head_of_nccl_tests)
{
    static const char head[] =
        "#                                                                          out-of-place   "
        "                     in-place\n"
        "#        size         count      type   redop    root     time   algbw   busbw #wrong     "
        "time   algbw   busbw #wrong\n"
        "#         (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
        "(us)  (GB/s)  (GB/s)       \n"
        "            8             2     float     sum      -1      N/A     N/A     N/A    N/A ";
    char *table = bench("allreduce --min-bytes 8 --max-bytes 32 --steps 2 --warmup 1");
    CHECK_CONTAINS(table, "minBytes 8 maxBytes 32 step: 2(factor) warmup iters: 1 iters: 2 ");
    CHECK_CONTAINS(table, head);
    CHECK_CONTAINS(table, "\n# Out of bounds values : 0 OK\n");
    mem_free(table);
}
