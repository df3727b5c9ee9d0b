/* source_fairseq.c - sequences of tokens as fairseq-preprocess writes them: dict.txt with
 * train.idx, train.bin and valid.idx, valid.bin, to learn masked words from; or, for a
 * classification, input0/, label/ and for pairs input1/, each such a folder.
 *
 * A sample is a block that fits (tokens/blocks.h) behind <s>; of a classification sentence n of
 * input0, for pairs with </s> (TokenOptions) and sentence n of input1 behind it, cut to the longest
 * sequence.
 * Generated text has a source of its own: random words, where nobody has files. */
#include "data/source/source_fairseq.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/tokens/indexed.h"
#include <stdio.h>
#include <string.h>

enum { DEFAULT_TOKENS = 512, MIN_TOKENS = 8, MAX_TOKENS = 1 << 15 };

static const char *const set_names[DATA_ROLE_COUNT] = { "train", "valid" };

/* ---- what lies there ---- */

static Status holds(const char *dir, const char *name, bool folder, bool *yes)
{
    char *path = fs_join(dir, name);
    if (!path) return ERR_MEMORY;
    *yes = *yes || (fs_exists(path) && fs_is_dir(path) == folder);
    mem_free(path);
    return OK;
}

/* Are there tokens in a folder, of any format? A .idx beside a .rec is of MXNet's RecordIO. */
static Status holds_text(const char *dir, bool *yes)
{
    static const char *const names[] = { "train.idx", "valid.idx" };
    static const char *const others[] = { "train", "valid", "train.fasta", "valid.fasta" };
    bool words = false, records = false;
    TRY(holds(dir, "train.rec", false, &records));
    if (records) return OK;
    for (int i = 0; i < 2; i++) TRY(holds(dir, names[i], false, yes));
    TRY(holds(dir, "dict.txt", false, &words));
    for (int i = 0; i < 4 && words; i++) TRY(holds(dir, others[i], false, yes));
    return OK;
}

static Status is_classified(const char *path, bool *yes)
{
    *yes = false;
    char *dir = fs_join(path, "input0");
    if (!dir) return ERR_MEMORY;
    const Status status = fs_is_dir(dir) ? holds_text(dir, yes) : OK;
    mem_free(dir);
    return status;
}

static Status fairseq_probe(const char *path, DataRole role, bool *yes)
{
    (void)role;
    TRY(is_classified(path, yes));
    return *yes ? OK : holds_text(path, yes);
}

/* ---- opening ---- */

static Status load_dictionary(Dictionary **out, const char *dir, bool masked)
{
    char *path = fs_join(dir, "dict.txt");
    if (!path) return ERR_MEMORY;
    const Status status = fs_exists(path) ? dictionary_load(out, path, masked)
                                          : fail(ERR_DATA,
                                                 "%s: no such file; fairseq-preprocess "
                                                 "writes it next to the tokens",
                                                 path);
    mem_free(path);
    return status;
}

static Status open_text(struct Indexed **out, const char *dir, DataRole role, const Dictionary *d,
                        Blocks *blocks)
{
    char *prefix = fs_join(dir, set_names[role]);
    if (!prefix) return ERR_MEMORY;
    const Status status = indexed_open(out, prefix, d, blocks);
    mem_free(prefix);
    return status;
}

/* ---- words to be found ---- */

static Status tell_too_long(const FairseqSource *s)
{
    const Blocks *b = &s->blocks[0];
    const int64_t most = s->o.tokens;
    if (b->count == 0 && b->too_long > 0)
        return fail(ERR_DATA, "%s: no sequence fits in data.tokens (%lld); longer ones: %lld",
                    s->name, (long long)most, (long long)b->too_long);
    if (b->count == 0) return fail(ERR_DATA, "%s: no tokens", s->name);
    if (b->too_long > 0)
        log_warning("%s: %lld of %lld sequences are longer than data.tokens (%lld) and are "
                    "skipped; the first is sentence %lld with %lld tokens",
                    s->name, (long long)b->too_long, (long long)(b->count + b->too_long),
                    (long long)most, (long long)b->first_sentence, (long long)b->first_tokens + 1);
    return OK;
}

static Status use_words(Source *base, const Dictionary *d)
{
    base->classes = d->words;
    base->named_classes = true;
    base->class_names = mem_alloc((size_t)d->words * sizeof *base->class_names);
    base->class_images = mem_alloc((size_t)d->words * sizeof *base->class_images);
    if (!base->class_names || !base->class_images) return ERR_MEMORY;
    memcpy(base->class_names, d->names, (size_t)d->words * sizeof *base->class_names);
    memcpy(base->class_images, d->counts, (size_t)d->words * sizeof *base->class_images);
    return OK;
}

static Status open_words(FairseqSource *s, const DatasetOptions *o)
{
    TRY(load_dictionary(&s->dictionary, o->path, true));
    blocks_begin(&s->blocks[0], s->o.break_mode, s->o.tokens - 1);
    TRY(open_text(&s->text[0], o->path, o->role, s->dictionary, &s->blocks[0]));
    TRY(tell_too_long(s));
    s->base.images = s->blocks[0].count;
    return use_words(&s->base, s->dictionary);
}

/* ---- classes ---- */

static Status read_label(FairseqSource *s, const struct Indexed *labels, const Blocks *blocks,
                         int64_t i)
{
    int32_t ids[2] = { 0, TOKEN_EOS };
    const int32_t count = blocks->length[i];
    if (count == 1 || count == 2) TRY(indexed_read(labels, blocks->start[i], count, ids));
    const int label = ids[0] - TOKEN_WORDS;
    if (count < 1 || count > 2 || ids[1] != TOKEN_EOS)
        return fail(ERR_DATA, "%s: label of sentence %lld is not one word", s->label_words->path,
                    (long long)i + 1);
    if (label < 0 || label >= s->base.classes)
        return fail(ERR_DATA, "%s: label %s of sentence %lld is not a class", s->label_words->path,
                    s->label_words->names[ids[0]], (long long)i + 1);
    s->labels[i] = label;
    s->base.class_images[label]++;
    return OK;
}

static Status use_labels(FairseqSource *s, const struct Indexed *labels, const Blocks *blocks)
{
    Source *base = &s->base;
    base->images = s->blocks[0].count;
    base->classes = dictionary_classes(s->label_words);
    base->named_classes = true;
    if (base->classes == 0)
        return fail(ERR_DATA, "%s: no class has a count above 0", s->label_words->path);
    if (blocks->count != base->images)
        return fail(ERR_DATA, "%s: %lld labels for %lld sentences", s->name,
                    (long long)blocks->count, (long long)base->images);
    base->class_names = mem_alloc((size_t)base->classes * sizeof *base->class_names);
    base->class_images = mem_calloc((size_t)base->classes, sizeof *base->class_images);
    s->labels = mem_alloc((size_t)base->images * sizeof *s->labels);
    if (!base->class_names || !base->class_images || !s->labels) return ERR_MEMORY;
    memcpy(base->class_names, s->label_words->names + TOKEN_WORDS,
           (size_t)base->classes * sizeof *base->class_names);
    for (int64_t i = 0; i < base->images; i++) TRY(read_label(s, labels, blocks, i));
    return OK;
}

static Status open_labels(FairseqSource *s, const char *dir, DataRole role)
{
    struct Indexed *labels = NULL;
    Blocks blocks;
    bool numbers = false;
    blocks_begin(&blocks, BREAK_EOS, 0);
    TRY(holds(dir, role == DATA_TRAIN ? "train.label" : "valid.label", false, &numbers));
    if (numbers)
        return fail(ERR_DATA, "%s/%s.label: regression targets are not supported", dir,
                    set_names[role]);
    TRY(load_dictionary(&s->label_words, dir, false));
    Status status = open_text(&labels, dir, role, s->label_words, &blocks);
    if (status == OK) status = use_labels(s, labels, &blocks);
    indexed_close(labels);
    blocks_free(&blocks);
    return status;
}

static Status open_input(FairseqSource *s, int i, const char *path, DataRole role)
{
    char *dir = fs_join(path, i == 0 ? "input0" : "input1");
    if (!dir) return ERR_MEMORY;
    blocks_begin(&s->blocks[i], BREAK_EOS, 0);
    Status status = OK;
    if (i == 0) status = load_dictionary(&s->dictionary, dir, true);
    if (status == OK && (i == 0 || fs_is_dir(dir)))
        status = open_text(&s->text[i], dir, role, s->dictionary, &s->blocks[i]);
    mem_free(dir);
    if (status == OK && s->text[i] && s->blocks[i].count != s->blocks[0].count)
        status = fail(ERR_DATA, "%s: input1 has %lld sentences, but input0 has %lld", s->name,
                      (long long)s->blocks[1].count, (long long)s->blocks[0].count);
    if (status == OK && s->blocks[0].count == 0) status = fail(ERR_DATA, "%s: no tokens", s->name);
    return status;
}

static Status open_classes(FairseqSource *s, const DatasetOptions *o)
{
    for (int i = 0; i < 2; i++) TRY(open_input(s, i, o->path, o->role));
    char *dir = fs_join(o->path, "label");
    if (!dir) return ERR_MEMORY;
    const Status status = open_labels(s, dir, o->role);
    mem_free(dir);
    return status;
}

/* ---- generated text ---- */

/* Fixed: this text is the same in every run. */
#define GENERATED_SEED 0x746578747320u

static Status name_words(Dictionary **out, int words)
{
    StrBuf text = { 0 };
    str_add(&text, "<s>\n<pad>\n</s>\n<unk>\n");
    for (int i = TOKEN_WORDS; i + 1 < words; i++) str_printf(&text, "w%d\n", i);
    str_add(&text, "<mask>");
    const Status status = text.failed ? ERR_MEMORY : dictionary_make(out, text.text, "synthetic");
    str_free(&text);
    return status;
}

static Status generate_labels(FairseqSource *s, int classes)
{
    TRY(source_number_classes(&s->base, classes));
    s->labels = mem_alloc((size_t)s->base.images * sizeof *s->labels);
    for (int64_t i = 0; s->labels && i < s->base.images; i++) {
        s->labels[i] = (int32_t)(i % classes);
        s->base.class_images[i % classes]++;
    }
    return s->labels ? OK : ERR_MEMORY;
}

/* Sequences as long as they may be. */
static Status generate(FairseqSource *s, const DatasetOptions *o)
{
    if (o->synthetic_images < 1 || o->text.words <= TOKEN_WORDS + 1)
        return fail(ERR_USAGE, "synthetic data needs at least one sequence and %d words",
                    TOKEN_WORDS + 2);
    if (!(s->name = mem_strdup("synthetic"))) return ERR_MEMORY;
    TRY(name_words(&s->dictionary, o->text.words));
    blocks_begin(&s->blocks[0], BREAK_EOS, s->o.tokens - 1);
    for (int64_t i = 0; i < o->synthetic_images; i++)
        TRY(blocks_add(&s->blocks[0], s->o.tokens - 1));
    TRY(blocks_end(&s->blocks[0]));
    s->base.images = s->blocks[0].count;
    s->tokens = s->base.images * s->o.tokens;
    return o->synthetic_classes > 0 ? generate_labels(s, o->synthetic_classes)
                                    : use_words(&s->base, s->dictionary);
}

static void draw_words(const FairseqSource *s, int64_t id, int32_t *ids)
{
    Rng rng = rng_at(GENERATED_SEED, RNG_SYNTHETIC, (uint32_t)id, 0);
    const int64_t last = s->o.tokens - 1;
    for (int64_t i = 1; i < last; i++)
        ids[i] = (int32_t)(TOKEN_WORDS +
                           rng_below(&rng, (uint64_t)(s->dictionary->words - TOKEN_WORDS - 1)));
    ids[last] = TOKEN_EOS;
}

/* ---- both ---- */

/* Tokens of a sequence that is not cut yet. */
static int64_t whole_tokens(const FairseqSource *s, int64_t id)
{
    const int64_t first = 1 + s->blocks[0].length[id];
    return s->text[1] ? first + !s->o.one_separator + s->blocks[1].length[id] : first;
}

int64_t source_fairseq_tokens(const FairseqSource *s, int64_t id, int64_t *second)
{
    const int64_t first = 1 + s->blocks[0].length[id], whole = whole_tokens(s, id);
    const int64_t tokens = whole < s->o.tokens ? whole : s->o.tokens;
    *second = first < tokens ? first : tokens;
    return tokens;
}

/* lost: pairs that keep nothing of their second text. */
static void warn_cut(const FairseqSource *s, int64_t lost)
{
    char pairs[96] = "";
    if (s->text[1])
        snprintf(pairs, sizeof pairs, "; pairs without any of their second text: %lld",
                 (long long)lost);
    log_warning("%s: %lld of %lld sequences are longer than data.tokens (%lld) and are cut%s",
                s->name, (long long)s->truncated, (long long)s->base.images, (long long)s->o.tokens,
                pairs);
}

static void count_tokens(FairseqSource *s, DataRole role)
{
    int64_t second, lost = 0;
    for (int64_t id = 0; id < s->base.images; id++) {
        const int64_t tokens = source_fairseq_tokens(s, id, &second);
        const bool cut = whole_tokens(s, id) > tokens;
        s->tokens += tokens;
        s->truncated += cut;
        lost += cut && tokens <= second + !s->o.one_separator;
    }
    if (s->truncated > 0 && role == DATA_TRAIN) warn_cut(s, lost);
}

static void fairseq_close(Source *base)
{
    FairseqSource *s = (FairseqSource *)base;
    for (int i = 0; i < 2; i++) {
        indexed_close(s->text[i]);
        blocks_free(&s->blocks[i]);
    }
    dictionary_destroy(s->dictionary);
    dictionary_destroy(s->label_words);
    mem_free(s->labels);
    mem_free(s->name);
    source_free_classes(base);
    mem_free(s);
}

static Status open_files(FairseqSource *s, const DatasetOptions *o)
{
    bool classified = false;
    if (!fs_is_dir(o->path)) return source_no_folder(o->path);
    if (!(s->name = fs_join(o->path, set_names[o->role]))) return ERR_MEMORY;
    TRY(is_classified(o->path, &classified));
    TRY(classified ? open_classes(s, o) : open_words(s, o));
    count_tokens(s, o->role);
    return OK;
}

static Status fairseq_open(Source **out, const DatasetOptions *o, const Index *index)
{
    (void)index;
    const int64_t tokens = o->text.tokens > 0 ? o->text.tokens : DEFAULT_TOKENS;
    if (tokens < MIN_TOKENS || tokens > MAX_TOKENS)
        return fail(ERR_USAGE, "sequences of %lld tokens; from %d to %d are allowed (data.tokens)",
                    (long long)tokens, MIN_TOKENS, MAX_TOKENS);
    FairseqSource *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->o = o->text;
    s->o.tokens = tokens;
    s->base.kind = &source_fairseq;
    Status status = o->format == DATA_SYNTHETIC ? generate(s, o) : open_files(s, o);
    if (status == OK) *out = &s->base;
    else fairseq_close(&s->base);
    return status;
}

/* ---- samples ---- */

static Status fairseq_read(const Source *base, int64_t id, ByteBuf *buf, Sample *out)
{
    const FairseqSource *s = (const FairseqSource *)base;
    int64_t second;
    const int64_t tokens = source_fairseq_tokens(s, id, &second);
    TRY(byte_buf_reserve(buf, (size_t)tokens * sizeof(int32_t)));
    int32_t *ids = (int32_t *)(void *)buf->data;
    ids[0] = TOKEN_BOS;
    if (!s->text[0]) draw_words(s, id, ids);
    else TRY(indexed_read(s->text[0], s->blocks[0].start[id], second - 1, ids + 1));
    if (second < tokens) {
        const int64_t begin = second + !s->o.one_separator;
        ids[second] = TOKEN_EOS; /* or the first word, which is read over it */
        TRY(indexed_read(s->text[1], s->blocks[1].start[id], tokens - begin, ids + begin));
    }
    *out = source_file_sample(buf->data, (size_t)tokens * sizeof(int32_t), 0);
    return OK;
}

static int fairseq_label(const Source *base, int64_t id)
{
    const FairseqSource *s = (const FairseqSource *)base;
    return s->labels ? s->labels[id] : -1;
}

static void fairseq_describe(const Source *base, int64_t id, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s[%lld]", ((const FairseqSource *)base)->name, (long long)id);
}

const FairseqSource *source_fairseq_of(const Source *s)
{
    return s->kind == &source_fairseq || s->kind == &source_synthetic_text
               ? (const FairseqSource *)s
               : NULL;
}

const SourceKind source_fairseq = {
    .name = "fairseq",
    .in_memory = true,
    .probe = fairseq_probe,
    .open = fairseq_open,
    .read = fairseq_read,
    .label = fairseq_label,
    .describe = fairseq_describe,
    .close = fairseq_close,
};

const SourceKind source_synthetic_text = {
    .name = "synthetic",
    .in_memory = true,
    .open = fairseq_open,
    .read = fairseq_read,
    .label = fairseq_label,
    .describe = fairseq_describe,
    .close = fairseq_close,
};
