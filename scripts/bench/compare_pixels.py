#!/usr/bin/env python3
"""Compares Convoy's views of all images below a folder with torchvision's, byte for byte.

    python3 scripts/bench/compare_pixels.py FOLDER [--crops N] [--convoy ./convoy]

needs torch, torchvision and a Pillow on the libjpeg that Convoy uses: PyPI's brings one of its own,
whose pixels may differ. With Debian 12's (python3-pil: Pillow 9.4 on libjpeg-turbo 2.1.5) put
before it: PYTHONPATH=DIR, where DIR holds a link PIL to /usr/lib/python3/dist-packages/PIL.

Training views are RandomResizedCrop(224) with torchvision's draws and a mirrored half, evaluation
views Resize(256) + CenterCrop(224); both are made bilinear and bicubic, by Convoy's fast decoder
with and without a seek index and by libjpeg alone. Prints a line per combination: how many of how
many images differ, and by how much a byte does at most. Exit code 1 if any does.
"""
import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile

import PIL
import torch
import torchvision
from PIL import Image, features
from torchvision import transforms
from torchvision.transforms import functional

SIZE, RESIZE = 224, 256
MODES = {"bilinear": transforms.InterpolationMode.BILINEAR,
         "bicubic": transforms.InterpolationMode.BICUBIC}
WAYS = {
    "libjpeg": ["data.decoder=stock", "data.seek_index=off"],
    "fast": ["data.seek_index=off"],
    "fast + index": [],
}
SUFFIXES = (".jpg", ".jpeg", ".png")


def find_images(folder):
    for root, folders, files in sorted(os.walk(folder, followlinks=True)):
        folders.sort()
        yield from (os.path.join(root, name) for name in sorted(files)
                    if name.lower().endswith(SUFFIXES))


def replay_line(box, resized, window, flip, path):
    return (f"box {' '.join(map(str, box))} resize {resized[0]} {resized[1]} "
            f"window {window[0]} {window[1]} size {SIZE} flip {int(flip)}\t{path}")


def train_plan(path, rng):
    """A line for convoy bench decode --replay and what torchvision makes of it."""
    with Image.open(path) as file:
        top, left, height, width = transforms.RandomResizedCrop.get_params(
            file, (0.08, 1.0), (3 / 4, 4 / 3))
    flip = rng.random() < 0.5

    def expected(image, mode):
        view = functional.resized_crop(image, top, left, height, width, [SIZE, SIZE], mode)
        return functional.hflip(view) if flip else view

    return replay_line((left, top, width, height), (SIZE, SIZE), (0, 0), flip, path), expected


def eval_plan(path, _rng):
    with Image.open(path) as file:
        width, height = file.size
    w, h = ((RESIZE, int(RESIZE * height / width)) if width <= height
            else (int(RESIZE * width / height), RESIZE))
    window = [int(round((side - SIZE) / 2.0)) for side in (w, h)]

    def expected(image, mode):
        return functional.center_crop(functional.resize(image, RESIZE, mode), [SIZE, SIZE])

    return replay_line((0, 0, width, height), (w, h), window, False, path), expected


def convoy_views(convoy, lines, mode, sets):
    with tempfile.TemporaryDirectory() as folder:
        replay, dump = os.path.join(folder, "views"), os.path.join(folder, "pixels")
        with open(replay, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        command = [convoy, "bench", "decode", "--replay", replay, "--dump", dump,
                   "--set", f"data.interpolation={mode}"]
        for setting in sets:
            command += ["--set", setting]
        subprocess.run(command, check=True)
        with open(dump, "rb") as file:
            pixels = file.read()
    bytes_each = SIZE * SIZE * 3
    return [pixels[i:i + bytes_each] for i in range(0, len(pixels), bytes_each)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--crops", type=int, default=1, help="training views of each image")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"Pillow {PIL.__version__} on libjpeg-turbo {features.version('libjpeg_turbo')}, "
          f"torchvision {torchvision.__version__}, "
          f"torch {torch.__version__}", flush=True)
    torch.manual_seed(arguments.seed)
    rng = random.Random(arguments.seed)
    paths = list(find_images(arguments.folder))
    worst = 0
    plans = (("train", train_plan, arguments.crops), ("eval", eval_plan, 1))
    for (name, plan, repeat), mode in itertools.product(plans, MODES):
        plans = [(path, *plan(path, rng)) for path in paths for _ in range(repeat)]
        wanted = []
        for path, _, expected in plans:
            with Image.open(path) as file:
                wanted.append(expected(file.convert("RGB"), MODES[mode]).tobytes())
        for way, sets in WAYS.items():
            got = convoy_views(arguments.convoy, [line for _, line, _ in plans], mode, sets)
            differ = sum(a != b for a, b in zip(got, wanted)) + abs(len(got) - len(wanted))
            worst = max(worst, differ)
            most = max((abs(x - y) for a, b in zip(got, wanted) if a != b for x, y in zip(a, b)),
                       default=0)
            print(f"{name} {mode} {way}: {differ} of {len(wanted)} differ, by at most {most}",
                  flush=True)
    sys.exit(1 if worst else 0)


if __name__ == "__main__":
    main()
