/* axis.h - the range of one direction of a plot, where its ticks lie and what they say. */
#ifndef CONVOY_TRAINER_APP_REPORT_AXIS_H
#define CONVOY_TRAINER_APP_REPORT_AXIS_H
#include <stdbool.h>

enum { AXIS_TICKS_MAX = 24, AXIS_TEXT_BYTES = 32 };

typedef enum AxisKind {
    AXIS_VALUES, /* ends on ticks */
    AXIS_EXACT,  /* ends where the values end; ticks inside */
    AXIS_WHOLE,  /* the same, with no ticks between whole numbers */
    AXIS_LOG     /* logarithmic, of values above 0, with some room at its ends */
} AxisKind;

typedef struct Axis {
    AxisKind kind;
    double low, high; /* of the values */
    double unit;      /* what ticks are told in: 1, 1e3 (k), 1e6 (M), 1e9 (G) */
    double step;      /* between ticks; 0: they say as much as each needs */
    double tick[AXIS_TICKS_MAX];
    int ticks;
} Axis;

/* Without a value yet. */
void axis_init(Axis *a, AxisKind kind);
/* Makes room for a value; one that is not finite, or that a logarithmic axis has no place for, does
 * not count. */
void axis_widen(Axis *a, double value);
bool axis_is_empty(const Axis *a);
/* Sets ends and ticks; a single value gets room around it. Not of an empty axis. */
void axis_finish(Axis *a);
/* 0 at the low end, 1 at the high end; 0 for what a logarithmic axis has no place for. */
double axis_position(const Axis *a, double value);
/* "0.25", "20k", "1.5M": as many digits as the distance of ticks needs. */
void axis_format(const Axis *a, double value, char out[AXIS_TEXT_BYTES]);
#endif
