/* weights_open.c - files of weights of any kind, and what training programs have put around the
 * names in them (weights.h).
 *
 * Wrappers of PyTorch are parts of a name wherever they are in it: module (DataParallel),
 * _orig_mod (torch.compile). Anything else may stand before all names ("model.", "net.",
 * "ema_model."): what does is told by the network, by its longest name. Averaged weights are known
 * by a word in what stands before them. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/files/torch_file.h"
#include "trainer/engine/files/weights.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CANDIDATES = 16, LISTED = 3 };
static const char counter[] = "n_averaged"; /* of PyTorch's AveragedModel */

Status weights_open(SafeFile **out, const char *path)
{
    uint8_t start[TORCH_FILE_START];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? fs_read_at(fd, start, sizeof start, 0) : -1;
    fs_close(&fd);
    return n > 0 && torch_file_is(start, (size_t)n) ? torch_file_open(out, path)
                                                    : safetensors_open(out, path);
}

/* ---- wrappers ---- */

static bool is_one_of(const char *text, size_t bytes, const char *const words[])
{
    while (*words && (strlen(*words) != bytes || strncmp(*words, text, bytes) != 0)) words++;
    return *words != NULL;
}

static Status unwrap(void *cookie, Arena *names, SafeTensor *t)
{
    static const char *const wrappers[] = { "module", "_orig_mod", "_fsdp_wrapped_module",
                                            "_checkpoint_wrapped_module", NULL };
    const char *from = t->name;
    char *to = arena_strdup(names, from);
    (void)cookie;
    t->name = to;
    if (!to) return ERR_MEMORY;
    for (size_t n; *from; from += n) {
        n = strcspn(from, ".");
        const bool kept = from[n] == '\0' || !is_one_of(from, n, wrappers);
        n += from[n] == '.';
        if (!kept) continue;
        memcpy(to, from, n);
        to += n;
    }
    *to = '\0';
    return OK;
}

/* ---- what stands before the names ---- */

typedef struct Prefix {
    char text[WEIGHTS_NAME_BYTES];
    size_t bytes;
    int found;     /* tensors of the network behind it */
    bool averaged; /* as it says */
} Prefix;

typedef struct Prefixes {
    Prefix items[CANDIDATES];
    int count, wanted; /* wanted: tensors of the network */
    const Prefix *chosen;
    StrBuf outside; /* the first tensors that are behind none */
    int outside_count;
} Prefixes;

static bool tells_average(const char *text)
{
    static const char *const words[] = { "ema", "swa", "avg", "average", "averaged", NULL };
    bool tells = false;
    for (size_t n; *text && !tells; text += n + (text[n] != '\0')) {
        n = strcspn(text, "._");
        tells = is_one_of(text, n, words);
    }
    return tells;
}

/* Of filters or a matrix: norms have other names in old files. */
static const char *longest_name(const WeightList *list)
{
    const char *name = "";
    for (int i = 0; i < list->count; i++) {
        const Weight *w = &list->items[i];
        if (!w->head && w->kind != WEIGHT_COPY && w->desc.rank > 1 &&
            strlen(w->other) > strlen(name))
            name = w->other;
    }
    return name;
}

static bool is_behind(const char *name, const Prefix *p)
{
    return strncmp(name, p->text, p->bytes) == 0;
}

static void add_prefix(Prefixes *all, const char *name, size_t bytes)
{
    Prefix p = { .bytes = bytes };
    if (bytes >= sizeof p.text) return;
    memcpy(p.text, name, bytes);
    p.averaged = tells_average(p.text);
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->items[i].text, p.text) == 0) return;
    if (all->count < CANDIDATES) all->items[all->count++] = p;
}

static void find_prefixes(Prefixes *all, SafeFile *file, const WeightList *list)
{
    const char *name = longest_name(list);
    const size_t length = strlen(name);
    for (int i = 0; i < safetensors_count(file); i++) {
        const char *whole = safetensors_at(file, i)->name;
        const size_t bytes = strlen(whole);
        if (bytes < length || strcmp(whole + bytes - length, name) != 0) continue;
        if (bytes == length || whole[bytes - length - 1] == '.')
            add_prefix(all, whole, bytes - length);
    }
    if (list->count > all->wanted) all->wanted = list->count;
    for (int k = 0; k < all->count; k++) {
        int found = 0;
        safetensors_set_prefix(file, all->items[k].text);
        for (int i = 0; i < list->count; i++) found += weights_find(file, &list->items[i]) != NULL;
        safetensors_set_prefix(file, NULL);
        if (found > all->items[k].found) all->items[k].found = found;
    }
}

/* The one of a kind with the most tensors, or NULL; *again: another that has as many. */
static const Prefix *fullest(const Prefixes *all, bool averaged, const Prefix **again)
{
    const Prefix *best = NULL;
    *again = NULL;
    for (int i = 0; i < all->count; i++) {
        const Prefix *p = &all->items[i];
        if (p->averaged != averaged || (best && p->found < best->found)) continue;
        *again = best && p->found == best->found ? best : NULL;
        best = p;
    }
    return best;
}

/* A network that is there twice must be the same, known by two names. */
static Status check_again(const Prefixes *all, SafeFile *file, const Prefix *again,
                          const ModelDef *def, const char *path)
{
    const Prefix *p = all->chosen;
    Status status = OK;
    if (!again || 2 * p->found < all->wanted) return OK;
    safetensors_set_prefix(file, again->text);
    for (int i = 0; i < safetensors_count(file) && status == OK; i++) {
        const SafeTensor *t = safetensors_at(file, i),
                         *u = is_behind(t->name, p) ? safetensors_find(file, t->name + p->bytes)
                                                    : NULL;
        if (u && (u->desc.dtype != t->desc.dtype || !tensor_same_shape(&u->desc, &t->desc) ||
                  memcmp(u->data, t->data, tensor_plain_bytes(&t->desc)) != 0))
            status =
                fail(ERR_DATA,
                     "%s: holds two different sets of weights of %s, %s* and %s*; save only one",
                     path, def->name, p->text, again->text);
    }
    safetensors_set_prefix(file, NULL);
    return status;
}

static Status choose(Prefixes *all, SafeFile *file, const ModelDef *def, WeightsChoice which,
                     const char *path)
{
    const Prefix *raw_again, *ema_again, *raw = fullest(all, false, &raw_again),
                                         *ema = fullest(all, true, &ema_again);
    if (raw && ema && 2 * raw->found < all->wanted) raw = NULL;
    if (raw && ema && 2 * ema->found < all->wanted) ema = NULL;
    if (which == WEIGHTS_EMA && !ema) return fail(ERR_DATA, "%s: has no averaged weights", path);
    if (which == WEIGHTS_RAW && ema && !raw)
        return fail(ERR_DATA, "%s: has only averaged weights", path);
    const bool averaged = ema && (which == WEIGHTS_EMA || !raw ||
                                  (which == WEIGHTS_OF_BEST && ema->found >= raw->found));
    all->chosen = averaged ? ema : raw;
    if (raw && ema)
        log_info(averaged ? "%s: using its averaged weights; it has the trained ones too"
                          : "%s: using its trained weights; it has averaged ones too",
                 path);
    return check_again(all, file, averaged ? ema_again : raw_again, def, path);
}

/* Tensors belong to the longest prefix before them, of those with a whole network. */
static Status narrow(void *cookie, Arena *names, SafeTensor *t)
{
    Prefixes *all = cookie;
    const Prefix *owner = NULL;
    const char *name = t->name, *dot = strrchr(name, '.');
    (void)names;
    for (int i = 0; i < all->count; i++) {
        const Prefix *p = &all->items[i];
        if ((p == all->chosen || 2 * p->found >= all->wanted) && is_behind(name, p) &&
            (!owner || p->bytes > owner->bytes))
            owner = p;
    }
    t->name = NULL;
    if (strcmp(dot ? dot + 1 : name, counter) == 0) return OK;
    if (owner == all->chosen) t->name = owner ? name + owner->bytes : name;
    else if (!owner && all->outside_count++ < LISTED)
        str_printf(&all->outside, "%s%s", all->outside.length ? ", " : "", name);
    return OK;
}

static Status list_prefixes(Prefixes *all, SafeFile *file, const Graph *g, const ModelDef *def)
{
    for (ModelNames names = MODEL_NAMES_TORCHVISION; names < MODEL_NAMES_COUNT; names++) {
        WeightList list;
        if (names == MODEL_NAMES_HF && !def->text) continue; /* has no others */
        TRY(weights_list(&list, g, def, names));
        find_prefixes(all, file, &list);
        weights_free(&list);
    }
    return OK;
}

static Status narrow_other(Prefixes *all, SafeFile *file, const Graph *g, const ModelDef *def,
                           WeightsChoice which, const char *path)
{
    TRY(safetensors_rename(file, unwrap, NULL));
    TRY(list_prefixes(all, file, g, def));
    TRY(choose(all, file, def, which, path));
    return safetensors_rename(file, narrow, all);
}

/* Of a checkpoint the averaged ones alone stay, where they are asked for. */
static Status narrow_own(Prefixes *all, SafeFile *file, WeightsChoice which, const char *path)
{
    bool ema = false;
    TRY(weights_choose(file, which == WEIGHTS_EMA ? which : WEIGHTS_RAW, false, path, &ema));
    safetensors_set_prefix(file, NULL);
    if (!ema) return OK;
    add_prefix(all, WEIGHTS_EMA_PREFIX, sizeof WEIGHTS_EMA_PREFIX - 1);
    add_prefix(all, "", 0);
    all->chosen = &all->items[0];
    log_info("%s: using its averaged weights", path);
    return safetensors_rename(file, narrow, all);
}

Status weights_narrow(SafeFile *file, const Graph *g, const ModelDef *def, WeightsChoice which,
                      const char *path)
{
    Prefixes all = { .count = 0 };
    Status status = weights_are_checkpoint(file) ? narrow_own(&all, file, which, path)
                                                 : narrow_other(&all, file, g, def, which, path);
    if (status == OK && all.outside_count > 0 && !all.outside.failed)
        log_info("%s: %d tensors outside of %s are not used: %s%s", path, all.outside_count,
                 all.chosen->text, all.outside.text, all.outside_count > LISTED ? ", ..." : "");
    str_free(&all.outside);
    return status;
}
