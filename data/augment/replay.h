/* replay.h - all that is drawn for one training image, as a line of text and back: so that other
 * programs can make the same picture from the same parameters, and ours from theirs.
 *
 *   box X Y W H resize W H window X Y size S flip 0|1 {op NAME VALUE} [own WEIGHT {chain WEIGHT {op
 *   NAME VALUE}}] [erase TOP LEFT HEIGHT WIDTH]
 *
 * Box, resize, window and size are AugmentPlan's; op names are image_op_name()'s. Numbers read back
 * as the same bits. */
#ifndef CONVOY_DATA_AUGMENT_REPLAY_H
#define CONVOY_DATA_AUGMENT_REPLAY_H
#include "base/str.h"
#include "data/augment/policy.h"

typedef struct Replay {
    AugmentPlan plan;
    PolicyPlan policy_plan;
    EraseBox erase;
} Replay;

void replay_print(const Replay *v, StrBuf *out); /* no newline */
/* ERR_DATA with a sentence on what is wrong. The line ends at NUL or newline. */
Status replay_parse(const char *line, Replay *out);
#endif
