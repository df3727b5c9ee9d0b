/* sections.h - the parts of a report's page, each written by a file of its own. */
#ifndef CONVOY_TRAINER_APP_REPORT_SECTIONS_H
#define CONVOY_TRAINER_APP_REPORT_SECTIONS_H
#include "trainer/app/report/collect.h"
#include "trainer/app/report/scaling.h"

/* curves.c: loss, accuracy, speed, waits, learning rate against steps or epochs. ERR_MEMORY. */
Status section_curves(StrBuf *out, const RunSet *set);
/* tables.c */
Status section_runs(StrBuf *out, const RunSet *set);
void section_missing(StrBuf *out, const RunSet *set, const Scaling *scaling);
void section_environment(StrBuf *out, const RunSet *set);
void section_differences(StrBuf *out, const RunSet *set); /* nothing of one run */
void section_gpus(StrBuf *out, const RunSet *set);        /* nothing where no run tells */
void section_config(StrBuf *out, const RunSet *set);
void section_spent(StrBuf *out, const RunSet *set); /* spent.c; nothing where no run tells */
void section_records_csv(StrBuf *out, const RunSet *set);
/* epochs.c: epoch time and efficiency against ranks, as measured (scaling->count >= 2) and as
 * predicted. */
void section_scaling(StrBuf *out, const RunSet *set, const Scaling *scaling);
void section_scaling_csv(StrBuf *out, const Scaling *scaling);
#endif
