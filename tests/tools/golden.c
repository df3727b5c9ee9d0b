/* golden.c - see golden.h. */
#include "tests/tools/golden.h"
#include "base/fs.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int golden_read(const char *file, const char *name, double values[GOLDEN_VALUES])
{
    char path[256], key[256];
    uint8_t *text = NULL;
    size_t bytes = 0;
    int count = 0;
    snprintf(path, sizeof path, "tests/golden/%s.txt", file);
    snprintf(key, sizeof key, "\n%s ", name);
    if (fs_read_file(path, &text, &bytes) != OK) return 0;
    char *at = strstr((char *)text, key), *end = at;
    if (at) at += strlen(key);
    while (at && count < GOLDEN_VALUES && *at != '\n') {
        values[count] = strtod(at, &end);
        if (end == at) break;
        at = end;
        count++;
    }
    mem_free(text);
    return count;
}

ModelOptions golden_options(const char *file, bool training, double width)
{
    double shape[GOLDEN_VALUES];
    if (golden_read(file, "shape", shape) != 5) return (ModelOptions){ .width = 0 };
    ModelOptions o = { .width = width };
    for (int i = 1; i < BLURPOOL_COUNT; i++) { /* "resnet18_narrow_timm" */
        const char *word = strrchr(file, '_');
        if (word && strcmp(word + 1, blurpool_names[i]) == 0) o.blurpool = (BlurPool)i;
    }
    o.graph = (GraphOptions){ .batch = (int64_t)shape[0],
                              .channels = (int64_t)shape[1],
                              .height = (int64_t)shape[2],
                              .width = (int64_t)shape[3],
                              .classes = (int64_t)shape[4],
                              .training = training,
                              .mean = { 0.485f, 0.456f, 0.406f },
                              .std = { 0.229f, 0.224f, 0.225f } };
    return o;
}

static Status move_bias(Network *n, const char *file, const char *name, int state)
{
    double digits[GOLDEN_VALUES], *old = NULL;
    float moved[GOLDEN_VALUES];
    char key[200];
    int64_t count = 0;
    snprintf(key, sizeof key, "shift.%s", name);
    const int there = golden_read(file, key, digits);
    if (there == 0) return OK;
    TRY(network_read(n, graph_find(program_graph(n->program), name), &old, &count));
    for (int i = 0; i < there && i < count; i++)
        moved[i] =
            (float)(old[i] + (digits[i] - 8) / 16); /* STEPS of scripts/golden/golden_margins.py */
    mem_free(old);
    return count == there ? executor_import_state(n->executor, state, moved)
                          : fail(ERR_DATA, "%s: %s has another length", file, key);
}

Status golden_fill(Network *n, const char *file, double gamma)
{
    double stream[GOLDEN_VALUES];
    TRY(network_fill_gamma(n, gamma));
    for (int i = 0; i < executor_state_count(n->executor); i++)
        TRY(move_bias(n, file, executor_state_name(n->executor, i), i));
    if (golden_read(file, "images", stream) == 1) network_draw_images(n, (uint32_t)stream[0]);
    return OK;
}
