/* pickle.c - see pickle.h. Operations are those of protocols 2 to 5 that torch.save() writes, in
 * any Python; CPython's pickletools lists their arguments. */
#include "trainer/engine/files/pickle.h"

#include "base/mem.h"
#include "base/wire.h"
#include <stdio.h>
#include <string.h>

/* Values that a pickle pushes in all: the weights of a network take some thousands. */
enum { PUSHES_MAX = 1 << 23, NAME_BYTES = 256, FIRST_ITEMS = 4 };

typedef struct Machine {
    PickleSource *s;
    const uint8_t *start, *operand; /* operand: of the operation, or what its length counts */
    size_t operand_bytes;
    int op;
    PickleType makes; /* of the operation */
    PickleValue **stack, **memo;
    size_t depth, stack_room, memo_count, memo_room, pushes;
    size_t *marks;
    size_t mark_count, mark_room;
    bool stopped;
} Machine;

static Status damaged(const Machine *m, const char *what)
{
    return fail(ERR_DATA, "the pickle is damaged: %s (byte %zu)", what,
                (size_t)(m->s->at - m->start));
}

/* ---- the stack ---- */

static Status push(Machine *m, PickleValue *v)
{
    if (!v) return ERR_MEMORY;
    if (++m->pushes > PUSHES_MAX)
        return fail(ERR_DATA, "the pickle has more than %d values", PUSHES_MAX);
    if (!mem_grow(&m->stack, m->depth, &m->stack_room, sizeof(PickleValue *))) return ERR_MEMORY;
    m->stack[m->depth++] = v;
    return OK;
}

/* Values above the last mark. */
static size_t above_mark(const Machine *m)
{
    return m->depth - (m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0);
}

/* The value on top, NULL where there is none. */
static PickleValue *top(const Machine *m)
{
    return above_mark(m) > 0 ? m->stack[m->depth - 1] : NULL;
}

static PickleValue *pop(Machine *m)
{
    PickleValue *v = top(m);
    if (v) m->depth--;
    return v;
}

static PickleValue *make(const Machine *m, PickleType type)
{
    PickleValue *v = arena_alloc(m->s->arena, sizeof *v);
    if (v) v->type = type;
    return v;
}

static Status add_item(const Machine *m, PickleValue *list, PickleValue *item)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : FIRST_ITEMS;
        PickleValue **items = arena_alloc(m->s->arena, list->capacity * sizeof(PickleValue *));
        if (!items) return ERR_MEMORY;
        if (list->count) memcpy(items, list->items, list->count * sizeof(PickleValue *));
        list->items = items;
    }
    list->items[list->count++] = item;
    return OK;
}

/* The `count` values on top as items of v. */
static Status gather(Machine *m, PickleValue *v, size_t count)
{
    if (!v) return ERR_MEMORY;
    if (count > above_mark(m)) return damaged(m, "too few values on the stack");
    m->depth -= count;
    for (size_t i = 0; i < count; i++) TRY(add_item(m, v, m->stack[m->depth + i]));
    return OK;
}

/* ---- values ---- */

/* Constants, text, and empty lists and dictionaries. */
static Status push_plain(Machine *m)
{
    PickleValue *v = make(m, m->makes);
    if (!v) return ERR_MEMORY;
    v->integer = m->op == 0x88; /* True */
    if (v->type == PICKLE_TEXT) v->text = (const char *)m->operand;
    if (v->type == PICKLE_TEXT) v->count = m->operand_bytes;
    return push(m, v);
}

static Status push_integer(Machine *m)
{
    const int bytes = (int)m->operand_bytes;
    PickleValue *v = make(m, PICKLE_INT);
    m->makes = PICKLE_TEXT;
    if (!v || bytes > 8) return v ? push_plain(m) : ERR_MEMORY;
    uint64_t value = wire_load(m->operand, bytes);
    const bool negative = bytes > 0 && (m->operand[bytes - 1] & 0x80);
    if (negative && bytes < 8 && (m->op == 'J' || m->op == 0x8a))
        value |= ~(uint64_t)0 << 8 * bytes;
    v->integer = (int64_t)value;
    return push(m, v);
}

static Status push_mark(Machine *m)
{
    if (m->mark_count >= PUSHES_MAX) return damaged(m, "too many marks");
    if (!mem_grow(&m->marks, m->mark_count, &m->mark_room, sizeof *m->marks)) return ERR_MEMORY;
    m->marks[m->mark_count++] = m->depth;
    return OK;
}

static Status make_tuple(Machine *m)
{
    PickleValue *v = make(m, PICKLE_TUPLE);
    const bool marked = m->op == 't';
    if (marked && m->mark_count == 0) return damaged(m, "no mark");
    TRY(gather(m, v, marked ? above_mark(m) : (size_t)(m->op - 0x84)));
    if (marked) m->mark_count--;
    return push(m, v);
}

/* Adds the values above the mark, or those on top, to what is below them. */
static Status add_values(Machine *m)
{
    const bool pairs = m->makes == PICKLE_DICT, marked = m->op != 's' && m->op != 'a';
    if (marked && m->mark_count == 0) return damaged(m, "no mark");
    const size_t count = marked ? above_mark(m) : pairs ? 2 : 1;
    if (marked) m->mark_count--;
    if (above_mark(m) <= count) return damaged(m, "too few values on the stack");
    PickleValue *to = m->stack[m->depth - count - 1];
    if (to->type != m->makes || (pairs && count % 2 != 0))
        return damaged(m, "items added to a value that cannot hold them");
    return gather(m, to, count);
}

static Status put(Machine *m)
{
    const size_t i =
        m->op == 0x94 ? m->memo_count : (size_t)wire_load(m->operand, (int)m->operand_bytes);
    if (!top(m)) return damaged(m, "nothing to store in the memo");
    if (i > (size_t)(m->s->at - m->start) || i >= PUSHES_MAX)
        return damaged(m, "memo number out of range");
    while (m->memo_count <= i) {
        if (!mem_grow(&m->memo, m->memo_count, &m->memo_room, sizeof(PickleValue *)))
            return ERR_MEMORY;
        m->memo[m->memo_count++] = NULL;
    }
    m->memo[i] = top(m);
    return OK;
}

static Status get(Machine *m)
{
    const size_t i = (size_t)wire_load(m->operand, (int)m->operand_bytes);
    const bool there = i < m->memo_count && m->memo[i];
    return there ? push(m, m->memo[i]) : damaged(m, "memo entry does not exist");
}

/* ---- names and calls ---- */

/* A module and a name in it, from the stack or from two lines behind the operation. */
static Status push_name(Machine *m)
{
    PickleValue line[2] = { { .type = PICKLE_TEXT }, { .type = PICKLE_TEXT } };
    const PickleValue *name = m->op == 'c' ? &line[1] : pop(m),
                      *module = m->op == 'c' ? &line[0] : pop(m);
    char whole[NAME_BYTES];
    for (int i = 0; i < 2 && m->op == 'c'; i++) {
        const size_t left = (size_t)(m->s->end - m->s->at);
        const uint8_t *end = left ? memchr(m->s->at, '\n', left) : NULL;
        if (!end) return damaged(m, "unexpected end of a name");
        line[i].text = (const char *)m->s->at;
        line[i].count = (size_t)(end - m->s->at);
        m->s->at = end + 1;
    }
    if (!module || module->type != PICKLE_TEXT || name->type != PICKLE_TEXT ||
        module->count + name->count + 2 > sizeof whole || memchr(module->text, 0, module->count) ||
        memchr(name->text, 0, name->count))
        return damaged(m, "invalid name");
    snprintf(whole, sizeof whole, "%.*s.%.*s", (int)module->count, module->text, (int)name->count,
             name->text);
    PickleValue *v = make(m, PICKLE_NAME);
    if (v) TRY(m->s->find(&v->name, m->s->cookie, whole));
    return push(m, v);
}

static bool is_row(const PickleValue *v)
{
    return v && (v->type == PICKLE_LIST || v->type == PICKLE_TUPLE);
}

/* Fills a dictionary or set that is made of something: of pairs, as Python 2 made an OrderedDict,
 * or of another one, whose items they share. */
static Status fill(Machine *m, PickleValue *v, const PickleValue *from)
{
    if (from->type == PICKLE_NAME || from->type == PICKLE_NONE) return OK; /* a defaultdict's */
    if (from->type != v->type && !is_row(from))
        return damaged(m, "dictionary or set made from an unsupported value");
    if (from->type == v->type || v->type == PICKLE_LIST) {
        v->items = from->items;
        v->count = v->capacity = from->count;
        return OK;
    }
    m->pushes += from->count;
    for (size_t i = 0; i < from->count && m->pushes <= PUSHES_MAX; i++) {
        const PickleValue *pair = from->items[i];
        if (!is_row(pair) || pair->count != 2) return damaged(m, "invalid pair");
        for (int k = 0; k < 2; k++) TRY(add_item(m, v, pair->items[k]));
    }
    return OK;
}

static Status call(Machine *m)
{
    PickleValue *args = pop(m), *name = pop(m);
    if (!name || name->type != PICKLE_NAME || args->type != PICKLE_TUPLE)
        return damaged(m, "it calls something that is not a function");
    const bool dict = name->name == PICKLE_MAKES_DICT, list = name->name == PICKLE_MAKES_LIST;
    PickleValue *v = make(m, dict ? PICKLE_DICT : list ? PICKLE_LIST : PICKLE_CALL);
    if (!v) return ERR_MEMORY;
    if ((dict || list) && args->count > 0) TRY(fill(m, v, args->items[0]));
    if (!dict && !list) TRY(add_item(m, v, name));
    if (!dict && !list) TRY(add_item(m, v, args));
    return push(m, v);
}

/* The attributes of an object: none that matters here. */
static Status build(Machine *m)
{
    const PickleValue *state = pop(m), *to = top(m);
    if (!state || !to) return damaged(m, "too few values on the stack");
    if (to->type == PICKLE_CALL || to->type == PICKLE_DICT || to->type == PICKLE_LIST) return OK;
    return damaged(m, "attributes for a value that has none");
}

static Status push_stored(Machine *m)
{
    PickleValue *v = make(m, PICKLE_STORED);
    TRY(gather(m, v, 1));
    if (m->s->stored) TRY(m->s->stored(m->s->cookie, v));
    return push(m, v);
}

static Status skip(Machine *m)
{
    m->stopped = m->op == '.';
    return OK;
}

/* ---- the machine ---- */

typedef struct Row {
    Status (*run)(Machine *m);
    PickleType makes; /* where its function makes, or adds to, several types */
    uint8_t bytes;    /* of its operand */
    uint8_t length;   /* bytes of a length, which the operand follows */
} Row;

/* clang-format off */
static const Row rows[256] = {
    [0x80] = { skip, 0, 1, 0 }, [0x95] = { skip, 0, 8, 0 }, ['.'] = { skip, 0, 0, 0 },
    ['N'] = { push_plain, PICKLE_NONE, 0, 0 }, ['G'] = { push_plain, PICKLE_NONE, 8, 0 },
    [0x88] = { push_plain, PICKLE_BOOL, 0, 0 }, [0x89] = { push_plain, PICKLE_BOOL, 0, 0 },
    ['J'] = { push_integer, 0, 4, 0 }, ['K'] = { push_integer, 0, 1, 0 },
    ['M'] = { push_integer, 0, 2, 0 }, [0x8a] = { push_integer, 0, 0, 1 },
    ['X'] = { push_plain, PICKLE_TEXT, 0, 4 }, ['T'] = { push_plain, PICKLE_TEXT, 0, 4 },
    ['U'] = { push_plain, PICKLE_TEXT, 0, 1 }, ['B'] = { push_plain, PICKLE_TEXT, 0, 4 },
    ['C'] = { push_plain, PICKLE_TEXT, 0, 1 }, [0x8c] = { push_plain, PICKLE_TEXT, 0, 1 },
    [0x8d] = { push_plain, PICKLE_TEXT, 0, 8 }, ['}'] = { push_plain, PICKLE_DICT, 0, 0 },
    [']'] = { push_plain, PICKLE_LIST, 0, 0 }, [0x8f] = { push_plain, PICKLE_LIST, 0, 0 },
    [')'] = { push_plain, PICKLE_TUPLE, 0, 0 }, ['('] = { push_mark, 0, 0, 0 },
    ['t'] = { make_tuple, 0, 0, 0 }, [0x85] = { make_tuple, 0, 0, 0 },
    [0x86] = { make_tuple, 0, 0, 0 }, [0x87] = { make_tuple, 0, 0, 0 },
    ['a'] = { add_values, PICKLE_LIST, 0, 0 }, ['e'] = { add_values, PICKLE_LIST, 0, 0 },
    [0x90] = { add_values, PICKLE_LIST, 0, 0 }, ['s'] = { add_values, PICKLE_DICT, 0, 0 },
    ['u'] = { add_values, PICKLE_DICT, 0, 0 }, ['q'] = { put, 0, 1, 0 }, ['r'] = { put, 0, 4, 0 },
    [0x94] = { put, 0, 0, 0 }, ['h'] = { get, 0, 1, 0 }, ['j'] = { get, 0, 4, 0 },
    ['c'] = { push_name, 0, 0, 0 }, [0x93] = { push_name, 0, 0, 0 }, ['R'] = { call, 0, 0, 0 },
    [0x81] = { call, 0, 0, 0 }, ['b'] = { build, 0, 0, 0 }, ['Q'] = { push_stored, 0, 0, 0 },
};
/* clang-format on */

static Status take(Machine *m, size_t bytes)
{
    if (bytes > (size_t)(m->s->end - m->s->at)) return damaged(m, "unexpected end");
    m->operand = m->s->at;
    m->operand_bytes = bytes;
    m->s->at += bytes;
    return OK;
}

static Status run(Machine *m)
{
    while (!m->stopped) {
        TRY(take(m, 1));
        m->op = *m->operand;
        const Row *row = &rows[m->op];
        m->makes = row->makes;
        if (!row->run)
            return fail(ERR_DATA,
                        "the pickle has operation 0x%02x at byte %zu, which weights do not need",
                        (unsigned)m->op, (size_t)(m->s->at - m->start) - 1);
        TRY(take(m, row->length ? row->length : row->bytes));
        if (row->length) TRY(take(m, (size_t)wire_load(m->operand, row->length)));
        TRY(row->run(m));
    }
    return top(m) ? OK : damaged(m, "no result");
}

Status pickle_read(PickleValue **out, PickleSource *source)
{
    Machine m = { .s = source, .start = source->at };
    Status status = run(&m);
    *out = status == OK ? top(&m) : NULL;
    mem_free(m.stack);
    mem_free(m.memo);
    mem_free(m.marks);
    return status;
}

bool pickle_is(const PickleValue *v, const char *text)
{
    return v && v->type == PICKLE_TEXT && v->count == strlen(text) &&
           memcmp(v->text, text, v->count) == 0;
}

const PickleValue *pickle_item(const PickleValue *v, size_t i)
{
    return is_row(v) && i < v->count ? v->items[i] : NULL;
}

const PickleValue *pickle_get(const PickleValue *v, const char *key)
{
    for (size_t i = 0; v && v->type == PICKLE_DICT && i + 1 < v->count; i += 2)
        if (pickle_is(v->items[i], key)) return v->items[i + 1];
    return NULL;
}
