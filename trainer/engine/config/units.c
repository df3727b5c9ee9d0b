/* units.c - see units.h. */
#include "trainer/engine/config/units.h"

const Units units_images = { "image", "images", "images/s", "images/s" };
const Units units_text = { "sequence", "sequences", "sequences/s", "tokens/s" };
const Units units_mixed = { "sample", "samples", "samples/s", "samples/s" };

const Units *units_of(const Config *c)
{
    return config_is_text(c) ? &units_text : &units_images;
}

const char *units_name(const Units *u, int64_t count)
{
    return count == 1 ? u->one : u->many;
}
