/* Which steps tell that a training has diverged. */
#include "tests/test.h"
#include "trainer/engine/train/loop_divergence.h"
#include <math.h>

TEST(steps_that_have_diverged)
{
    static const float nan = (float)NAN, inf = (float)INFINITY;
    const struct {
        double loss;
        bool failed;
        OptimizerResult optimizer;
        bool want;
    } cases[] = {
        { 1, false, { .measured = false }, false },
        { 1e300, false, { .measured = true, .grad_norm = 1e300 }, false },
        { (double)nan, false, { .measured = false }, true },
        { (double)-inf, false, { .loss_scale = 8 }, true },
        /* a rank that failed leaves anything behind, and says so itself */
        { (double)nan, true, { .measured = false }, false },
        { 1, false, { .measured = true, .grad_norm = (double)inf }, true },
        { 1, false, { .measured = false, .grad_norm = (double)nan }, false },
        /* a scaled loss: such steps are skipped, until that cannot help */
        { 1,
          false,
          { .loss_scale = 8, .skipped = 3, .measured = true, .grad_norm = (double)inf },
          false },
        { 1, false, { .loss_scale = 1e-5, .skipped = 3, .exhausted = true }, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const StepResult r = { .loss = cases[i].loss,
                               .failed = cases[i].failed,
                               .optimizer = cases[i].optimizer };
        CHECK(loop_divergence_in(&r) == cases[i].want);
    }
    /* nothing was masked */
    CHECK(!loop_divergence_in(&(StepResult){ .loss = (double)nan, .unmasked = true }));
}
