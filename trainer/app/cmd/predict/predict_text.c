/* predict_text.c - see predict_text.h. A line becomes a sequence as in training:
 * <s> WORDS </s>, of two texts <s> WORDS </s> </s> WORDS </s>, or with one </s> between them. The
 * network's head has rows for as many masked words as a sequence of training; a line with more of
 * them is computed again for the rest. */
#include "trainer/app/cmd/predict/predict_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/app/cmd/cmd.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MAX (1 << 20)
#define BLANKS         " \t\r\v\f"
enum { WORD_BYTES = 64 };

typedef struct Texts {
    Predictor *p;
    Dictionary *words;
    bool masked;
    int64_t most;                      /* tokens of a sequence */
    int32_t *ids, *where, *segments;   /* [most], where [most,2] */
    int32_t *rows, *labels, starts[2]; /* [p->rows] */
    int64_t count, second;             /* tokens of this one, also those behind most; where its
                                             * second text begins */
    int64_t seen, unknown, cut;        /* lines; words without a place in the dictionary; lines */
    char first_unknown[WORD_BYTES];
} Texts;

/* ---- a line as the network's inputs ---- */

static void add_token(Texts *t, int32_t id)
{
    if (t->count < t->most) t->ids[t->count] = id;
    t->count++;
}

static void add_words(Texts *t, char *text)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, BLANKS, &rest); word; word = strtok_r(NULL, BLANKS, &rest)) {
        const int id = dictionary_find(t->words, word);
        if (id < 0 && t->unknown++ == 0)
            str_visible(t->first_unknown, sizeof t->first_unknown, word);
        add_token(t, id < 0 ? TOKEN_UNK : id);
    }
    add_token(t, TOKEN_EOS);
}

/* Cuts the line at its tab. ERR_DATA where it has another number of texts than the network has
 * learnt. */
static Status make_sequence(Texts *t, char *line, const PredictPlace *at)
{
    char *tab = t->masked ? NULL : strchr(line, '\t');
    if (!t->masked && !tab != !t->p->model.meta.pairs)
        return fail(ERR_DATA, "%s:%lld: %s; the network has learnt %s", at->file,
                    (long long)at->line, tab ? "two texts, with a tab between them" : "one text",
                    tab ? "single texts" : "pairs: a tab must separate two texts");
    if (tab) *tab++ = '\0';
    t->count = 0;
    add_token(t, TOKEN_BOS);
    add_words(t, line);
    t->second = t->count;
    if (tab && !t->p->model.def->segments) add_token(t, TOKEN_EOS);
    if (tab) add_words(t, tab);
    return OK;
}

static void place_tokens(Texts *t)
{
    if (t->count > t->most) t->count = t->most;
    t->starts[1] = (int32_t)t->count;
    for (int64_t i = 0; i < t->most; i++) {
        const bool used = i < t->count;
        if (!used) t->ids[i] = -1;
        t->where[2 * i] = used ? 0 : -1;
        t->where[2 * i + 1] = used ? (int32_t)i : 0;
        t->segments[i] = used && i >= t->second;
    }
}

/* ---- answers ---- */

static Program *program_for(const Predictor *p, int64_t tokens)
{
    int i = 0;
    while (i + 1 < p->program_count &&
           program_tensor(p->programs[i], graph_input(program_graph(p->programs[i]), "ids"))
                   ->desc.dims[0] < tokens)
        i++;
    return p->programs[i];
}

/* As many of the masked words from *from on as the head has rows. */
static Status fill_masks(Texts *t, PredictPlace *at, int64_t *from)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < t->p->rows; i++) t->rows[i] = -1;
    for (; *from < t->count && rows < t->p->rows; ++*from)
        if (t->ids[*from] == t->words->mask) t->rows[rows++] = (int32_t)*from;
    if (rows > 0) TRY(predictor_run(t->p, program_for(t->p, t->count)));
    for (int64_t i = 0; i < rows; i++) {
        at->position = t->rows[i];
        TRY(predictor_answer(t->p, at, i));
    }
    return OK;
}

static bool has_mask(const Texts *t)
{
    for (int64_t i = 0; i < t->count && i < t->most; i++)
        if (t->ids[i] == t->words->mask) return true;
    return false;
}

static Status answer(Texts *t, char *line, PredictPlace at)
{
    TRY(make_sequence(t, line, &at));
    if (t->masked && t->count > t->most)
        return fail(ERR_DATA, "%s:%lld: %lld words; the network reads at most %lld (data.tokens)",
                    at.file, (long long)at.line, (long long)t->count - 2, (long long)t->most - 2);
    if (t->masked && !has_mask(t))
        return fail(ERR_DATA, "%s:%lld: no <mask> in this line", at.file, (long long)at.line);
    t->cut += t->count > t->most;
    place_tokens(t);
    for (int64_t from = 0; t->masked && from < t->count;) TRY(fill_masks(t, &at, &from));
    if (t->masked) return OK;
    TRY(predictor_run(t->p, program_for(t->p, t->count)));
    return predictor_answer(t->p, &at, 0);
}

/* ---- lines ---- */

/* Without its end; *more: there was one. */
static Status read_line(FILE *file, const PredictPlace *at, StrBuf *line, bool *more)
{
    bool ends = false;
    str_clear(line);
    for (int c; !ends && (c = getc(file)) != EOF;) {
        const char byte = (char)c;
        ends = byte == '\n';
        if (byte == '\0')
            return fail(ERR_DATA, "%s:%lld: contains a zero byte", at->file, (long long)at->line);
        str_add_n(line, &byte, !ends);
        if (line->length > LINE_BYTES_MAX)
            return fail(ERR_DATA, "%s:%lld: more than %d bytes", at->file, (long long)at->line,
                        LINE_BYTES_MAX);
    }
    if (ferror(file)) return fail(ERR_DATA, "%s: %s", at->file, strerror(errno));
    *more = ends || line->length > 0;
    if (line->length > 0 && line->text[line->length - 1] == '\r') line->text[--line->length] = '\0';
    return line->failed ? ERR_MEMORY : OK;
}

static bool is_blank(const StrBuf *line)
{
    return line->length == 0 || line->text[strspn(line->text, BLANKS)] == '\0';
}

/* Lines without words are passed over. */
static Status answer_lines(Texts *t, FILE *file, const char *name, Status *result)
{
    StrBuf line = { 0 };
    PredictPlace at = { .file = name };
    bool more = true;
    Status status = OK;
    while (status == OK && more) {
        const int64_t senseless = t->p->senseless;
        at.line++;
        status = read_line(file, &at, &line, &more);
        if (status != OK || !more || is_blank(&line)) continue;
        t->seen++;
        status = answer(t, line.text, at);
        if (status != ERR_DATA) continue;
        *result =
            t->p->senseless > senseless && senseless > 0 ? cmd_silence(status) : cmd_report(status);
        status = OK;
    }
    str_free(&line);
    return status;
}

static Status answer_file(Texts *t, const char *name, Status *result)
{
    const bool standard = strcmp(name, "-") == 0;
    const char *shown = standard ? "standard input" : name;
    const int64_t seen = t->seen;
    FILE *file = standard ? stdin : fopen(name, "r");
    Status status = file ? OK : fail(ERR_DATA, "%s: %s", name, strerror(errno));
    if (status == OK) status = answer_lines(t, file, shown, result);
    if (status == OK && t->seen == seen) status = fail(ERR_DATA, "%s: no text", shown);
    if (file && !standard) fclose(file);
    if (status != ERR_DATA) return status;
    *result = cmd_report(status);
    return OK;
}

/* ---- all of them ---- */

static Status prepare(Texts *t, const char *checkpoint)
{
    Predictor *p = t->p;
    const size_t most = (size_t)t->most, rows = (size_t)p->rows;
    TRY(checkpoint_model_dictionary(&t->words, &p->model, checkpoint));
    t->ids = mem_calloc(4 * most + 2 * rows, sizeof *t->ids);
    if (!t->ids) return ERR_MEMORY;
    t->where = t->ids + most;
    t->segments = t->where + 2 * most;
    t->rows = t->segments + most;
    t->labels = t->rows + rows;
    for (size_t i = 0; i < rows; i++) t->labels[i] = -1;
    const struct {
        const char *name;
        const int32_t *data;
    } inputs[] = { { "ids", t->ids },       { "where", t->where }, { "segments", t->segments },
                   { "starts", t->starts }, { "rows", t->rows },   { "labels", t->labels } };
    for (int i = 0; i < p->program_count; i++)
        for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
            if (graph_input(program_graph(p->programs[i]), inputs[k].name) != TENSOR_NONE)
                TRY(program_set_input(p->programs[i], inputs[k].name, inputs[k].data));
    return OK;
}

static void warn(const Texts *t)
{
    if (t->p->senseless > 1) log_warning("the same for %lld more", (long long)t->p->senseless - 1);
    if (t->unknown > 0)
        log_warning("words not in the dictionary, read as <unk>: %lld; the first is \"%s\"",
                    (long long)t->unknown, t->first_unknown);
    if (t->cut > 0)
        log_warning("texts longer than %lld tokens (data.tokens), cut as in training: %lld",
                    (long long)t->most, (long long)t->cut);
}

Status predict_text(Predictor *p, const char *checkpoint, int count, const char *const *files)
{
    const Config *c = p->model.config;
    Texts t = { .p = p, .masked = config_is_masked(c), .most = c->data.tokens };
    Status result = OK, status = prepare(&t, checkpoint);
    if (status == OK && p->form == PREDICT_CSV)
        status = log_print(t.masked ? "file,line,position,place,class,label,probability\n"
                                    : "file,line,place,class,label,probability\n");
    for (int i = 0; i < count && status == OK; i++) status = answer_file(&t, files[i], &result);
    if (status == OK) warn(&t);
    dictionary_destroy(t.words);
    mem_free(t.ids);
    return status == OK ? result : status;
}
