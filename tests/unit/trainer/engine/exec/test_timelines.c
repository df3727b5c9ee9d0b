/* test_timelines.c - the timelines of all networks are those of tests/golden: made to see whether a
 * change of how they are made changes any. Where it is to, build/make_timelines writes the files
 * anew; what they hold is explained in tests/tools/timelines.h. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/timelines.h"
#include <stdio.h>
#include <string.h>

#define SUMS_FILE    "tests/golden/timelines.txt"
#define TEXTS_FOLDER "tests/golden/timelines"
enum { TEXTS = 6, CHECKSUM_BYTES = 9, PARTS = 4 };

/* Sanitizers take five times as long: a network of each kind. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const char *const chosen[] = {
    "resnet18",      "resnet20",           "efficientnet_b0", "mlp",      "airbench94",
    "convnext_tiny", "mobilenet_v3_small", "regnet_y_400mf",  "vit_b_32", NULL
};
#else
static const char *const chosen[] = { NULL }; /* all */
#endif

static bool is_chosen(const ModelDef *def)
{
    for (int i = 0; chosen[i]; i++)
        if (strcmp(def->name, chosen[i]) == 0) return true;
    return !chosen[0];
}

/* The next line of text, which it moves behind; NULL at the end. */
static char *next_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');
    if (!*line) return NULL;
    if (end) *end = '\0';
    *text = end ? end + 1 : line + strlen(line);
    return line;
}

static const ModelDef *network_of(const char *row)
{
    char name[TIMELINES_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(row, "."), row);
    return model_find(name);
}

static char *next_row(char **text, const ModelDef *def)
{
    char *line = next_line(text);
    while (line && network_of(line) != def) line = next_line(text);
    return line;
}

/* Says of two rows that differ which timeline does first. */
static void report_row(const char *want, const char *got)
{
    char text[512];
    const char *row = got ? got : want;
    const int name = (int)strcspn(row, " ");
    int column = 0;
    if (!want || !got || strncmp(want, got, (size_t)name + 1) != 0) {
        snprintf(text, sizeof text, SUMS_FILE " has row %s where %s is made", want ? want : "none",
                 got ? got : "none");
    } else {
        const char *w = want + name, *g = got + name;
        while (strncmp(w, g, CHECKSUM_BYTES) == 0 && *w) {
            w += CHECKSUM_BYTES;
            g += CHECKSUM_BYTES;
            column++;
        }
        char id[TIMELINES_NAME_BYTES];
        snprintf(id, sizeof id, "%.*s", name, row);
        snprintf(text, sizeof text,
                 "timeline %s%s is not that of " SUMS_FILE
                 "; this prints it, here and where it was right: build/make_timelines %s%s",
                 id, timelines_ending(id, column), id, timelines_ending(id, column));
    }
    test_check(false, __FILE__, __LINE__, text);
}

static bool compare_rows(const ModelDef *def, char *wanted)
{
    StrBuf made = { 0 };
    CHECK_OK(timelines_rows(def, &made));
    char empty[] = "", *rest = made.text ? made.text : empty, *want, *got;
    do {
        want = next_row(&wanted, def);
        got = next_line(&rest);
    } while (want && got && strcmp(want, got) == 0);
    if (want || got) report_row(want, got);
    str_free(&made);
    return !want && !got;
}

/* Every so many-th network, so that the processes of these tests share the work; to the first
 * difference. */
static void compare_part(int part)
{
    uint8_t *file = NULL;
    size_t bytes;
    REQUIRE_OK(fs_read_file(SUMS_FILE, &file, &bytes));
    bool same = true;
    for (int i = part; same && i < model_count(); i += PARTS) {
        char *text = is_chosen(model_at(i)) ? mem_strdup((const char *)file) : NULL;
        if (text) same = compare_rows(model_at(i), text);
        mem_free(text);
    }
    mem_free(file);
}

TEST(all_are_as_they_were_1)
{
    compare_part(0);
}
TEST(all_are_as_they_were_2)
{
    compare_part(1);
}
TEST(all_are_as_they_were_3)
{
    compare_part(2);
}
TEST(all_are_as_they_were_4)
{
    compare_part(3);
}

TEST(every_row_is_of_a_network)
{
    uint8_t *file = NULL;
    size_t bytes;
    REQUIRE_OK(fs_read_file(SUMS_FILE, &file, &bytes));
    char *rest = (char *)file, *line;
    while ((line = next_line(&rest)))
        if (line[0] != '#' && !network_of(line))
            CHECK_STR(line, "a row of a network that there is");
    mem_free(file);
}

static void compare_text(const char *file_name)
{
    char name[TIMELINES_NAME_BYTES];
    StrBuf made = { 0 };
    uint8_t *file = NULL;
    size_t bytes;
    snprintf(name, sizeof name, "%.*s", (int)strlen(file_name) - 4, file_name);
    char *path = fs_join(TEXTS_FOLDER, file_name);
    REQUIRE(path);
    REQUIRE_OK(fs_read_file(path, &file, &bytes));
    REQUIRE_OK(timelines_text(name, &made));
    char *wanted = (char *)file, *rest = made.text, *want, *got;
    int line = 0;
    do {
        want = next_line(&wanted);
        got = next_line(&rest);
        line++;
    } while (want && got && strcmp(want, got) == 0);
    if (want || got) {
        printf("%s, line %d:\n", path, line);
        CHECK_STR(got ? got : "the end", want ? want : "the end");
    }
    str_free(&made);
    mem_free(file);
    mem_free(path);
}

TEST(some_are_as_they_were_line_by_line)
{
    char **names = NULL;
    int64_t count = 0;
    REQUIRE_OK(fs_list(TEXTS_FOLDER, &names, &count));
    CHECK_INT(count, TEXTS);
    for (int64_t i = 0; i < count; i++) compare_text(names[i]);
    mem_free(names);
}

TEST(an_unknown_name_is_refused)
{
    static const char *const names[] = { "resnet9.side.micro", "resnet20.side.micro.scale",
                                         "resnet20.memory.nccl.step", "resnet20", "" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        StrBuf out = { 0 };
        CHECK_STATUS(timelines_text(names[i], &out), ERR_USAGE);
        CHECK_CONTAINS(status_message(), names[i]);
        str_free(&out);
    }
}
