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
    for (int i = 1; i < BLURPOOL_COUNT; i++) { /* "resnet18_timm" */
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
