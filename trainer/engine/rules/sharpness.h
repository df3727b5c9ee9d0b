/* sharpness.h - sharpness-aware minimisation (SAM, Foret et al. 2021) over any optimizer: a step
 * uses the gradient at w + e, where e = sam_rho g / (|g| + 1e-12) and g is the gradient at w, of
 * the same images.
 *
 * A step is two passes over one micro-batch (timeline.h). g is that of the global batch, summed
 * over ranks, and its norm that of all parameters, so that the step is the same on any number of
 * ranks; the authors' own code takes each device's share of the batch for a batch of its own.
 * Parameters come back from a copy, to the bit. Running statistics and what is logged are the
 * first pass's, norm and clipping the second's. Where a loss scale makes g infinite nothing moves,
 * and the step is skipped as any other. sam_interval > 1 leaves out the steps between. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_SHARPNESS_H
#define CONVOY_TRAINER_ENGINE_RULES_SHARPNESS_H
#include "trainer/engine/config/config.h"
#include "trainer/engine/exec/state.h"

typedef struct Sharpness Sharpness;

bool sharpness_wanted(const Config *c);
/* Parameters and running statistics, kept between the two passes; how many. */
enum { SHARPNESS_STATES = 2 };
int sharpness_states(const Config *c, StateDef *out);
bool sharpness_in_step(const Config *c, int64_t step); /* from 0 */
/* After executor_commit(). Borrows x; squares: optimizer_squares(). Adds operations that keep
 * parameters and running statistics and move parameters by e, and those that bring both back. */
Status sharpness_create(Sharpness **out, Executor *x, const Config *c, OpTensor squares);
void sharpness_destroy(Sharpness *s); /* NULL ok */
#endif
