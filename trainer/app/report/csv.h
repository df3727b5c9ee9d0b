/* csv.h - the fields of a report's CSV files. */
#ifndef CONVOY_TRAINER_APP_REPORT_CSV_H
#define CONVOY_TRAINER_APP_REPORT_CSV_H
#include "base/str.h"

/* One field of a CSV line; a comma is put in front where the line has one already. */
void csv_text(StrBuf *out, const char *text);
void csv_number(StrBuf *out, double value); /* ten digits; empty where not finite */
void csv_whole(StrBuf *out, int64_t value); /* -1: empty */
#endif
