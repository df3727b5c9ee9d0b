/* step.c - see step.h. */
#include "trainer/engine/exec/step.h"

bool step_of_bucket(const StepOp *s)
{
    return s->when == STEP_MEASURE || s->when == STEP_UPDATE;
}

bool step_in_run(const StepOp *s, TimelineRun run)
{
    return s->runs >> run & 1;
}

int step_use_count(const StepOp *s)
{
    int count = 0;
    while (count < STEP_USES_MAX && s->use[count].bytes > 0) count++;
    return count;
}

void step_use(StepOp *s, StepUse use)
{
    const int count = step_use_count(s);
    ASSERT(count < STEP_USES_MAX);
    s->use[count] = use;
}

double step_traffic(const StepOp *s)
{
    double bytes = 0;
    for (int i = 0; i < step_use_count(s); i++)
        bytes += (s->use[i].mode == STEP_UPDATES ? 2 : 1) * (double)s->use[i].bytes;
    return bytes / (double)(s->every ? s->every : 1);
}
