/* case.c - cases as text and the lists of cases that are run.
 *
 * Text: OP NAME=VALUE ... [| mode [weights=free|forward|plain] [plain] [wide] [accumulate]
 * [in_place=MASK]]; parameters not named have their standard value. Shape files (shapes/X.txt) hold
 * such lines without the part behind "|"; a line for a forward op serves its gradients too, which
 * share its table of parameters. */
#include "base/crc32c.h"

#include "base/fs.h"
#include "tests/ops/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EVERY INT64_MIN /* the parameter that has it stands for all values of its enum */

static const char *const mode_names[MODE_COUNT] = { "exact", "float", "nan" };
static const char *const weight_names[WEIGHTS_COUNT] = { "free", "forward", "plain" };

void case_format(const Case *c, StrBuf *out)
{
    const Family *f = c->family;
    str_add(out, op_name(f->kind));
    for (int i = 0; f->params[i].name; i++)
        if (c->p[i] != f->params[i].standard)
            str_printf(out, " %s=%" PRId64, f->params[i].name, c->p[i]);
    str_printf(out, " | %s", mode_names[c->variant.mode]);
    if (f->flags & FAMILY_WEIGHTS) str_printf(out, " weights=%s", weight_names[c->variant.weights]);
    if (c->variant.plain) str_add(out, " plain");
    if (c->variant.wide) str_add(out, " wide");
    if (c->variant.accumulate) str_add(out, " accumulate");
    if (c->variant.in_place) str_printf(out, " in_place=%u", c->variant.in_place);
}

static int index_of(const char *word, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0) return i;
    return -1;
}

static bool parse_param(const Family *f, const char *word, int64_t *p)
{
    for (int i = 0; f->params[i].name; i++) {
        size_t n = strlen(f->params[i].name);
        if (strncmp(word, f->params[i].name, n) != 0 || word[n] != '=') continue;
        if (strcmp(word + n + 1, "*") == 0) return p[i] = EVERY, true;
        return str_to_i64(word + n + 1, &p[i]);
    }
    return false;
}

static bool parse_variant(const char *word, Variant *v)
{
    int64_t mask;
    int mode = index_of(word, mode_names, MODE_COUNT);
    if (mode >= 0) return v->mode = (Mode)mode, true;
    if (strcmp(word, "plain") == 0) return v->plain = true;
    if (strcmp(word, "wide") == 0) return v->wide = true;
    if (strcmp(word, "accumulate") == 0) return v->accumulate = true;
    if (str_starts_with(word, "weights=")) {
        int weights = index_of(word + 8, weight_names, WEIGHTS_COUNT);
        if (weights < 0) return false;
        return v->weights = (Weights)weights, true;
    }
    if (str_starts_with(word, "in_place=") && str_to_i64(word + 9, &mask))
        return v->in_place = (unsigned)mask, true;
    return false;
}

static const Family *family_named(const char *name)
{
    for (int kind = 0; kind < OP_COUNT; kind++)
        if (strcmp(op_name((OpKind)kind), name) == 0) return family_of((OpKind)kind);
    return NULL;
}

static void case_standard(const Family *f, Case *out)
{
    *out = (Case){ .family = f, .variant = { .mode = MODE_FLOAT } };
    for (int i = 0; f->params[i].name; i++) out->p[i] = f->params[i].standard;
}

/* Words of text after the op's name, into out. */
static Status parse_words(const char *text, Case *out)
{
    char copy[512], *rest = copy, *word;
    bool variant = false;
    size_t bytes = strlen(text) + 1;
    if (bytes > sizeof copy) return fail(ERR_USAGE, "case is too long: %s", text);
    memcpy(copy, text, bytes);
    while ((word = strtok_r(rest, " \t", &rest))) {
        if (strcmp(word, "|") == 0) variant = true;
        else if (!(variant ? parse_variant(word, &out->variant)
                           : parse_param(out->family, word, out->p)))
            return fail(ERR_USAGE, "%s: do not know \"%s\" in: %s", op_name(out->family->kind),
                        word, text);
    }
    return OK;
}

Status case_parse(const char *text, Case *out)
{
    char name[64];
    size_t n = strcspn(text, " \t");
    if (n >= sizeof name) return fail(ERR_USAGE, "no op has a name as long as in: %s", text);
    memcpy(name, text, n);
    name[n] = '\0';
    const Family *f = family_named(name);
    if (!f) return fail(ERR_USAGE, "no op is called \"%s\"", name);
    case_standard(f, out);
    return parse_words(text + n, out);
}

Rng case_rng(const Case *c, uint64_t seed)
{
    StrBuf text = { 0 };
    case_format(c, &text);
    uint32_t address = crc32c_update(0, text.text, text.length);
    str_free(&text);
    return rng_at(seed, RNG_TEST, address, 0);
}

Status problem_make(const Case *c, Problem *out)
{
    memset(out, 0, sizeof *out);
    out->kind = c->family->kind;
    c->family->build(c->p, out);
    const TensorDesc *in[OP_MAX_INPUTS];
    for (int i = 0; i < OP_MAX_INPUTS; i++) in[i] = out->in[i].rank ? &out->in[i] : NULL;
    return op_infer(out->kind, &out->attr, in, out->wanted, out->out);
}

void problem_format(const Problem *p, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < OP_MAX_INPUTS + OP_MAX_OUTPUTS && used < bytes; i++) {
        const TensorDesc *d = i < OP_MAX_INPUTS ? &p->in[i] : &p->out[i - OP_MAX_INPUTS];
        char shape[96] = "-";
        if (d->rank) tensor_format(d, shape, sizeof shape);
        if (i == OP_MAX_INPUTS) used += (size_t)snprintf(out + used, bytes - used, " ->");
        if (d->rank && used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? " " : "", shape);
    }
}

void case_list_add(CaseList *list, const Case *c)
{
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        Case *grown = mem_realloc(list->cases, (size_t)capacity * sizeof *grown);
        list->failed |= !grown;
        if (!grown) return;
        list->cases = grown;
        list->capacity = capacity;
    }
    list->cases[list->count++] = *c;
}

static unsigned in_place_mask(const Problem *p)
{
    const OpDef *def = op_def(p->kind);
    unsigned mask = 0;
    for (int i = 0; i < op_outputs(def); i++) {
        int over = op_in_place_of(p->kind, i);
        if (over >= 0 && p->out[i].rank && p->in[over].rank) mask |= 1u << i;
    }
    return mask;
}

static bool has_images(const Problem *p)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (p->in[i].rank == 4 && p->in[i].dtype == DTYPE_F32) return true;
    return false;
}

/* Rows that a linear layer may have left. The loss always reads such rows. */
static bool has_rows(const Problem *p)
{
    for (int i = 0; i < OP_MAX_INPUTS && p->kind != OP_SOFTMAX_XENT && !op_fused(p->kind); i++)
        if (p->in[i].rank == 2 && p->in[i].dtype == DTYPE_F32 &&
            i != layouts_weight_input(p->kind) &&
            !((p->kind == OP_BATCHNORM_BWD || p->kind == OP_BN_BWD_SUMS) && i == BN_BWD_IN_SAVED) &&
            p->kind != OP_BN_APPLY)
            return true;
    return false;
}

static void add_variant(CaseList *list, const Case *problem, Variant v)
{
    Case c = *problem;
    c.variant = v;
    case_list_add(list, &c);
}

/* The variants in which problem number index of a family is run: always exact (where there is such
 * a mode) and float; the rest in turn, so that the check stays short. */
static void add_variants(CaseList *list, const Case *c, const Problem *p, int index)
{
    const Family *f = c->family;
    bool weights = f->flags & FAMILY_WEIGHTS,
         forward = p->kind == OP_CONV2D || p->kind == OP_CONV2D_BN || p->kind == OP_LINEAR;
    bool gradient = p->kind == OP_CONV2D_BWD_WEIGHTS || p->kind == OP_LINEAR_BWD_WEIGHTS;
    Variant v = { .mode = (f->flags & FAMILY_EXACT) && p->exact ? MODE_EXACT : MODE_FLOAT };
    Weights usual = weights && !forward ? WEIGHTS_FORWARD : WEIGHTS_FREE;
    v.weights = usual;
    add_variant(list, c, v);
    if (v.mode == MODE_EXACT)
        add_variant(list, c, (Variant){ .mode = MODE_FLOAT, .weights = usual });
    if (weights && index % 3 == 0) {
        v.weights = WEIGHTS_PLAIN;
        add_variant(list, c, v);
        v.weights = forward ? WEIGHTS_FORWARD : WEIGHTS_FREE;
        if (forward || gradient) add_variant(list, c, v);
        v.weights = usual;
    }
    if (has_images(p) && index % 3 == 1)
        add_variant(list, c, (Variant){ .mode = v.mode, .weights = usual, .plain = true });
    if (has_rows(p))
        add_variant(list, c, (Variant){ .mode = v.mode, .weights = usual, .wide = true });
    if (f->flags & FAMILY_ACCUMULATES)
        add_variant(list, c, (Variant){ .mode = v.mode, .weights = usual, .accumulate = true });
    if ((f->flags & FAMILY_NAN) && index % 3 == 2)
        add_variant(list, c, (Variant){ .mode = MODE_NAN, .weights = usual });
    unsigned mask = in_place_mask(p);
    if (mask) add_variant(list, c, (Variant){ .mode = v.mode, .weights = usual, .in_place = mask });
    for (int i = 0; (mask & (mask - 1)) && i < OP_MAX_OUTPUTS; i++)
        if (mask >> i & 1)
            add_variant(list, c,
                        (Variant){ .mode = v.mode, .weights = usual, .in_place = 1u << i });
}

static Status add_problem(CaseList *list, const Case *c, int index)
{
    Problem p;
    Status st = problem_make(c, &p);
    if (st == OK) {
        add_variants(list, c, &p, index);
        return OK;
    }
    StrBuf text = { 0 };
    case_format(c, &text);
    st = fail_note(st, "case \"%s\"", text.text);
    str_free(&text);
    return st;
}

/* Calls take for each line of a file that holds a case; blank lines and lines that start with '#'
 * are skipped. */
static Status each_line(const char *path, Status (*take)(void *cookie, const Case *c), void *cookie)
{
    uint8_t *data;
    size_t bytes;
    TRY(fs_read_file(path, &data, &bytes));
    Status st = OK;
    char *rest = (char *)data, *line;
    while (st == OK && (line = strtok_r(rest, "\n", &rest))) {
        Case c;
        if (line[0] == '#' || line[strspn(line, " \t\r")] == '\0') continue;
        st = case_parse(line, &c);
        st = st == OK ? take(cookie, &c) : fail_note(st, "%s", path);
    }
    mem_free(data);
    return st;
}

typedef struct ShapeTaker {
    CaseList *list;
    const Family *family;
    int *index;
} ShapeTaker;

static Status take_shape(void *cookie, const Case *line)
{
    ShapeTaker *t = cookie;
    if (line->family->params != t->family->params) return OK;
    Case c = *line;
    c.family = t->family;
    return add_problem(t->list, &c, (*t->index)++);
}

static Status add_shapes(CaseList *list, const Family *f, int *index, const char *folder)
{
    char **names;
    int64_t count;
    TRY(fs_list(folder, &names, &count));
    Status st = OK;
    for (int64_t i = 0; st == OK && i < count; i++) {
        if (!str_ends_with_nocase(names[i], ".txt") || strcmp(names[i], "bench.txt") == 0) continue;
        char *path = fs_join(folder, names[i]);
        ShapeTaker taker = { list, f, index };
        st = path ? each_line(path, take_shape, &taker) : ERR_MEMORY;
        mem_free(path);
    }
    mem_free(names);
    return st;
}

/* How many values the enum of a parameter has. */
static int count_of(OpKind kind, const char *param)
{
    if (strcmp(param, "act") == 0) return ACT_COUNT;
    ASSERT(strcmp(param, "kind") == 0);
    return kind == OP_UPDATE ? UPDATE_KIND_COUNT : POOL_KIND_COUNT;
}

static Status add_every(CaseList *list, Case c, int param)
{
    const char *name = c.family->params[param].name;
    for (int i = 0; i < count_of(c.family->kind, name); i++) {
        Problem p;
        c.p[param] = i;
        const Status st = problem_make(&c, &p);
        if (st == OK) case_list_add(list, &c);
        else if (name[0] != 'a' || !strstr(status_message(), op_act((ActKind)i)->name)) return st;
    }
    return OK;
}

Status case_list_fixed(CaseList *list, const Family *f)
{
    for (int i = 0; f->fixed[i]; i++) {
        Case c;
        int every = 0;
        case_standard(f, &c);
        TRY(parse_words(f->fixed[i], &c));
        while (f->params[every].name && c.p[every] != EVERY) every++;
        if (f->params[every].name) TRY(add_every(list, c, every));
        else case_list_add(list, &c);
    }
    return list->failed ? ERR_MEMORY : OK;
}

Status case_list_family(CaseList *list, const Family *f, uint64_t seed, const char *shape_folder)
{
    int index = 0;
    CaseList fixed = { 0 };
    Status st = case_list_fixed(&fixed, f);
    for (int i = 0; st == OK && i < fixed.count; i++)
        st = add_problem(list, &fixed.cases[i], index++);
    mem_free(fixed.cases);
    TRY(st);
    Case c;
    Rng rng = rng_at(seed, RNG_TEST, (uint32_t)f->kind, 1);
    for (int i = 0; i < f->draws; i++) {
        case_standard(f, &c);
        f->draw(&rng, c.p);
        TRY(add_problem(list, &c, index++));
    }
    TRY(add_shapes(list, f, &index, shape_folder));
    return list->failed ? ERR_MEMORY : OK;
}

static Status take_bench(void *cookie, const Case *c)
{
    Case row = *c;
    row.variant.weights = c->family->kind == OP_CONV2D || c->family->kind == OP_LINEAR
                              ? WEIGHTS_FREE
                              : WEIGHTS_FORWARD;
    case_list_add(cookie, &row);
    return OK;
}

Status case_list_bench(CaseList *list, const char *path)
{
    TRY(each_line(path, take_bench, list));
    return list->failed ? ERR_MEMORY : OK;
}
