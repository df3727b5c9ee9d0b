/* param_groups.h - the small language of optimizer.groups: factors by patterns of names. */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_PARAM_GROUPS_H
#define CONVOY_TRAINER_ENGINE_CONFIG_PARAM_GROUPS_H
#include "base/status.h"

enum { PARAM_GROUPS_MAX = 32, PARAM_GROUPS_PATTERN_BYTES = 128 };
#define PARAM_GROUPS_SAME (-1.0) /* a decay that the group does not say */
typedef struct ParamGroup {
    char pattern[PARAM_GROUPS_PATTERN_BYTES]; /* str_matches() */
    double lr;                                /* factor; above 0 */
    double decay; /* factor of weight_decay, also of what decay_skip leaves out */
} ParamGroup;
typedef struct ParamGroups {
    int count;
    ParamGroup list[PARAM_GROUPS_MAX];
} ParamGroups;

/* "PATTERN: lr=F decay=F; PATTERN: lr=F": one or both factors. "": no group. ERR_USAGE with a
 * sentence that goes on from the name of the key. */
Status param_groups_parse(ParamGroups *out, const char *text);
#endif
