/* pickle.c - see pickle.h. Operations are those of protocols 2 to 5 that torch.save() writes, in
 * any Python; CPython's pickletools lists their arguments. */
#include "trainer/engine/files/pickle.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/wire.h"
#include <string.h>

/* Values that a pickle pushes in all: the weights of a network take some thousands. */
enum { PUSHES_MAX = 1 << 23, NAME_BYTES = 256, FIRST_ITEMS = 4 };

typedef struct Machine {
    PickleSource *s;
    const uint8_t *start, *operand; /* operand: of the operation, or what its length counts */
    size_t operand_bytes;
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
        const size_t room = list->capacity ? 2 * list->capacity : FIRST_ITEMS;
        PickleValue **items = arena_alloc(m->s->arena, room * sizeof(PickleValue *));
        if (!items) return ERR_MEMORY;
        if (list->count) memcpy(items, list->items, list->count * sizeof(PickleValue *));
        list->items = items;
        list->capacity = room;
    }
    list->items[list->count++] = item;
    return OK;
}

/* The `count` values on top as items of v, which follows them. */
static Status gather(Machine *m, PickleValue *v, size_t count)
{
    if (!v) return ERR_MEMORY;
    if (count > above_mark(m)) return damaged(m, "too few values on the stack");
    m->depth -= count;
    for (size_t i = 0; i < count; i++) TRY(add_item(m, v, m->stack[m->depth + i]));
    return OK;
}

/* ---- values ---- */

static Status push_constant(Machine *m, int op)
{
    PickleValue *v = make(m, op == 'N' ? PICKLE_NONE : op == ')' ? PICKLE_TUPLE : PICKLE_BOOL);
    if (v && v->type == PICKLE_BOOL) v->integer = op == 0x88;
    return push(m, v);
}

static Status push_integer(Machine *m, int op)
{
    const int bytes = (int)m->operand_bytes;
    const bool big = bytes > 8, is_signed = op == 'J' || op == 0x8a;
    PickleValue *v = make(m, big ? PICKLE_TEXT : PICKLE_INT);
    if (!v) return ERR_MEMORY;
    if (big) {
        v->text = (const char *)m->operand;
        v->bytes = m->operand_bytes;
        return push(m, v);
    }
    uint64_t value = wire_load(m->operand, bytes);
    if (is_signed && bytes > 0 && bytes < 8 && (m->operand[bytes - 1] & 0x80))
        value |= ~(uint64_t)0 << 8 * bytes;
    v->integer = (int64_t)value;
    return push(m, v);
}

static Status push_number(Machine *m, int op)
{
    uint64_t bits = 0;
    PickleValue *v = make(m, PICKLE_FLOAT);
    (void)op;
    if (!v) return ERR_MEMORY;
    for (int i = 0; i < 8; i++) bits = bits << 8 | m->operand[i];
    memcpy(&v->number, &bits, sizeof bits);
    return push(m, v);
}

static Status push_text(Machine *m, int op)
{
    PickleValue *v = make(m, PICKLE_TEXT);
    (void)op;
    if (!v) return ERR_MEMORY;
    v->text = (const char *)m->operand;
    v->bytes = m->operand_bytes;
    return push(m, v);
}

static Status push_empty(Machine *m, int op)
{
    return push(m, make(m, op == '}' ? PICKLE_DICT : PICKLE_LIST));
}

static Status push_mark(Machine *m, int op)
{
    (void)op;
    if (m->mark_count >= PUSHES_MAX) return damaged(m, "too many marks");
    if (!mem_grow(&m->marks, m->mark_count, &m->mark_room, sizeof *m->marks)) return ERR_MEMORY;
    m->marks[m->mark_count++] = m->depth;
    return OK;
}

static Status make_tuple(Machine *m, int op)
{
    PickleValue *v = make(m, PICKLE_TUPLE);
    const bool marked = op == 't';
    if (marked && m->mark_count == 0) return damaged(m, "no mark");
    TRY(gather(m, v, marked ? above_mark(m) : (size_t)(op - 0x84)));
    if (marked) m->mark_count--;
    return push(m, v);
}

/* ---- lists and dictionaries ---- */

/* Adds the values above the mark, or those on top, to what is below them. */
static Status add_values(Machine *m, int op)
{
    const bool pairs = op == 'u' || op == 's', marked = op != 's' && op != 'a';
    if (marked && m->mark_count == 0) return damaged(m, "no mark");
    const size_t count = marked ? above_mark(m) : pairs ? 2 : 1;
    if (marked) m->mark_count--;
    if (above_mark(m) <= count) return damaged(m, "too few values on the stack");
    PickleValue *to = m->stack[m->depth - count - 1];
    if (to->type != (pairs ? PICKLE_DICT : PICKLE_LIST) || (pairs && count % 2 != 0))
        return damaged(m, "items added to a value that cannot hold them");
    return gather(m, to, count);
}

/* ---- the memo ---- */

static Status put(Machine *m, int op)
{
    const size_t i =
        op == 0x94 ? m->memo_count : (size_t)wire_load(m->operand, (int)m->operand_bytes);
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

static Status get(Machine *m, int op)
{
    const size_t i = (size_t)wire_load(m->operand, (int)m->operand_bytes);
    (void)op;
    if (i >= m->memo_count || !m->memo[i]) return damaged(m, "memo entry does not exist");
    return push(m, m->memo[i]);
}

/* ---- names and calls ---- */

static Status push_name(Machine *m, const char *module, size_t module_bytes, const char *name,
                        size_t name_bytes)
{
    char whole[NAME_BYTES];
    PickleValue *v = make(m, PICKLE_NAME);
    if (!v) return ERR_MEMORY;
    if (module_bytes + name_bytes + 2 > sizeof whole || memchr(module, 0, module_bytes) ||
        memchr(name, 0, name_bytes))
        return damaged(m, "invalid name");
    memcpy(whole, module, module_bytes);
    whole[module_bytes] = '.';
    memcpy(whole + module_bytes + 1, name, name_bytes);
    whole[module_bytes + 1 + name_bytes] = '\0';
    TRY(m->s->find(&v->name, m->s->cookie, whole));
    return push(m, v);
}

/* Two lines behind the operation. */
static Status push_global(Machine *m, int op)
{
    const char *line[2];
    size_t bytes[2];
    (void)op;
    for (int i = 0; i < 2; i++) {
        const size_t left = (size_t)(m->s->end - m->s->at);
        const uint8_t *end = left ? memchr(m->s->at, '\n', left) : NULL;
        if (!end) return damaged(m, "unexpected end of a name");
        line[i] = (const char *)m->s->at;
        bytes[i] = (size_t)(end - m->s->at);
        m->s->at = end + 1;
    }
    return push_name(m, line[0], bytes[0], line[1], bytes[1]);
}

static Status push_stack_global(Machine *m, int op)
{
    const PickleValue *name = pop(m), *module = pop(m);
    (void)op;
    if (!module || module->type != PICKLE_TEXT || name->type != PICKLE_TEXT)
        return damaged(m, "invalid name");
    return push_name(m, module->text, module->bytes, name->text, name->bytes);
}

static bool is_row(const PickleValue *v)
{
    return v->type == PICKLE_LIST || v->type == PICKLE_TUPLE;
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
        TRY(add_item(m, v, pair->items[0]));
        TRY(add_item(m, v, pair->items[1]));
    }
    return OK;
}

static Status call(Machine *m, int op)
{
    PickleValue *args = pop(m), *name = pop(m);
    (void)op;
    if (!name || name->type != PICKLE_NAME || args->type != PICKLE_TUPLE)
        return damaged(m, "it calls something that is not a function");
    const bool dict = name->name == PICKLE_MAKES_DICT, list = name->name == PICKLE_MAKES_LIST;
    PickleValue *v = make(m, dict ? PICKLE_DICT : list ? PICKLE_LIST : PICKLE_CALL);
    if (!v) return ERR_MEMORY;
    if (v->type == PICKLE_CALL) {
        TRY(add_item(m, v, name));
        TRY(add_item(m, v, args));
    } else if (args->count > 0) {
        TRY(fill(m, v, args->items[0]));
    }
    return push(m, v);
}

/* The attributes of an object: none that matters here. */
static Status build(Machine *m, int op)
{
    const PickleValue *state = pop(m), *to = top(m);
    (void)op;
    if (!state || !to) return damaged(m, "too few values on the stack");
    if (to->type != PICKLE_CALL && to->type != PICKLE_DICT && to->type != PICKLE_LIST)
        return damaged(m, "attributes for a value that has none");
    return OK;
}

static Status push_stored(Machine *m, int op)
{
    PickleValue *v = make(m, PICKLE_STORED);
    (void)op;
    TRY(gather(m, v, 1));
    if (m->s->stored) TRY(m->s->stored(m->s->cookie, v));
    return push(m, v);
}

static Status skip(Machine *m, int op)
{
    m->stopped = op == '.';
    return OK;
}

/* ---- the machine ---- */

typedef struct Row {
    Status (*run)(Machine *m, int op);
    uint8_t bytes;  /* of its operand */
    uint8_t length; /* bytes of a length, which the operand follows */
} Row;

static const Row rows[256] = {
    [0x80] = { skip, 1, 0 }, /* protocol */
    [0x95] = { skip, 8, 0 }, /* frame */
    ['.'] = { skip, 0, 0 },
    ['N'] = { push_constant, 0, 0 },
    [')'] = { push_constant, 0, 0 },
    [0x88] = { push_constant, 0, 0 },
    [0x89] = { push_constant, 0, 0 },
    ['J'] = { push_integer, 4, 0 },
    ['K'] = { push_integer, 1, 0 },
    ['M'] = { push_integer, 2, 0 },
    [0x8a] = { push_integer, 0, 1 },
    ['G'] = { push_number, 8, 0 },
    ['X'] = { push_text, 0, 4 },
    ['T'] = { push_text, 0, 4 },
    ['U'] = { push_text, 0, 1 },
    ['B'] = { push_text, 0, 4 },
    ['C'] = { push_text, 0, 1 },
    [0x8c] = { push_text, 0, 1 },
    [0x8d] = { push_text, 0, 8 },
    [0x8e] = { push_text, 0, 8 },
    ['}'] = { push_empty, 0, 0 },
    [']'] = { push_empty, 0, 0 },
    [0x8f] = { push_empty, 0, 0 },
    ['('] = { push_mark, 0, 0 },
    ['t'] = { make_tuple, 0, 0 },
    [0x85] = { make_tuple, 0, 0 },
    [0x86] = { make_tuple, 0, 0 },
    [0x87] = { make_tuple, 0, 0 },
    ['a'] = { add_values, 0, 0 },
    ['e'] = { add_values, 0, 0 },
    ['s'] = { add_values, 0, 0 },
    ['u'] = { add_values, 0, 0 },
    [0x90] = { add_values, 0, 0 },
    ['q'] = { put, 1, 0 },
    ['r'] = { put, 4, 0 },
    [0x94] = { put, 0, 0 },
    ['h'] = { get, 1, 0 },
    ['j'] = { get, 4, 0 },
    ['c'] = { push_global, 0, 0 },
    [0x93] = { push_stack_global, 0, 0 },
    ['R'] = { call, 0, 0 },
    [0x81] = { call, 0, 0 },
    ['b'] = { build, 0, 0 },
    ['Q'] = { push_stored, 0, 0 },
};

static Status take(Machine *m, size_t bytes)
{
    PickleSource *s = m->s;
    if (bytes > (size_t)(s->end - s->at)) return damaged(m, "unexpected end");
    m->operand = s->at;
    m->operand_bytes = bytes;
    s->at += bytes;
    return OK;
}

static Status run(Machine *m)
{
    while (!m->stopped) {
        TRY(take(m, 1));
        const int op = *m->operand;
        const Row *row = &rows[op];
        if (!row->run)
            return fail(ERR_DATA,
                        "the pickle has operation 0x%02x at byte %zu, which weights do not need",
                        (unsigned)op, (size_t)(m->s->at - m->start) - 1);
        TRY(take(m, row->length ? row->length : row->bytes));
        if (row->length) {
            const uint64_t length = wire_load(m->operand, row->length);
            TRY(take(m, length < SIZE_MAX ? (size_t)length : SIZE_MAX));
        }
        TRY(row->run(m, op));
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
    return v->type == PICKLE_TEXT && v->bytes == strlen(text) &&
           memcmp(v->text, text, v->bytes) == 0;
}

const PickleValue *pickle_get(const PickleValue *v, const char *key)
{
    if (v->type != PICKLE_DICT) return NULL;
    for (size_t i = 0; i + 1 < v->count; i += 2)
        if (pickle_is(v->items[i], key)) return v->items[i + 1];
    return NULL;
}
