/* test_draws.c - draws by vector code are those of kernels/drop.h, wherever a run of elements
 * begins and ends. */
#include "kernels/cpu/draws.h"
#include "tests/test.h"

TEST(runs_of_draws_are_the_single_ones)
{
    enum { MOST = 150 };
    const DropAttr attr = { .seed = UINT64_C(0xfedcba9876543210), .layer = 5, .rate = 0.3f };
    const DropAddress d = drop_address(&attr, 70000, UINT32_MAX - 1);
    /* the second one's blocks have more than 31 bits */
    static const int64_t firsts[] = { 0, INT64_C(4) << 31 };
    float out[MOST + 1], four[4];
    int wrong = 0;
    for (int64_t shift = 0; shift < 70; shift++)
        for (int64_t count = 0; count <= MOST; count += 1 + count / 8) {
            const int64_t first = firsts[shift % 2] + shift;
            out[count] = -1;
            cpu_draws_factors(&d, 3, first, count, out);
            wrong += out[count] != -1;
            for (int64_t i = first; i < first + count; i++) {
                drop_factors(&d, 3, (uint32_t)(i / 4), four);
                wrong += out[i - first] != four[i % 4];
            }
        }
    CHECK_INT(wrong, 0);
}
