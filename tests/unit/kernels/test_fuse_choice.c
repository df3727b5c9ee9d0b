/* test_fuse_choice.c - device.fuse in words. */
#include "kernels/fuse_choice.h"
#include "tests/test.h"
#include <string.h>

TEST(modes_and_lists_of_fusions_are_read)
{
    const unsigned statistics = fuse_choice_bit("statistics"),
                   end = fuse_choice_bit("block end with shortcut"),
                   gradient = fuse_choice_bit("residual gradient");
    const struct {
        const char *text;
        FuseChoice choice;
    } rows[] = { { "auto", { FUSE_AUTO, 0 } },
                 { "none", { FUSE_NONE, 0 } },
                 { "all", { FUSE_ALL, 0 } },
                 { "statistics", { FUSE_ALL, statistics } },
                 { "statistics,block_end_with_shortcut", { FUSE_ALL, statistics | end } },
                 { " residual_gradient , statistics ", { FUSE_ALL, gradient | statistics } },
                 { "residual gradient", { FUSE_ALL, gradient } } };
    CHECK(statistics && end && gradient && !(statistics & end) && !(end & gradient));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FuseChoice c = { .only = 1U << 31 };
        CHECK_OK(fuse_choice_parse(&c, rows[i].text));
        CHECK_INT(c.mode, rows[i].choice.mode);
        CHECK_INT(c.only, rows[i].choice.only);
    }
}

TEST(words_that_are_no_fusion_are_named)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "some", "has \"some\"; it must be auto, none or all, or a list of: statistics, " },
        { "", "has \"\"; " },
        { "statistics,", "has \"\"; " },
        { "statistics,,gradient", "has \"\"; " },
        { "auto, gradient", "has \"auto\"; " },
        { "gradient, gradients", "has \"gradients\"; " },
        { "block", "block_end_with_shortcut, gradient, residual_gradient, " },
        { "gradient_", "shortcut_gradient, epilogue, pool, pool_gradient, signs, shortcut" }
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FuseChoice c;
        CHECK_STATUS(fuse_choice_parse(&c, rows[i].text), ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].says);
    }
}
