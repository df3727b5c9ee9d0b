/* shapes.h - small pictures in classes that differ by shape or texture and not by colour.
 *
 * Every class draws its two colours from the same distribution, in both orders of brightness, so
 * the mean colour of a picture says nothing about its class. A picture is a function of (seed,
 * class, number). */
#ifndef CONVOY_TESTS_TOOLS_SHAPES_H
#define CONVOY_TESTS_TOOLS_SHAPES_H
#include <stdint.h>

#define SHAPES_CLASSES 10

const char *shapes_class_name(int label);
/* Sides between about 0.56 and 1.4 times nominal, aspect ratio 3/4 to 4/3. */
void shapes_size(uint64_t seed, int label, uint32_t number, int nominal, int *width, int *height);
/* pixels: [height, width, 3] */
void shapes_draw(uint64_t seed, int label, uint32_t number, int width, int height, uint8_t *pixels);
#endif
