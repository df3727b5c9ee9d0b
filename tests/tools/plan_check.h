/* plan_check.h - the proof of a memory plan, for tests. */
#ifndef CONVOY_TESTS_TOOLS_PLAN_CHECK_H
#define CONVOY_TESTS_TOOLS_PLAN_CHECK_H
#include "models/graph/plan.h"

/* That inside each slab no two live tensors overlap unless one lies over the other. */
Status plan_check(const Plan *p, const Graph *g);
#endif
