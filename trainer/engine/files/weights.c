/* weights.c - see weights.h.
 *
 * Ignored in a file are the counters num_batches_tracked of PyTorch's batch norms and the numbers
 * position_ids of transformers, which have no part in anything here, and the optimizer's states and
 * averaged copies of a checkpoint. */
#include "trainer/engine/files/weights.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/float_math.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LISTED = 3, SHAPE_TEXT = 96 }; /* tensors of each kind that a message names */
static const char counter_suffix[] = ".num_batches_tracked", numbers_suffix[] = ".position_ids",
                  optimizer_prefix[] = "optimizer.", lookahead_prefix[] = "lookahead.",
                  average_prefix[] = WEIGHTS_EMA_PREFIX;

Status weights_choose(SafeFile *file, WeightsChoice which, bool best, const char *path, bool *ema)
{
    const bool has = safetensors_has(file, average_prefix);
    if (which == WEIGHTS_EMA && !has)
        return fail(ERR_DATA,
                    "%s: has no averaged weights (--ema); it was trained without ema.decay", path);
    *ema = has && (which == WEIGHTS_EMA || (which == WEIGHTS_OF_BEST && best));
    if (*ema) safetensors_set_prefix(file, average_prefix);
    return OK;
}

static bool is_state(const char *name)
{
    return str_starts_with(name, optimizer_prefix) || str_starts_with(name, lookahead_prefix);
}

bool weights_are_checkpoint(const SafeFile *file)
{
    return safetensors_metadata(file, "config") && safetensors_metadata(file, "header_crc32c");
}

/* The more, the fewer are missing of the tensors that a file has to have. */
static int count_found(const WeightList *list, const SafeFile *file)
{
    enum { MANY = 1 << 24 };
    int found = 0, wanted = 0;
    for (int i = 0; i < list->count; i++) {
        const Weight *w = &list->items[i];
        if (w->kind != WEIGHT_WHOLE && w->kind != WEIGHT_PART) continue;
        wanted++;
        found += weights_find(file, w) != NULL;
    }
    return (found > 0 ? 2 * MANY : MANY) + found - wanted;
}

bool weights_change_meaning(const ModelDef *def, ModelNames names)
{
    return model_named(def, names) != def && !(names == MODEL_NAMES_TIMM && def->timm);
}

/* The names under which most tensors are there. */
static Status recognise(WeightList *out, ModelNames *chosen, const Graph *g, const ModelDef *def,
                        const SafeFile *file)
{
    int best = -1;
    *out = (WeightList){ 0 };
    for (ModelNames names = MODEL_NAMES_TORCHVISION; names < MODEL_NAMES_COUNT; names++) {
        WeightList list;
        if (names == MODEL_NAMES_HF && !def->text) continue; /* has no others */
        Status status = weights_list(&list, g, def, names);
        if (status != OK) {
            weights_free(out);
            return status;
        }
        const int found = count_found(&list, file);
        if (found > best) {
            weights_free(out);
            *out = list;
            best = found;
            *chosen = names;
        } else {
            weights_free(&list);
        }
    }
    return OK;
}

/* ---- numbers ---- */

/* Element i of data, which need not be aligned. */
static float read_float(DType type, const void *data, int64_t i)
{
    const char *at = (const char *)data + (size_t)i * dtype_bytes(type);
    uint16_t half;
    double wide;
    float value;
    if (type == DTYPE_F64) {
        memcpy(&wide, at, sizeof wide);
        return (float)wide;
    }
    if (type == DTYPE_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&half, at, sizeof half);
    return type == DTYPE_BF16 ? float_from_bf16(half) : float_from_f16(half);
}

static bool is_float(DType type)
{
    return type == DTYPE_F32 || type == DTYPE_F64 || type == DTYPE_BF16 || type == DTYPE_F16;
}

/* Numbers of other kinds are finite anyway. */
static Status check_finite(const SafeTensor *t, const char *path)
{
    if (!is_float(t->desc.dtype)) return OK;
    for (int64_t i = 0, n = tensor_elements(&t->desc); i < n; i++)
        if (!isfinite(read_float(t->desc.dtype, t->data, i)))
            return fail(ERR_DATA, "%s: element %lld of tensor %s is NaN or infinite", path,
                        (long long)i, t->name);
    return OK;
}

Status weights_check_finite(const SafeFile *file, bool states, const char *path)
{
    for (int i = 0; i < safetensors_count(file); i++) {
        const SafeTensor *t = safetensors_at(file, i);
        if (states || !is_state(t->name)) TRY(check_finite(t, path));
    }
    return OK;
}

/* ---- the check: all that is wrong in one sentence ---- */

typedef struct Findings {
    StrBuf missing, shapes, strangers, unused; /* unused: of another task's head */
    int missing_count, shape_count, stranger_count, unused_count;
    int64_t classes; /* of the file's last layer; 0: it has none */
    bool headless;   /* that is no fault */
} Findings;

/* Adds "text, " to the first few. */
static void note(StrBuf *list, int *count, const char *text)
{
    if ((*count)++ < LISTED) str_printf(list, "%s%s", list->length ? ", " : "", text);
}

static void add_kind(StrBuf *out, const char *kind, const StrBuf *list, int count)
{
    if (count == 0) return;
    str_printf(out, "%s%s %s", out->length ? "; " : "", kind, list->text);
    if (count > LISTED) str_printf(out, " and %d more", count - LISTED);
}

/* Whether a tensor of the last layer is one, of whatever number of classes. */
static bool fits_but_classes(const TensorDesc *have, const TensorDesc *want)
{
    if (have->rank != want->rank || have->dims[0] < 1) return false;
    for (int i = 1; i < want->rank; i++)
        if (have->dims[i] != want->dims[i]) return false;
    return true;
}

/* The side of the square of patches that a file's positions are of, where it is another's. */
static int64_t other_side(const Weight *w, const TensorDesc *have)
{
    const bool similar = have->rank == 3 && have->dims[0] == 1 && have->dims[2] == w->desc.dims[2];
    return similar && have->dims[1] != w->desc.dims[1] ? positions_side(&w->grid, have->dims[1])
                                                       : 0;
}

/* Whether a file's filters are of colour and the images grey, or the other way round. */
static bool other_channels(const Weight *w, const TensorDesc *have)
{
    const int64_t *want = w->desc.dims, *there = have->dims;
    return w->first && have->rank == 4 && there[0] == want[0] && there[2] == want[2] &&
           there[3] == want[3] && there[1] != want[1] &&
           (there[1] == 1 || (want[1] == 1 && there[1] > 0));
}

/* How many more positions a file's table has. */
static int64_t more_rows(const Weight *w, const TensorDesc *have)
{
    const bool similar = w->rows && have->rank == 2 && have->dims[1] == w->desc.dims[1];
    return similar && have->dims[0] > w->desc.dims[0] ? have->dims[0] - w->desc.dims[0] : 0;
}

static bool may_be_missing(const Weight *w, const Findings *f)
{
    return w->kind == WEIGHT_COPY || w->kind == WEIGHT_FOLDED || w->spare ||
           (f->headless && (w->head || w->above));
}

static void compare(const Weight *w, const SafeFile *file, Findings *f)
{
    char have_text[SHAPE_TEXT], want_text[SHAPE_TEXT], text[3 * SHAPE_TEXT + 64];
    const SafeTensor *have = weights_find(file, w);
    if (!have) {
        if (!may_be_missing(w, f)) note(&f->missing, &f->missing_count, w->other);
        return;
    }
    const bool head = (w->head || (w->kind == WEIGHT_COPY && w->tied)) &&
                      fits_but_classes(&have->desc, &w->desc) &&
                      (f->classes == 0 || f->classes == have->desc.dims[0]);
    if (is_float(have->desc.dtype) &&
        (head || (!w->head && tensor_same_shape(&have->desc, &w->desc)) ||
         other_side(w, &have->desc) || other_channels(w, &have->desc) ||
         more_rows(w, &have->desc))) {
        if (head) f->classes = have->desc.dims[0];
        return;
    }
    tensor_format(&have->desc, have_text, sizeof have_text);
    tensor_format(&w->desc, want_text, sizeof want_text);
    snprintf(text, sizeof text, "%.120s (%s in the file, %s in the network)", w->other, have_text,
             want_text);
    note(&f->shapes, &f->shape_count, text);
}

static Status find_strangers(const WeightList *list, const SafeFile *file, bool text, Findings *f)
{
    bool *known = mem_calloc((size_t)safetensors_count(file) + 1, sizeof *known);
    if (!known) return ERR_MEMORY;
    for (int k = 0; k < list->count; k++) {
        const SafeTensor *t = weights_find(file, &list->items[k]);
        if (t) known[t - safetensors_at(file, 0)] = true;
    }
    for (int i = 0; i < safetensors_count(file); i++) {
        const char *name = safetensors_at(file, i)->name, *last = strrchr(name, '.');
        if (is_state(name) || str_starts_with(name, average_prefix)) continue;
        if (last && (strcmp(last, counter_suffix) == 0 || strcmp(last, numbers_suffix) == 0))
            continue;
        if (known[i]) continue;
        if (text && weights_above_encoder(name)) note(&f->unused, &f->unused_count, name);
        else note(&f->strangers, &f->stranger_count, name);
    }
    mem_free(known);
    return OK;
}

static Status report(const Findings *f, const ModelDef *def, const char *path)
{
    StrBuf text = { 0 };
    add_kind(&text, "missing:", &f->missing, f->missing_count);
    add_kind(&text, "with another shape:", &f->shapes, f->shape_count);
    add_kind(&text, "not of this network:", &f->strangers, f->stranger_count);
    Status status = text.failed ? ERR_MEMORY : OK;
    if (text.length)
        status = fail(ERR_DATA, "%s: not the weights of %s: %s", path, def->name, text.text);
    str_free(&text);
    return status;
}

static bool lacks_head(const WeightList *list, const SafeFile *file)
{
    bool has_head = false;
    for (int i = 0; i < list->count; i++) {
        if (!list->items[i].head) continue;
        if (weights_find(file, &list->items[i])) return false;
        has_head = true;
    }
    return has_head;
}

/* A decoder of its own has no place here. */
static Status check_copies(const WeightList *list, const SafeFile *file, const char *path)
{
    for (int i = 0; i < list->count; i++) {
        const Weight *w = &list->items[i];
        const SafeTensor *copy = w->kind == WEIGHT_COPY ? weights_find(file, w) : NULL,
                         *of = copy ? safetensors_find(file, w->name) : NULL;
        if (of &&
            (copy->desc.dtype != of->desc.dtype || !tensor_same_shape(&copy->desc, &of->desc) ||
             memcmp(copy->data, of->data, tensor_plain_bytes(&of->desc)) != 0))
            return fail(ERR_DATA, "%s: %s differs from %s; this network has one for both", path,
                        w->other, w->name);
    }
    return OK;
}

/* Whether these names are another network's, which would give other results. */
static Status check_meaning(const ModelDef *def, ModelNames names, const char *path)
{
    const char *theirs = model_named(def, names)->name;
    if (!weights_change_meaning(def, names)) return OK;
    return fail(ERR_DATA,
                "%s: these are weights of %s (model.name=%s); %s has the same tensors, but pads or "
                "normalises differently",
                path, theirs, theirs, def->name);
}

/* *classes: of the file's last layer, 0 where it may lack one and does; stays where the network has
 * no such layer. */
static Status check(const WeightList *list, const ModelDef *def, ModelNames names,
                    const SafeFile *file, const char *path, bool may_lack, int64_t *classes)
{
    Findings f = { .headless = may_lack && lacks_head(list, file) };
    for (int i = 0; i < list->count; i++) compare(&list->items[i], file, &f);
    Status status = find_strangers(list, file, def->text, &f);
    if (status == OK) status = report(&f, def, path);
    if (status == OK) status = check_meaning(def, names, path);
    if (status == OK) status = check_copies(list, file, path);
    if (status == OK && f.unused_count > 0)
        log_info("%s: %d tensors of another head are not used: %s%s", path, f.unused_count,
                 f.unused.text, f.unused_count > LISTED ? ", ..." : "");
    str_free(&f.missing);
    str_free(&f.shapes);
    str_free(&f.strangers);
    str_free(&f.unused);
    if (f.classes > 0 || f.headless) *classes = f.classes;
    for (int i = 0; i < list->count && status == OK; i++) {
        const SafeTensor *t = weights_find(file, &list->items[i]);
        if (t) status = check_finite(t, path);
    }
    return status;
}

/* ---- into the executor ---- */

static int state_index(const Executor *x, const char *name)
{
    for (int i = 0; i < executor_state_count(x); i++)
        if (strcmp(executor_state_name(x, i), name) == 0) return i;
    return -1;
}

/* values: of side * side patches. */
static Status fit_positions(float *own, const Weight *w, ModelNames names, int64_t side,
                            const float *values)
{
    const PositionGrid *g = &w->grid;
    TRY(positions_resample(g, side, w->desc.dims[2], names == MODEL_NAMES_TIMM, values, own));
    log_warning("%s: resized from %lld x %lld patches to %lld x %lld", w->other, (long long)side,
                (long long)side, (long long)g->height, (long long)g->width);
    return OK;
}

/* own: zeros. values: [filters, channels there, height, width]. A grey image gives what it gave as
 * a coloured one whose channels are all the same. */
static void fit_channels(float *own, const Weight *w, int64_t there, const float *values)
{
    const int64_t *d = w->desc.dims, window = d[2] * d[3];
    for (int64_t k = 0; k < d[0]; k++)
        for (int64_t from = 0; from < there; from++)
            for (int64_t to = 0; to < d[1]; to++)
                for (int64_t i = 0; i < window; i++)
                    own[(k * d[1] + to) * window + i] +=
                        values[(k * there + from) * window + i] / (float)d[1];
    log_warning("%s: converted from %lld channels to %lld", w->other, (long long)there,
                (long long)d[1]);
}

/* values: a row for each class there. */
static Status fit_rows(float *own, Executor *x, const Weight *w, const HeadRows *rows,
                       const float *values)
{
    const int64_t classes = w->desc.dims[0], row = tensor_elements(&w->desc) / classes;
    TRY(executor_export_state(x, state_index(x, w->name), own));
    for (int64_t c = 0; c < classes; c++)
        if (rows->from[c] >= 0)
            memcpy(own + c * row, values + rows->from[c] * row, (size_t)row * sizeof *own);
    return OK;
}

/* Rows of the tensor, or one more summand of each: the rest stays. count: elements of the own. */
static Status fit_part(float *own, Executor *x, const Weight *w, int64_t count, const float *values)
{
    const int64_t there = tensor_elements(&w->desc);
    TRY(executor_export_state(x, state_index(x, w->name), own));
    if (w->kind == WEIGHT_PART) memcpy(own + w->from, values, (size_t)there * sizeof *own);
    for (int64_t i = 0; i < count && w->kind == WEIGHT_FOLDED; i++) own[i] += values[i % there];
    return OK;
}

/* own: zeros of the weight's own shape; values: those of the file. */
static Status fit(float *own, Executor *x, const Weight *w, ModelNames names,
                  const TensorDesc *there, const HeadRows *rows, const float *values)
{
    const int64_t side = other_side(w, there);
    if (w->head && rows) return fit_rows(own, x, w, rows, values);
    if (side) return fit_positions(own, w, names, side, values);
    if (more_rows(w, there))
        log_warning("%s: only the first %lld of %lld positions are used (data.tokens)", w->other,
                    (long long)w->desc.dims[0], (long long)there->dims[0]);
    if (other_channels(w, there)) fit_channels(own, w, there->dims[1], values);
    else memcpy(own, values, tensor_plain_bytes(&w->desc));
    return OK;
}

static Status import(Executor *x, const Weight *w, ModelNames names, const SafeTensor *t,
                     const HeadRows *rows)
{
    const int64_t count = tensor_elements(&t->desc);
    const int index = state_index(x, w->name);
    ASSERT(index >= 0);
    const TensorDesc *desc = &executor_state(x, index)->desc;
    float *values = mem_alloc((size_t)count * sizeof *values);
    float *own = mem_calloc(tensor_plain_bytes(desc), 1);
    Status status = values && own ? OK : ERR_MEMORY;
    for (int64_t i = 0; i < count && status == OK; i++)
        values[i] = read_float(t->desc.dtype, t->data, i);
    if (status == OK)
        status = w->kind == WEIGHT_WHOLE ? fit(own, x, w, names, &t->desc, rows, values)
                                         : fit_part(own, x, w, tensor_elements(desc), values);
    if (status == OK) status = executor_import_state(x, index, own);
    mem_free(values);
    mem_free(own);
    return status;
}

Status weights_classes(int64_t *out, const Graph *g, const ModelDef *def, const SafeFile *file,
                       const char *path)
{
    WeightList list;
    ModelNames names = MODEL_NAMES_TORCHVISION;
    *out = 0;
    TRY(recognise(&list, &names, g, def, file));
    Status status = check(&list, def, names, file, path, false, out);
    if (status == OK && *out == 0)
        status =
            fail(ERR_USAGE, "%s: the network has no last layer with one row per class", def->name);
    weights_free(&list);
    return status;
}

static void settle_rows(HeadRows *rows, int64_t here, int64_t there)
{
    rows->there = there;
    rows->taken = 0;
    for (int64_t c = 0; c < here; c++) {
        if (rows->known ? rows->from[c] >= there : here != there) rows->from[c] = -1;
        rows->taken += rows->from[c] >= 0;
    }
}

/* Adds the layer of a parameter that a file lacks; those of a layer are neighbours. */
static void add_fresh(StrBuf *list, const Weight *w)
{
    const char *end = strrchr(w->other, '.');
    const size_t n = end ? (size_t)(end - w->other) : strlen(w->other);
    if (w->kind != WEIGHT_WHOLE || w->spare) return;
    if (list->length >= n && strncmp(list->text + list->length - n, w->other, n) == 0) return;
    if (list->length) str_add(list, ", ");
    str_add_n(list, w->other, n);
}

static bool has_tied(const WeightList *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->items[i].tied) return true;
    return false;
}

Status weights_restore(Executor *x, const Graph *g, const ModelDef *def, const SafeFile *file,
                       const char *path, HeadRows *rows)
{
    WeightList list;
    ModelNames names = MODEL_NAMES_TORCHVISION;
    const int64_t here = graph_options(g)->classes;
    int64_t there = here;
    TRY(recognise(&list, &names, g, def, file));
    Status status = check(&list, def, names, file, path, rows != NULL, &there);
    if (status == OK && there != here && has_tied(&list))
        status = fail(ERR_DATA, "%s: has %lld words, but the dictionary has %lld", path,
                      (long long)there, (long long)here);
    if (status == OK && there != here && !rows)
        status = fail(ERR_DATA, "%s: has weights for %lld classes, but model.classes is %lld", path,
                      (long long)there, (long long)here);
    if (rows) settle_rows(rows, here, there);
    for (int i = 0; i < list.count && status == OK; i++) {
        const SafeTensor *t = weights_find(file, &list.items[i]);
        if (t && list.items[i].kind != WEIGHT_COPY)
            status = import(x, &list.items[i], names, t, rows);
        if (!t && rows) add_fresh(&rows->fresh, &list.items[i]);
    }
    weights_free(&list);
    return status == OK ? executor_params_changed(x) : status;
}
