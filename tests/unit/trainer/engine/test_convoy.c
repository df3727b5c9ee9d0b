/* test_convoy.c - the engine as other programs see it: what is refused, what is told and in which
 * order, a run that is stopped from a callback and gone on with by a second engine. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/engine/include/convoy.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SETTINGS = 9, STEPS = 6 };

typedef struct Heard {
    StrBuf order; /* a letter an event */
    double stop_at, last_step, loss, norm;
    bool texts;
} Heard;

static int hear(Heard *h, const char *letter)
{
    str_add(&h->order, letter);
    return 0;
}

static int on_start(void *self, const ConvoyRecord *r)
{
    Heard *h = self;
    const char *model = convoy_text(r, "model");
    h->texts = model && strcmp(model, "resnet20") == 0 && !convoy_text(r, "world") &&
               !convoy_text(r, "nothing") && convoy_number(r, "world") == 1 &&
               convoy_number(r, "oversubscribed") == 0 && isnan(convoy_number(r, "model"));
    return hear(h, "S");
}

static int on_resume(void *self, const ConvoyRecord *r)
{
    (void)r;
    return hear(self, "R");
}

static int on_step(void *self, const ConvoyRecord *r)
{
    Heard *h = self;
    h->last_step = convoy_number(r, "step");
    h->loss = convoy_number(r, "loss");
    h->norm = convoy_number(r, "grad_norm");
    hear(h, ".");
    return h->last_step == h->stop_at;
}

static int on_checkpoint(void *self, const ConvoyRecord *r)
{
    return hear(self, fs_exists(convoy_text(r, "path")) ? "C" : "?");
}

static int train(ConvoyRanks *ranks, const char *dir, Heard *h)
{
    char run_dir[600];
    const char *settings[SETTINGS] = { run_dir,
                                       "model.name=resnet20",
                                       "data.format=synthetic",
                                       "data.synthetic_images=24",
                                       "data.image_size=16",
                                       "data.threads=1",
                                       "train.batch_per_rank=4",
                                       "train.epochs=1",
                                       "schedule.warmup_epochs=0" };
    const ConvoyEvents events = { .self = h,
                                  .start = on_start,
                                  .resume = on_resume,
                                  .step = on_step,
                                  .checkpoint = on_checkpoint };
    ConvoyEngine *engine = NULL;
    snprintf(run_dir, sizeof run_dir, "run.dir=%s", dir);
    int code = convoy_open(&engine, ranks, NULL, settings, SETTINGS);
    if (code == CONVOY_OK) code = convoy_train(engine, &events);
    convoy_close(engine);
    return code;
}

TEST(a_run_tells_and_is_gone_on_with)
{
    char *dir = fs_join(test_scratch(), "run"), *config = fs_join(dir, "config.yaml");
    ConvoyRanks *ranks = NULL;
    Heard first = { .stop_at = 2 }, second = { .stop_at = 0 };
    REQUIRE(convoy_join(&ranks) == CONVOY_OK);
    CHECK(convoy_rank(ranks) == 0 && convoy_world(ranks) == 1);
    convoy_stop(); /* of no run */
    CHECK_INT(train(ranks, dir, &first), CONVOY_STOPPED);
    CHECK_CONTAINS(convoy_message(), "stopped on request after step 3");
    CHECK_STR(first.order.text, "S...C");
    CHECK(first.texts && isfinite(first.loss));
    CHECK(isnan(first.norm)); /* nothing measures it */
    CHECK(fs_exists(config));
    CHECK_INT(train(ranks, dir, &second), CONVOY_OK);
    CHECK_STR(second.order.text, "SR...C");
    CHECK_INT((int64_t)second.last_step, STEPS);
    str_free(&first.order);
    str_free(&second.order);
    convoy_leave(ranks);
    mem_free(config);
    mem_free(dir);
}

TEST(descriptions_are_refused)
{
    static const struct {
        const char *setting, *says;
    } rows[] = { { "nokey=1", "unknown key nokey" },
                 { "train.epochs=x", "train.epochs" },
                 { "train.epochs=3", "run.dir is not set" } };
    ConvoyRanks *ranks = NULL;
    REQUIRE(convoy_join(&ranks) == CONVOY_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ConvoyEngine *engine = (ConvoyEngine *)&ranks;
        CHECK_INT(convoy_open(&engine, ranks, NULL, &rows[i].setting, 1), CONVOY_USAGE);
        CHECK(!engine);
        CHECK_CONTAINS(convoy_message(), rows[i].says);
    }
    convoy_leave(ranks);
}
