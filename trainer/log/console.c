/* console.c - see console.h. */
#include "trainer/log/console.h"
#include <stdio.h>

const char console_table_header[] = "  Step Epoch Speed   Loss  FinLoss   LR";

void console_table_row(const ConsoleRow *row, char out[CONSOLE_TEXT_BYTES])
{
    snprintf(out, CONSOLE_TEXT_BYTES, "%6lld %5.1f %7.1f %6.3f %6.3f %7.5f", (long long)row->step,
             row->epochs, row->images_per_s, row->loss, row->loss + row->penalty, row->lr);
}

void console_epoch_line(int64_t epoch, int rank, const RankEpoch *r, int64_t batch, int64_t steps,
                        char out[CONSOLE_TEXT_BYTES])
{
    char device[32] = "CPU";
    if (r->device >= 0) snprintf(device, sizeof device, "GPU%.0f", r->device);
    snprintf(out, CONSOLE_TEXT_BYTES,
             "[Epoch %lld | %s: Process rank %d | Batchsize: %lld | Steps: %lld | Total epoch "
             "time: %.2f]",
             (long long)epoch, device, rank, (long long)batch, (long long)steps, r->seconds);
}

void console_result_table(double accuracy, double loss,
                          char out[CONSOLE_RESULT_LINES][CONSOLE_TEXT_BYTES])
{
    static const char rule[] = "+------------+------------+";
    for (int i = 0; i < CONSOLE_RESULT_LINES; i += 2)
        snprintf(out[i], CONSOLE_TEXT_BYTES, "%s", rule);
    snprintf(out[1], CONSOLE_TEXT_BYTES, "| %10s | %10s |", "accuracy", "loss");
    snprintf(out[3], CONSOLE_TEXT_BYTES, "| %10.4f | %10.4f |", accuracy, loss);
}
