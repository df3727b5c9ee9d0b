/* fuzz_tokens.c - fairseq's token files. The first two bytes tell how long dict.txt and train.idx
 * are, which come next; the rest is train.bin. */
#include "data/load/dataset_internal.h"
#include "data/load/sequences.h"
#include "tests/fuzz/fuzz.h"

enum { LONGEST = 16, MAX_SAMPLES = 1000 };

static void read_sample(const Dataset *d, const SequenceFacts *f, int64_t id, ByteBuf *buf)
{
    Sample sample;
    int64_t start = 0;
    const int64_t tokens = sequences_tokens(d, id, &start);
    ASSERT(tokens >= 1 && tokens <= LONGEST && start >= 0 && start + tokens - 1 <= f->text_tokens);
    ASSERT(source_read(dataset_source(d), id, 0, buf, &sample) == OK);
    ASSERT(sample.file.size == (size_t)tokens * sizeof(int32_t));
    const int32_t *ids = (const int32_t *)(const void *)sample.file.bytes;
    for (int64_t i = 0; i < tokens; i++) {
        ASSERT(ids[i] >= 0 && ids[i] < f->dictionary->listed);
        ASSERT(ids[i] != f->dictionary->mask);
    }
}

static void open_set(TokenBreak mode)
{
    Dataset *d = NULL;
    SequenceFacts f;
    ByteBuf buf = { 0 };
    const DatasetOptions o = { .path = fuzz_folder(),
                               .format = DATA_FAIRSEQ,
                               .text = { .tokens = LONGEST, .break_mode = mode, .mask = .15 } };
    if (dataset_open(&d, &o) != OK) return;
    ASSERT(sequences_facts(d, &f) && f.sequences > 0);
    for (int64_t i = 0; i < f.sequences && i < MAX_SAMPLES; i++) read_sample(d, &f, i, &buf);
    const int64_t count = f.sequences < MAX_SAMPLES ? f.sequences : MAX_SAMPLES;
    ASSERT(sequences_count(d, 1, 0, count).masked <= f.tokens);
    byte_buf_free(&buf);
    dataset_close(d);
}

int fuzz_tokens(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const size_t left = size - 2, words = data[0] < left ? data[0] : left;
    const size_t index = data[1] < left - words ? data[1] : left - words;
    fuzz_write("dict.txt", data + 2, words);
    fuzz_write("train.idx", data + 2 + words, index);
    fuzz_write("train.bin", data + 2 + words + index, left - words - index);
    for (int mode = 0; mode < BREAK_COUNT; mode++) open_set((TokenBreak)mode);
    return 0;
}
