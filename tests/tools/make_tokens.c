/* make_tokens.c - texts as fairseq-preprocess --only-source writes them, for tests/e2e:
 *   make_tokens [--dict FILE] [--lazy] OUT NAME=TEXT...
 * writes OUT/NAME.idx and OUT/NAME.bin of the file TEXT, a sentence a line, for each NAME, and
 * OUT/dict.txt: FILE, or the words of the first TEXT. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/token_write.h"
#include <stdio.h>
#include <string.h>

static char *read_text(const char *path)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    if (fs_read_file(path, &text, &bytes) == OK && strlen((char *)text) == bytes)
        return (char *)text;
    fprintf(stderr, "make_tokens: %s: %s\n", path, text ? "not a text" : status_message());
    mem_free(text);
    return NULL;
}

static bool write_dictionary(const char *out, const char *from, const char *first)
{
    char *text = read_text(from ? from : first);
    if (!text) return false;
    if (from) tree_write(out, "dict.txt", text, strlen(text));
    else token_write_dictionary(out, text);
    mem_free(text);
    return true;
}

int main(int argc, char **argv)
{
    const char *from = NULL;
    TokenFormat format = TOKENS_U16;
    Dictionary *d = NULL;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++)
        if (strcmp(argv[i], "--dict") == 0 && i + 1 < argc) from = argv[++i];
        else if (strcmp(argv[i], "--lazy") == 0) format = TOKENS_LAZY;
        else break;
    const char *out = i < argc ? argv[i++] : "";
    if (i >= argc || !strchr(argv[i], '=')) {
        fprintf(stderr, "usage: make_tokens [--dict FILE] [--lazy] OUT NAME=TEXT...\n");
        return 64;
    }
    if (!write_dictionary(out, from, strchr(argv[i], '=') + 1)) return 65;
    char *path = fs_join(out, "dict.txt");
    if (!path || dictionary_load(&d, path, false) != OK) {
        fprintf(stderr, "make_tokens: %s\n", status_message());
        return 65;
    }
    for (; i < argc; i++) {
        char *text = strchr(argv[i], '=');
        if (text) *text++ = '\0';
        char *content = text ? read_text(text) : NULL;
        if (!content) return 65;
        token_write(out, argv[i], content, d, format);
        mem_free(content);
    }
    dictionary_destroy(d);
    mem_free(path);
    return 0;
}
