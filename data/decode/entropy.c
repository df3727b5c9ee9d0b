/* entropy.c - the Huffman decoder: tables, bits, blocks, and the way to an MCU.
 *
 * Data. The stuffed zeros are taken out in advance, a piece at a time, into a buffer that ends in
 * enough zeros for one whole MCU of the longest codes. So within an MCU nothing has to be checked:
 * whether the data were long enough is asked once, after it.
 *
 * Bits. A 64-bit reservoir whose top is the next bit; a refill needs no branch and leaves at least
 * 56 bits, which is two looks (26 bits each at most: longer values do not occur in 8-bit baseline
 * data, and tables with such symbols are odd). Of the count of bits only the low six are kept
 * right: shifts look at no more, so entries are subtracted and shifted by as they are, with their
 * length in the low six bits.
 *
 * Tables. The next LOOK bits give length, run and size of a symbol in one look, a value follows by
 * arithmetic. For AC one look gives up to two symbols, as many as lie in these bits with their
 * codes: what bounds the speed is the chain from bits to length to the next bits, and this halves
 * it. There is no branch on whether there is a second one: without it, or where it is the end of
 * the block, a value that means nothing goes to the place of the DC coefficient, which is written
 * last. What is no plain coefficient - the end of a block, a run of 16 zeros, a long code, an
 * invalid one - has a run that leaves the block, so the loop over a block has one branch for all of
 * them and one for the end behind a second symbol.
 *
 * Shifts by a variable are what this file is made of: the functions on MCUs exist twice, for
 * processors with BMI2 and for others. */
#include "data/decode/entropy.h"
#include "base/mem.h"
#include <stddef.h>
#include <string.h>

/* into the functions for each processor */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LOOK          10
#define LONGEST_CODE  16
#define END_OF_BLOCK  128 /* as a run */
#define NOT_PLAIN     192
#define BEYOND        100 /* as a place: none in the block */
#define PIECE_BYTES   ((size_t)32 << 10)
/* > ENTROPY_MAX_BLOCKS * (27 + 63 * 26) bits, and a refill */
#define PAD_BYTES ((size_t)4 << 10)

/* An entry: bits 0-5 length of code and value, 8-12 of the code, 16-21 (64 - length of the value)
 * mod 64, 24-31 run. */
typedef struct Pair { /* one or two AC symbols at the top of the bits */
    uint8_t total;    /* length of both with their values */
    /* of the first: bits before its value, 64 - length of its value, zeros before it */
    uint8_t shift, rest, run;
    /* of the second: the same; its run, or BEYOND where there is none to store */
    uint8_t shift2, rest2, place;
    uint8_t steps; /* coefficients that the second passes; 0: there is none */
} Pair;

typedef struct Table {
    uint32_t entry[1 << LOOK];
    Pair pair[1 << LOOK]; /* AC only */
    bool valid;
    uint32_t limit[LONGEST_CODE + 2]; /* first 16-bit window above the codes of this length */
    int offset[LONGEST_CODE + 1];     /* of a code's symbol from the code */
    EntropyCode code;                 /* what it was made from */
} Table;

typedef struct Symbol {    /* one that was looked up the long way */
    int length, size, run; /* of the code; of the value; run may be END_OF_BLOCK */
} Symbol;

typedef struct Bits {
    uint64_t bits;
    const uint8_t *next;
    uint32_t count; /* valid bits at the top, modulo 64 */
} Bits;

struct Entropy {
    Table tables[ENTROPY_KINDS][ENTROPY_SLOTS];
    EntropyLayout layout;
    const Table *dc_table[ENTROPY_COMPONENTS]; /* of each component */
    const Pair *pairs[ENTROPY_COMPONENTS];     /* AC */
    int64_t mcus;
    Bits b;
    int dc[ENTROPY_COMPONENTS];
    int at;       /* the MCU that b stands before; -1: none yet */
    ByteBuf data; /* unstuffed, from byte first_byte of the scan on */
    uint8_t *end;
    uint64_t first_byte;
    const uint8_t *scan, *source, *source_end;
    bool complete; /* all that there is has been unstuffed */
    bool has_index;
    SeekIndex index;
    uint8_t *record; /* index being made, or NULL */
    SeekIndex shape;
    bool (*keep)(Entropy *e, int16_t (*blocks)[64]); /* by processor */
    bool (*skip)(Entropy *e, int16_t (*blocks)[64]);
    uint64_t counted_bytes; /* of the scan, among which stuffed were 0xff */
    uint32_t stuffed;
};

/* Natural position of the k-th coefficient; that of the DC coefficient for all beyond. */
static const uint8_t natural[64 + BEYOND] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* ---- tables ---- */

/* Is it a symbol that 8-bit baseline data have? */
static bool understand(EntropyKind kind, uint8_t byte, Symbol *s)
{
    s->size = kind == ENTROPY_AC ? byte & 15 : byte;
    s->run = kind == ENTROPY_AC ? byte >> 4 : 0;
    if (kind == ENTROPY_DC) return s->size <= 11;
    if (byte == 0) s->run = END_OF_BLOCK;
    return s->size <= 10 && (s->size > 0 || byte == 0 || s->run == 15);
}

static uint32_t make_entry(EntropyKind kind, uint8_t byte, int length)
{
    Symbol s;
    bool plain =
        understand(kind, byte, &s) && (kind == ENTROPY_DC || s.size > 0 || s.run == END_OF_BLOCK);
    if (!plain) return (uint32_t)NOT_PLAIN << 24;
    return (uint32_t)(length + s.size) | (uint32_t)length << 8 |
           (uint32_t)((64 - s.size) & 63) << 16 | (uint32_t)s.run << 24;
}

static bool build_entropy(Table *t, EntropyKind kind)
{
    uint32_t code = 0;
    int symbols = 0;
    for (int i = 0; i < 1 << LOOK; i++) t->entry[i] = (uint32_t)NOT_PLAIN << 24;
    for (int length = 1; length <= LONGEST_CODE; length++, code <<= 1) {
        t->offset[length] = symbols - (int)code;
        for (int i = 0; i < t->code.counts[length]; i++, code++, symbols++) {
            if (symbols >= 256 || code >= 1u << length) return false;
            if (length > LOOK) continue;
            uint32_t entry = make_entry(kind, t->code.symbols[symbols], length),
                     copies = 1u << (LOOK - length);
            for (uint32_t j = 0; j < copies; j++) t->entry[(code << (LOOK - length)) + j] = entry;
        }
        t->limit[length] = code << (LONGEST_CODE - length);
    }
    return true;
}

static void build_pairs(Table *t)
{
    for (uint32_t i = 0; i < 1u << LOOK; i++) {
        uint32_t first = t->entry[i], length = first & 63, run = first >> 24;
        uint32_t second = t->entry[(i << length) & ((1u << LOOK) - 1)], run2 = second >> 24;
        Pair p = { .total = (uint8_t)length,
                   .shift = (uint8_t)(first >> 8 & 63),
                   .rest = (uint8_t)(first >> 16 & 63),
                   .run = (uint8_t)run,
                   .place = BEYOND };
        if (run < END_OF_BLOCK && run2 != NOT_PLAIN && length + (second >> 8 & 63) <= LOOK) {
            p.total = (uint8_t)(length + (second & 63));
            p.shift2 = (uint8_t)(length + (second >> 8 & 63));
            p.rest2 = (uint8_t)(second >> 16 & 63);
            p.place = run2 == END_OF_BLOCK ? BEYOND : (uint8_t)run2;
            p.steps = run2 == END_OF_BLOCK ? END_OF_BLOCK : (uint8_t)(run2 + 1);
        }
        t->pair[i] = p;
    }
}

bool entropy_set_code(Entropy *e, EntropyKind kind, int slot, const EntropyCode *code)
{
    ASSERT(slot >= 0 && slot < ENTROPY_SLOTS);
    Table *t = &e->tables[kind][slot];
    if (t->valid && memcmp(&t->code, code, sizeof *code) == 0) return true;
    t->code = *code;
    t->valid = build_entropy(t, kind);
    if (t->valid && kind == ENTROPY_AC) build_pairs(t);
    return t->valid;
}

/* ---- bits ---- */

static ALWAYS_INLINE void refill(Bits *b)
{
    uint64_t word;
    memcpy(&word, b->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    b->bits |= word >> (b->count & 63);
    b->next += (~b->count & 63) >> 3;
    b->count |= 56;
}

/* entry: with its length in the low six bits. */
static ALWAYS_INLINE void consume(Bits *b, uint32_t entry)
{
    b->bits <<= entry & 63;
    b->count -= entry;
}

/* The value that lies behind shift bits: 64 - rest bits of it, those below half stand for negative
 * numbers. */
static ALWAYS_INLINE int value_at(uint64_t bits, uint32_t shift, uint32_t rest)
{
    uint64_t v = bits << (shift & 63);
    uint64_t negative = ~(uint64_t)((int64_t)v >> 63);
    return (int)((((v ^ negative) >> (rest & 63)) ^ negative) - negative);
}

/* The symbol at the top of the bits, of any length; false for an invalid code or meaning. */
__attribute__((noinline)) static bool look_long(const Table *t, EntropyKind kind, uint64_t bits,
                                                Symbol *s)
{
    uint32_t window = (uint32_t)(bits >> (64 - LONGEST_CODE));
    for (int length = 1; length <= LONGEST_CODE; length++) {
        if (window >= t->limit[length]) continue;
        int symbol = (int)(window >> (LONGEST_CODE - length)) + t->offset[length];
        s->length = length;
        return symbol >= 0 && symbol <= 255 && understand(kind, t->code.symbols[symbol], s);
    }
    return false;
}

static ALWAYS_INLINE uint32_t total_length(const Symbol *s)
{
    return (uint32_t)(s->length + s->size);
}

/* The value behind a symbol that was looked up the long way. */
static ALWAYS_INLINE int value_behind(uint64_t bits, const Symbol *s)
{
    if (s->size == 0) return 0;
    int v = (int)(bits << s->length >> (64 - s->size));
    return v < 1 << (s->size - 1) ? v - (1 << s->size) + 1 : v;
}

/* ---- blocks ---- */

static ALWAYS_INLINE bool read_dc(const Table *t, Bits *b, int *dc)
{
    refill(b);
    Symbol s;
    uint32_t entry = t->entry[b->bits >> (64 - LOOK)];
    if (__builtin_expect((entry >> 16 & 63) != 0, 1)) {
        if (entry >> 24 == 0) {
            *dc += value_at(b->bits, entry >> 8, entry >> 16);
            consume(b, entry);
            return *dc >= INT16_MIN && *dc <= INT16_MAX;
        }
    } else if (entry >> 24 == 0) { /* no difference */
        consume(b, entry);
        return true;
    }
    if (!look_long(t, ENTROPY_DC, b->bits, &s)) return false; /* s alone is in memory here */
    *dc += value_behind(b->bits, &s);
    consume(b, total_length(&s));
    return *dc >= INT16_MIN && *dc <= INT16_MAX;
}

typedef enum Step { STEP_MORE, STEP_END, STEP_ODD } Step;

/* A symbol that left the block: the end of it, or one that is not plain. out may be NULL. */
__attribute__((noinline)) static Step read_special_in_memory(const Table *t, Bits *b, int *k,
                                                             int16_t *out)
{
    Symbol s;
    if (!look_long(t, ENTROPY_AC, b->bits, &s)) return STEP_ODD;
    int value = value_behind(b->bits, &s);
    consume(b, total_length(&s));
    if (s.run == END_OF_BLOCK) return STEP_END;
    *k += s.run;
    if (*k > 63) return STEP_ODD;
    if (out) out[natural[*k]] = (int16_t)value;
    return ++*k > 63 ? STEP_END : STEP_MORE;
}

/* The same on copies, so that what the hot loop works on can stay in registers. */
static ALWAYS_INLINE Step read_special(const Table *t, Bits *b, int *k, int16_t *out)
{
    Bits bits = *b;
    int at = *k;
    Step step = read_special_in_memory(t, &bits, &at, out);
    *b = bits;
    *k = at;
    return step;
}

/* What ended a block, or seemed to: a first symbol that leaves it or is its last coefficient. */
static ALWAYS_INLINE Step read_last(const Pair *pairs, const Pair *p, Bits *b, int *k, int16_t *out)
{
    const Table *t = (const Table *)(const void *)((const char *)pairs - offsetof(Table, pair));
    if (p->run != END_OF_BLOCK) return read_special(t, b, k, out);
    consume(b, p->total);
    return STEP_END;
}

/* One or two symbols; keep false: only their length. The table comes as its pairs, to spare the hot
 * loop a register. */
static ALWAYS_INLINE Step read_pair(const Pair *pairs, Bits *b, int *k, int16_t *out, bool keep)
{
    const Pair *p = pairs + (b->bits >> (64 - LOOK));
    int at = *k + p->run;
    if (__builtin_expect(at > 62, 0)) return read_last(pairs, p, b, k, keep ? out : NULL);
    if (keep) {
        const uint8_t *places = natural + at;
        out[places[0]] = (int16_t)value_at(b->bits, p->shift, p->rest);
        out[places[1 + p->place]] = (int16_t)value_at(b->bits, p->shift2, p->rest2);
    }
    *k = at + 1 + p->steps;
    consume(b, p->total);
    if (__builtin_expect(*k < 64, 1)) return STEP_MORE;
    return *k == 64 || *k > END_OF_BLOCK ? STEP_END : STEP_ODD;
}

static ALWAYS_INLINE bool read_block(const Table *dc_table, const Pair *pairs, Bits *b, int *dc,
                                     int16_t *out, bool keep)
{
    if (!read_dc(dc_table, b, dc)) return false;
    for (int k = 1;;) {
        refill(b);
        Step step = read_pair(pairs, b, &k, out, keep);
        if (step == STEP_MORE) step = read_pair(pairs, b, &k, out, keep);
        if (step == STEP_MORE) continue;
        if (keep) out[0] = (int16_t)*dc;
        return step == STEP_END;
    }
}

/* ---- data ---- */

/* Takes the stuffed zeros out of the next piece. */
static void extend(Entropy *e)
{
    const uint8_t *in = e->source;
    const uint8_t *stop =
        (size_t)(e->source_end - in) < PIECE_BYTES ? e->source_end : in + PIECE_BYTES;
    uint8_t *out = e->end;
    while (in < stop) {
        const uint8_t *mark = memchr(in, 0xff, (size_t)(stop - in));
        size_t plain = (size_t)((mark ? mark : stop) - in);
        memcpy(out, in, plain);
        out += plain;
        in += plain;
        if (!mark) break;
        if (e->source_end - in < 2 || in[1] != 0) { /* a marker */
            e->complete = true;
            break;
        }
        *out++ = 0xff;
        in += 2;
    }
    if (in >= e->source_end) e->complete = true;
    e->source = in;
    e->end = out;
    if (e->complete) memset(out, 0, PAD_BYTES);
}

static uint64_t bits_read(const Entropy *e)
{
    return (e->first_byte + (uint64_t)(e->b.next - e->data.data)) * 8 - (e->b.count & 63);
}

static bool within_data(const Entropy *e)
{
    return !e->complete || bits_read(e) <= (e->first_byte + (uint64_t)(e->end - e->data.data)) * 8;
}

static void restart_at(Entropy *e, const uint8_t *source, uint64_t first_byte)
{
    e->source = source;
    e->first_byte = first_byte;
    e->end = e->data.data;
    e->complete = false;
}

/* Stands before an entry of the index. False: the entry points out of the data. */
static bool seek_to(Entropy *e, int row, int entry)
{
    SeekEntry target = seek_index_entry(&e->index, row, entry);
    uint64_t byte = target.bits / 8;
    if (e->at < 0) {
        uint64_t first = seek_index_entry(&e->index, row, 0).bits / 8,
                 stuffed = seek_index_stuffed(&e->index, row);
        if (first + stuffed > (uint64_t)(e->source_end - e->scan)) return false;
        restart_at(e, e->scan + first + stuffed, first);
    }
    if (byte < e->first_byte) return false;
    while (!e->complete && byte + PAD_BYTES > e->first_byte + (uint64_t)(e->end - e->data.data))
        extend(e);
    if (byte > e->first_byte + (uint64_t)(e->end - e->data.data)) return false;
    e->b = (Bits){ .next = e->data.data + (byte - e->first_byte) };
    refill(&e->b);
    consume(&e->b, target.bits % 8);
    for (int i = 0; i < ENTROPY_COMPONENTS; i++) e->dc[i] = target.dc[i];
    e->at = row * e->layout.columns + entry * e->index.step;
    return true;
}

/* ---- MCUs ---- */

static void record_position(Entropy *e)
{
    int row = e->at / e->layout.columns, column = e->at % e->layout.columns;
    if (column % e->shape.step != 0) return;
    uint64_t bits = bits_read(e);
    SeekEntry entry = { .bits = (uint32_t)bits, .dc = { e->dc[0], e->dc[1], e->dc[2] } };
    seek_index_put_entry(e->record, &e->shape, row, column / e->shape.step, &entry);
    if (column != 0) return;
    for (uint64_t byte = bits / 8; e->counted_bytes < byte; e->counted_bytes++)
        e->stuffed += e->data.data[e->counted_bytes] == 0xff;
    seek_index_put_row(e->record, &e->shape, row, e->stuffed);
}

static void get_ready(Entropy *e)
{
    if (e->record) record_position(e);
    while (!e->complete && (size_t)(e->end - e->b.next) < PAD_BYTES) extend(e);
    e->at++;
}

/* keep false: only the MCU's length; blocks is not used. */
static ALWAYS_INLINE bool walk_mcu(Entropy *e, int16_t (*blocks)[64], bool keep)
{
    const EntropyLayout *l = &e->layout;
    Bits b = e->b;
    for (int i = 0; i < l->blocks; i++) {
        int c = l->component[i], dc = e->dc[c];
        bool good = read_block(e->dc_table[c], e->pairs[c], &b, &dc, keep ? blocks[i] : NULL, keep);
        e->dc[c] = dc;
        if (!good) return false;
    }
    e->b = b;
    return true;
}

static bool keep_plain(Entropy *e, int16_t (*blocks)[64])
{
    return walk_mcu(e, blocks, true);
}

static bool skip_plain(Entropy *e, int16_t (*blocks)[64])
{
    return walk_mcu(e, blocks, false);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("bmi,bmi2"))) static bool keep_bmi2(Entropy *e, int16_t (*blocks)[64])
{
    return walk_mcu(e, blocks, true);
}

__attribute__((target("bmi,bmi2"))) static bool skip_bmi2(Entropy *e, int16_t (*blocks)[64])
{
    return walk_mcu(e, blocks, false);
}

static bool has_bmi2(void)
{
    return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#else
#define keep_bmi2  keep_plain
#define skip_bmi2  skip_plain
#define has_bmi2() false
#endif

static bool skip_mcu(Entropy *e)
{
    get_ready(e);
    return e->skip(e, NULL) && within_data(e);
}

static bool keep_mcu(Entropy *e, int16_t (*blocks)[64])
{
    get_ready(e);
    return e->keep(e, blocks) && within_data(e);
}

static bool skip_to(Entropy *e, int mcu)
{
    while (e->at < mcu)
        if (!skip_mcu(e)) return false;
    return true;
}

bool entropy_decode(Entropy *e, int mcu, int16_t (*blocks)[64])
{
    ASSERT(mcu >= e->at && mcu < e->mcus);
    if (e->has_index && mcu != e->at) {
        int row = mcu / e->layout.columns, entry = mcu % e->layout.columns / e->index.step;
        if (row * e->layout.columns + entry * e->index.step > e->at && !seek_to(e, row, entry))
            return false;
    }
    return skip_to(e, mcu) && keep_mcu(e, blocks);
}

/* ---- a scan ---- */

static bool index_fits(const SeekIndex *index, const EntropyLayout *l)
{
    return index && index->columns == l->columns && index->rows == l->rows &&
           index->components == l->components;
}

Status entropy_begin(Entropy *e, const EntropyLayout *layout, const uint8_t *data, size_t bytes,
                     const SeekIndex *index)
{
    ASSERT(layout->blocks >= 1 && layout->blocks <= ENTROPY_MAX_BLOCKS &&
           layout->components <= ENTROPY_COMPONENTS);
    TRY(byte_buf_reserve(&e->data, bytes + 2 * PAD_BYTES));
    e->layout = *layout;
    for (int c = 0; c < layout->components; c++) {
        e->dc_table[c] = &e->tables[ENTROPY_DC][layout->slot[ENTROPY_DC][c]];
        e->pairs[c] = e->tables[ENTROPY_AC][layout->slot[ENTROPY_AC][c]].pair;
    }
    e->mcus = (int64_t)layout->columns * layout->rows;
    e->scan = data;
    e->source_end = data + bytes;
    e->record = NULL;
    e->has_index = index_fits(index, layout);
    if (e->has_index) e->index = *index;
    restart_at(e, data, 0);
    e->b = (Bits){ .next = e->data.data };
    memset(e->dc, 0, sizeof e->dc);
    e->at = -1;
    if (e->has_index) return OK;
    extend(e);
    e->at = 0;
    return OK;
}

Status entropy_start_record(Entropy *e, int step, ByteBuf *out, size_t *bytes)
{
    const EntropyLayout *l = &e->layout;
    ASSERT(e->at == 0 && !e->has_index);
    *bytes = seek_index_bytes(l->columns, l->rows, step);
    TRY(byte_buf_reserve(out, *bytes));
    e->record = out->data;
    e->shape = (SeekIndex){ .columns = l->columns,
                            .rows = l->rows,
                            .step = step,
                            .components = l->components,
                            .per_row = (l->columns + step - 1) / step };
    e->counted_bytes = 0;
    e->stuffed = 0;
    return OK;
}

bool entropy_finish_record(Entropy *e, const uint8_t *file, size_t size)
{
    bool fits = skip_to(e, (int)e->mcus);
    if (fits) seek_index_put_header(e->record, &e->shape, file, size);
    e->record = NULL;
    return fits;
}

Status entropy_create(Entropy **out)
{
    *out = mem_calloc(1, sizeof **out);
    if (!*out) return ERR_MEMORY;
    (*out)->keep = has_bmi2() ? keep_bmi2 : keep_plain;
    (*out)->skip = has_bmi2() ? skip_bmi2 : skip_plain;
    return OK;
}

void entropy_destroy(Entropy *e)
{
    if (!e) return;
    byte_buf_free(&e->data);
    mem_free(e);
}

void entropy_trim(Entropy *e, size_t limit_bytes)
{
    byte_buf_trim(&e->data, limit_bytes);
}
