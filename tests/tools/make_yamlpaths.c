/* make_yamlpaths.c - prints every value of YAML files, for tests that look into manifests:
 *
 *     make_yamlpaths FILE...
 *
 * A line is "FILE:DOCUMENT path.to[2].key=value"; newlines, tabs and backslashes of a value are
 * written as \n, \t and \\. Status 1 and one line on stderr for what is no YAML, a key that is
 * there twice, or a key that is no plain word.
 */
#include "base/fs.h"
#include "base/mem.h"
#include "base/status.h"
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define PATH_BYTES 1024

typedef struct Place {
    const char *file;
    int document;
    yaml_document_t *yaml;
    char path[PATH_BYTES];
} Place;

static const char *scalar(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static void print_value(const Place *p, const char *value)
{
    printf("%s:%d %s=", p->file, p->document, p->path);
    for (; *value; value++) {
        const char *at = strchr("\n\t\\", *value);
        if (at) printf("\\%c", "nt\\"[at - "\n\t\\"]);
        else putchar(*value);
    }
    putchar('\n');
}

static Status walk(Place *p, int id);

/* Below a mapping by key, below a sequence (key NULL) by index. */
static Status walk_at(Place *p, int id, const char *key, int index)
{
    size_t length = strlen(p->path), left = PATH_BYTES - length;
    int added = key ? snprintf(p->path + length, left, "%s%s", length ? "." : "", key)
                    : snprintf(p->path + length, left, "[%d]", index);
    if (added < 0 || (size_t)added >= left) return fail(ERR_DATA, "%s: nested too deep", p->file);
    Status status = walk(p, id);
    p->path[length] = 0;
    return status;
}

static Status walk_mapping(Place *p, const yaml_node_t *node)
{
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const char *key = scalar(yaml_document_get_node(p->yaml, pair->key));
        if (!key || !*key)
            return fail(ERR_DATA, "%s: %s has a key that is no word", p->file, p->path);
        for (yaml_node_pair_t *other = node->data.mapping.pairs.start; other < pair; other++)
            if (!strcmp(key, scalar(yaml_document_get_node(p->yaml, other->key))))
                return fail(ERR_DATA, "%s: %s has the key %s twice", p->file, p->path, key);
        TRY(walk_at(p, pair->value, key, 0));
    }
    return OK;
}

static Status walk(Place *p, int id)
{
    const yaml_node_t *node = yaml_document_get_node(p->yaml, id);
    if (node->type == YAML_MAPPING_NODE) return walk_mapping(p, node);
    if (node->type == YAML_SCALAR_NODE) {
        print_value(p, scalar(node));
        return OK;
    }
    int index = 0;
    for (yaml_node_item_t *item = node->data.sequence.items.start;
         item < node->data.sequence.items.top; item++)
        TRY(walk_at(p, *item, NULL, index++));
    return OK;
}

static Status print_documents(const char *file, yaml_parser_t *parser)
{
    for (int number = 0;; number++) {
        yaml_document_t yaml;
        if (!yaml_parser_load(parser, &yaml))
            return fail(ERR_DATA, "%s:%zu: %s", file, parser->problem_mark.line + 1,
                        parser->problem);
        Place place = { .file = file, .document = number, .yaml = &yaml };
        bool more = yaml_document_get_root_node(&yaml) != NULL;
        Status status = more ? walk(&place, 1) : OK; /* the root is node 1 */
        yaml_document_delete(&yaml);
        if (!more || status != OK) return status;
    }
}

static Status print_file(const char *file)
{
    uint8_t *text;
    size_t bytes;
    yaml_parser_t parser;
    TRY(fs_read_file(file, &text, &bytes));
    if (!yaml_parser_initialize(&parser)) {
        mem_free(text);
        return fail(ERR_MEMORY, "%s: no memory for the parser", file);
    }
    yaml_parser_set_input_string(&parser, text, bytes);
    Status status = print_documents(file, &parser);
    yaml_parser_delete(&parser);
    mem_free(text);
    return status;
}

int main(int argc, char **argv)
{
    Status status = argc > 1 ? OK : fail(ERR_USAGE, "usage: make_yamlpaths FILE...");
    for (int i = 1; i < argc && status == OK; i++) status = print_file(argv[i]);
    if (status == OK) return 0;
    fprintf(stderr, "make_yamlpaths: %s\n", status_message());
    return 1;
}
