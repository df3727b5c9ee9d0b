/* wire.c - see wire.h. */
#include "base/wire.h"

#include <string.h>

/* ---- writing ---- */

static void put_varint(StrBuf *out, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    for (; value > 127; value >>= 7) bytes[count++] = (uint8_t)(value | 128);
    bytes[count++] = (uint8_t)value;
    str_add_n(out, (const char *)bytes, count);
}

static void put_key(StrBuf *out, int field, int wire)
{
    put_varint(out, (uint64_t)field << 3 | (uint64_t)wire);
}

void wire_put_number(StrBuf *out, uint64_t value, int bytes)
{
    uint8_t text[8];
    wire_store(text, value, bytes);
    str_add_n(out, (const char *)text, (size_t)bytes);
}

void wire_put_int(StrBuf *out, int field, int64_t value)
{
    put_key(out, field, WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

void wire_put_float(StrBuf *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, WIRE_FIXED32);
    wire_put_number(out, bits, 4);
}

void wire_put_double(StrBuf *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, WIRE_FIXED64);
    wire_put_number(out, bits, 8);
}

void wire_put_bytes(StrBuf *out, int field, const void *data, size_t bytes)
{
    put_key(out, field, WIRE_BYTES);
    put_varint(out, bytes);
    str_add_n(out, data, bytes);
}

void wire_put_text(StrBuf *out, int field, const char *text)
{
    wire_put_bytes(out, field, text, strlen(text));
}

void wire_put_message(StrBuf *out, int field, const StrBuf *message)
{
    if (message->failed) out->failed = true;
    wire_put_bytes(out, field, message->text ? message->text : "", message->length);
}

void wire_give_message(StrBuf *out, int field, StrBuf *message)
{
    wire_put_message(out, field, message);
    str_free(message);
}

/* ---- reading ---- */

bool wire_read_varint(WireReader *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end) return false;
        uint8_t byte = *r->p++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(WireReader *r, int bytes, uint64_t *out)
{
    if (r->end - r->p < bytes) return false;
    *out = wire_load(r->p, bytes);
    r->p += bytes;
    return true;
}

bool wire_read_field(WireReader *r, WireField *f)
{
    uint64_t key = 0, length = 0;
    if (!wire_read_varint(r, &key) || key >> 32 || key >> 3 == 0) return false;
    *f = (WireField){ .number = (uint32_t)(key >> 3), .type = (uint32_t)(key & 7) };
    switch (f->type) {
    case WIRE_VARINT:
        return wire_read_varint(r, &f->value);
    case WIRE_FIXED64:
        return read_fixed(r, 8, &f->value);
    case WIRE_FIXED32:
        return read_fixed(r, 4, &f->value);
    case WIRE_BYTES:
        if (!wire_read_varint(r, &length) || length > (uint64_t)(r->end - r->p)) return false;
        f->inside = (WireReader){ r->p, r->p + length };
        r->p += length;
        return true;
    default: /* groups, which nobody has written for many years */
        return false;
    }
}
