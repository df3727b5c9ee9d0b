/* token_write.c - see token_write.h. */
#include "tests/tools/token_write.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/wire.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PADDED = 8 };

/* ---- files ---- */

static void encode_mmap(const int32_t *ids, int64_t count, int64_t sentences, int code, int width,
                        StrBuf *idx)
{
    int64_t size = 0, at = 0;
    str_add_n(idx, "MMIDIDX\0\0", 9);
    wire_put_number(idx, 1, 8);
    wire_put_number(idx, (uint64_t)code, 1);
    wire_put_number(idx, (uint64_t)sentences, 8);
    for (int64_t i = 0; i < count; i++) {
        size++;
        if (ids[i] != TOKEN_EOS) continue;
        wire_put_number(idx, (uint64_t)size, 4);
        size = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || ids[i - 1] == TOKEN_EOS) wire_put_number(idx, (uint64_t)at, 8);
        at += width;
    }
}

static void encode_lazy(const int32_t *ids, int64_t count, int64_t sentences, StrBuf *idx)
{
    int64_t size = 0;
    str_add_n(idx, "TNTIDX\0\0", 8);
    wire_put_number(idx, 1, 8);
    wire_put_number(idx, 4, 8);
    wire_put_number(idx, 4, 8);
    wire_put_number(idx, (uint64_t)sentences, 8);
    wire_put_number(idx, (uint64_t)sentences, 8);
    for (int64_t i = 0; i <= sentences; i++) wire_put_number(idx, (uint64_t)i, 8);
    wire_put_number(idx, 0, 8);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] == TOKEN_EOS) wire_put_number(idx, (uint64_t)i + 1, 8);
    for (int64_t i = 0; i < count; i++) {
        size++;
        if (ids[i] != TOKEN_EOS) continue;
        wire_put_number(idx, (uint64_t)size, 8);
        size = 0;
    }
}

void token_encode(const int32_t *ids, int64_t count, TokenFormat format, StrBuf *idx, StrBuf *bin)
{
    const int width = format == TOKENS_U16 ? 2 : 4, code = format == TOKENS_U16 ? 8 : 4;
    int64_t sentences = 0;
    for (int64_t i = 0; i < count; i++) sentences += ids[i] == TOKEN_EOS;
    if (format == TOKENS_LAZY) encode_lazy(ids, count, sentences, idx);
    else encode_mmap(ids, count, sentences, code, width, idx);
    for (int64_t i = 0; i < count; i++)
        wire_put_number(bin, (uint64_t)ids[i] + (format == TOKENS_LAZY), width);
    ASSERT(!idx->failed && !bin->failed);
}

/* ---- words ---- */

/* The next word at *at, with a NUL behind it in out; false at the end of the line. */
static bool next_word(const char **at, char *out, size_t bytes)
{
    *at += strspn(*at, " \t\r");
    const size_t length = strcspn(*at, " \t\r\n");
    ASSERT(length < bytes);
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length;
    return length > 0;
}

typedef struct Count {
    char word[64];
    int64_t count, first;
} Count;

static int by_word(const void *a, const void *b)
{
    return strcmp(((const Count *)a)->word, ((const Count *)b)->word);
}

static int by_count(const void *pa, const void *pb)
{
    const Count *a = pa, *b = pb;
    if (a->count != b->count) return a->count < b->count ? 1 : -1;
    return a->first < b->first ? -1 : 1;
}

void token_write_dictionary(const char *dir, const char *text)
{
    StrBuf out = { 0 };
    Count *words = NULL, next = { .count = 1 };
    size_t count = 0, room = 0, kept = 0;
    for (const char *at = text; *at; at += *at == '\n')
        for (; next_word(&at, next.word, sizeof next.word); count++) {
            ASSERT(mem_grow(&words, count, &room, sizeof *words));
            next.first = (int64_t)count;
            words[count] = next;
        }
    ASSERT(count > 0);
    qsort(words, count, sizeof *words, by_word);
    for (size_t i = 1; i < count; i++)
        if (by_word(&words[kept], &words[i]) == 0) {
            words[kept].count++;
            if (words[i].first < words[kept].first) words[kept].first = words[i].first;
        } else words[++kept] = words[i];
    kept++;
    qsort(words, kept, sizeof *words, by_count);
    for (size_t i = 0; i < kept; i++)
        str_printf(&out, "%s %lld\n", words[i].word, (long long)words[i].count);
    for (size_t i = kept, n = 0; (i + TOKEN_WORDS) % PADDED; i++)
        str_printf(&out, "madeupword%04zu 0\n", n++);
    tree_write(dir, "dict.txt", out.text, out.length);
    mem_free(words);
    str_free(&out);
}

void token_write(const char *dir, const char *name, const char *text, const Dictionary *d,
                 TokenFormat format)
{
    char word[64], file[300];
    int32_t *ids = mem_alloc((strlen(text) + 1) * 2 * sizeof *ids);
    int64_t count = 0;
    StrBuf idx = { 0 }, bin = { 0 };
    ASSERT(ids != NULL);
    for (const char *at = text; *at; at += *at == '\n') {
        while (next_word(&at, word, sizeof word)) {
            const int id = dictionary_find(d, word);
            ids[count++] = id < 0 ? TOKEN_UNK : id;
        }
        ids[count++] = TOKEN_EOS;
    }
    token_encode(ids, count, format, &idx, &bin);
    snprintf(file, sizeof file, "%s.idx", name);
    tree_write(dir, file, idx.text, idx.length);
    snprintf(file, sizeof file, "%s.bin", name);
    tree_write(dir, file, bin.text, bin.length);
    str_free(&idx);
    str_free(&bin);
    mem_free(ids);
}

void token_write_set(const char *dir, const char *name, const char *text)
{
    Dictionary *d = NULL;
    token_write_dictionary(dir, text);
    char *path = fs_join(dir, "dict.txt");
    ASSERT(path && dictionary_load(&d, path, false) == OK);
    token_write(dir, name, text, d, TOKENS_U16);
    dictionary_destroy(d);
    mem_free(path);
}
