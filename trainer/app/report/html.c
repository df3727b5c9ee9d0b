/* html.c - see html.h. */
#include "trainer/app/report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DASH "\xE2\x80\x93"
#define LONG 30 /* characters of a cell that is broken into lines */

/* A device in the dark has its own colours; on a small one, letters of plots grow against them. */
static const char style[] =
    ":root{color-scheme:light dark;--page:#fff;--ink:#1b1b1b;--soft:#555;--grid:#e2e2e2;"
    "--axis:#999;--code:#f5f5f5;--ideal:#c00000;\n"
    "--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#000;--c5:#e69f00;--c6:#56b4e9}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#16181c;--ink:#e8e8e8;--soft:#a8adb5;"
    "--grid:#2c3037;--axis:#6b7280;--code:#22262c;--ideal:#ff6b6b;\n"
    "--c0:#4c9fe0;--c1:#ff8a3d;--c2:#2cc898;--c3:#e59ac6;--c4:#f2f2f2;--c5:#f2b632;--c6:#9bd7ff}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);"
    "margin:0 auto;max-width:1860px;padding:1.5em}\n"
    "h1{font-size:1.6em;margin:0 0 .2em}\n"
    "h2{font-size:1.2em;margin:2em 0 .6em;border-bottom:1px solid var(--axis);"
    "padding-bottom:.2em}\n"
    "p,ul{margin:.4em 0;max-width:75em}\nul{padding-left:1.3em}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(380px,100%),1fr));"
    "gap:14px 20px;margin:.6em 0}\n"
    ".plots svg{width:100%;max-width:640px;height:auto}\n"
    ".hover path:hover{fill:var(--ink);fill-opacity:.12}\n"
    ".by{display:none;scroll-margin-top:1em}.by.first,.by:target{display:block}"
    ".by:target~.first{display:none}\n"
    ".by a{margin-left:.5em}.by b{margin-left:.5em}\na{color:var(--c0)}\n"
    ".wide{overflow-x:auto;margin:.4em 0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.86em}\n"
    "th,td{padding:.25em .5em;text-align:right;border-bottom:1px solid var(--grid);"
    "vertical-align:top;white-space:nowrap}\n"
    "th{font-weight:600;border-bottom:2px solid var(--axis);vertical-align:bottom;"
    "white-space:normal}\n"
    "th.text,td.text{text-align:left}\ntd.text{white-space:normal}\n"
    "td.long{min-width:11em;overflow-wrap:anywhere}\n"
    "@media(max-width:1400px){table{font-size:.8em}th,td{padding:.25em .35em}"
    "td.long{min-width:8em}}\n"
    "pre{background:var(--code);padding:.8em;overflow-x:auto;font-size:.85em}\n"
    "summary{cursor:pointer}\n"
    ".pictures{display:flex;flex-wrap:wrap;gap:12px}\n"
    "figure{margin:0;width:160px;font-size:.8em;overflow-wrap:anywhere}\n"
    "figure img{width:160px;image-rendering:pixelated}\n"
    "@media(max-width:640px){body{padding:.7em}.plots text{font-size:19px}"
    ".plots .unit,.plots .key{font-size:15px}.plots .x{transform:translateY(5px)}"
    ".plots .xl{font-size:17px;transform:translateY(7px)}.plots .label{font-size:12px}}\n"
    "@media print{.plots{grid-template-columns:1fr 1fr}}\n";

/* Okabe and Ito's colours, which colour-blind readers tell apart, without the yellow that white
 * paper swallows. */
static const char *const colours[HTML_COLOURS] = { "var(--c0)", "var(--c1)", "var(--c2)",
                                                   "var(--c3)", "var(--c4)", "var(--c5)",
                                                   "var(--c6)" };
static const char *const dashes[HTML_DASHES] = { "none", "7 3", "2 3", "9 3 2 3" };

const char *html_colour(int k)
{
    return colours[k % HTML_COLOURS];
}

const char *html_dashes(int k)
{
    return dashes[k / HTML_COLOURS % HTML_DASHES];
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

void html_between(StrBuf *out, const char *before, const char *text, const char *after)
{
    str_add(out, before);
    html_text(out, text);
    str_add(out, after);
}

void html_begin(StrBuf *out, const char *title, double refresh_s)
{
    str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" "
                 "content=\"width=device-width,initial-scale=1\">\n");
    if (refresh_s > 0)
        str_printf(out, "<meta http-equiv=\"refresh\" content=\"%.0f\">\n", fmax(1, refresh_s));
    html_between(out, "<title>", title, "</title>\n<style>\n");
    str_add(out, style);
    html_between(out, "</style>\n</head>\n<body>\n<h1>", title, "</h1>\n");
}

void html_end(StrBuf *out)
{
    str_add(out, "</body>\n</html>\n");
}

void html_heading(StrBuf *out, const char *text)
{
    html_between(out, "<h2>", text, "</h2>\n");
}

void html_note(StrBuf *out, const char *text)
{
    html_between(out, "<p>", text, "</p>\n");
}

void html_notef(StrBuf *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    html_note(out, text);
}

void html_table(StrBuf *out, const char *const *heads, int count)
{
    str_add(out, "<div class=\"wide\"><table>\n<tr>");
    for (int i = 0; i < count; i++) {
        bool text = heads[i][0] == '<';
        html_between(out, text ? "<th class=\"text\">" : "<th>", heads[i] + text, "</th>");
    }
    str_add(out, "</tr>\n");
}

void html_row(StrBuf *out)
{
    str_add(out, "<tr>");
}

void html_cell(StrBuf *out, const char *text)
{
    /* a short text is broken at its blanks alone, a long one anywhere */
    html_between(out, strlen(text) > LONG ? "<td class=\"text long\">" : "<td class=\"text\">",
                 text[0] ? text : DASH, "</td>");
}

void html_figure(StrBuf *out, const char *text)
{
    html_between(out, "<td>", text[0] ? text : DASH, "</td>");
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

void html_run_row(StrBuf *out, int k, int number, const char *name)
{
    html_row(out);
    str_printf(
        out,
        "<td><svg width=\"46\" height=\"14\" viewBox=\"0 0 46 14\" role=\"img\" "
        "aria-label=\"%d\"><line x1=\"0\" y1=\"7\" x2=\"26\" y2=\"7\" stroke=\"%s\" "
        "stroke-width=\"3\" stroke-dasharray=\"%s\"/><text x=\"31\" y=\"12\" font-size=\"13\" "
        "fill=\"%s\">%d</text></svg></td>",
        number, html_colour(k), html_dashes(k), html_colour(k), number);
    html_cell(out, name);
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
    html_between(out, "<img alt=\"", alt, "\" src=\"data:image/png;base64,");
    add_base64(out, png, bytes);
    str_add(out, "\">");
}
