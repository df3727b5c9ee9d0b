#!/usr/bin/env python3
"""Golden checksums for tests/unit/data/augment/test_image_op.c:
what torchvision.transforms.functional and timm.data.auto_augment make of PIL images.

Run by hand, never by build or tests:

    python3 scripts/golden/make_image_op_golden.py tests/golden/image_ops.txt

Every op is called through torchvision where that is installed and by the calls of Pillow that
torchvision makes of it; both must give the same bytes. Without torchvision Pillow alone is asked,
which shows whether another version of it still agrees. timm's ops are called through timm; without
it their lines are left out.

A line of the file: "op value sampling red green blue channels crc32c", sampling being 0 bilinear,
1 nearest or 2 bicubic, the checksum being over the
results of all PICTURES in turn. The pictures come from a formula that the test has too.
"""
import math
import sys

import PIL
from PIL import Image, ImageEnhance, ImageOps

from crc32c import crc32c

try:
    import timm
    from timm.data import auto_augment as timm_ops
except ImportError:
    timm = None
try:
    import torchvision
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import functional as F
except ImportError:
    torchvision = None

# width, height, kind: 0 noise, 1 slopes, 2 one value, 3 little contrast
PICTURES = ((32, 32, 0), (32, 32, 1), (32, 32, 2), (32, 32, 3), (47, 33, 1), (64, 64, 1),
            (40, 90, 3), (2, 5, 0), (1, 1, 0), (3, 3, 1))

FACTORS = (0.0, 0.1, 0.5, 0.73, 0.999, 1.0, 1.00001, 1.27, 1.9, 1.99, 7.0)
VALUES = {
    "identity": (0,),
    "shear_x": (0.0, 0.01, 0.09000000357627869, -0.09000000357627869, 0.25, -0.3, 0.5, 0.99, -0.99),
    "shear_y": (0.0, 0.01, 0.09000000357627869, -0.09000000357627869, 0.25, -0.3, 0.5, 0.99, -0.99),
    "translate_x": (0.0, 0.9, 1.0, -1.99, 7.5, -13.0, 32.0, -64.0, 100.0),
    "translate_y": (0.0, 0.9, 1.0, -1.99, 7.5, -13.0, 32.0, -64.0, 100.0),
    "rotate": (0.0, 1.0, -1.0, 9.0, -9.0, 27.3, 45.0, -60.0, 90.0, -90.0, 135.0, 180.0, 270.0,
               -135.0, 359.999),
    "brightness": FACTORS,
    "color": FACTORS,
    "contrast": FACTORS,
    "sharpness": FACTORS,
    "posterize": (1, 2, 4, 7, 8),
    "solarize": (0.0, 0.5, 1.0, 127.5, 178.5, 255.0, 256.0, -3.0),
    "autocontrast": (0,),
    "equalize": (0,),
    "invert": (0,),
    "hue": (0.0, 0.05, -0.05, 0.1, 0.25, -0.3333, 0.5, -0.5),
}
STYLES = ((False, (0, 0, 0)), (True, (0, 0, 0)), (False, (124, 116, 104)), (True, (7, 200, 99)))
TIMM_STYLES = ((0, (124, 116, 104)), (2, (0, 0, 0)), (2, (124, 116, 104)))
TIMM_VALUES = {
    "skew_x": (0.0, 0.01, 0.27, -0.27, 0.3, -0.3, 1.7),
    "skew_y": (0.0, 0.01, 0.27, -0.27, 0.3, -0.3, 1.7),
    "slide_x": (0.0, 0.4, -0.4, 3.0, -3.0, 7.25, -12.96, 60.0, -90.0),
    "slide_y": (0.0, 0.4, -0.4, 3.0, -3.0, 7.25, -12.96, 60.0, -90.0),
    "rotate": (0.0, 1.0, -1.0, 27.3, -30.0, 90.0, 180.0),
    "solarize_add": (0, 1, 55, 110, 128),
}
STYLED = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")


def value_at(kind, x, y, c, index):
    noise = (index * 2654435761 & 0xFFFFFFFF) >> 13 & 255
    if kind == 0:
        return noise
    if kind == 1:
        return (5 * x + 3 * y + 60 * c + (x * y >> 3)) % 256
    return 77 + c if kind == 2 else 90 + 10 * c + noise % 41


def picture(width, height, kind, channels):
    values = bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                values.append(value_at(kind, x, y, c, len(values)))
    return Image.frombytes("L" if channels == 1 else "RGB", (width, height), bytes(values))


def inverse_matrix(center, translate, shear):
    """Of torchvision's _get_inverse_affine_matrix, without angle and scale."""
    sx, sy = (math.radians(v) for v in shear)
    a = math.cos(0.0 - sy) / math.cos(sy)
    b = -math.cos(0.0 - sy) * math.tan(sx) / math.cos(sy) - math.sin(0.0)
    c = math.sin(0.0 - sy) / math.cos(sy)
    d = -math.sin(0.0 - sy) * math.tan(sx) / math.cos(sy) + math.cos(0.0)
    (cx, cy), (tx, ty) = center, translate
    matrix = [d, -b, 0.0, -c, a, 0.0]
    matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty) + cx
    matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty) + cy
    return matrix


def turn_hue(image, share):
    if image.mode == "L":
        return image
    h, s, v = image.convert("HSV").split()
    h = Image.frombytes("L", h.size, bytes((byte + int(share * 255)) % 256 for byte in h.tobytes()))
    return Image.merge("HSV", (h, s, v)).convert("RGB")


def by_pillow(image, op, value, nearest, fill):
    resample = Image.NEAREST if nearest else Image.BILINEAR
    fill = fill if image.mode == "RGB" else fill[0]
    width, height = image.size

    def affine(center, translate, shear):
        return image.transform(image.size, Image.AFFINE, inverse_matrix(center, translate, shear),
                               resample, fillcolor=fill)

    degrees = math.degrees(math.atan(value))
    return {
        "identity": lambda: image,
        "shear_x": lambda: affine((0, 0), (0, 0), (degrees, 0.0)),
        "shear_y": lambda: affine((0, 0), (0, 0), (0.0, degrees)),
        "translate_x": lambda: affine((width * 0.5, height * 0.5), (int(value), 0), (0.0, 0.0)),
        "translate_y": lambda: affine((width * 0.5, height * 0.5), (0, int(value)), (0.0, 0.0)),
        "rotate": lambda: image.rotate(value, resample, fillcolor=fill),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(value),
        "color": lambda: ImageEnhance.Color(image).enhance(value),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(value),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(value),
        "posterize": lambda: ImageOps.posterize(image, value),
        "solarize": lambda: ImageOps.solarize(image, value),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
        "hue": lambda: turn_hue(image, value),
    }[op]()


def by_torchvision(image, op, value, nearest, fill):
    style = {"interpolation": InterpolationMode.NEAREST if nearest else InterpolationMode.BILINEAR,
             "fill": list(fill) if image.mode == "RGB" else [fill[0]]}

    def affine(translate, shear, **center):
        return F.affine(image, 0.0, translate, 1.0, shear, **style, **center)

    degrees = math.degrees(math.atan(value))
    return {
        "identity": lambda: image,
        "shear_x": lambda: affine([0, 0], [degrees, 0.0], center=[0, 0]),
        "shear_y": lambda: affine([0, 0], [0.0, degrees], center=[0, 0]),
        "translate_x": lambda: affine([int(value), 0], [0.0, 0.0]),
        "translate_y": lambda: affine([0, int(value)], [0.0, 0.0]),
        "rotate": lambda: F.rotate(image, value, **style),
        "brightness": lambda: F.adjust_brightness(image, value),
        "color": lambda: F.adjust_saturation(image, value),
        "contrast": lambda: F.adjust_contrast(image, value),
        "sharpness": lambda: F.adjust_sharpness(image, value),
        "posterize": lambda: F.posterize(image, value),
        "solarize": lambda: F.solarize(image, value),
        "autocontrast": lambda: F.autocontrast(image),
        "equalize": lambda: F.equalize(image),
        "invert": lambda: F.invert(image),
        "hue": lambda: F.adjust_hue(image, value),
    }[op]()


def by_timm(image, op, value, sampling, fill):
    fill = fill if image.mode == "RGB" else fill[0]
    style = {"resample": Image.BICUBIC if sampling == 2 else Image.BILINEAR, "fillcolor": fill}
    return {
        "skew_x": timm_ops.shear_x, "skew_y": timm_ops.shear_y, "slide_x": timm_ops.translate_x_abs,
        "slide_y": timm_ops.translate_y_abs, "rotate": timm_ops.rotate,
        "solarize_add": timm_ops.solarize_add,
    }[op](image, value, **style)


def timm_lines(out):
    for op, values in TIMM_VALUES.items():
        for sampling, fill in TIMM_STYLES[:1] if op == "solarize_add" else TIMM_STYLES:
            for value in values:
                for channels in (1, 3):
                    crc = crc32c(b"".join(
                        by_timm(picture(width, height, kind, channels), op, value, sampling,
                                fill).tobytes() for width, height, kind in PICTURES))
                    print(op, repr(value), sampling, *fill, channels, f"{crc:08x}", file=out)


def results(op, value, nearest, fill, channels):
    for width, height, kind in PICTURES:
        image = picture(width, height, kind, channels)
        out = by_pillow(image, op, value, nearest, fill).tobytes()
        if torchvision and by_torchvision(image, op, value, nearest, fill).tobytes() != out:
            # Pillow alone takes thresholds that torchvision refuses; nothing else may differ.
            sys.exit(f"{op} {value}: torchvision and Pillow differ on {width}x{height} kind {kind}")
        yield out


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print(f"# Pillow {PIL.__version__}, "
              f"torchvision {torchvision.__version__ if torchvision else 'absent'},",
              f"timm {timm.__version__ if timm else 'absent'};",
              "made by scripts/golden/make_image_op_golden.py", file=out)
        for op, values in VALUES.items():
            for nearest, fill in STYLES if op in STYLED else STYLES[:1]:
                for value in values:
                    for channels in (1, 3):
                        crc = crc32c(b"".join(results(op, value, nearest, fill, channels)))
                        print(op, repr(value), int(nearest), *fill, channels, f"{crc:08x}",
                              file=out)
        if timm:
            timm_lines(out)


if __name__ == "__main__":
    main()
