/* cost.h - what a run has spent, in hours of hosts and joules, and what that costs by the prices
 * that the user gives (cost.*). No price is known here. */
#ifndef CONVOY_TRAINER_ENGINE_PLAN_COST_H
#define CONVOY_TRAINER_ENGINE_PLAN_COST_H
#include "trainer/engine/config/config.h"

typedef enum CostPart {             /* of a run: all that it spends is in one of them */
                        COST_START, /* until the first step, or an evaluation before it */
                        COST_TRAIN, /* steps, but for */
                        COST_WAIT,  /* ... the share of their time in which ranks waited for data */
                        COST_EVALUATION,
                        COST_CHECKPOINT, /* as far as training waits for one */
                        COST_PARTS
} CostPart;
extern const char *const cost_part_names[COST_PARTS];

typedef struct Spent {
    double host_s;                  /* two hosts spend two seconds a second */
    double gpu_j, cpu_j, assumed_j; /* measured; by cost.host_watts */
} Spent;
typedef struct SpentParts {
    Spent part[COST_PARTS];
} SpentParts;

void cost_add(Spent *to, const Spent *s);
void cost_add_times(Spent *to, const Spent *s, double factor);
Spent cost_sum(const SpentParts *p);
double cost_joules(const Spent *s); /* measured and assumed */
/* By both prices, joules with cost.pue; NaN where no price is given. */
double cost_money(const Config *c, const Spent *s);
/* Adds "39.33 an hour of a host, 0.1 a kWh, PUE 1.2; NOTE", of the prices that are given. */
void cost_add_prices(const Config *c, StrBuf *out);
/* Adds ", AMOUNT CURRENCY (PRICES; NOTE)"; nothing where no price is given. */
void cost_add_money(const Config *c, double amount, StrBuf *out);
/* "1.234 kWh (5 % of it assumed), 3.21 host hours, 12.34 USD (...), 7.1 % of it waiting for data";
 * the share is of the joules, of time where there are none. */
void cost_describe(const Config *c, const SpentParts *p, StrBuf *out);
/* As the text that a checkpoint keeps, and back: false where it is no such text (NULL), then
 * zeros. */
void cost_write(const SpentParts *p, StrBuf *out);
bool cost_read(const char *text, SpentParts *out);
#endif
