/* entropy.c - the Huffman decoder: tables, bits, blocks, and the way to an MCU.
 *
 * Data. The stuffed zeros are taken out in advance, a piece at a time, into a buffer that ends in enough zeros for one
 * whole MCU of the longest codes. So within an MCU nothing has to be checked: whether the data were long enough is
 * asked once, after it.
 *
 * Bits. A 64-bit reservoir whose top is the next bit; a refill needs no branch and leaves at least 56 bits, which is
 * two symbols with their values (26 bits each at most: longer values do not occur in 8-bit baseline data, and tables
 * with such symbols are odd).
 *
 * Tables. The next LOOK bits give length, run and size of a symbol in one look, a value follows by arithmetic. An end
 * of block is a run of 128, which leaves the block like a run that is too long. For MCUs that nobody wants, a table gives the length of up to two symbols at once. */
#include "data/entropy.h"
#include "base/mem.h"
#include <string.h>

#define LOOK         10
#define SKIP_LOOK    11
#define LONGEST_CODE 16
#define END_OF_BLOCK 128
#define PIECE_BYTES  ((size_t)32 << 10)
#define PAD_BYTES    ((size_t)4 << 10) /* > ENTROPY_MAX_BLOCKS * (27 + 63 * 26) bits, and a refill */

/* An entry: bits 0-5 length of code and value, 8-12 of the code, 16-21 63 - length of the value, 24-31 run. 0: none. */
typedef struct Table {
    uint32_t entry[1 << LOOK];
    uint16_t skip[1 << SKIP_LOOK]; /* bits 0-5 length of one or two symbols with values, 6-13 coefficients passed */
    bool has_skip, valid;
    uint32_t limit[LONGEST_CODE + 2]; /* first 16-bit window above the codes of this length */
    int offset[LONGEST_CODE + 1];     /* of a code's symbol from the code */
    uint32_t meaning[256];            /* entry of each symbol, without the length of its code */
    EntropyCode code;                 /* what it was made from */
} Table;

typedef struct Bits {
    uint64_t bits;
    const uint8_t *next;
    int count; /* valid bits at the top */
} Bits;

struct Entropy {
    Table tables[ENTROPY_KINDS][ENTROPY_SLOTS];
    EntropyLayout layout;
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
    uint64_t counted_bytes; /* of the scan, among which stuffed were 0xff */
    uint32_t stuffed;
};

/* Natural position of the k-th coefficient. */
static const uint8_t natural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* ---- tables ---- */

static uint32_t meaning_of(EntropyKind kind, uint8_t symbol)
{
    uint32_t size = symbol, run = 0;
    if (kind == ENTROPY_AC) {
        size = symbol & 15;
        run = symbol >> 4;
        if (size > 10 || (size == 0 && run != 0 && run != 15)) return 0;
        if (symbol == 0) run = END_OF_BLOCK;
    } else if (size > 11) {
        return 0;
    }
    return size | (63 - size) << 16 | run << 24;
}

static uint32_t with_length(uint32_t meaning, int length)
{
    return meaning ? (meaning + (uint32_t)length) | (uint32_t)length << 8 : 0;
}

static bool build(Table *t, EntropyKind kind)
{
    uint32_t code = 0;
    int symbols = 0;
    memset(t->entry, 0, sizeof t->entry);
    for (int i = 0; i < 256; i++) t->meaning[i] = meaning_of(kind, (uint8_t)i);
    for (int length = 1; length <= LONGEST_CODE; length++, code <<= 1) {
        t->offset[length] = symbols - (int)code;
        for (int i = 0; i < t->code.counts[length]; i++, code++, symbols++) {
            if (symbols >= 256 || code >= 1u << length) return false;
            if (length > LOOK) continue;
            uint32_t entry = with_length(t->meaning[t->code.symbols[symbols]], length), copies = 1u << (LOOK - length);
            for (uint32_t j = 0; j < copies; j++) t->entry[(code << (LOOK - length)) + j] = entry;
        }
        t->limit[length] = code << (LONGEST_CODE - length);
    }
    return true;
}

/* Passed coefficients of an entry. */
static uint32_t passed(uint32_t entry)
{
    uint32_t run = entry >> 24;
    return run == END_OF_BLOCK ? END_OF_BLOCK : run + 1;
}

static void build_skip(Table *t)
{
    t->has_skip = true;
    for (uint32_t i = 0; i < 1u << SKIP_LOOK; i++) {
        uint32_t first = t->entry[i >> (SKIP_LOOK - LOOK)], length = first & 63, steps = passed(first);
        if (!first) {
            t->skip[i] = 255 << 6; /* too far for any block: the loop looks again, at one symbol */
            continue;
        }
        if (steps < 64 && length < SKIP_LOOK) {
            uint32_t rest = (i << length) & ((1u << SKIP_LOOK) - 1), second = t->entry[rest >> (SKIP_LOOK - LOOK)];
            if (second && (second >> 8 & 31) <= SKIP_LOOK - length) {
                length += second & 63;
                steps += passed(second);
            }
        }
        t->skip[i] = (uint16_t)(length | steps << 6);
    }
}

bool entropy_set_code(Entropy *e, EntropyKind kind, int slot, const EntropyCode *code)
{
    ASSERT(slot >= 0 && slot < ENTROPY_SLOTS);
    Table *t = &e->tables[kind][slot];
    if (t->valid && memcmp(&t->code, code, sizeof *code) == 0) return true;
    t->code = *code;
    t->has_skip = false;
    t->valid = build(t, kind);
    return t->valid;
}

/* ---- bits ---- */

static inline void refill(Bits *b)
{
    uint64_t word;
    memcpy(&word, b->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    b->bits |= word >> b->count;
    b->next += (63 - b->count) >> 3;
    b->count |= 56;
}

static inline void consume(Bits *b, uint32_t length)
{
    b->bits <<= length & 63;
    b->count -= (int)(length & 63);
}

/* The value behind the code of an entry: size bits, those below half stand for negative numbers. */
static inline int value_of(uint64_t bits, uint32_t entry)
{
    uint64_t v = bits << (entry >> 8 & 31);
    int64_t negative = ~((int64_t)v >> 63);
    return (int)((int64_t)((v ^ (uint64_t)negative) >> 1 >> (entry >> 16 & 63)) ^ negative) - (int)negative;
}

/* Codes longer than LOOK bits; 0 for those that are none, or whose symbol baseline does not have. */
__attribute__((noinline)) static uint32_t long_entry(const Table *t, uint64_t bits)
{
    uint32_t window = (uint32_t)(bits >> (64 - LONGEST_CODE));
    for (int length = 1; length <= LONGEST_CODE; length++) {
        if (window >= t->limit[length]) continue;
        int symbol = (int)(window >> (LONGEST_CODE - length)) + t->offset[length];
        return symbol < 0 || symbol > 255 ? 0 : with_length(t->meaning[t->code.symbols[symbol]], length);
    }
    return 0;
}

static inline uint32_t look(const Table *t, uint64_t bits)
{
    uint32_t entry = t->entry[bits >> (64 - LOOK)];
    return __builtin_expect(entry == 0, 0) ? long_entry(t, bits) : entry;
}

/* ---- blocks ---- */

static inline bool read_dc(const Table *t, Bits *b, int *dc)
{
    refill(b);
    uint32_t entry = look(t, b->bits);
    if (!entry) return false;
    *dc += value_of(b->bits, entry);
    consume(b, entry);
    return *dc >= INT16_MIN && *dc <= INT16_MAX;
}

/* A symbol of a block at coefficient *k and its value; false at the end of the block, which is odd where *good says so. */
static inline bool read_symbol(const Table *t, Bits *b, int *k, int16_t *out, bool *good)
{
    uint32_t entry = look(t, b->bits);
    int value = value_of(b->bits, entry);
    consume(b, entry);
    *k += (int)(entry >> 24);
    if (__builtin_expect(*k > 63, 0)) {
        *good = *k > END_OF_BLOCK && entry;
        return false;
    }
    out[natural[*k]] = (int16_t)value;
    *good = entry != 0;
    return ++*k < 64 && entry;
}

static inline bool read_block(const Table *dc_table, const Table *ac_table, Bits *b, int *dc, int16_t *out)
{
    bool good = read_dc(dc_table, b, dc);
    if (!good) return false;
    out[0] = (int16_t)*dc;
    int k = 1;
    do refill(b);
    while (read_symbol(ac_table, b, &k, out, &good) && read_symbol(ac_table, b, &k, out, &good));
    return good;
}

/* A block's length only. */
static inline bool skip_block(const Table *dc_table, const Table *ac_table, Bits *b, int *dc)
{
    if (!read_dc(dc_table, b, dc)) return false;
    for (int k = 1;;) {
        refill(b);
        int after = k;
        for (int i = 0; i < 2; i++) {
            uint32_t skip = ac_table->skip[b->bits >> (64 - SKIP_LOOK)];
            after = k + (int)(skip >> 6);
            if (after < 64 || (after >= END_OF_BLOCK && after < END_OF_BLOCK + 64)) consume(b, skip);
            if (after >= 64) break;
            k = after;
        }
        if (after < 64) continue;
        if (after >= END_OF_BLOCK && after < END_OF_BLOCK + 64) return true;
        refill(b); /* the 64th coefficient is passed in the middle of the entry, or the code is long */
        uint32_t entry = look(ac_table, b->bits);
        if (!entry) return false;
        consume(b, entry);
        k += (int)(entry >> 24) + 1;
        if (k >= 64) return k == 64 || k > END_OF_BLOCK;
    }
}

/* ---- data ---- */

/* Takes the stuffed zeros out of the next piece. */
static void extend(Entropy *e)
{
    const uint8_t *in = e->source;
    const uint8_t *stop = (size_t)(e->source_end - in) < PIECE_BYTES ? e->source_end : in + PIECE_BYTES;
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
    return (e->first_byte + (uint64_t)(e->b.next - e->data.data)) * 8 - (uint64_t)e->b.count;
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
        uint64_t first = seek_index_entry(&e->index, row, 0).bits / 8, stuffed = seek_index_stuffed(&e->index, row);
        if (first + stuffed > (uint64_t)(e->source_end - e->scan)) return false;
        restart_at(e, e->scan + first + stuffed, first);
    }
    if (byte < e->first_byte) return false;
    while (!e->complete && byte + PAD_BYTES > e->first_byte + (uint64_t)(e->end - e->data.data)) extend(e);
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

static bool skip_mcu(Entropy *e)
{
    const EntropyLayout *l = &e->layout;
    get_ready(e);
    Bits b = e->b;
    for (int i = 0; i < l->blocks; i++) {
        int c = l->component[i];
        const Table *ac = &e->tables[ENTROPY_AC][l->slot[ENTROPY_AC][c]];
        if (!skip_block(&e->tables[ENTROPY_DC][l->slot[ENTROPY_DC][c]], ac, &b, &e->dc[c])) return false;
    }
    e->b = b;
    return within_data(e);
}

static bool keep_mcu(Entropy *e, int16_t (*blocks)[64])
{
    const EntropyLayout *l = &e->layout;
    get_ready(e);
    Bits b = e->b;
    for (int i = 0; i < l->blocks; i++) {
        int c = l->component[i];
        const Table *ac = &e->tables[ENTROPY_AC][l->slot[ENTROPY_AC][c]];
        if (!read_block(&e->tables[ENTROPY_DC][l->slot[ENTROPY_DC][c]], ac, &b, &e->dc[c], blocks[i])) return false;
    }
    e->b = b;
    return within_data(e);
}

static void prepare_to_skip(Entropy *e)
{
    for (int c = 0; c < e->layout.components; c++) {
        Table *t = &e->tables[ENTROPY_AC][e->layout.slot[ENTROPY_AC][c]];
        if (!t->has_skip) build_skip(t);
    }
}

static bool skip_to(Entropy *e, int mcu)
{
    if (e->at < mcu) prepare_to_skip(e);
    while (e->at < mcu)
        if (!skip_mcu(e)) return false;
    return true;
}

bool entropy_decode(Entropy *e, int mcu, int16_t (*blocks)[64])
{
    ASSERT(mcu >= e->at && mcu < e->mcus);
    if (e->has_index && mcu != e->at) {
        int row = mcu / e->layout.columns, entry = mcu % e->layout.columns / e->index.step;
        if (row * e->layout.columns + entry * e->index.step > e->at && !seek_to(e, row, entry)) return false;
    }
    return skip_to(e, mcu) && keep_mcu(e, blocks);
}

/* ---- a scan ---- */

static bool index_fits(const SeekIndex *index, const EntropyLayout *l)
{
    return index && index->columns == l->columns && index->rows == l->rows && index->components == l->components;
}

Status entropy_begin(Entropy *e, const EntropyLayout *layout, const uint8_t *data, size_t bytes, const SeekIndex *index)
{
    ASSERT(layout->blocks >= 1 && layout->blocks <= ENTROPY_MAX_BLOCKS && layout->components <= ENTROPY_COMPONENTS);
    TRY(buf_reserve(&e->data, bytes + 2 * PAD_BYTES));
    e->layout = *layout;
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
    TRY(buf_reserve(out, *bytes));
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

bool entropy_finish_record(Entropy *e)
{
    bool fits = skip_to(e, (int)e->mcus);
    e->record = NULL;
    return fits;
}

Status entropy_create(Entropy **out)
{
    *out = mem_calloc(1, sizeof **out);
    return *out ? OK : ERR_MEMORY;
}

void entropy_destroy(Entropy *e)
{
    if (!e) return;
    buf_free(&e->data);
    mem_free(e);
}

void entropy_trim(Entropy *e, size_t limit_bytes)
{
    buf_trim(&e->data, limit_bytes);
}
