/* eval_run.h - what convoy eval asks of a checkpoint before it opens any images. */
#ifndef CONVOY_TRAINER_CMD_EVAL_RUN_H
#define CONVOY_TRAINER_CMD_EVAL_RUN_H
#include "trainer/config/config.h"
#include "trainer/files/learnt.h"

typedef struct EvalRun {
    int64_t classes; /* 0: not known, as of weights of others */
    Learnt learnt;
    bool foreign; /* the result is none of the run's curve: other weights than those in its
                      * folder, or other images than it evaluates itself, or seen otherwise */
} EvalRun;

/* What the file at path knows of its run; c: how it is to be evaluated. A run without images of its
 * own to evaluate takes any for its own. A file that is no good is refused where its weights are
 * loaded, not here. ERR_MEMORY alone. */
Status eval_run_ask(EvalRun *out, const Config *c, const char *path);
void eval_run_free(EvalRun *run);
#endif
