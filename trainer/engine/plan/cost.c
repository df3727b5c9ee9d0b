/* cost.c - see cost.h. */
#include "trainer/engine/plan/cost.h"

#include <math.h>
#include <stdio.h>

#define J_PER_KWH 3.6e6

const char *const cost_part_names[COST_PARTS] = { "start", "train", "wait", "evaluation",
                                                  "checkpoint" };

void cost_add_times(Spent *to, const Spent *s, double factor)
{
    to->host_s += factor * s->host_s;
    to->gpu_j += factor * s->gpu_j;
    to->cpu_j += factor * s->cpu_j;
    to->assumed_j += factor * s->assumed_j;
}

void cost_add(Spent *to, const Spent *s)
{
    cost_add_times(to, s, 1);
}

Spent cost_sum(const SpentParts *p)
{
    Spent sum = { 0 };
    for (int i = 0; i < COST_PARTS; i++) cost_add(&sum, &p->part[i]);
    return sum;
}

double cost_joules(const Spent *s)
{
    return s->gpu_j + s->cpu_j + s->assumed_j;
}

double cost_money(const Config *c, const Spent *s)
{
    if (c->cost.price_per_host_hour <= 0 && c->cost.price_per_kwh <= 0) return (double)NAN;
    return c->cost.price_per_host_hour * s->host_s / 3600 +
           c->cost.price_per_kwh * c->cost.pue * cost_joules(s) / J_PER_KWH;
}

void cost_add_prices(const Config *c, StrBuf *out)
{
    const char *between = "";
    if (c->cost.price_per_host_hour > 0) {
        str_printf(out, "%g per host hour", c->cost.price_per_host_hour);
        between = ", ";
    }
    if (c->cost.price_per_kwh > 0)
        str_printf(out, "%s%g per kWh, PUE %g", between, c->cost.price_per_kwh, c->cost.pue);
    if (c->cost.price_note[0]) {
        str_add(out, "; ");
        str_add_visible(out, c->cost.price_note, "");
    }
}

void cost_add_money(const Config *c, double amount, StrBuf *out)
{
    const char *currency = c->cost.currency;
    if (isnan(amount)) return;
    str_printf(out, ", %.4g%s%s (", amount, currency[0] ? " " : "", currency);
    cost_add_prices(c, out);
    str_add(out, ")");
}

void cost_describe(const Config *c, const SpentParts *p, StrBuf *out)
{
    const Spent sum = cost_sum(p), *wait = &p->part[COST_WAIT];
    const double joules = cost_joules(&sum), kwh = joules / J_PER_KWH;
    if (joules > 0) str_printf(out, "%.4g kWh", kwh);
    else str_add(out, "energy not known");
    if (sum.assumed_j > 0)
        str_printf(out, " (%.0f %% of it assumed: cost.host_watts %g)",
                   100 * sum.assumed_j / joules, c->cost.host_watts);
    if (joules > 0 && c->cost.grams_per_kwh > 0)
        str_printf(out, ", %.4g kg CO2 (%g g per kWh, PUE %g)",
                   1e-3 * kwh * c->cost.pue * c->cost.grams_per_kwh, c->cost.grams_per_kwh,
                   c->cost.pue);
    str_printf(out, ", %.4g host hours", sum.host_s / 3600);
    cost_add_money(c, cost_money(c, &sum), out);
    str_printf(out, ", %.1f %% of it waiting for data",
               joules > 0 ? 100 * cost_joules(wait) / joules : 100 * wait->host_s / sum.host_s);
}

void cost_write(const SpentParts *p, StrBuf *out)
{
    for (int i = 0; i < COST_PARTS; i++) {
        const Spent *s = &p->part[i];
        str_printf(out, "%s%.17g %.17g %.17g %.17g", i ? " " : "", s->host_s, s->gpu_j, s->cpu_j,
                   s->assumed_j);
    }
}

bool cost_read(const char *text, SpentParts *out)
{
    *out = (SpentParts){ 0 };
    for (int i = 0; i < COST_PARTS && text; i++) {
        Spent *s = &out->part[i];
        int used = 0;
        const bool read = sscanf(text, "%lf %lf %lf %lf%n", &s->host_s, &s->gpu_j, &s->cpu_j,
                                 &s->assumed_j, &used) == 4;
        if (!read || !(s->host_s >= 0 && s->gpu_j >= 0 && s->cpu_j >= 0 && s->assumed_j >= 0) ||
            !isfinite(s->host_s + cost_joules(s))) {
            *out = (SpentParts){ 0 };
            return false;
        }
        text += used;
    }
    return text != NULL;
}
