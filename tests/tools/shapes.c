/* shapes.c - draws them: a class is a function that says whether a point belongs to the figure.
 *
 * Figures live in a unit disc that is placed near the middle of the picture, scaled and turned;
 * textures fill the picture, with a random period and phase. Each pixel is the mean of 3x3 points,
 * between the two colours, plus a slope of light and noise. */
#include "tests/tools/shapes.h"
#include "base/rng.h"
#include <math.h>
#include <stdbool.h>

#define PI                  3.14159265358979323846
#define SUBPIXELS           3
#define MIN_COLOUR_DISTANCE 110.0

static bool in_circle(double x, double y)
{
    return x * x + y * y < 0.85;
}

static bool in_square(double x, double y)
{
    return fabs(x) < 0.78 && fabs(y) < 0.78;
}

static bool in_triangle(double x, double y)
{
    return y < 0.6 && y > -1.0 + 1.732 * fabs(x);
}

static bool in_cross(double x, double y)
{
    double a = fabs(x), b = fabs(y);
    return (a < 0.27 && b < 1.0) || (b < 0.27 && a < 1.0);
}

static bool in_ring(double x, double y)
{
    double r = x * x + y * y;
    return r < 1.0 && r > 0.36;
}

static bool in_star(double x, double y)
{
    double sector = 2.0 * PI / 5.0, angle = fmod(atan2(y, x) + 2.0 * PI, sector);
    double off = fabs(angle - sector / 2.0) / (sector / 2.0); /* 1 at a point, 0 between two */
    double r = sqrt(x * x + y * y);
    /* The edge between inner corner and point is a straight line in this frame. */
    double inner = 0.4, a = (1.0 - off) * sector / 2.0, point_x = 1.0,
           corner_x = inner * cos(sector / 2.0);
    double corner_y = inner * sin(sector / 2.0), px = r * cos(a), py = r * sin(a);
    return (corner_x - point_x) * py - corner_y * (px - point_x) > 0.0;
}

static bool odd(double v)
{
    return fmod(floor(v), 2.0) != 0.0;
}

static bool in_rows(double x, double y)
{
    (void)x;
    return odd(y);
}

static bool in_columns(double x, double y)
{
    (void)y;
    return odd(x);
}

static bool in_checkers(double x, double y)
{
    return odd(x) != odd(y);
}

static bool in_dots(double x, double y)
{
    double dx = x / 2.0 - floor(x / 2.0) - 0.5, dy = y / 2.0 - floor(y / 2.0) - 0.5;
    return dx * dx + dy * dy < 0.09;
}

typedef struct Class {
    const char *name;
    bool (*inside)(double x, double y);
    bool texture; /* fills the picture; else a figure in the unit disc */
    double turn;  /* largest rotation either way, radians */
} Class;

static const Class classes[SHAPES_CLASSES] = {
    { "checkers", in_checkers, true, 0.25 }, { "circle", in_circle, false, PI },
    { "columns", in_columns, true, 0.2 },    { "cross", in_cross, false, PI },
    { "dots", in_dots, true, 0.25 },         { "ring", in_ring, false, PI },
    { "rows", in_rows, true, 0.2 },          { "square", in_square, false, PI },
    { "star", in_star, false, PI },          { "triangle", in_triangle, false, PI },
};

typedef struct Picture { /* everything drawn at random except the noise */
    double center_x, center_y, scale, cosine, sine;
    double ink[3], paper[3];
    double slope_x, slope_y, noise;
} Picture;

static double between(Rng *rng, double low, double high)
{
    return low + (high - low) * rng_uniform(rng);
}

/* Two colours far enough apart. Which is ink and which is paper is left to chance, so both orders
 * of brightness occur alike. */
static void draw_colours(Rng *rng, Picture *p)
{
    double distance = 0;
    while (distance < MIN_COLOUR_DISTANCE) {
        distance = 0;
        for (int c = 0; c < 3; c++) {
            p->ink[c] = between(rng, 0, 255);
            p->paper[c] = between(rng, 0, 255);
            double d = p->ink[c] - p->paper[c];
            distance += d * d;
        }
        distance = sqrt(distance);
    }
}

static Picture draw_picture(Rng *rng, const Class *class, int width, int height)
{
    Picture p;
    double side = width < height ? width : height;
    draw_colours(rng, &p);
    double turn = between(rng, -class->turn, class->turn);
    p.cosine = cos(turn);
    p.sine = sin(turn);
    p.center_x = width / 2.0 + between(rng, -0.1, 0.1) * side;
    p.center_y = height / 2.0 + between(rng, -0.1, 0.1) * side;
    p.scale = side * between(rng, 0.28, 0.4);
    if (class->texture) {
        /* The unit is one stripe or square; the phase moves by up to a whole period. */
        p.scale = side * between(rng, 0.1, 0.16);
        p.center_x += between(rng, -2, 2) * p.scale;
        p.center_y += between(rng, -2, 2) * p.scale;
    }
    p.slope_x = between(rng, -0.25, 0.25) / width;
    p.slope_y = between(rng, -0.25, 0.25) / height;
    p.noise = between(rng, 3, 12);
    return p;
}

const char *shapes_class_name(int label)
{
    return classes[label].name;
}

void shapes_size(uint64_t seed, int label, uint32_t number, int nominal, int *width, int *height)
{
    Rng rng = rng_at(seed, RNG_TEST, (uint32_t)label, number);
    double base = nominal * between(&rng, 0.65, 1.2),
           ratio = exp(between(&rng, log(0.75), log(4.0 / 3.0)));
    *width = (int)rint(base * sqrt(ratio));
    *height = (int)rint(base / sqrt(ratio));
}

/* How much of the pixel lies in the figure, 0 .. 1. */
static double coverage(const Class *class, const Picture *p, int px, int py)
{
    int hits = 0;
    for (int i = 0; i < SUBPIXELS * SUBPIXELS; i++) {
        double dx = px + (i % SUBPIXELS + 0.5) / SUBPIXELS - p->center_x;
        double dy = py + (i / SUBPIXELS + 0.5) / SUBPIXELS - p->center_y;
        hits += class->inside((dx * p->cosine + dy * p->sine) / p->scale,
                              (dy * p->cosine - dx * p->sine) / p->scale);
    }
    return (double)hits / (SUBPIXELS * SUBPIXELS);
}

void shapes_draw(uint64_t seed, int label, uint32_t number, int width, int height, uint8_t *pixels)
{
    const Class *class = &classes[label];
    /* not the address of the size */
    Rng rng = rng_at(seed, RNG_TEST, (uint32_t)(label + SHAPES_CLASSES), number);
    Picture p = draw_picture(&rng, class, width, height);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            double part = coverage(class, &p, x, y);
            double light = 1.0 + (x - width / 2.0) * p.slope_x + (y - height / 2.0) * p.slope_y;
            for (int c = 0; c < 3; c++) {
                /* Sum of two uniforms: near enough to a bell, and cheap. */
                double noise = (rng_uniform(&rng) + rng_uniform(&rng) - 1.0) * 2.45 * p.noise;
                double v = rint((part * p.ink[c] + (1.0 - part) * p.paper[c]) * light + noise);
                *pixels++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
        }
    }
}
