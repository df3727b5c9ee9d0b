/* html.c - see html.h. */
#include "trainer/report/html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DASH "\xE2\x80\x93"

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;color:#1b1b1b;background:#fff;margin:0 "
    "auto;max-width:1240px;padding:1.5em}\nh1{font-size:1.6em;margin:0 0 "
    ".2em}\nh2{font-size:1.2em;margin:2em 0 .6em;border-bottom:1px solid "
    "#ccc;padding-bottom:.2em}\np{margin:.4em "
    "0;max-width:75em}\n.plots{display:flex;flex-wrap:wrap;gap:14px 20px}\n.plots svg{flex:1 1 "
    "560px;max-width:600px;min-width:300px;height:auto}\n.wide{overflow-x:auto}\ntable{border-"
    "collapse:collapse;font-variant-numeric:tabular-nums;font-size:.86em}\nth,td{padding:.25em "
    ".42em;text-align:right;border-bottom:1px solid "
    "#e4e4e4;vertical-align:top;white-space:nowrap}\nth{font-weight:600;border-bottom:2px solid "
    "#888;white-space:normal;vertical-align:bottom}\nth.text,td.text{text-align:left}\ntd.text{"
    "white-space:normal;min-width:3em;overflow-wrap:anywhere}\nul{margin:.4em "
    "0;padding-left:1.3em}\npre{background:#f5f5f5;padding:.8em;overflow-x:auto;font-size:.85em}"
    "\nsummary{cursor:pointer}\n.pictures{display:flex;flex-wrap:wrap;gap:12px}\nfigure{margin:0;"
    "width:160px;font-size:.8em;overflow-wrap:anywhere}\nfigure img{width:160px;image-rendering:"
    "pixelated}\n@media "
    "print{.plots svg{max-width:48%}}\n";

/* Okabe and Ito's colours, which colour-blind readers tell apart, without the yellow that white
 * paper swallows. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#000000", "#e69f00", "#56b4e9" };
static const char *const dashes[] = { "none", "7 3", "2 3", "9 3 2 3" };
#define COLOURS ((int)(sizeof colours / sizeof *colours))
#define DASHES  ((int)(sizeof dashes / sizeof *dashes))

const char *html_colour(int k)
{
    return colours[k % COLOURS];
}

const char *html_dashes(int k)
{
    return dashes[k / COLOURS % DASHES];
}

void html_text(StrBuf *out, const char *text)
{
    static const char letters[] = "&<>\"'";
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
    for (int n; *text; text += n == 0 ? 1 : n) {
        uint32_t code = 0;
        const char *letter = strchr(letters, *text);
        n = str_character(text, &code);
        if (letter) str_add(out, names[letter - letters]);
        else if (n == 0 || (str_steers(code) && *text != '\n' && *text != '\t'))
            str_add(out, "\xEF\xBF\xBD");
        else str_add_n(out, text, (size_t)n);
    }
}

void html_begin(StrBuf *out, const char *title)
{
    str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" "
                 "content=\"width=device-width,initial-scale=1\">\n<title>");
    html_text(out, title);
    str_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    html_text(out, title);
    str_add(out, "</h1>\n");
}

void html_end(StrBuf *out)
{
    str_add(out, "</body>\n</html>\n");
}

void html_heading(StrBuf *out, const char *text)
{
    str_add(out, "<h2>");
    html_text(out, text);
    str_add(out, "</h2>\n");
}

void html_note(StrBuf *out, const char *text)
{
    str_add(out, "<p>");
    html_text(out, text);
    str_add(out, "</p>\n");
}

void html_table(StrBuf *out, const char *const *heads, int count)
{
    str_add(out, "<div class=\"wide\"><table>\n<tr>");
    for (int i = 0; i < count; i++) {
        bool text = heads[i][0] == '<';
        str_add(out, text ? "<th class=\"text\">" : "<th>");
        html_text(out, heads[i] + text);
        str_add(out, "</th>");
    }
    str_add(out, "</tr>\n");
}

void html_row(StrBuf *out)
{
    str_add(out, "<tr>");
}

void html_cell(StrBuf *out, const char *text)
{
    str_add(out, "<td class=\"text\">");
    html_text(out, text[0] ? text : DASH);
    str_add(out, "</td>");
}

void html_figure(StrBuf *out, const char *text)
{
    str_add(out, "<td>");
    html_text(out, text[0] ? text : DASH);
    str_add(out, "</td>");
}

void html_number(StrBuf *out, double value, int digits)
{
    if (isfinite(value)) str_printf(out, "<td>%.*f</td>", digits, value);
    else str_add(out, "<td>" DASH "</td>");
}

void html_whole(StrBuf *out, int64_t value)
{
    if (value < 0) str_add(out, "<td>" DASH "</td>");
    else str_printf(out, "<td>%lld</td>", (long long)value);
}

void html_row_end(StrBuf *out)
{
    str_add(out, "</tr>\n");
}

void html_table_end(StrBuf *out)
{
    str_add(out, "</table></div>\n");
}

void html_swatch(StrBuf *out, int k)
{
    str_printf(
        out,
        "<td><svg width=\"46\" height=\"14\" viewBox=\"0 0 46 14\" role=\"img\" "
        "aria-label=\"%d\"><line x1=\"0\" y1=\"7\" x2=\"26\" y2=\"7\" stroke=\"%s\" "
        "stroke-width=\"3\" stroke-dasharray=\"%s\"/><text x=\"31\" y=\"12\" font-size=\"13\" "
        "fill=\"%s\">%d</text></svg></td>",
        k + 1, html_colour(k), html_dashes(k), html_colour(k), k + 1);
}

/* RFC 4648. */
static void add_base64(StrBuf *out, const uint8_t *b, size_t count)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        const size_t n = count - i < 3 ? count - i : 3;
        uint32_t word = (uint32_t)b[i] << 16;
        if (n > 1) word |= (uint32_t)b[i + 1] << 8;
        if (n > 2) word |= b[i + 2];
        char four[4];
        for (size_t k = 0; k < 4; k++) four[k] = k <= n ? letters[word >> (18 - 6 * k) & 63] : '=';
        str_add_n(out, four, sizeof four);
    }
}

void html_picture(StrBuf *out, const uint8_t *png, size_t bytes, const char *alt)
{
    str_add(out, "<img alt=\"");
    html_text(out, alt);
    str_add(out, "\" src=\"data:image/png;base64,");
    add_base64(out, png, bytes);
    str_add(out, "\">");
}
