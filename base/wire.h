/* wire.h - the wire format of protocol buffers, and little-endian numbers.
 *
 * A field is its number and wire type, then a varint, four or eight bytes, or a length and as many
 * bytes; messages inside messages are built first. */
#ifndef CONVOY_BASE_WIRE_H
#define CONVOY_BASE_WIRE_H
#include "base/str.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* A number of up to eight bytes, the lowest first. */
static inline uint64_t wire_load(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * i;
    return value;
}

static inline void wire_store(uint8_t *p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(value >> 8 * i);
}

/* Writing: each adds one field; as with all of StrBuf, out->failed is looked at once at the end. */
void wire_put_int(StrBuf *out, int field, int64_t value);
void wire_put_float(StrBuf *out, int field, float value);
void wire_put_double(StrBuf *out, int field, double value);
void wire_put_bytes(StrBuf *out, int field, const void *data, size_t bytes);
void wire_put_text(StrBuf *out, int field, const char *text);
/* a finished message, which stays the caller's */
void wire_put_message(StrBuf *out, int field, const StrBuf *message);
void wire_give_message(StrBuf *out, int field, StrBuf *message); /* and frees it */
void wire_put_number(StrBuf *out, uint64_t value, int bytes);    /* little-endian, no field */

/* Reading: a pair of pointers that never passes its end. */
typedef struct WireReader {
    const uint8_t *p, *end;
} WireReader;

typedef struct WireField {
    uint32_t number, type; /* wire type */
    uint64_t value;        /* of all types but WIRE_BYTES */
    WireReader inside;     /* of WIRE_BYTES */
} WireField;

/* False where the message is damaged. Asked only while there are bytes left. */
bool wire_read_varint(WireReader *r, uint64_t *out);
bool wire_read_field(WireReader *r, WireField *f);
#endif
