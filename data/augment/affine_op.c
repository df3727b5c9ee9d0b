/* affine_op.c - shear, translate and rotate: each target pixel is looked up where the inverse map
 * puts its middle.
 *
 * The maps are torchvision's (functional.affine, and Pillow's own rotate) and timm's, the sampling
 * is Pillow's, in its order of operations: bilinear and bicubic in double, truncated; nearest in
 * 16.16 fixed point. Pixels whose place lies outside the picture become the fill; at the border the
 * outermost pixels are repeated.
 *
 * Two things make it fast. A translation moves whole rows. In a bilinear row the places rise or
 * fall steadily, so the pixels whose four neighbours all exist lie side by side: they need no test,
 * and go eight at a time (image_op_avx2.c); a shear has neighbours on one axis only. Both give the
 * bits of the plain form. */
#include "data/augment/affine_op.h"
#include "data/augment/image_op_avx2.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define PI 3.141592653589793238462643383279502884

typedef struct Map { /* place = (a x + b y + c, d x + e y + f) of a target pixel's middle (x, y) */
    double a, b, c, d, e, f;
} Map;

/* ---- maps ---- */

static double degrees_of_shear(double shear)
{
    return atan(shear) * (180.0 / PI);
}

/* The inverse of: rotate by nothing, shear by degrees x and y, move, about a centre. */
static Map shear_map(double center_x, double center_y, double move_x, double move_y, double shear_x,
                     double shear_y)
{
    double sx = shear_x * (PI / 180.0), sy = shear_y * (PI / 180.0);
    double a = cos(0.0 - sy) / cos(sy), b = -cos(0.0 - sy) * tan(sx) / cos(sy) - sin(0.0);
    double c = sin(0.0 - sy) / cos(sy), d = -sin(0.0 - sy) * tan(sx) / cos(sy) + cos(0.0);
    Map m = { .a = d, .b = -b, .d = -c, .e = a };
    m.c = m.a * (-center_x - move_x) + m.b * (-center_y - move_y) + center_x;
    m.f = m.d * (-center_x - move_x) + m.e * (-center_y - move_y) + center_y;
    return m;
}

/* The double nearest to v rounded to 15 decimals, a half to even; |v| <= 1. */
static double round_decimals(double v)
{
    const double unit = 1e15;
    double scaled = v * unit, whole = rint(scaled), rest = fma(v, unit, -scaled),
           off = scaled - whole;
    if (off == 0.5 && rest > 0) whole += 1;
    if (off == -0.5 && rest < 0) whole -= 1;
    return whole / unit;
}

static Map rotate_map(const Picture *p, double degrees)
{
    double angle = -(degrees * (PI / 180.0)), x = p->width / 2.0, y = p->height / 2.0;
    Map m = { .a = round_decimals(cos(angle)),
              .b = round_decimals(sin(angle)),
              .d = round_decimals(-sin(angle)),
              .e = round_decimals(cos(angle)) };
    m.c = m.a * -x + m.b * -y + 0.0 + x;
    m.f = m.d * -x + m.e * -y + 0.0 + y;
    return m;
}

/* ---- whole pixels ---- */

static void fill_pixels(uint8_t *out, int count, int channels, const uint8_t *fill)
{
    if (channels == 1 || (fill[0] == fill[1] && fill[1] == fill[2])) {
        memset(out, fill[0], (size_t)count * (size_t)channels);
        return;
    }
    for (int i = 0; i < 3 * count; i++) out[i] = fill[i % 3];
}

static void move_rows(const Picture *p, const uint8_t *copy, int right, int down,
                      const uint8_t *fill)
{
    size_t channels = (size_t)p->channels, stride = (size_t)p->width * channels;
    int first = right > 0 ? right : 0, end = right < 0 ? p->width + right : p->width;
    if (first > p->width) first = p->width;
    if (end < first) end = first;
    for (int y = 0; y < p->height; y++) {
        uint8_t *out = p->pixels + (size_t)y * stride;
        int from = y - down;
        int a = from < 0 || from >= p->height ? p->width : first, b = a == first ? end : a;
        fill_pixels(out, a, p->channels, fill);
        if (b > a)
            memcpy(out + (size_t)a * channels,
                   copy + (size_t)from * stride + (size_t)(a - right) * channels,
                   (size_t)(b - a) * channels);
        fill_pixels(out + (size_t)b * channels, p->width - b, p->channels, fill);
    }
}

/* Quarter turns of a square against the clock, and half turns of any picture. */
static void turn(const Picture *p, const uint8_t *copy, int quarters)
{
    size_t channels = (size_t)p->channels, at = 0;
    int w = p->width, h = p->height;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++, at += channels) {
            int from_x = quarters == 2 ? w - 1 - x : quarters == 1 ? w - 1 - y : y;
            int from_y = quarters == 2 ? h - 1 - y : quarters == 1 ? x : h - 1 - x;
            memcpy(p->pixels + at, copy + ((size_t)from_y * (size_t)w + (size_t)from_x) * channels,
                   channels);
        }
}

static int fixed(double v)
{
    return (int)floor(v * 65536.0 + 0.5);
}

static void sample_nearest(const Picture *p, const uint8_t *copy, const Map *m, const uint8_t *fill)
{
    size_t channels = (size_t)p->channels;
    uint8_t *out = p->pixels;
    int a = fixed(m->a), b = fixed(m->b), d = fixed(m->d), e = fixed(m->e);
    int row_x = fixed(m->c + m->a * 0.5 + m->b * 0.5),
        row_y = fixed(m->f + m->d * 0.5 + m->e * 0.5);
    for (int y = 0; y < p->height; y++, row_x += b, row_y += e) {
        int at_x = row_x, at_y = row_y;
        for (int x = 0; x < p->width; x++, at_x += a, at_y += d, out += channels) {
            int from_x = at_x >> 16, from_y = at_y >> 16;
            bool inside = from_x >= 0 && from_x < p->width && from_y >= 0 && from_y < p->height;
            const uint8_t *from =
                inside ? copy + ((size_t)from_y * (size_t)p->width + (size_t)from_x) * channels
                       : fill;
            for (size_t c = 0; c < channels; c++) out[c] = from[c];
        }
    }
}

/* ---- bilinear ---- */

typedef struct Sampling {
    const uint8_t *copy; /* with PICTURE_COPY_PADDING behind it */
    int width, height, channels;
    size_t stride;
    const uint8_t *fill;
    double *xs, *ys; /* places of a row's pixels */
    SampleTaps taps; /* scratch of the vector form */
    bool wide;       /* it can run here */
} Sampling;

static int clamp_index(int i, int count)
{
    return i < 0 ? 0 : i < count ? i : count - 1;
}

static bool is_inside(const Sampling *s, int x)
{
    return s->xs[x] >= 0.0 && s->xs[x] < s->width && s->ys[x] >= 0.0 && s->ys[x] < s->height;
}

/* All four neighbours exist. */
static bool is_interior(const Sampling *s, int x)
{
    return s->xs[x] >= 0.5 && s->xs[x] - 0.5 < s->width - 1 && s->ys[x] >= 0.5 &&
           s->ys[x] - 0.5 < s->height - 1;
}

/* One pixel at any place inside. */
static void sample_pixel(const Sampling *s, double place_x, double place_y, uint8_t *out)
{
    size_t channels = (size_t)s->channels;
    double fx = place_x - 0.5, fy = place_y - 0.5;
    int x = fx < 0 ? -1 : (int)fx, y = fy < 0 ? -1 : (int)fy; /* both are at least -1/2 */
    double dx = fx - x, dy = fy - y;
    size_t left = (size_t)clamp_index(x, s->width) * channels,
           right = (size_t)clamp_index(x + 1, s->width) * channels;
    const uint8_t *above = s->copy + (size_t)clamp_index(y, s->height) * s->stride;
    const uint8_t *below = y + 1 < s->height ? s->copy + (size_t)(y + 1) * s->stride : above;
    for (size_t c = 0; c < channels; c++) {
        double v = above[left + c] + (above[right + c] - above[left + c]) * dx;
        double w = below[left + c] + (below[right + c] - below[left + c]) * dx;
        out[c] = (uint8_t)(v + (w - v) * dy);
    }
}

IMAGE_OP_CLONES static void find_places(double *restrict xs, double *restrict ys, int count,
                                        const Map *m, double y)
{
    const double a = m->a, c = m->c, d = m->d, f = m->f, from_x = m->b * y, from_y = m->e * y;
    for (int i = 0; i < count; i++) {
        double x = i + 0.5;
        xs[i] = a * x + from_x + c;
        ys[i] = d * x + from_y + f;
    }
}

static SampleAxes axes_of(const Map *m)
{
    if (m->d == 0 && m->e == 1 && m->f == 0) return SAMPLE_ACROSS;
    return m->b == 0 && m->a == 1 && m->c == 0 ? SAMPLE_DOWN : SAMPLE_BOTH;
}

/* Interior RGB pixels, a multiple of eight of them; returns how many. */
static int sample_eights(Sampling *s, const Map *m, int first, int count, uint8_t *out)
{
    const double *xs = s->xs + first, *ys = s->ys + first;
    uint8_t *to = out + 3 * (size_t)first;
    size_t done = image_op_avx2_sample_row(s->copy, s->stride, xs, ys, (size_t)count, axes_of(m),
                                           &s->taps, to);
    for (size_t i = 0; i < done; i += 8) {
        unsigned again = s->taps.again[i / 8];
        for (size_t k = i; again; again >>= 1, k++)
            if (again & 1) sample_pixel(s, xs[k], ys[k], to + 3 * k);
    }
    return (int)done;
}

/* Pixels [first, end) of a row, all interior. */
static void sample_interior(Sampling *s, const Map *m, int first, int end, uint8_t *out)
{
    const size_t channels = (size_t)s->channels;
    const int count = end - first;
    int done = s->wide ? sample_eights(s, m, first, count / 8 * 8, out) : 0;
    if (done > 0 && done < count) { /* the last eight, some of them once more */
        sample_eights(s, m, end - 8, 8, out);
        done = count;
    }
    for (int i = first + done; i < end; i++)
        sample_pixel(s, s->xs[i], s->ys[i], out + (size_t)i * channels);
}

/* Runs of a row: fill, border, interior, border, fill; each may be empty. */
static void sample_row(Sampling *s, const Map *m, uint8_t *out)
{
    size_t channels = (size_t)s->channels;
    int first = 0, end = s->width;
    while (first < end && !is_inside(s, first)) first++;
    while (end > first && !is_inside(s, end - 1)) end--;
    int inner = first, inner_end = end;
    while (inner < end && !is_interior(s, inner)) inner++;
    while (inner_end > inner && !is_interior(s, inner_end - 1)) inner_end--;
    fill_pixels(out, first, s->channels, s->fill);
    for (int i = first; i < inner; i++)
        sample_pixel(s, s->xs[i], s->ys[i], out + (size_t)i * channels);
    sample_interior(s, m, inner, inner_end, out);
    for (int i = inner_end; i < end; i++)
        sample_pixel(s, s->xs[i], s->ys[i], out + (size_t)i * channels);
    fill_pixels(out + (size_t)end * channels, s->width - end, s->channels, s->fill);
}

/* Doubles first, then what is smaller: all of a row. */
static Status reserve_row(Sampling *s, size_t width, ByteBuf *buf)
{
    TRY(byte_buf_reserve(buf,
                         width * (2 * sizeof(double) + sizeof(int32_t) + 2 * sizeof(float) + 1)));
    s->xs = (double *)(void *)buf->data;
    s->ys = s->xs + width;
    s->taps.dx = (float *)(void *)(s->ys + width);
    s->taps.dy = s->taps.dx + width;
    s->taps.at = (int32_t *)(void *)(s->taps.dy + width);
    s->taps.again = (uint8_t *)(s->taps.at + width);
    return OK;
}

static Sampling sampling_of(const Picture *p, const uint8_t *copy, const uint8_t *fill)
{
    return (Sampling){ .copy = copy,
                       .width = p->width,
                       .height = p->height,
                       .channels = p->channels,
                       .stride = (size_t)p->width * (size_t)p->channels,
                       .fill = fill };
}

static Status sample_bilinear(const Picture *p, const uint8_t *copy, const Map *m,
                              const uint8_t *fill, ImageOpScratch *scratch)
{
    Sampling s = sampling_of(p, copy, fill);
    s.wide = p->channels == 3 && picture_is_wide(scratch);
    TRY(reserve_row(&s, (size_t)p->width, &scratch->row));
    for (int y = 0; y < p->height; y++) {
        find_places(s.xs, s.ys, p->width, m, y + 0.5);
        sample_row(&s, m, p->pixels + (size_t)y * s.stride);
    }
    return OK;
}

/* ---- bicubic ---- */

/* The cubic through b and c with slopes c - a and d - b, at share t of the way from b to c. */
static double cubic(double a, double b, double c, double d, double t)
{
    const double p = -a + c, q = 2 * (a - b) + c - d, r = -a + b - c + d;
    return b + t * (p + t * (q + t * r));
}

/* Four rows are interpolated across, then down; one that is not there repeats the last that was. */
static void sample_cubic_pixel(const Sampling *s, double place_x, double place_y, uint8_t *out)
{
    const double fx = place_x - 0.5, fy = place_y - 0.5;
    const int x = (int)floor(fx), y = (int)floor(fy);
    size_t at[4];
    for (int i = 0; i < 4; i++)
        at[i] = (size_t)clamp_index(x - 1 + i, s->width) * (size_t)s->channels;
    for (size_t c = 0; c < (size_t)s->channels; c++) {
        double rows[4];
        for (int i = 0; i < 4; i++) {
            const int row = y - 1 + i;
            if (i > 0 && (row < 0 || row >= s->height)) {
                rows[i] = rows[i - 1];
                continue;
            }
            const uint8_t *v = s->copy + (size_t)clamp_index(row, s->height) * s->stride + c;
            rows[i] = cubic(v[at[0]], v[at[1]], v[at[2]], v[at[3]], fx - x);
        }
        const double v = cubic(rows[0], rows[1], rows[2], rows[3], fy - y);
        out[c] = (uint8_t)(v <= 0.0 ? 0.0 : v >= 255.0 ? 255.0 : v);
    }
}

static Status sample_cubic(const Picture *p, const uint8_t *copy, const Map *m, const uint8_t *fill,
                           ImageOpScratch *scratch)
{
    Sampling s = sampling_of(p, copy, fill);
    const size_t channels = (size_t)p->channels;
    TRY(reserve_row(&s, (size_t)p->width, &scratch->row));
    for (int y = 0; y < p->height; y++) {
        find_places(s.xs, s.ys, p->width, m, y + 0.5);
        for (int x = 0; x < p->width; x++) {
            uint8_t *out = p->pixels + (size_t)y * s.stride + (size_t)x * channels;
            if (is_inside(&s, x)) sample_cubic_pixel(&s, s.xs[x], s.ys[x], out);
            else fill_pixels(out, 1, p->channels, fill);
        }
    }
    return OK;
}

/* ---- all of them ---- */

static bool is_translation(const Map *m)
{
    return m->a == 1 && m->e == 1 && m->b == 0 && m->d == 0 && m->c == trunc(m->c) &&
           m->f == trunc(m->f);
}

static Status apply(const Picture *p, const Map *m, const ImageOpStyle *style,
                    ImageOpScratch *scratch)
{
    const uint8_t *copy;
    TRY(picture_copy(p, scratch, &copy));
    if (is_translation(m)) move_rows(p, copy, (int)-m->c, (int)-m->f, style->fill);
    else if (style->nearest) sample_nearest(p, copy, m, style->fill);
    else if (style->cubic) return sample_cubic(p, copy, m, style->fill, scratch);
    else return sample_bilinear(p, copy, m, style->fill, scratch);
    return OK;
}

Status affine_op_shear(const Picture *p, double right, double down, const ImageOpStyle *style,
                       ImageOpScratch *scratch)
{
    const Map m = shear_map(0, 0, 0, 0, degrees_of_shear(right), degrees_of_shear(down));
    return apply(p, &m, style, scratch);
}

Status affine_op_translate(const Picture *p, double right, double down, const ImageOpStyle *style,
                           ImageOpScratch *scratch)
{
    const Map m = shear_map(p->width * 0.5, p->height * 0.5, trunc(right), trunc(down), 0, 0);
    return apply(p, &m, style, scratch);
}

Status affine_op_skew(const Picture *p, double right, double down, const ImageOpStyle *style,
                      ImageOpScratch *scratch)
{
    const Map m = { .a = 1, .b = right, .d = down, .e = 1 };
    return apply(p, &m, style, scratch);
}

Status affine_op_slide(const Picture *p, double left, double up, const ImageOpStyle *style,
                       ImageOpScratch *scratch)
{
    const Map m = { .a = 1, .c = left, .e = 1, .f = up };
    return apply(p, &m, style, scratch);
}

Status affine_op_rotate(const Picture *p, double degrees, const ImageOpStyle *style,
                        ImageOpScratch *scratch)
{
    const uint8_t *copy;
    degrees = fmod(degrees, 360.0);
    if (degrees < 0) degrees += 360.0;
    if (degrees == 0) return OK;
    int quarters = degrees == 90 ? 1 : degrees == 180 ? 2 : degrees == 270 ? 3 : 0;
    if (quarters == 2 || (quarters && p->width == p->height)) {
        TRY(picture_copy(p, scratch, &copy));
        turn(p, copy, quarters);
        return OK;
    }
    const Map m = rotate_map(p, degrees);
    return apply(p, &m, style, scratch);
}
