/* rules.c - see rules.h. */
#include "trainer/engine/rules/rules.h"
#include "trainer/engine/rules/optimizer.h"

int rules_states(const Config *c, StateDef out[RULES_STATES_MAX])
{
    int count = optimizer_states(c, out);
    count += averages_states(c, out + count);
    return count + sharpness_states(c, out + count);
}
