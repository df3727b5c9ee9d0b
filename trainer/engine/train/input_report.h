/* input_report.h - what the input did while training went on: how often and why the step waited for
 * it, and what would help. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_INPUT_REPORT_H
#define CONVOY_TRAINER_ENGINE_TRAIN_INPUT_REPORT_H
#include "data/data.h"
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/events/records.h"

#define INPUT_LIMITS_PERCENT 5.0 /* a data_wait_percent above this deserves a warning */

/* From one rank's counters of a stretch of this many seconds. */
void input_report_make(InputReport *out, const LoaderStats *s, double seconds);
void input_report_merge(InputReport *r, Comm *comm); /* collective */
/* "waited 0.3 % of the time, 1.9 batches ready, ...". */
void input_report_describe(const InputReport *r, char *out, size_t bytes);
/* Warns on rank 0 if the input limits training, with what would help. allowed_cpus: what this rank
 * may use. True if it warned. */
bool input_report_warn(const InputReport *r, int allowed_cpus);
#endif
