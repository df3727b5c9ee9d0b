/* Batches of token sequences: where everything lies, the same bits for any ranks, threads and
 * micro-batches, after a resume too, and counts that are known before anything is read. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/data.h"
#include "data/load/dataset_internal.h"
#include "tests/test.h"
#include "tests/tools/token_write.h"
#include <string.h>

enum { LONGEST = 24, BATCH = 8, SENTENCES = 90 };

static void add_text(StrBuf *text, uint32_t sentences)
{
    for (uint32_t i = 0; i < sentences; i++) {
        Rng rng = rng_at(5, RNG_TEST, i, 0);
        const uint64_t count = 1 + rng_below(&rng, LONGEST - 4);
        for (uint64_t j = 0; j < count; j++)
            str_printf(text, "%sw%d", j ? " " : "", (int)(rng_below(&rng, 900) * (i % 3 ? 1 : 0)));
        str_add(text, "\n");
    }
}

static Dataset *open_text(const char *name, DataRole role)
{
    Dataset *d = NULL;
    StrBuf text = { 0 };
    add_text(&text, SENTENCES);
    token_write_set(test_scratch(), name, text.text);
    str_free(&text);
    const DatasetOptions o = { .path = test_scratch(),
                               .role = role,
                               .text = { .tokens = LONGEST,
                                         .break_mode = BREAK_EOS,
                                         .mask = .15,
                                         .mask_keep = .1,
                                         .mask_random = .1 } };
    CHECK_STATUS(dataset_open(&d, &o), OK);
    return d;
}

static LoaderOptions options(int64_t batch, int threads)
{
    return (LoaderOptions){ .tokens = LONGEST,
                            .masked = batch * mask_most(.15, LONGEST),
                            .segments = true,
                            .seed = 42,
                            .threads = threads,
                            .slots = 3,
                            .batch = batch,
                            .world = 1,
                            .global_batch = BATCH,
                            .last_step = -1 };
}

typedef struct Fields {
    const int32_t *ids, *where, *starts, *order, *segments, *rows, *labels;
} Fields;

static Fields fields_of(const Batch *b)
{
    return (Fields){ loader_field(b, "ids"),      loader_field(b, "where"),
                     loader_field(b, "starts"),   loader_field(b, "order"),
                     loader_field(b, "segments"), loader_field(b, "rows"),
                     loader_field(b, "labels") };
}

/* Places by id: each once, ids not falling, places of one id rising, nobody's last. */
static bool is_sorted(const Fields *f, int64_t tokens, int64_t places)
{
    bool good = true;
    for (int64_t i = 1; i < tokens && good; i++) {
        const int32_t a = f->order[i - 1], b = f->order[i];
        good = f->ids[a] < f->ids[b] || (f->ids[a] == f->ids[b] && a < b);
    }
    for (int64_t i = tokens; i < places && good; i++) good = f->order[i] == i && f->ids[i] == -1;
    return good;
}

static bool places_are_right(const LoaderOptions *o, const Batch *b, const Fields *f)
{
    bool good = f->starts[0] == 0 && f->starts[o->batch] == b->tokens;
    for (int64_t i = 0; i < o->batch; i++)
        for (int32_t at = f->starts[i]; at < f->starts[i + 1] && good; at++)
            good = f->where[2 * at] == i && f->where[2 * at + 1] == at - f->starts[i];
    for (int64_t at = b->tokens; at < o->batch * LONGEST && good; at++)
        good = f->where[2 * at] == -1 && f->where[2 * at + 1] == 0 && f->segments[at] == 0;
    return good && is_sorted(f, b->tokens, o->batch * LONGEST);
}

/* Where nothing is to be found a sequence is the sample; elsewhere the label is. */
static bool words_are_right(const Dataset *d, const LoaderOptions *o, const Batch *b,
                            const Fields *f)
{
    ByteBuf buf = { 0 };
    Sample sample;
    bool good = true;
    int64_t row = 0;
    for (int64_t i = 0; i < o->batch && good; i++) {
        const int32_t tokens = f->starts[i + 1] - f->starts[i];
        if (b->sample_ids[i] < 0) good = tokens == 0;
        if (b->sample_ids[i] < 0) continue;
        good = source_read(dataset_source(d), b->sample_ids[i], 0, &buf, &sample) == OK;
        const int32_t *was = (const int32_t *)(const void *)sample.file.bytes;
        good = good && (size_t)tokens * sizeof *was == sample.file.size;
        for (int32_t j = 0; j < tokens && good; j++) {
            const int32_t at = f->starts[i] + j;
            const bool chosen = row < o->masked && f->rows[row] == at;
            good = chosen ? f->labels[row] == was[j] : f->ids[at] == was[j];
            row += chosen;
        }
    }
    for (int64_t i = row; i < o->masked && good; i++) good = f->rows[i] == -1 && f->labels[i] == -1;
    byte_buf_free(&buf);
    return good && row == b->masked;
}

/* Of what training sees of a sequence, wherever it lies. */
static uint32_t sequence_crc(uint32_t crc, const Batch *b, const Fields *f, int64_t i)
{
    const int32_t from = f->starts[i], to = f->starts[i + 1];
    crc = crc32c_update(crc, &b->sample_ids[i], sizeof b->sample_ids[i]);
    crc = crc32c_update(crc, f->ids + from, (size_t)(to - from) * sizeof *f->ids);
    for (int64_t row = 0; row < b->masked; row++) {
        const int32_t in = f->rows[row] - from;
        if (f->rows[row] < from || f->rows[row] >= to) continue;
        crc = crc32c_update(crc, &in, sizeof in);
        crc = crc32c_update(crc, &f->labels[row], sizeof f->labels[row]);
    }
    return crc;
}

/* All batches of a loader; their sequences' checksums in the order of the stream. */
static uint32_t run(const Dataset *d, const LoaderOptions *o, uint32_t crc, SequenceCounts *sum)
{
    Loader *l = NULL;
    Batch b;
    bool more = true;
    CHECK_STATUS(loader_create(&l, d, o), OK);
    while (l && loader_next(l, &b, &more, NULL) == OK && more) {
        const Fields f = fields_of(&b);
        CHECK(places_are_right(o, &b, &f));
        CHECK(words_are_right(d, o, &b, &f));
        for (int64_t i = 0; i < o->batch; i++)
            if (b.sample_ids[i] >= 0) crc = sequence_crc(crc, &b, &f, i);
        sum->sequences += b.count;
        sum->tokens += b.tokens;
        sum->masked += b.masked;
        loader_release(l, &b);
    }
    CHECK(!more);
    loader_destroy(l);
    return crc;
}

/* Steps from .. to - 1, over all ranks, step by step. */
static uint32_t train(const Dataset *d, LoaderOptions o, int64_t from, int64_t to)
{
    uint32_t crc = 0;
    for (int64_t step = from; step < to; step++) {
        SequenceCounts sum = { 0 };
        o.first_step = step;
        o.last_step = step + 1;
        for (o.rank = 0; o.rank < o.world; o.rank++) crc = run(d, &o, crc, &sum);
        const SequenceCounts known =
            sequences_count(d, o.seed, step * BATCH + o.shift, o.global_batch);
        CHECK_INT(sum.sequences, BATCH);
        CHECK_INT(sum.sequences, known.sequences);
        CHECK_INT(sum.tokens, known.tokens);
        CHECK_INT(sum.masked, known.masked);
    }
    return crc;
}

TEST(batches_are_the_same_for_any_ranks_threads_and_micro_batches)
{
    Dataset *d = open_text("train", DATA_TRAIN);
    REQUIRE(d != NULL);
    const uint32_t want = train(d, options(BATCH, 1), 0, 14); /* into the second epoch */
    CHECK_INT(train(d, options(BATCH, 4), 0, 14), want);
    CHECK_INT(train(d, options(2, 3), 0, 14), want);
    LoaderOptions o = options(2, 2);
    o.world = 2;
    CHECK_INT(train(d, o, 0, 14), want);
    o = options(1, 2);
    o.world = 4;
    o.slots = 5;
    CHECK_INT(train(d, o, 0, 14), want);
    o.seed = 43;
    CHECK(train(d, o, 0, 14) != want);
    o.shift = 3;
    (void)train(d, o, 2, 5);
    dataset_close(d);
}

TEST(a_stream_resumes_in_the_middle)
{
    Dataset *d = open_text("train", DATA_TRAIN);
    REQUIRE(d != NULL);
    SequenceCounts sum = { 0 };
    LoaderOptions o = options(4, 2);
    o.last_step = 20;
    const uint32_t want = run(d, &o, 0, &sum);
    o.last_step = 9;
    uint32_t crc = run(d, &o, 0, &sum);
    o.first_step = 9;
    o.last_step = 20;
    crc = run(d, &o, crc, &sum);
    CHECK_INT(crc, want);
    CHECK_INT(sum.sequences, 2 * 20 * BATCH);
    dataset_close(d);
}

TEST(evaluation_takes_each_once_and_masks_always_the_same)
{
    Dataset *d = open_text("valid", DATA_VAL);
    REQUIRE(d != NULL);
    SequenceFacts facts;
    CHECK(sequences_facts(d, &facts));
    SequenceCounts once = { 0 }, ranks = { 0 };
    LoaderOptions o = options(8, 2);
    const uint32_t want = run(d, &o, 0, &once);
    const SequenceCounts known = sequences_count(d, o.seed, 0, facts.sequences);
    CHECK(once.sequences == SENTENCES && once.tokens == facts.tokens);
    CHECK(known.tokens == once.tokens && known.masked == once.masked && once.masked > 0);
    o = options(4, 1);
    o.world = 4;
    uint32_t crc = 0;
    for (o.rank = 0; o.rank < 4; o.rank++) crc = run(d, &o, crc, &ranks);
    CHECK_INT(crc, want);
    CHECK(memcmp(&once, &ranks, sizeof once) == 0);
    dataset_close(d);
}

/* ---- classification ---- */

static void write_pairs(void)
{
    static const char *const names[] = { "input0", "input1", "label" };
    static const char *const texts[] = { "a b\nb\na a a a a a a a\n", "b\na a\nb\n", "x\ny\nx\n" };
    for (int i = 0; i < 3; i++) {
        char *dir = fs_join(test_scratch(), names[i]);
        REQUIRE(dir != NULL);
        token_write_set(dir, "valid", texts[i]);
        mem_free(dir);
    }
}

static void check_ints(const int32_t *got, const char *want, int64_t count)
{
    StrBuf text = { 0 };
    for (int64_t i = 0; i < count; i++) str_printf(&text, "%s%d", i ? " " : "", got[i]);
    CHECK_STR(text.text, want);
    str_free(&text);
}

/* As BERT has them: </s> once, in the first segment. */
TEST(pairs_may_have_one_separator)
{
    write_pairs();
    Dataset *d = NULL;
    const DatasetOptions data = { .path = test_scratch(),
                                  .role = DATA_VAL,
                                  .text = { .tokens = 12, .one_separator = true } };
    REQUIRE_OK(dataset_open(&d, &data));
    LoaderOptions o = options(2, 1);
    Loader *l = NULL;
    Batch b;
    bool more = false;
    o.tokens = 12;
    o.masked = 0;
    REQUIRE_OK(loader_create(&l, d, &o));
    REQUIRE_OK(loader_next(l, &b, &more, NULL));
    const Fields f = fields_of(&b);
    check_ints(f.starts, "0 6 12", 3);
    check_ints(f.ids, "0 4 5 2 4 2 0 5 2 5 5 2 -1", 13);
    check_ints(f.segments, "0 0 0 0 1 1 0 0 0 1 1 1 0", 13);
    loader_destroy(l);
    dataset_close(d);
}

TEST(pairs_have_segments_and_classes)
{
    write_pairs();
    Dataset *d = NULL;
    const DatasetOptions data = { .path = test_scratch(),
                                  .role = DATA_VAL,
                                  .text = { .tokens = 12 } };
    REQUIRE_OK(dataset_open(&d, &data));
    LoaderOptions o = options(2, 1);
    Loader *l = NULL;
    Batch b;
    bool more = false;
    o.tokens = 12;
    o.masked = 0;
    REQUIRE_OK(loader_create(&l, d, &o));
    REQUIRE_OK(loader_next(l, &b, &more, NULL));
    Fields f = fields_of(&b);
    CHECK(f.rows == NULL);
    CHECK(b.tokens == 14 && b.masked == 0 && b.count == 2);
    check_ints(f.starts, "0 7 14", 3);
    check_ints(f.ids, "0 4 5 2 2 4 2 0 5 2 2 5 5 2 -1", 15);
    check_ints(f.segments, "0 0 0 0 1 1 1 0 0 0 1 1 1 1 0", 15);
    check_ints(f.labels, "0 1", 2);
    loader_release(l, &b);
    REQUIRE_OK(loader_next(l, &b, &more, NULL));
    f = fields_of(&b);
    check_ints(f.starts, "0 12 12", 3); /* cut; and a sequence that is padding */
    check_ints(f.segments, "0 0 0 0 0 0 0 0 0 0 1 1 0", 13);
    check_ints(f.labels, "0 -1", 2);
    CHECK_INT(b.count, 1);
    loader_destroy(l);
    dataset_close(d);
}

static void refuse(const Dataset *d, const LoaderOptions *o, const char *part)
{
    Loader *l = NULL;
    CHECK_STATUS(loader_create(&l, d, o), ERR_USAGE);
    CHECK(l == NULL);
    CHECK_CONTAINS(status_message(), part);
}

TEST(samples_and_network_must_be_of_one_kind)
{
    Dataset *d = open_text("train", DATA_TRAIN), *images = NULL;
    const DatasetOptions data = { .format = DATA_SYNTHETIC,
                                  .synthetic_images = 20,
                                  .synthetic_classes = 3 };
    REQUIRE(d != NULL);
    REQUIRE_OK(dataset_open(&images, &data));
    LoaderOptions o = options(BATCH, 1);
    refuse(images, &o, "synthetic: these are images, but the network requires sequences of tokens");
    o.order = ORDER_BALANCED;
    refuse(d, &o, "data.order balanced requires classes");
    o.order = ORDER_SHUFFLE;
    o.masked = 0;
    refuse(d, &o, "the sequences have no classes, but the network requires classes");
    o.tokens = 0;
    o.view = (ViewOptions){ .image_size = 8, .channels = 3 };
    refuse(d, &o, "these are sequences of tokens, but the network requires images");
    dataset_close(images);
    dataset_close(d);
}

static void check_words_like(const Dataset *a, const Dataset *b, Status want)
{
    SequenceFacts of_a, of_b;
    REQUIRE(sequences_facts(a, &of_a) && sequences_facts(b, &of_b));
    CHECK_STATUS(dictionary_check_like(of_a.dictionary, of_b.dictionary), want);
}

/* The words are the classes; the second set opens whatever they are, and the dictionaries are
 * compared. */
TEST(a_validation_set_has_the_words_of_the_training_set)
{
    Dataset *d = open_text("train", DATA_TRAIN), *val = NULL;
    REQUIRE(d != NULL);
    dataset_close(open_text("valid", DATA_VAL));
    const ClassList like = dataset_class_list(d, "data.train");
    DatasetOptions o = { .path = test_scratch(), .role = DATA_VAL, .like = &like };
    REQUIRE_OK(dataset_open(&val, &o));
    CHECK_INT(dataset_classes(val), dataset_classes(d));
    check_words_like(val, d, OK);
    dataset_close(val);
    token_write_set(test_scratch(), "valid", "other words\n");
    REQUIRE_OK(dataset_open(&val, &o));
    check_words_like(val, d, ERR_DATA);
    dataset_close(val);
    dataset_close(d);
}
