/* doctor.c - what checks read with, and the two forms of their report. */
#include "trainer/app/doctor/doctor.h"

#include "base/fs.h"
#include "base/json.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *doctor_verdict_name(Verdict v)
{
    static const char *const names[] = { "ok", "warn", "fail" };
    return names[v];
}

void doctor_find(DoctorReport *r, Verdict v, const char *advice, const char *format, ...)
{
    va_list args;
    /* a host with hundreds of adapters has said enough */
    if (r->count == DOCTOR_FINDINGS_MAX) return;
    Finding *f = &r->finding[r->count++];
    f->check = r->check;
    f->verdict = v;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    snprintf(f->advice, sizeof f->advice, "%s", advice);
}

Verdict doctor_worst(const DoctorReport *r)
{
    Verdict worst = VERDICT_OK;
    for (int i = 0; i < r->count; i++)
        if (r->finding[i].verdict > worst) worst = r->finding[i].verdict;
    return worst;
}

/* ---- reading ---- */

bool doctor_read(const DoctorOptions *o, const char *path, char *out, size_t bytes)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", o->root, path);
    ssize_t n = fs_read_head(whole, out, bytes);
    for (size_t end = strlen(out); end > 0 && strchr(" \t\n", out[end - 1]);) out[--end] = '\0';
    return n >= 0;
}

bool doctor_read_number(const DoctorOptions *o, const char *path, int64_t *out)
{
    char text[64];
    return doctor_read(o, path, text, sizeof text) && str_to_i64(text, out);
}

int64_t doctor_list(const DoctorOptions *o, const char *path, char ***names)
{
    char whole[1024];
    int64_t count = 0;
    *names = NULL;
    snprintf(whole, sizeof whole, "%s%s", o->root, path);
    if (!fs_is_dir(whole) || fs_list(whole, names, &count) != OK) return 0;
    return count;
}

int64_t doctor_count_cpus(const char *list)
{
    int64_t count = 0;
    for (const char *p = list; *p;) {
        long long first = 0, last = 0;
        int used = 0, fields = sscanf(p, "%lld-%lld%n", &first, &last, &used);
        if (fields < 1) break;
        if (fields == 1) last = first;
        count += last - first + 1;
        p += strcspn(p, ",");
        p += *p == ',';
    }
    return count;
}

bool doctor_environment(const DoctorOptions *o, const char *name, char *out, size_t bytes)
{
    char path[1024];
    char block[65536];
    size_t length = strlen(name);
    snprintf(path, sizeof path, "%s/proc/self/environ", o->root);
    const ssize_t done = fs_read_head(path, block, sizeof block);
    for (size_t at = 0; (ssize_t)at < done;) { /* entries end with a NUL */
        const char *entry = block + at;
        size_t entry_bytes = strlen(entry);
        if (entry_bytes > length && entry[length] == '=' && memcmp(entry, name, length) == 0) {
            snprintf(out, bytes, "%s", entry + length + 1);
            return true;
        }
        at += entry_bytes + 1;
    }
    return false;
}

/* ---- reports ---- */

void doctor_add_table(const DoctorReport *r, const char *host, StrBuf *out)
{
    int counts[] = { [VERDICT_OK] = 0, [VERDICT_WARN] = 0, [VERDICT_FAIL] = 0 };
    str_printf(out, "%s:\n", host);
    for (int i = 0; i < r->count; i++) {
        const Finding *f = &r->finding[i];
        bool again = i > 0 && strcmp(f->check, r->finding[i - 1].check) == 0;
        counts[f->verdict]++;
        str_printf(out, "%-4s  %-9s  %s\n", doctor_verdict_name(f->verdict), again ? "" : f->check,
                   f->text);
        if (f->advice[0]) str_printf(out, "%-4s  %-9s  -> %s\n", "", "", f->advice);
    }
    str_printf(out, "%d ok, %d warnings, %d failures\n", counts[VERDICT_OK], counts[VERDICT_WARN],
               counts[VERDICT_FAIL]);
}

void doctor_add_json(const DoctorReport *r, const char *host, StrBuf *out)
{
    JsonWriter w = { .out = out };
    json_begin_object(&w, NULL);
    json_string(&w, "host", host);
    json_string(&w, "worst", doctor_verdict_name(doctor_worst(r)));
    json_begin_array(&w, "findings");
    for (int i = 0; i < r->count; i++) {
        const Finding *f = &r->finding[i];
        json_begin_object(&w, NULL);
        json_string(&w, "check", f->check);
        json_string(&w, "verdict", doctor_verdict_name(f->verdict));
        json_string(&w, "text", f->text);
        json_string(&w, "advice", f->advice);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    str_add(out, "\n");
}
