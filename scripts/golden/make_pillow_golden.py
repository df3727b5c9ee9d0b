#!/usr/bin/env python3
"""Golden images for tests/unit/data/decode/test_pillow.c: small files of many kinds,
and checksums of what Pillow makes of them.

Run by hand with Debian 12's own Python and Pillow (python3-pil, on the libjpeg-turbo 2.1.5 that
Convoy decodes with), never by build or tests:

    /usr/bin/python3 scripts/golden/make_pillow_golden.py tests/golden/images

Pillow 13 resizes some boxes in another order (see data/augment/resize.c), and Pillow from PyPI
brings a libjpeg-turbo of its own.

The files are stored, not written by the test, because encoders differ between versions. views.txt
has a line per view: "file channels kind filter box_x box_y box_width box_height width height
window_x window_y size flip crc32c". kind "raw" is the whole decoded image, filter is bilinear or
bicubic, "center" is torchvision's Resize(RESIZE) + CenterCrop(SIZE), "box" is crop,
resize to width x height, window, flip.
"""
import os
import random
import struct
import sys
import zlib

import PIL
from PIL import Image, features

from crc32c import crc32c

SIZE, RESIZE = 32, 37
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
# Made once with tests/tools/image_write.h; in the folder already.
KINDS_PILLOW_CANNOT_WRITE = ["ycck.jpg", "411.jpg", "440.jpg", "restarts.jpg"]
MODES = {"L": 1, "RGB": 3, "CMYK": 4, "RGBA": 4, "LA": 2}


def picture(rng, mode, width, height):
    """Smooth noise of full contrast, which overshoots where it is enlarged."""
    small = (max(1, width // 5), max(1, height // 5))
    noise = Image.frombytes(mode, small, rng.randbytes(small[0] * small[1] * MODES[mode]))
    return noise.resize((width, height), Image.BICUBIC)


def write_images(folder):
    rng = random.Random(1)
    names = []

    def save(name, image, **options):
        image.save(os.path.join(folder, name), **options)
        names.append(name)

    def rgb(width, height):
        return picture(rng, "RGB", width, height)

    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turned; must be ignored
    save("444.jpg", rgb(61, 47), quality=90, subsampling=0)
    save("420.jpg", rgb(61, 47), quality=75, subsampling=2)
    save("420_odd.jpg", rgb(33, 51), quality=80, subsampling=2)
    save("420_progressive.jpg", rgb(50, 35), quality=80, subsampling=2, progressive=True)
    save("422.jpg", rgb(47, 40), quality=80, subsampling=1)
    save("422_progressive.jpg", rgb(70, 31), quality=80, subsampling=1, progressive=True)
    save("grey.jpg", picture(rng, "L", 45, 64), quality=80)
    save("cmyk.jpg", picture(rng, "CMYK", 40, 52), quality=80)
    save("turned.jpg", rgb(40, 56), quality=80, exif=exif)
    save("one_wide.jpg", rgb(1, 40), quality=80, subsampling=2)
    save("one_high.jpg", rgb(41, 1), quality=80, subsampling=1)
    save("tiny.jpg", rgb(7, 5), quality=90, subsampling=0)
    save("same_size.jpg", rgb(SIZE, SIZE), quality=80)
    save("long.jpg", rgb(200, 12), quality=80)
    save("rgb.png", rgb(29, 38))
    save("rgba.png", picture(rng, "RGBA", 37, 30))
    save("grey.png", picture(rng, "L", 36, 41))
    save("grey_alpha.png", picture(rng, "LA", 34, 33))
    save("bits.png", picture(rng, "L", 43, 39).convert("1"))
    save("palette.png", rgb(40, 33).convert("P"))
    save("palette_4_bits.png", rgb(35, 37).quantize(13), bits=4)
    save("palette_clear.png", rgb(35, 37).quantize(20), transparency=3)
    png = rgb(44, 31)
    png.save(os.path.join(folder, "png_named.JPEG"), format="PNG")
    wide = b"".join(bytes((high, rng.randrange(256))) for high in rgb(26, 33).tobytes())
    with open(os.path.join(folder, "rgb_16.png"), "wb") as file:
        file.write(png_16(26, 33, wide))
    return names + ["png_named.JPEG", "rgb_16.png"] + KINDS_PILLOW_CANNOT_WRITE


def png_16(width, height, samples):
    """A PNG of 16-bit colour, which Pillow reads and does not write."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))

    rows = b"".join(b"\0" + samples[6 * width * y:6 * width * (y + 1)] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def center_view(width, height):
    """torchvision.transforms.Resize and CenterCrop."""
    if width <= height:
        size = (RESIZE, int(RESIZE * height / width))
    else:
        size = (int(RESIZE * width / height), RESIZE)
    return (0, 0, width, height), size, tuple(int(round((side - SIZE) / 2.0)) for side in size), 0


def box_views(rng, width, height):
    """As RandomResizedCrop cuts, then two with windows that lie partly outside,
    as RandomCrop with padding does."""
    for flip in (0, 1, 0):
        w, h = rng.randint(1, width), rng.randint(1, height)
        box = (rng.randint(0, width - w), rng.randint(0, height - h), w, h)
        yield box, (SIZE, SIZE), (0, 0), flip
    for flip in (0, 1):
        yield (0, 0, width, height), (SIZE, SIZE), (rng.randint(-4, 4), rng.randint(-4, 4)), flip


def view_of(image, filter_name, box, size, window, flip):
    cut = image.crop((box[0], box[1], box[0] + box[2], box[1] + box[3])).resize(
        size, FILTERS[filter_name])
    cut = cut.crop((window[0], window[1], window[0] + SIZE, window[1] + SIZE))
    return cut.transpose(Image.FLIP_LEFT_RIGHT) if flip else cut


def write_views(folder, names, out):
    rng = random.Random(2)
    for name in names:
        with Image.open(os.path.join(folder, name)) as file:
            file.load()
            views = ([("center", center_view(*file.size))]
                     + [("box", view) for view in box_views(rng, *file.size)])
            for mode in ("RGB", "L"):
                image = file.convert(mode)
                channels = MODES[mode]
                whole = (0, 0, *image.size, *image.size, 0, 0, 0, 0)
                print(name, channels, "raw", "bilinear", *whole, f"{crc32c(image.tobytes()):08x}",
                      file=out)
                both = [(f, *view) for f, some in (("bilinear", views), ("bicubic", views[:4]))
                        for view in some]
                for filter_name, kind, (box, size, window, flip) in both:
                    crc = crc32c(view_of(image, filter_name, box, size, window, flip).tobytes())
                    print(name, channels, kind, filter_name, *box, *size, *window, SIZE, flip,
                          f"{crc:08x}", file=out)


def main():
    folder = sys.argv[1]
    if int(PIL.__version__.split(".")[0]) > 12 or features.version("libjpeg_turbo") != "2.1.5":
        sys.exit("Pillow up to 12 on libjpeg-turbo 2.1.5 is needed, such as Debian 12's "
                 "python3-pil")
    os.makedirs(folder, exist_ok=True)
    names = write_images(folder)
    with open(os.path.join(folder, "views.txt"), "w", encoding="ascii") as out:
        print(f"# Pillow {PIL.__version__}, libjpeg-turbo {features.version('libjpeg_turbo')};",
              "made by scripts/golden/make_pillow_golden.py", file=out)
        write_views(folder, names, out)


if __name__ == "__main__":
    main()
