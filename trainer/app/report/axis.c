/* axis.c - see axis.h. */
#include "trainer/app/report/axis.h"

#include <math.h>
#include <stdio.h>

#define TICKS     6 /* on an axis, about */
#define LOG_TICKS 4 /* at least, on a logarithmic one */
#define LOG_ROOM  0.06
#define SLACK     0.03 /* of a step */
#define FARTHEST  1e100

void axis_init(Axis *a, AxisKind kind)
{
    *a = (Axis){ .kind = kind, .low = (double)INFINITY, .high = -(double)INFINITY, .unit = 1 };
}

/* What is beyond lies at the end, so that distances are numbers. */
static double clip(double value)
{
    return fmin(fmax(value, -FARTHEST), FARTHEST);
}

void axis_widen(Axis *a, double value)
{
    if (!isfinite(value) || (a->kind == AXIS_LOG && value < 1 / FARTHEST)) return;
    a->low = fmin(a->low, clip(value));
    a->high = fmax(a->high, clip(value));
}

bool axis_is_empty(const Axis *a)
{
    return !(a->low <= a->high);
}

/* 1, 2 or 5 times a power of ten: the distance of about this many ticks. */
static double round_step(double range, int ticks)
{
    double raw = range / ticks, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead <= 1.2 ? 1 : lead <= 2.4 ? 2 : lead <= 6 ? 5 : 10);
}

/* Every step, inside the range. */
static void put_ticks(Axis *a)
{
    const double slack = 1e-9 * (a->high - a->low);
    for (double k = ceil(a->low / a->step - 1e-9);
         k * a->step <= a->high + slack && a->ticks < AXIS_TICKS_MAX; k++)
        a->tick[a->ticks++] = k * a->step;
}

static void finish_linear(Axis *a)
{
    double low = a->low, high = a->high;
    const bool single = high - low < 1e-9 * fmax(1e-3, fabs(high));
    if (single) {
        double room = fabs(high) > 1 / FARTHEST ? 0.1 * fabs(high) : 1;
        if (a->kind == AXIS_WHOLE) room = fmax(1, 1e-9 * fabs(high));
        a->low -= room;
        a->high += room;
    }
    a->step = round_step(a->high - a->low, TICKS);
    if (a->kind == AXIS_WHOLE) a->step = fmax(1, a->step);
    if (a->kind == AXIS_VALUES || single) {
        /* what reaches a hair beyond a tick needs no other one */
        a->low = fmin(a->step * floor(a->low / a->step + SLACK), low);
        a->high = fmax(a->step * ceil(a->high / a->step - SLACK), high);
    }
    put_ticks(a);
}

/* The coarsest of these multiples of powers of ten that gives enough ticks. */
static void put_log_ticks(Axis *a)
{
    static const struct {
        int count;
        double at[9];
    } sets[] = { { 1, { 1 } }, { 3, { 1, 2, 5 } }, { 9, { 1, 1.5, 2, 3, 4, 5, 6, 7, 8 } } };
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        a->ticks = 0;
        for (double e = floor(log10(a->low)); e <= ceil(log10(a->high)); e++) {
            for (int k = 0; k < sets[s].count && a->ticks < AXIS_TICKS_MAX; k++) {
                const double v = sets[s].at[k] * pow(10, e);
                if (v >= a->low && v <= a->high) a->tick[a->ticks++] = v;
            }
        }
        if (a->ticks >= LOG_TICKS) return;
    }
    a->ticks = 0; /* less than a factor of about three: the same distance everywhere */
    a->step = round_step(a->high - a->low, TICKS);
    put_ticks(a);
}

static double unit_of(double value)
{
    const double size = fabs(value) * (1 + 1e-9);
    return size >= 1e9 ? 1e9 : size >= 1e6 ? 1e6 : size >= 1e4 ? 1e3 : 1;
}

void axis_finish(Axis *a)
{
    if (a->kind == AXIS_LOG) {
        const double room = fmax(LOG_ROOM * (log(a->high) - log(a->low)), 0.05);
        a->low *= exp(-room);
        a->high *= exp(room);
        put_log_ticks(a);
    } else {
        finish_linear(a);
    }
    const double most = fmax(fabs(a->low), fabs(a->high));
    if (a->step > 0) a->unit = unit_of(most);
}

double axis_position(const Axis *a, double value)
{
    if (a->kind != AXIS_LOG) return (clip(value) - a->low) / (a->high - a->low);
    if (!(value >= 1 / FARTHEST)) return 0;
    return (log(clip(value)) - log(a->low)) / (log(a->high) - log(a->low));
}

void axis_format(const Axis *a, double value, char out[AXIS_TEXT_BYTES])
{
    const double unit = a->step > 0 ? a->unit : unit_of(value);
    const char *name = unit >= 1e9 ? "G" : unit >= 1e6 ? "M" : unit >= 1e3 ? "k" : "";
    const double told = fabs(value) < a->step * 1e-6 ? 0 : value / unit;
    const int digits = a->step > 0 ? (int)fmax(0, -floor(log10(a->step / unit) + 1e-9)) : 6;
    if (told == 0 && unit > 1) snprintf(out, AXIS_TEXT_BYTES, "0");
    else if (digits > 5 || fabs(told) >= 1e6) snprintf(out, AXIS_TEXT_BYTES, "%.4g%s", told, name);
    else snprintf(out, AXIS_TEXT_BYTES, "%.*f%s", digits, told, name);
}
