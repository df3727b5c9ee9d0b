/* test_records.c - the tables of records: what they say of every event is what docs/running.md
 * says, and what is written by them is read back by them. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/engine/events/records.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Those that are in every record, or the others. */
static void add_fields(StrBuf *out, const RecordDef *def, bool always)
{
    for (int i = 0; i < def->count; i++) {
        const RecordField *f = &def->fields[i];
        if ((f->when == FIELD_ALWAYS) != always) continue;
        str_printf(out, " `%s`", f->name);
        if (f->unit[0]) str_printf(out, " (%s)", f->unit);
    }
    str_add(out, " |");
}

TEST(the_page_lists_the_tables)
{
    StrBuf table = { 0 };
    uint8_t *page = NULL;
    size_t bytes;
    str_add(&table, "| `event` | fields | where there is something to tell |\n|---|---|---|\n");
    for (int kind = 0; kind < RECORD_KINDS; kind++) {
        str_printf(&table, "| `%s` |", record_defs[kind].event);
        add_fields(&table, &record_defs[kind], true);
        add_fields(&table, &record_defs[kind], false);
        str_add(&table, "\n");
    }
    REQUIRE_OK(fs_read_file("docs/running.md", &page, &bytes));
    if (!test_check(strstr((const char *)page, table.text) != NULL, __FILE__, __LINE__,
                    "docs/running.md has the table of records"))
        printf("%s", table.text);
    mem_free(page);
    str_free(&table);
}

/* A record of each kind in which every field is there and another value. */
static void fill(RunRecord *r, RecordKind kind, double *next)
{
    static const char *const texts[] = { "a", "b\n", "\"c\"" };
    *r = (RunRecord){ .kind = kind };
    for (int i = 0; i < record_defs[kind].count; i++, *next += 1) {
        const RecordField *f = &record_defs[kind].fields[i];
        char *at = (char *)&r->start + f->offset;
        const int64_t whole = (int64_t)*next;
        const double number = *next + 0.125;
        const char *text = texts[whole % 3];
        const bool truth = true;
        if (f->when == FIELD_BY) memcpy((char *)&r->start + f->by, &truth, sizeof truth);
        if (f->type == FIELD_WHOLE) memcpy(at, &whole, sizeof whole);
        if (f->type == FIELD_NUMBER) memcpy(at, &number, sizeof number);
        if (f->type == FIELD_TEXT) memcpy(at, &text, sizeof text);
        if (f->type == FIELD_TRUTH) memcpy(at, &truth, sizeof truth);
    }
}

static void write_record(StrBuf *out, const RunRecord *r)
{
    JsonWriter w = { .out = out };
    json_begin_object(&w, NULL);
    json_string(&w, "event", record_defs[r->kind].event);
    json_number(&w, "time", 1.5);
    records_write(&w, r->kind, &r->start);
    json_end_object(&w);
}

TEST(what_is_written_is_read_back)
{
    double next = 1;
    for (int kind = 0; kind < RECORD_KINDS; kind++) {
        StrBuf once = { 0 }, again = { 0 };
        Arena *arena = NULL, *kept = NULL;
        JsonValue *object = NULL;
        RunRecord r, back;
        fill(&r, (RecordKind)kind, &next);
        write_record(&once, &r);
        REQUIRE_OK(arena_create(&arena, 0));
        REQUIRE_OK(arena_create(&kept, 0));
        REQUIRE_OK(json_parse(arena, once.text, once.length, &object));
        for (int i = 0; i < record_defs[kind].count; i++)
            CHECK(json_get(object, record_defs[kind].fields[i].name) != NULL);
        records_read(&back, object);
        REQUIRE(back.kind == (RecordKind)kind);
        CHECK_NEAR(back.time, 1.5, 0);
        CHECK_OK(records_keep_texts(&back, kept));
        arena_destroy(arena);
        write_record(&again, &back);
        CHECK_STR(again.text, once.text);
        arena_destroy(kept);
        str_free(&once);
        str_free(&again);
    }
}

TEST(what_a_record_does_not_tell)
{
    Arena *arena = NULL;
    JsonValue *object = NULL;
    RunRecord r;
    static const char eval[] = "{\"event\":\"eval\",\"step\":1.5,\"loss\":null}";
    REQUIRE_OK(arena_create(&arena, 0));
    REQUIRE_OK(json_parse(arena, eval, sizeof eval - 1, &object));
    records_read(&r, object);
    REQUIRE(r.kind == RECORD_EVAL);
    CHECK(isnan(r.time) && isnan(r.eval.loss) && isnan(r.eval.ema_top1));
    CHECK_INT(r.eval.step, -1);
    CHECK(!r.eval.checkpoint && !r.eval.foreign && !r.eval.has_ema);
    records_read(&r, NULL);
    CHECK(r.kind == RECORD_KINDS);
    records_read_as(RECORD_START, &r.start, NULL);
    CHECK_INT(r.start.world, -1);
    CHECK_STR(r.start.model, "");
    arena_destroy(arena);
}
