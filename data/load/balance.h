/* balance.h - a stream in which all classes come equally often, however many samples they have.
 * With several labels per sample, a sample counts in each of its classes, and samples without a
 * label are one more class. */
#ifndef CONVOY_DATA_LOAD_BALANCE_H
#define CONVOY_DATA_LOAD_BALANCE_H
#include "base/status.h"
#include "data/load/dataset.h"

typedef struct Balance Balance;
/* Of d as it is now: 8 bytes for each label of a sample. */
Status balance_create(Balance **out, const Dataset *d);
void balance_destroy(Balance *b); /* NULL ok */
/* The sample at a position of the stream, drawn with replacement from (seed, position) alone: first
 * a class that has samples, then one of them. */
int64_t balance_id(const Balance *b, uint64_t seed, int64_t position);
#endif
