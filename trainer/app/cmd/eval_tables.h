/* eval_tables.h - what convoy eval writes besides its result: CSV files and a page. */
#ifndef CONVOY_TRAINER_APP_CMD_EVAL_TABLES_H
#define CONVOY_TRAINER_APP_CMD_EVAL_TABLES_H
#include "trainer/app/cmd/args.h"
#include "trainer/engine/session/session.h"
#include "trainer/engine/train/evaluate.h"

bool eval_tables_wanted(const Args *args);
/* A name that cannot be written to, or a table that this network has not, is said before the work,
 * not after it. */
Status eval_tables_check(const Args *args, const Config *c);
/* Results for the tables: images [dataset_images(s->val)] or, with several labels per image, ap,
 * the average precision of each class [s->classes]. At least one is NULL. */
typedef struct EvalTables {
    EvalImage *images;
    double *ap;
} EvalTables;
Status eval_tables_write(const Session *s, const Args *args, const EvalResult *r,
                         const EvalTables *details);
#endif
