/* fuzz_metrics.c - a run folder as readers find it: metrics.jsonl and config.yaml. The first two
 * bytes tell how long config.yaml is, which comes first. Read as `top` reads it, line by line, as a
 * supervisor does, and as `report` does, page and tables included. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/app/cmd/top_screen.h"
#include "trainer/app/launch/progress.h"
#include "trainer/app/report/report.h"
#include "trainer/app/report/report_run.h"
#include <stdio.h>
#include <string.h>

static void look(const uint8_t *data, size_t size)
{
    static TopScreen screen;
    StrBuf text = { 0 };
    top_screen_init(&screen);
    for (const uint8_t *at = data, *end = data + size, *newline; at < end; at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) break;
        top_screen_add_line(&screen, (const char *)at, (size_t)(newline - at));
    }
    top_screen_describe(&screen, "run", 2e9, &text);
    ASSERT(!text.failed && text.length < 100000);
    str_free(&text);
    top_screen_free(&screen);
}

static void read_run(const char *folder)
{
    ReportRun run;
    if (report_run_read(&run, folder, "run") != OK) return;
    ASSERT(run.broken_lines <= run.lines);
    for (int64_t i = 1; i < run.step_count; i++) ASSERT(run.steps[i - 1].step < run.steps[i].step);
    report_run_free(&run);
}

/* A page or a table of a report: nothing in it acts, on a terminal or in a browser. */
static void read_file(const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    ASSERT(fs_read_file(path, &bytes, &size) == OK);
    const char *text = (const char *)bytes;
    ASSERT(strlen(text) == size);
    fuzz_only_shows(text, "\n\t");
    ASSERT(!strcasestr(text, "<script"));
    mem_free(bytes);
}

int fuzz_metrics(const uint8_t *data, size_t size)
{
    char page[160], table[160];
    const char *folder = fuzz_folder();
    if (size < 2) return 0;
    size_t config = data[0] | (size_t)data[1] << 8;
    if (config > size - 2) config = size - 2;
    fuzz_write("config.yaml", data + 2, config);
    data += 2 + config;
    size -= 2 + config;
    fuzz_write("metrics.jsonl", data, size);
    look(data, size);
    ASSERT(progress_last_step(folder) >= 0);
    read_run(folder);
    fuzz_write("page.html", NULL, 0);
    fuzz_write("page.csv", NULL, 0);
    snprintf(page, sizeof page, "%s/page.html", folder);
    snprintf(table, sizeof table, "%s/page.csv", folder);
    if (report_write(page, &folder, 1) != OK) return 0;
    read_file(page);
    read_file(table);
    return 0;
}
