/* console.h - the texts of the console by log.format (docs/watching.md); runlog.c prints them. They
 * are made here, so that tests can compare them with what AWS's examples printed. */
#ifndef CONVOY_TRAINER_APP_LOG_CONSOLE_H
#define CONVOY_TRAINER_APP_LOG_CONSOLE_H
#include "trainer/engine/events/records.h"
#include <stdbool.h>
#include <stdint.h>

enum { CONSOLE_TEXT_BYTES = 256 };

extern const char console_table_header[];
typedef struct ConsoleRow {
    int64_t step;  /* from 0 here alone */
    double epochs; /* passes over the training set before it */
    double speed;  /* images/s or tokens/s since the row before */
    double loss, penalty, lr;
} ConsoleRow;
void console_table_row(const ConsoleRow *row, char out[CONSOLE_TEXT_BYTES]);

/* batch: images of a rank in a step. */
void console_epoch_line(int64_t epoch, int rank, const RankEpoch *r, int64_t batch, int64_t steps,
                        char out[CONSOLE_TEXT_BYTES]);

typedef struct ConsoleResult {
    const char *checkpoint; /* "": none */
    double this_s, total_s; /* since this start; of the run, earlier starts too */
    int64_t iteration;      /* how often the run has come to its end: from 1 */
    bool evaluated;         /* the next are known */
    bool multi;             /* accuracy is the mean average precision */
    double accuracy, loss;
} ConsoleResult;
enum { CONSOLE_RESULT_LINES = 10 };
/* The box that Ray prints of a result, with the example's rows. Returns the lines. */
int console_result_table(const ConsoleResult *r,
                         char out[CONSOLE_RESULT_LINES][CONSOLE_TEXT_BYTES]);
#endif
