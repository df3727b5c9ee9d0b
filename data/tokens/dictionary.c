/* dictionary.c - see dictionary.h. */
#include "data/tokens/dictionary.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include <string.h>

#define OVERWRITE "#fairseq:overwrite"
#define MAX_WORDS (1 << 24) /* so that a hash table of twice as many fits, and -1 is none */

static const char *const first_words[TOKEN_WORDS] = { "<s>", "<pad>", "</s>", "<unk>" };
static const char mask_word[] = "<mask>";

/* The slot that has the word, or the free one where it belongs. FNV-1a. */
static uint32_t find_slot(const Dictionary *d, const char *word)
{
    uint32_t hash = 2166136261u;
    for (const char *p = word; *p; p++) hash = (hash ^ (uint8_t)*p) * 16777619u;
    uint32_t at = hash & (d->slot_count - 1);
    while (d->slots[at] >= 0 && strcmp(d->names[d->slots[at]], word) != 0)
        at = (at + 1) & (d->slot_count - 1);
    return at;
}

int dictionary_find(const Dictionary *d, const char *word)
{
    return d->slots[find_slot(d, word)];
}

static void add_word(Dictionary *d, const char *word, int64_t count)
{
    d->names[d->words] = word;
    d->counts[d->words] = count;
    d->slots[find_slot(d, word)] = d->words;
    d->words++;
}

/* Cuts blanks off the end of line .. *end; returns where the last word in it begins, NULL if
 * nothing comes before that. */
static char *last_word(char *line, char **end)
{
    while (*end > line && strchr(" \t\r\v\f", (*end)[-1])) (*end)--;
    **end = '\0';
    char *blank = strrchr(line, ' ');
    return blank && blank > line ? blank + 1 : NULL;
}

static Status read_line(Dictionary *d, char *line, char *end, int number)
{
    bool overwrite = false;
    int64_t count = 0;
    char *field = last_word(line, &end);
    if (field && strcmp(field, OVERWRITE) == 0) {
        overwrite = true;
        end = field - 1;
        *end = '\0';
        field = strrchr(line, ' ');
        field = field && field > line ? field + 1 : NULL;
    }
    if (!field || !str_to_i64(field, &count) || count < 0)
        return fail(ERR_DATA, "%s:%d: expected a word, a blank and its count", d->path, number);
    field[-1] = '\0';
    if (!json_is_utf8(line)) return fail(ERR_DATA, "%s:%d: not UTF-8 text", d->path, number);
    if (!overwrite && dictionary_find(d, line) >= 0)
        return fail(ERR_DATA,
                    "%s:%d: %s: the dictionary has this word already; end the line in "
                    "\"" OVERWRITE "\" if it is meant",
                    d->path, number, line);
    add_word(d, line, count);
    return OK;
}

/* Makes room for that number of words. */
static Status reserve(Dictionary *d, size_t words)
{
    d->slot_count = 16;
    while (d->slot_count < 2 * words) d->slot_count *= 2;
    d->names = mem_alloc(words * sizeof *d->names);
    d->counts = mem_alloc(words * sizeof *d->counts);
    d->slots = mem_alloc(d->slot_count * sizeof *d->slots);
    if (!d->names || !d->counts || !d->slots) return ERR_MEMORY;
    memset(d->slots, 0xFF, d->slot_count * sizeof *d->slots);
    return OK;
}

static Status read_lines(Dictionary *d, size_t bytes, bool masked)
{
    size_t lines = 1;
    if (memchr(d->text, '\0', bytes)) return fail(ERR_DATA, "%s: not a text file", d->path);
    for (size_t i = 0; i < bytes; i++) lines += d->text[i] == '\n';
    if (lines > MAX_WORDS) return fail(ERR_DATA, "%s: more than %d lines", d->path, MAX_WORDS);
    TRY(reserve(d, lines + TOKEN_WORDS + 1));
    for (int i = 0; i < TOKEN_WORDS; i++) add_word(d, first_words[i], 0);
    char *line = d->text, *last = d->text + bytes;
    for (int number = 1; line < last; number++) {
        char *end = memchr(line, '\n', (size_t)(last - line));
        if (!end) end = last;
        TRY(read_line(d, line, end, number));
        line = end + 1;
    }
    d->listed = d->words;
    d->mask = masked ? dictionary_find(d, mask_word) : -1;
    if (masked && d->mask < 0) {
        d->mask = d->words;
        add_word(d, mask_word, 0);
    }
    return d->listed > TOKEN_WORDS ? OK : fail(ERR_DATA, "%s: the file is empty", d->path);
}

Status dictionary_load(Dictionary **out, const char *path, bool masked)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    *out = NULL;
    TRY(fs_read_limited(path, FS_TEXT_BYTES, &text, &bytes));
    Dictionary *d = mem_calloc(1, sizeof *d);
    if (!d) {
        mem_free(text);
        return ERR_MEMORY;
    }
    d->text = (char *)text;
    d->path = mem_strdup(path);
    Status status = d->path ? read_lines(d, bytes, masked) : ERR_MEMORY;
    if (status == OK) *out = d;
    else dictionary_destroy(d);
    return status;
}

static Status take_words(Dictionary *d, const char *words)
{
    size_t lines = 1;
    for (const char *p = words; *p; p++) lines += *p == '\n';
    if (lines > MAX_WORDS) return fail(ERR_DATA, "%s: more than %d words", d->path, MAX_WORDS);
    TRY(reserve(d, lines));
    for (char *word = d->text, *end; word; word = end) {
        end = strchr(word, '\n');
        if (end) *end++ = '\0';
        add_word(d, word, 0);
    }
    d->listed = d->words;
    d->mask = dictionary_find(d, mask_word);
    return OK;
}

Status dictionary_make(Dictionary **out, const char *words, const char *path)
{
    Dictionary *d = mem_calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return ERR_MEMORY;
    d->text = mem_strdup(words);
    d->path = mem_strdup(path);
    const Status status = d->text && d->path ? take_words(d, words) : ERR_MEMORY;
    if (status == OK) *out = d;
    else dictionary_destroy(d);
    return status;
}

Status dictionary_check_like(const Dictionary *d, const Dictionary *like)
{
    for (int i = 0; i < d->words && i < like->words; i++)
        if (strcmp(d->names[i], like->names[i]) != 0)
            return fail(ERR_DATA,
                        "%s: differs from the dictionary of %s: word %d is \"%s\", not \"%s\"",
                        d->path, like->path, i, d->names[i], like->names[i]);
    return d->words == like->words
               ? OK
               : fail(ERR_DATA, "%s: differs from the dictionary of %s: it has %d words, not %d",
                      d->path, like->path, d->words, like->words);
}

void dictionary_destroy(Dictionary *d)
{
    if (!d) return;
    mem_free(d->path);
    mem_free(d->names);
    mem_free(d->counts);
    mem_free(d->text);
    mem_free(d->slots);
    mem_free(d);
}

int dictionary_classes(const Dictionary *d)
{
    int last = d->listed - 1;
    while (last >= TOKEN_WORDS && d->counts[last] == 0) last--;
    return last - TOKEN_WORDS + 1;
}
