/* rules.h - all states that the rules of a run keep, known from its config alone. */
#ifndef CONVOY_TRAINER_ENGINE_RULES_RULES_H
#define CONVOY_TRAINER_ENGINE_RULES_RULES_H
#include "kernels/ops/update.h"
#include "trainer/engine/rules/averages.h"
#include "trainer/engine/rules/sharpness.h"

enum { RULES_STATES_MAX = UPDATE_STATES_MAX + AVERAGES_STATES_MAX + SHARPNESS_STATES };
int rules_states(const Config *c, StateDef out[RULES_STATES_MAX]); /* how many */
#endif
