/* averages.h - averaged copies of a run's weights: OP_LERP over the parameter slab and that of the
 * running statistics, behind the updates of a step (STEP_AVERAGE).
 *
 * A copy lies as its slabs do, so a tensor of it has its offset there. Which there are and how far
 * they move is averaging.h's; the number goes with the step's scalars, and a step that a loss scale
 * skips moves nothing. Lookahead acts first: it is part of the update. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_AVERAGES_H
#define CONVOY_TRAINER_ENGINE_RULES_AVERAGES_H
#include "trainer/engine/exec/state.h"
#include "trainer/engine/plan/averaging.h"

enum { AVERAGES_STATES_MAX = 2 * AVERAGE_KIND_COUNT };
int averages_states(const Config *c, StateDef *out); /* the copies; how many states they are */

typedef struct Averages Averages;
/* After executor_commit(). Borrows x and c. Copies start at zero. */
Status averages_create(Averages **out, Executor *x, const Config *c, const TrainPlan *plan);
void averages_destroy(Averages *a); /* NULL ok */
bool averages_any(const Averages *a);
/* SCALAR_EMA and SCALAR_LOOKAHEAD; step and update as averaging_weight() takes them. */
void averages_scalars(const Averages *a, int64_t step, int64_t update, float scalars[SCALAR_COUNT]);
/* The average and what it is of change places, to the bit; no step is under way. */
Status averages_swap(Averages *a, AverageKind kind);
#endif
