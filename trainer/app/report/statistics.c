/* statistics.c - see statistics.h. The t quantile is found by bisection on the distribution, which
 * is an incomplete beta function; so any number of degrees of freedom is exact to rounding and
 * there is no table to trust. */
#include "trainer/app/report/statistics.h"

#include <math.h>
#include <stdlib.h>

#define TERMS_MAX 300

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's
 * method. */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= TERMS_MAX; m++) {
        const double steps[2] = { m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                                  -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)) };
        double change = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + steps[i] * d;
            c = 1 + steps[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            value *= change;
        }
        if (fabs(change - 1) < 1e-15) break;
    }
    return value;
}

/* The regularised incomplete beta function I_x(a, b). */
static double beta_share(double a, double b, double x)
{
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double statistics_t(double degrees)
{
    if (!(degrees >= 1)) return (double)NAN;
    double low = 0, high = 16; /* 12.71 for one degree of freedom, less for more */
    for (int i = 0; i < 100; i++) {
        double t = 0.5 * (low + high),
               outside = beta_share(0.5 * degrees, 0.5, degrees / (degrees + t * t));
        if (outside > 0.05) low = t;
        else high = t;
    }
    return 0.5 * (low + high);
}

StatisticsSample statistics_sample(const double *values, int64_t count)
{
    StatisticsSample s = {
        .count = count, .mean = (double)NAN, .deviation = (double)NAN, .half = (double)NAN
    };
    double sum = 0, squares = 0;
    if (count < 1) return s;
    for (int64_t i = 0; i < count; i++) sum += values[i];
    s.mean = sum / (double)count;
    if (count < 2) return s;
    for (int64_t i = 0; i < count; i++) squares += (values[i] - s.mean) * (values[i] - s.mean);
    s.deviation = sqrt(squares / (double)(count - 1));
    if (count >= STATISTICS_MIN_VALUES)
        s.half = statistics_t((double)count - 1) * s.deviation / sqrt((double)count);
    return s;
}

/* Welch and Satterthwaite: the degrees of freedom of the sum of two variances of means. */
static double common_degrees(double va, int64_t ka, double vb, int64_t kb)
{
    double sum = va + vb;
    if (sum <= 0) return (double)(ka + kb - 2);
    return sum * sum / (va * va / (double)(ka - 1) + vb * vb / (double)(kb - 1));
}

Ratio statistics_ratio(const StatisticsSample *a, const StatisticsSample *b, double factor)
{
    double ratio = a->mean / b->mean;
    Ratio r = { .value = factor * ratio, .low = (double)NAN, .high = (double)NAN };
    if (a->count < STATISTICS_MIN_VALUES || b->count < STATISTICS_MIN_VALUES) return r;
    double va = a->deviation * a->deviation / (double)a->count,
           vb = b->deviation * b->deviation / (double)b->count;
    double t = statistics_t(common_degrees(va, a->count, ratio * ratio * vb, b->count));
    double g = t * t * vb / (b->mean * b->mean);
    if (!(g < 1)) return r; /* the denominator may be zero: nothing bounded can be said */
    double half = t / fabs(b->mean) * sqrt(va + ratio * ratio * vb - g * va);
    r.low = factor * (ratio - half) / (1 - g);
    r.high = factor * (ratio + half) / (1 - g);
    return r;
}

Line statistics_line(const double *x, const double *y, int count)
{
    double mx = 0, my = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < count; i++) {
        mx += x[i] / count;
        my += y[i] / count;
    }
    for (int i = 0; i < count; i++) {
        sxx += (x[i] - mx) * (x[i] - mx);
        sxy += (x[i] - mx) * (y[i] - my);
    }
    if (!(sxx > 0)) return (Line){ (double)NAN, (double)NAN };
    return (Line){ my - sxy / sxx * mx, sxy / sxx };
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double statistics_median(double *values, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i])) values[kept++] = values[i];
    if (kept == 0) return (double)NAN;
    qsort(values, (size_t)kept, sizeof *values, compare);
    return kept % 2 ? values[kept / 2] : 0.5 * (values[kept / 2 - 1] + values[kept / 2]);
}
