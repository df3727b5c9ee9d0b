#!/usr/bin/env python3
"""Training views made by torchvision from given parameters (data/replay.h): golden file, and comparison on real images.

    python3 scripts/replay_views.py golden tests/golden/replays.txt       # writes parameters and what torchvision makes of them
    build/make_views CONFIG [--set KEY=VALUE]... COUNT | python3 scripts/replay_views.py check

A line is "FILE<TAB>parameters<TAB>crc32c". In check mode every line is done again by torchvision from the same parameters; the answer is
the number of views whose bytes agree. Pillow 13 resizes some boxes in another order than Pillow 9 to 12 (data/resize.c): use one of those
for check, or expect differences of 1 there. Without torchvision Pillow's own calls are made (scripts/make_image_op_golden.py).
"""
import os
import random
import sys

import PIL
from PIL import Image

import make_image_op_golden as ops

try:
    import numpy
except ImportError:
    numpy = None

IMAGES = "tests/golden/images"
STYLE = (False, (0, 0, 0))


def parse(text):
    """Parameters as {key: [values]}; ops as (name, value), those of chains in lists of their own."""
    words, at = text.split(), 0
    view = {"ops": [], "chains": []}
    target = view["ops"]
    sizes = {"box": 4, "resize": 2, "window": 2, "size": 1, "flip": 1, "erase": 4}
    while at < len(words):
        key = words[at]
        if key == "op":
            name, value = words[at + 1], float(words[at + 2])
            target.append((name, int(value) if name == "posterize" else value))
            at += 3
        elif key == "own":
            view["own"] = float(words[at + 1])
            at += 2
        elif key == "chain":
            target = []
            view["chains"].append((float(words[at + 1]), target))
            at += 2
        else:
            view[key] = [int(v) for v in words[at + 1:at + 1 + sizes[key]]]
            at += 1 + sizes[key]
    return view


def treat(image, steps):
    for name, value in steps:
        image = (ops.by_torchvision if ops.torchvision else ops.by_pillow)(image, name, value, *STYLE)
    return image


def make(image, view):
    """The bytes of a view: crop, resize, window, flip, ops, and AugMix in float32, truncated."""
    x, y, w, h = view["box"]
    size = view["size"][0]
    left, top = view["window"]
    image = image.crop((x, y, x + w, y + h)).resize(tuple(view["resize"]), Image.BILINEAR)
    image = image.crop((left, top, left + size, top + size))
    if view["flip"][0]:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    image = treat(image, view["ops"])
    if not view["chains"]:
        return image.tobytes()
    own = numpy.float32(view["own"])
    total = own * numpy.asarray(image).astype(numpy.float32)
    for weight, steps in view["chains"]:
        total += numpy.float32(weight) * numpy.asarray(treat(image, steps)).astype(numpy.float32)
    return numpy.minimum(total, 255).astype(numpy.uint8).tobytes()


def draw_op(rng):
    name = rng.choice(list(ops.VALUES))
    return f"op {name} {rng.choice(ops.VALUES[name])!r}"


def draw(rng, width, height):
    """Boxes are not larger than the view, so nothing shrinks and all versions of Pillow agree."""
    size = rng.choice((24, 32, 40))
    w, h = rng.randint(1, min(width, size)), rng.randint(1, min(height, size))
    words = [f"box {rng.randint(0, width - w)} {rng.randint(0, height - h)} {w} {h} resize {size} {size} window 0 0 size {size}"]
    words.append(f"flip {rng.randint(0, 1)}")
    words += [draw_op(rng) for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.3:
        weights = [rng.random() for _ in range(4)]
        weights = [float(f"{v / sum(weights):.8f}") for v in weights]
        words.append(f"own {weights[0]!r}")
        for weight in weights[1:]:
            words.append(f"chain {weight!r}")
            words += [draw_op(rng) for _ in range(rng.randint(1, 3))]
    return " ".join(words)


def golden(path):
    rng = random.Random(5)
    with open(path, "w", encoding="ascii") as out:
        print(f"# Pillow {PIL.__version__}, torchvision {ops.torchvision.__version__};",
              "made by scripts/replay_views.py", file=out)
        for name in ("rgb.png", "444.jpg", "420_odd.jpg", "turned.jpg"):
            with Image.open(os.path.join(IMAGES, name)) as file:
                image = file.convert("RGB")
            for _ in range(12):
                text = draw(rng, *image.size)
                print(name, text, f"{ops.crc32c(make(image, parse(text))):08x}", sep="\t", file=out)


def check():
    total = same = 0
    for line in sys.stdin:
        name, text, want = line.rstrip("\n").split("\t")
        with Image.open(name) as file:
            image = file.convert("RGB")
        crc = f"{ops.crc32c(make(image, parse(text))):08x}"
        total += 1
        same += crc == want
        if crc != want:
            print("differs:", line, end="")
    print(f"Pillow {PIL.__version__}, torchvision {ops.torchvision.__version__ if ops.torchvision else 'absent'}:",
          f"{same} of {total} views have the same bytes")
    sys.exit(same != total)


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        golden(sys.argv[2])
    else:
        check()
