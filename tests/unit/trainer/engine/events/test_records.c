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

/* Fields of runs on text alone. */
static bool of_text(const char *name)
{
    static const char *const names[] = { "tokens", "words", "tokens_per_s", "masked", "ppl" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* A record of each kind in which every field is there and another value; those of text where it
 * says so. */
static void fill(RunRecord *r, RecordKind kind, bool of_words, double *next)
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
        if (of_text(f->name) && !of_words) continue;
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

static void check_written_and_read(bool text)
{
    double next = 1;
    for (int kind = 0; kind < RECORD_KINDS; kind++) {
        StrBuf once = { 0 }, again = { 0 };
        Arena *arena = NULL, *kept = NULL;
        JsonValue *object = NULL;
        RunRecord r, back;
        fill(&r, (RecordKind)kind, text, &next);
        if (kind == RECORD_SPENT) r.spent.text = text;
        write_record(&once, &r);
        REQUIRE_OK(arena_create(&arena, 0));
        REQUIRE_OK(arena_create(&kept, 0));
        REQUIRE_OK(json_parse(arena, once.text, once.length, &object));
        for (int i = 0; i < record_defs[kind].count; i++) {
            const char *name = record_defs[kind].fields[i].name;
            CHECK_INT(json_get(object, records_name(name, text)) != NULL, text || !of_text(name));
            if (records_name(name, true) != name)
                CHECK(!json_get(object, records_name(name, !text)));
        }
        records_read(&back, object);
        REQUIRE(back.kind == (RecordKind)kind);
        CHECK_NEAR(back.time, 1.5, 0);
        if (kind == RECORD_SPENT) CHECK_INT(back.spent.text, text);
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

TEST(what_is_written_is_read_back)
{
    check_written_and_read(false);
    check_written_and_read(true);
}

/* What the records of a run on images are called, whatever other runs have. */
TEST(records_of_images_have_no_other_fields)
{
    StrBuf text = { 0 };
    const RunRecord step = {
        .kind = RECORD_STEP, .step = { .step = 1, .images_per_s = 8, .tokens_per_s = 5, .ppl = 3 }
    };
    const RunRecord eval = { .kind = RECORD_EVAL, .eval = { .images = 2, .tokens = 9, .ppl = 3 } };
    write_record(&text, &step);
    CHECK_STR(text.text, "{\"event\":\"step\",\"time\":1.5,\"epoch\":0,\"step\":1,\"epochs\":0,"
                         "\"loss\":0,\"lr\":0,\"images_per_s\":8,\"step_ms\":0,\"data_wait_ms\":0,"
                         "\"comm_wait_ms\":0}");
    str_clear(&text);
    write_record(&text, &eval);
    CHECK_STR(text.text, "{\"event\":\"eval\",\"time\":1.5,\"epoch\":0,\"step\":0,\"epochs\":0,"
                         "\"images\":2,\"loss\":0,\"top1\":0,\"top5\":0}");
    str_free(&text);
}

/* A classification of text has no perplexity. */
TEST(records_of_text_have_both_names_for_who_asks)
{
    StrBuf text = { 0 };
    RunRecord r = { .kind = RECORD_STEP,
                    .step = { .images_per_s = 8, .text = true, .tokens_per_s = 500, .ppl = 3 } };
    write_record(&text, &r);
    CHECK_CONTAINS(text.text, "\"sequences_per_s\":8,");
    CHECK_CONTAINS(text.text, "\"tokens_per_s\":500}");
    CHECK_NEAR(records_number(RECORD_STEP, &r.step, "sequences_per_s"), 8, 0);
    CHECK_NEAR(records_number(RECORD_STEP, &r.step, "images_per_s"), 8, 0);
    CHECK(isnan(records_number(RECORD_STEP, &r.step, "ppl")));
    CHECK_NEAR(records_speed(&r.step), 500, 0);
    r.step.masks = true;
    CHECK_NEAR(records_number(RECORD_STEP, &r.step, "ppl"), 3, 0);
    r.step.text = false;
    CHECK(isnan(records_number(RECORD_STEP, &r.step, "sequences_per_s")));
    CHECK_NEAR(records_speed(&r.step), 8, 0);
    str_free(&text);
}

TEST(masked_words_are_judged_by_their_loss)
{
    char text[RECORDS_SCORE_BYTES];
    EvalRecord e = { .loss = 2.5, .top1 = 0.5, .ema_loss = 2, .ema_top1 = 0.25 };
    CHECK_NEAR(records_score(&e), 0.5, 0);
    CHECK(records_better(&e, 0.4) && !records_better(&e, 0.5));
    e.masks = true;
    CHECK_NEAR(records_score(&e), 2.5, 0);
    CHECK(records_better(&e, 3) && !records_better(&e, 2.5) && records_better(&e, (double)NAN));
    e.ema_best = true;
    CHECK_NEAR(records_score(&e), 2, 0);
    e.ema_loss = (double)INFINITY;
    CHECK(!records_better(&e, (double)NAN));
    records_format_score(&e, 2.1, text);
    CHECK_STR(text, "loss 2.1000 (ppl 8.1662)");
    records_format_score(&e, -1, text);
    CHECK_STR(text, "loss inf (ppl inf)");
    e.masks = false;
    records_format_score(&e, 0.5, text);
    CHECK_STR(text, "top-1 50.00 %");
    records_format_score(&e, -1, text);
    CHECK_STR(text, "top-1 0.00 %");
}

TEST(several_labels_are_judged_by_mean_average_precision)
{
    char score[RECORDS_SCORE_BYTES];
    const double no = (double)NAN;
    StrBuf text = { 0 };
    Arena *arena = NULL;
    JsonValue *object = NULL;
    RunRecord back, r = { .kind = RECORD_EVAL,
                          .eval = { .loss = 0.5,
                                    .top1 = no,
                                    .top5 = no,
                                    .map = 0.25,
                                    .map_classes = 3,
                                    .multi = true,
                                    .ema_loss = 0.25,
                                    .ema_top1 = no,
                                    .ema_top5 = no,
                                    .ema_map = 0.75 } };
    write_record(&text, &r);
    CHECK_STR(text.text, "{\"event\":\"eval\",\"time\":1.5,\"epoch\":0,\"step\":0,\"epochs\":0,"
                         "\"images\":0,\"loss\":0.5,\"map\":0.25,\"map_classes\":3}");
    CHECK_NEAR(records_score(&r.eval), 0.25, 0);
    CHECK(records_better(&r.eval, 0.2) && !records_better(&r.eval, 0.25));
    r.eval.has_ema = r.eval.ema_best = true;
    str_clear(&text);
    write_record(&text, &r);
    CHECK_CONTAINS(text.text, "\"map\":0.25,\"ema_loss\":0.25,\"ema_map\":0.75,\"ema_best\":true,");
    REQUIRE_OK(arena_create(&arena, 0));
    REQUIRE_OK(json_parse(arena, text.text, text.length, &object));
    records_read(&back, object);
    CHECK(back.eval.multi && back.eval.has_ema && isnan(back.eval.top1));
    CHECK_NEAR(records_score(&back.eval), 0.75, 0);
    CHECK_NEAR(records_share(&back.eval, false), 0.25, 0);
    CHECK_INT(back.eval.map_classes, 3);
    records_format_score(&back.eval, 0.75, score);
    CHECK_STR(score, "mAP 75.00 %");
    arena_destroy(arena);
    str_free(&text);
}
