/* inspect_text.c - see inspect_text.h. */
#include "trainer/app/cmd/inspect_text.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/files/safetensors.h"
#include "trainer/engine/plan/train_plan.h"
#include <string.h>

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

Status inspect_text_print(const Dataset *d, const SequenceFacts *f)
{
    const TokenOptions *o = &f->options;
    StrBuf text = { 0 };
    str_printf(&text, "format %s\nwords %d, with <mask>\nsentences %lld\n", dataset_format_name(d),
               f->dictionary->words, (long long)f->sentences);
    str_printf(&text, "tokens %lld, %.4f %% of them <unk>\n", (long long)f->text_tokens,
               percent(f->unknown, f->text_tokens));
    str_printf(&text, "sequences %lld of at most %lld tokens (data.tokens%s%s)\n",
               (long long)f->sequences, (long long)o->tokens,
               f->classified ? "" : "; data.break_mode: ",
               f->classified ? "" : token_break_names[o->break_mode]);
    str_printf(&text, "filled %.2f %%\n", percent(f->tokens, f->sequences * o->tokens));
    if (f->classified)
        str_printf(&text, "cut %lld\nclasses %d\n", (long long)f->truncated, dataset_classes(d));
    else
        str_printf(&text, "too long %lld, skipped, with %lld tokens\n", (long long)f->too_long,
                   (long long)f->too_long_tokens);
    return log_print_text(OK, &text);
}

/* The fields of a batch as tensors. rows: of the head, or sequences. */
static int list_fields(const LoaderOptions *o, const Batch *batch, SafeTensor *out)
{
    const BatchLayout *layout = batch->layout;
    for (int i = 0; i < layout->count; i++) {
        const BatchField *f = &layout->fields[i];
        const int64_t count = (int64_t)(f->bytes / sizeof(int32_t));
        const bool pairs = strcmp(f->name, "where") == 0;
        out[i] = (SafeTensor){ .name = f->name,
                               .desc = { .dtype = DTYPE_I32,
                                         .rank = pairs ? 2 : 1,
                                         .dims = { pairs ? o->batch * o->tokens : count, 2 } },
                               .data = loader_field(batch, f->name) };
    }
    return layout->count;
}

static Status write_batch(Loader *l, const LoaderOptions *o, int64_t skip, const char *path)
{
    SafeTensor tensors[sizeof((BatchLayout *)0)->fields / sizeof((BatchLayout *)0)->fields[0]];
    Batch batch;
    bool more = true;
    double wait_s = 0;
    for (int64_t i = 0; i <= skip; i++) {
        TRY(loader_next(l, &batch, &more, &wait_s));
        if (!more)
            return fail(ERR_USAGE, "--batch: the set has only %lld batches of %lld sequences",
                        (long long)i, (long long)o->batch);
        if (i < skip) loader_release(l, &batch);
    }
    const Status status =
        safetensors_write(path, tensors, list_fields(o, &batch, tensors), NULL, 0);
    loader_release(l, &batch);
    if (status == OK)
        log_info("%s: %lld %s, %lld tokens, %lld masked", path, (long long)batch.count,
                 units_name(&units_text, batch.count), (long long)batch.tokens,
                 (long long)batch.masked);
    return status;
}

Status inspect_text_batch(const Dataset *d, DataRole role, const Config *c, int64_t step,
                          const char *path)
{
    const bool train = role == DATA_TRAIN;
    TrainPlan plan = { .global_batch = c->train.batch_per_rank };
    if (train) TRY(train_plan_make(&plan, c, 1, dataset_images(d)));
    if (train && step >= plan.total_steps)
        return fail(ERR_USAGE, "--batch: the run has only %lld steps", (long long)plan.total_steps);
    if (train) train_plan_enter(&plan, step);
    const int64_t batch = plan.global_batch;
    LoaderOptions o = { .seed = (uint64_t)c->train.seed,
                        .threads = 1,
                        .slots = 3,
                        .batch = batch,
                        .world = 1,
                        .global_batch = batch,
                        .first_step = train ? step : 0,
                        .shift = train ? train_plan_images(&plan, step) - step * batch : 0,
                        .last_step = train ? step + 1 : -1,
                        .max_bad_fraction = 1 };
    Loader *l = NULL;
    config_fill_text(c, &o);
    TRY(loader_create(&l, d, &o));
    const Status status = write_batch(l, &o, train ? 0 : step, path);
    loader_destroy(l);
    return status;
}
