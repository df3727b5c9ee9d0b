/* The wire format: known bytes, and what was written read back; damage is refused. */
#include "base/wire.h"
#include "tests/test.h"
#include <string.h>

TEST(fields_have_the_bytes_of_the_encoding)
{
    StrBuf b = { 0 };
    wire_put_int(&b, 1, 150);
    wire_put_text(&b, 2, "testing");
    wire_put_float(&b, 16, 1.0f);
    wire_put_double(&b, 3, -2.0);
    static const char want[] = "\x08\x96\x01\x12\x07testing\x85\x01\0\0\x80\x3f"
                               "\x19\0\0\0\0\0\0\0\xc0";
    CHECK_INT(b.length, sizeof want - 1);
    CHECK(b.length == sizeof want - 1 && memcmp(b.text, want, b.length) == 0);
    str_clear(&b);
    wire_put_int(&b, 1, -1); /* ten bytes */
    CHECK_INT(b.length, 11);
    str_clear(&b);
    wire_put_number(&b, 0x0123456789abcdefu, 8);
    CHECK(b.length == 8 && wire_load((const uint8_t *)b.text, 8) == 0x0123456789abcdefu);
    CHECK_INT(wire_load((const uint8_t *)b.text, 2), 0xcdef);
    str_free(&b);
}

TEST(fields_are_read_back)
{
    StrBuf inner = { 0 }, b = { 0 };
    wire_put_int(&inner, 5, INT64_MAX);
    wire_put_message(&b, 7, &inner);
    wire_put_double(&b, 8, 0.5);
    WireReader r = { (const uint8_t *)b.text, (const uint8_t *)b.text + b.length };
    WireField f;
    REQUIRE(wire_read_field(&r, &f));
    CHECK(f.number == 7 && f.type == WIRE_BYTES);
    WireField in;
    CHECK(wire_read_field(&f.inside, &in) && in.number == 5 && in.value == INT64_MAX);
    CHECK(f.inside.p == f.inside.end);
    CHECK(wire_read_field(&r, &f) && f.type == WIRE_FIXED64 && r.p == r.end);
    for (size_t cut = 1; cut < b.length; cut++) {
        r = (WireReader){ (const uint8_t *)b.text, (const uint8_t *)b.text + cut };
        bool good = true;
        while (good && r.p < r.end) good = wire_read_field(&r, &f);
        CHECK(!good || cut == 2 + inner.length);
    }
    str_free(&inner);
    str_free(&b);
}
