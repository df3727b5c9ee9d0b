/* console.c - see console.h. */
#include "trainer/app/log/console.h"
#include <stdio.h>
#include <string.h>

const char console_table_header[] = "  Step Epoch Speed   Loss  FinLoss   LR";

void console_table_row(const ConsoleRow *row, char out[CONSOLE_TEXT_BYTES])
{
    snprintf(out, CONSOLE_TEXT_BYTES, "%6lld %5.1f %7.1f %6.3f %6.3f %7.5f", (long long)row->step,
             row->epochs, row->speed, row->loss, row->loss + row->penalty, row->lr);
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

/* As Ray writes numbers: five places, without zeros at the end. */
static void write_number(char *out, size_t bytes, double value)
{
    snprintf(out, bytes, "%.5f", value);
    size_t n = strlen(out);
    while (n > 0 && out[n - 1] == '0') out[--n] = '\0';
    if (n > 0 && out[n - 1] == '.') out[n - 1] = '\0';
}

static void draw_rule(char *out, const char *left, const char *right, int width)
{
    size_t n = (size_t)snprintf(out, CONSOLE_TEXT_BYTES, "%s", left);
    for (int i = 0; i < width && n < CONSOLE_TEXT_BYTES; i++)
        n += (size_t)snprintf(out + n, CONSOLE_TEXT_BYTES - n, "\u2500");
    if (n < CONSOLE_TEXT_BYTES) snprintf(out + n, CONSOLE_TEXT_BYTES - n, "%s", right);
}

int console_result_table(const ConsoleResult *r, char out[CONSOLE_RESULT_LINES][CONSOLE_TEXT_BYTES])
{
    enum { ROWS = 6, KEY = 19, GAP = 3 };
    const char *const keys[ROWS] = { "checkpoint_dir_name",
                                     "time_this_iter_s",
                                     "time_total_s",
                                     "training_iteration",
                                     r->multi ? "map" : "accuracy",
                                     "loss" };
    const double numbers[ROWS] = { 0,           r->this_s, r->total_s, (double)r->iteration,
                                   r->accuracy, r->loss };
    char values[ROWS][64];
    const int rows = r->evaluated ? ROWS : ROWS - 2;
    int widest = 0, lines = 0;
    snprintf(values[0], sizeof values[0], "%s", r->checkpoint);
    for (int i = 1; i < rows; i++) write_number(values[i], sizeof values[i], numbers[i]);
    for (int i = 0; i < rows; i++)
        if ((int)strlen(values[i]) > widest) widest = (int)strlen(values[i]);
    const int width = KEY + GAP + widest;
    draw_rule(out[lines++], "\u256d", "\u256e", width + 2);
    snprintf(out[lines++], CONSOLE_TEXT_BYTES, "\u2502 %-*s \u2502", width, "Training result");
    draw_rule(out[lines++], "\u251c", "\u2524", width + 2);
    for (int i = 0; i < rows; i++)
        snprintf(out[lines++], CONSOLE_TEXT_BYTES, "\u2502 %-*s%*.60s \u2502", KEY, keys[i],
                 GAP + widest, values[i]);
    draw_rule(out[lines++], "\u2570", "\u256f", width + 2);
    return lines;
}
