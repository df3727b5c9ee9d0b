/* class_weights.c - see class_weights.h. */
#include "trainer/engine/session/class_weights.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

#define KEY        "train.class_weights"
#define WEIGHT_MAX 1e9

static int64_t images_of(const Dataset *d, int64_t label)
{
    return label < dataset_classes(d) ? dataset_class_images(d, (int)label) : 0;
}

static void balance(double *w, const Dataset *d, int64_t classes)
{
    int64_t present = 0;
    for (int64_t k = 0; k < classes; k++) present += images_of(d, k) > 0;
    for (int64_t k = 0; k < classes; k++) {
        const double images = (double)images_of(d, k);
        w[k] = images > 0 ? (double)dataset_images(d) / ((double)present * images) : 1.0;
    }
}

/* Lines are ended where they stand. */
static Status parse(double *w, char *text, const char *path, int64_t classes)
{
    int64_t count = 0;
    int line = 1;
    for (char *at = text, *next; at; at = next, line++) {
        next = strchr(at, '\n');
        if (next) *next++ = '\0';
        at += strspn(at, " \t\r");
        size_t length = strlen(at);
        while (length > 0 && strchr(" \t\r", at[length - 1])) at[--length] = '\0';
        if (length == 0) continue;
        if (count == classes)
            return fail(ERR_DATA, KEY ": %s:%d: more numbers than the %lld classes", path, line,
                        (long long)classes);
        if (!str_to_double(at, &w[count]) || w[count] < 0 || w[count] > WEIGHT_MAX)
            return fail(ERR_DATA, KEY ": %s:%d: \"%.40s\" is not a number from 0 to %g", path, line,
                        at, WEIGHT_MAX);
        count++;
    }
    if (count == classes) return OK;
    return fail(ERR_DATA, KEY ": %s: %lld numbers for %lld classes", path, (long long)count,
                (long long)classes);
}

static Status read_weights(double *w, const char *path, int64_t classes)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    Status status = fs_read_limited(path, FS_TEXT_BYTES, &text, &bytes);
    if (status != OK) fail_note(status, KEY);
    else if (strlen((char *)text) != bytes)
        status = fail(ERR_DATA, KEY ": %s: not a text file", path);
    else status = parse(w, (char *)text, path, classes);
    mem_free(text);
    return status;
}

static Status make(float *out, double *w, const Config *c, const Dataset *d, int64_t classes)
{
    double sum = 0, divisor = 1;
    if (strcmp(c->train.class_weights, "auto") == 0) balance(w, d, classes);
    else TRY(read_weights(w, c->train.class_weights, classes));
    for (int64_t k = 0; k < classes; k++) sum += w[k] * (double)images_of(d, k);
    if (!(sum > 0)) return fail(ERR_DATA, KEY ": no training image has a weight above 0");
    if (c->train.loss == LOSS_CROSS_ENTROPY) divisor = sum / (double)dataset_images(d);
    for (int64_t k = 0; k < classes; k++) out[k] = (float)(w[k] / divisor);
    return OK;
}

static Status make_here(float **out, const Config *c, const Dataset *d, int64_t classes)
{
    double *w = mem_calloc((size_t)classes, sizeof *w);
    *out = mem_calloc((size_t)classes, sizeof **out);
    Status status = w && *out ? make(*out, w, c, d, classes) : ERR_MEMORY;
    mem_free(w);
    return status;
}

Status class_weights_open(float **out, const Config *c, const Dataset *train, int64_t classes,
                          Comm *comm)
{
    *out = NULL;
    if (!c->train.class_weights[0]) return OK;
    Status status = comm_agree(comm, make_here(out, c, train, classes));
    if (status == OK &&
        !comm_all_equal(comm, crc32c_update(0, *out, (size_t)classes * sizeof **out)))
        status = fail(ERR_DATA, KEY ": the ranks have different numbers");
    if (status == OK) return OK;
    mem_free(*out);
    *out = NULL;
    return status;
}
