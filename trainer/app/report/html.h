/* html.h - pieces of a page that needs nothing but itself: no script, no network, no font, no image
 * file.
 *
 * Everything goes to a StrBuf, whose failed flag carries an allocation failure. Text that comes
 * from outside goes through html_text() alone, which makes it harmless in text, attributes and
 * SVG. */
#ifndef CONVOY_TRAINER_APP_REPORT_HTML_H
#define CONVOY_TRAINER_APP_REPORT_HTML_H
#include "base/str.h"
#include <stdint.h>

/* refresh_s: seconds after which browsers load the page again; 0: never. */
void html_begin(StrBuf *out, const char *title, double refresh_s);
void html_end(StrBuf *out);
/* escaped; bytes that are no UTF-8 text become U+FFFD */
void html_text(StrBuf *out, const char *text);
/* The same between marks, which stay as they are. */
void html_between(StrBuf *out, const char *before, const char *text, const char *after);
void html_heading(StrBuf *out, const char *text);
void html_note(StrBuf *out, const char *text);                           /* a paragraph */
void html_notef(StrBuf *out, const char *format, ...) PRINTF_LIKE(2, 3); /* of at most 1 KiB */

/* Tables: html_table(), then rows of cells. A head that begins with "<" is that of a column of
 * text, to the left. */
void html_table(StrBuf *out, const char *const *heads, int count);
void html_row(StrBuf *out);
void html_cell(StrBuf *out, const char *text);   /* text; "" is shown as a dash */
void html_figure(StrBuf *out, const char *text); /* the same in a column of numbers */
/* A number with this many decimals; what is not finite is shown as a dash. */
void html_number(StrBuf *out, double value, int digits);
void html_whole(StrBuf *out, int64_t value); /* -1: a dash */
void html_row_end(StrBuf *out);
void html_table_end(StrBuf *out);

/* A PNG file, in the page itself; alt says in words what it shows. */
void html_picture(StrBuf *out, const uint8_t *png, size_t bytes, const char *alt);

/* The colour of series k, and how its line is broken ("none" or lengths): different for 28 series;
 * the colour is the same every HTML_COLOURS. */
enum { HTML_COLOURS = 7, HTML_DASHES = 4 };
const char *html_colour(int k);
const char *html_dashes(int k);
/* The begin of a run's row: a cell that shows both, with a number, and one with its name. */
void html_run_row(StrBuf *out, int k, int number, const char *name);
#endif
