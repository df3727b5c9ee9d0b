/* fuzz_names.c - names of classes, as a checkpoint lists them, on their way out: to a terminal,
 * which they must not steer; into JSON, which must read back; and into a CSV line, which must stay
 * one line with the fields it was given, none of them a formula. */
#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/app/report/csv.h"
#include "trainer/engine/files/checkpoint_model.h"
#include <string.h>

enum { NAMES = 20, NAME_BYTES = 256 };

static void check_json(const char *name)
{
    StrBuf text = { 0 };
    JsonWriter w = { .out = &text };
    Arena *arena = NULL;
    JsonValue *value = NULL;
    json_begin_object(&w, NULL);
    json_string(&w, "class", name);
    json_int(&w, "label", 7);
    json_end_object(&w);
    fuzz_only_shows(text.text, "");
    ASSERT(arena_create(&arena, 4096) == OK);
    ASSERT(json_parse(arena, text.text, text.length, &value) == OK);
    const JsonValue *read = json_get(value, "class");
    ASSERT(read && read->type == JSON_STRING && json_get(value, "label")->integer == 7);
    ASSERT(json_is_utf8(read->string));
    if (json_is_utf8(name)) ASSERT(strcmp(read->string, name) == 0);
    arena_destroy(arena);
    str_free(&text);
}

/* The end of a field: its comma, or the end of the line. */
static const char *field_end(const char *at)
{
    if (*at != '"') return at + strcspn(at, ",\"\r\n");
    for (at++; *at; at++) {
        if (*at != '"') continue;
        if (at[1] != '"') return at + 1;
        at++;
    }
    return at;
}

static void check_csv(const char *name)
{
    StrBuf line = { 0 };
    csv_text(&line, "a,b");
    csv_text(&line, name);
    csv_whole(&line, 7);
    const char *at = field_end(line.text);
    ASSERT(at == line.text + strlen("\"a,b\"") && *at == ',');
    fuzz_only_shows(line.text, "");
    ASSERT(!strchr("=+-@", at[1 + (at[1] == '"')]));
    at = field_end(at + 1);
    ASSERT(strcmp(at, ",7") == 0);
    str_free(&line);
}

int fuzz_names(const uint8_t *data, size_t size)
{
    char name[NAME_BYTES];
    char *list = mem_alloc(size + 1);
    ASSERT(list != NULL);
    if (size) memcpy(list, data, size);
    list[size] = '\0';
    const CheckpointModel model = { .meta.class_names = list };
    int64_t lines = 1; /* and one more label than there are names */
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    for (int64_t i = 0; i <= lines && i < NAMES; i++) {
        checkpoint_model_class_name(&model, i, name, sizeof name);
        ASSERT(name[0] && !strchr(name, '\n'));
        StrBuf shown = { 0 };
        str_add_visible(&shown, name, "");
        fuzz_only_shows(shown.text, "");
        str_free(&shown);
        check_json(name);
        check_csv(name);
    }
    mem_free(list);
    return 0;
}
