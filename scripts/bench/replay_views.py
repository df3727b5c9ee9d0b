#!/usr/bin/env python3
"""Augmented training views: torchvision's bytes for given parameters (data/augment/replay.h), as a
golden file and on real images.

    python3 scripts/bench/replay_views.py golden tests/golden/replays.txt
    python3 scripts/bench/replay_views.py check FOLDER [--views 1000] [--convoy ./convoy]

golden writes parameters and what torchvision makes of them; check compares byte for byte. check
draws parameters as torchvision does (RandomResizedCrop, flip, ColorJitter half the time, and one of
RandAugment, TrivialAugmentWide and AugMix), lets Convoy make the views from them (convoy bench
decode --replay) and torchvision, and prints how many of how many differ. It needs a Pillow on the
libjpeg that Convoy uses: scripts/bench/compare_pixels.py says how.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import PIL
from PIL import Image, features

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden"))
import make_image_op_golden as ops  # noqa: E402
import make_policy_golden as policy_names  # noqa: E402
from crc32c import crc32c  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

IMAGES = "tests/golden/images"
STYLE = (False, (0, 0, 0))


def parse(text):
    """Parameters as {key: [values]}; ops as (name, value),
    those of chains in lists of their own."""
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
        by = ops.by_torchvision if ops.torchvision else ops.by_pillow
        image = by(image, name, value, *STYLE)
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
    words = [f"box {rng.randint(0, width - w)} {rng.randint(0, height - h)} {w} {h} "
             f"resize {size} {size} window 0 0 size {size}"]
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
              "made by scripts/bench/replay_views.py", file=out)
        for name in ("rgb.png", "444.jpg", "420_odd.jpg", "turned.jpg"):
            with Image.open(os.path.join(IMAGES, name)) as file:
                image = file.convert("RGB")
            for _ in range(12):
                text = draw(rng, *image.size)
                print(name, text, f"{crc32c(make(image, parse(text))):08x}", sep="\t", file=out)


def torch_ops(name, size):
    """Op names, their magnitude tables and whether they have a sign,
    of one of torchvision's policies."""
    from torchvision.transforms import autoaugment as aa  # pylint: disable=import-outside-toplevel

    space = {"randaugment": lambda: aa.RandAugment()._augmentation_space(31, (size, size)),
             "trivialaugment": lambda: aa.TrivialAugmentWide()._augmentation_space(31),
             "augmix": lambda: aa.AugMix()._augmentation_space(10, (size, size))}[name]()
    return [(policy_names.name_of(op), magnitudes, signed)
            for op, (magnitudes, signed) in space.items()]


def op_text(name, magnitude, signed, rng):
    value = magnitude * (-1.0 if signed and rng.random() < 0.5 else 1.0)
    if name in ("brightness", "color", "contrast", "sharpness"):
        value = 1.0 + value
    return f"op {name} {value!r}"


def draw_policy(rng, size):
    policy = rng.choice(("randaugment", "trivialaugment", "augmix"))
    table = torch_ops(policy, size)

    def one(low, high):
        name, magnitudes, signed = rng.choice(table)
        value = float(magnitudes[rng.randint(low, high)]) if magnitudes.ndim else 0.0
        return op_text(name, value, signed, rng)

    if policy == "randaugment":
        return [one(9, 9), one(9, 9)]
    if policy == "trivialaugment":
        return [one(0, 30)]
    weights = [rng.random() for _ in range(4)]
    weights = [float(f"{v / sum(weights):.8f}") for v in weights]
    words = [f"own {weights[0]!r}"]
    for weight in weights[1:]:
        words += [f"chain {weight!r}"] + [one(0, 2) for _ in range(rng.randint(1, 3))]
    return words


def draw_real(rng, path):
    from torchvision import transforms  # pylint: disable=import-outside-toplevel

    with Image.open(path) as file:
        top, left, height, width = transforms.RandomResizedCrop.get_params(
            file, (0.08, 1.0), (3 / 4, 4 / 3))
    words = [f"box {left} {top} {width} {height} resize 224 224 window 0 0 size 224 "
             f"flip {rng.randint(0, 1)}"]
    if rng.random() < 0.5:
        jitter = [f"op {name} {rng.uniform(0.6, 1.4)!r}"
                  for name in ("brightness", "contrast", "color")]
        jitter.append(f"op hue {rng.uniform(-0.1, 0.1)!r}")
        rng.shuffle(jitter)
        words += jitter
    return " ".join(words + draw_policy(rng, 224))


def find_images(folder):
    for root, folders, files in sorted(os.walk(folder, followlinks=True)):
        folders.sort()
        yield from (os.path.join(root, name) for name in sorted(files)
                    if name.lower().endswith((".jpg", ".jpeg", ".png")))


def check(arguments):
    rng = random.Random(7)
    paths = list(find_images(arguments.folder))
    views = [(draw_real(rng, paths[i % len(paths)]), paths[i % len(paths)])
             for i in range(arguments.views)]
    with tempfile.TemporaryDirectory() as folder:
        replay, dump = os.path.join(folder, "views"), os.path.join(folder, "pixels")
        with open(replay, "w", encoding="utf-8") as out:
            out.writelines(f"{text}\t{path}\n" for text, path in views)
        subprocess.run([arguments.convoy, "bench", "decode", "--replay", replay, "--dump", dump],
                       check=True)
        with open(dump, "rb") as file:
            pixels = file.read()
    each, differ = 224 * 224 * 3, 0
    for i, (text, path) in enumerate(views):
        with Image.open(path) as file:
            image = file.convert("RGB")
        if make(image, parse(text)) != pixels[i * each:(i + 1) * each]:
            differ += 1
            print("differs:", text, path)
    print(f"Pillow {PIL.__version__} on libjpeg-turbo {features.version('libjpeg_turbo')}, "
          f"torchvision {ops.torchvision.__version__}:",
          f"{differ} of {len(views)} views differ")
    sys.exit(differ > 0)


def main():
    if sys.argv[1] == "golden":
        golden(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("mode", choices=["check"])
    parser.add_argument("folder")
    parser.add_argument("--views", type=int, default=1000)
    parser.add_argument("--convoy", default="./convoy")
    check(parser.parse_args())


if __name__ == "__main__":
    main()
