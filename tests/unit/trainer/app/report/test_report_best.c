/* test_report_best.c - which evaluation of a run is its best. */
#include "base/str.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "trainer/app/report/report_run.h"

static void add_eval(StrBuf *b, int step, double top1)
{
    str_printf(b, "{\"event\":\"eval\",\"step\":%d,\"epoch\":0,\"loss\":1,\"top1\":%g}\n", step,
               top1);
}

static void add_resume(StrBuf *b, int step, const char *more)
{
    str_add(b, "{\"event\":\"start\",\"classes\":6}\n");
    str_printf(b, "{\"event\":\"resume\",\"step\":%d,\"path\":\"p\"%s}\n", step, more);
}

static int64_t best_step(const StrBuf *records)
{
    ReportRun r;
    tree_write(test_scratch(), "metrics.jsonl", records->text, records->length);
    CHECK_OK(report_run_read(&r, test_scratch(), "run"));
    const EvalRecord *best = report_run_best(&r);
    const int64_t step = best ? best->step : -1;
    report_run_free(&r);
    return step;
}

TEST(the_best_is_of_the_validation_set_at_hand)
{
    StrBuf b = { 0 };
    str_add(&b, "{\"event\":\"start\",\"classes\":6}\n");
    add_eval(&b, 4, 0.9);
    add_resume(&b, 4, "");
    add_eval(&b, 5, 0.8);
    CHECK_INT(best_step(&b), 4);
    add_resume(&b, 5, ",\"other_val\":true");
    CHECK_INT(best_step(&b), -1);
    add_eval(&b, 8, 0.5);
    CHECK_INT(best_step(&b), 8);
    add_resume(&b, 3, ""); /* before the change, and with the new set */
    add_eval(&b, 4, 0.4);
    CHECK_INT(best_step(&b), 4);
    str_free(&b);
}
