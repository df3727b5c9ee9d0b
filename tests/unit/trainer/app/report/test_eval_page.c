/* test_eval_page.c - the figures of the page about an evaluation, and what it does with little. */
#include "tests/test.h"
#include "trainer/app/report/eval_page.h"
#include <math.h>
#include <string.h>

enum { CLASSES = 3 };

static const char *const names[CLASSES] = { "a <b>", "c", "d" };
/* scikit-learn's precision_recall_fscore_support of these: precision .6, .5, none; recall .75, .4,
 * none; F1 .6667, .4444, none */
static const double confusion[CLASSES * CLASSES] = { 3, 1, 0, 2, 2, 1, 0, 1, 0 };

static const double unread[CLASSES] = { 0 };

static EvalPage page(void)
{
    EvalPage p = { .title = "t",
                   .checkpoint = "c",
                   .data = "d",
                   .images = 10,
                   .classes = CLASSES,
                   .class_names = names,
                   .confusion = confusion,
                   .unread = unread };
    /* sure of itself in the last bin: 0.95 said, 0.5 right; honest in another */
    p.bins[14].images = 4;
    p.bins[14].confidence = 3.8;
    p.bins[14].right = 2;
    p.bins[7].images = 6;
    p.bins[7].confidence = p.bins[7].right = 3;
    return p;
}

TEST(figures_are_those_of_the_definitions)
{
    const EvalPage p = page();
    const EvalFigures a = eval_page_figures(&p, 0), c = eval_page_figures(&p, 1),
                      d = eval_page_figures(&p, 2);
    CHECK_NEAR(a.images, 4, 0);
    CHECK_NEAR(a.precision, 0.6, 1e-15);
    CHECK_NEAR(a.recall, 0.75, 1e-15);
    CHECK_NEAR(a.f1, 2.0 / 3, 1e-15);
    CHECK_NEAR(c.precision, 0.5, 1e-15);
    CHECK_NEAR(c.recall, 0.4, 1e-15);
    CHECK_NEAR(d.precision, 0, 0);
    CHECK_NEAR(d.recall, 0, 0);
    CHECK_NEAR(eval_page_calibration_error(&p), 1.8 / 10, 1e-15);
}

TEST(what_could_not_be_decoded_counts_as_wrong)
{
    const double some[CLASSES] = { 1, 0, 0 };
    EvalPage p = page();
    p.unread = some;
    const EvalFigures a = eval_page_figures(&p, 0);
    CHECK_NEAR(a.images, 5, 0);
    CHECK_NEAR(a.precision, 0.6, 1e-15);
    CHECK_NEAR(a.recall, 0.6, 1e-15);
}

TEST(the_page_escapes_names_and_stands_without_mistakes)
{
    StrBuf out = { 0 };
    EvalPage p = page();
    eval_page_write(&out, &p);
    REQUIRE(!out.failed);
    CHECK_CONTAINS(out.text, "a &lt;b&gt;");
    CHECK(strstr(out.text, "a <b>") == NULL);
    CHECK_CONTAINS(out.text, "None.");
    CHECK_CONTAINS(out.text, "18.00"); /* points of calibration error */
    str_free(&out);
}

TEST(pictures_are_in_the_page)
{
    StrBuf out = { 0 };
    EvalPage p = page();
    /* RFC 4648, section 10: "foob" and "fooba" */
    const EvalMistake mistakes[] = {
        { .path = (char[]){ "x" }, .png = (const uint8_t *)"foob", .bytes = 4, .confidence = 0.9 },
        { .path = (char[]){ "y" }, .png = (const uint8_t *)"fooba", .bytes = 5, .label = 1 },
        { .path = (char[]){ "z" } },
    };
    p.mistakes = mistakes;
    p.mistake_count = 3;
    eval_page_write(&out, &p);
    REQUIRE(!out.failed);
    CHECK_CONTAINS(out.text, "src=\"data:image/png;base64,Zm9vYg==\"");
    CHECK_CONTAINS(out.text, "base64,Zm9vYmE=\"");
    CHECK_CONTAINS(out.text, "<br>z</figcaption>");
    str_free(&out);
}
