#!/usr/bin/env python3
"""Times Convoy's JPEG pipeline against PyTorch's on one core, in turn,
from file bytes in memory to a view of 224 pixels.

    python3 scripts/bench/bench_decode_peers.py FOLDER [--rounds 7] [--only train]
                                                [--augment randaugment]

FOLDER is an ImageFolder tree or a folder of images (then links to them are made into one class).
Without torch, torchvision and Pillow it times Convoy alone; Pillow's and libjpeg's versions are
printed (compare_pixels.py says how to use Debian's). Every contestant makes one view of each image
in each round:

    convoy ...             convoy bench decode: libjpeg alone, our Huffman decoder,
                           with a seek index
    dataloader             DataLoader (no workers, batch 100), ImageFolder, Pillow;
                           RandomResizedCrop and flip, or Resize(256) + CenterCrop; to float,
                           normalised: what people run
    dataloader uint8       the same without conversion to float: what Convoy's views hold
    decode_jpeg            torchvision.io.decode_jpeg and the same transforms on tensors, uint8
    dali                   NVIDIA DALI on the CPU, if it is installed: decoders.image_random_crop,
                           resize, mirror (not the same pixels)

--augment adds automatic augmentation to training views: Convoy's data.auto_augment and
torchvision's transform of that name, bilinear.

Prints images/s, medians over the rounds, and each line of Convoy's over each of the others'.
"""
import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import PIL
    import torch
    import torchvision
    from PIL import Image, features
    from torchvision import datasets, io as tvio, transforms
    from torchvision.transforms import v2
except ImportError:
    torch = None

SIZE, RESIZE, BATCH = 224, 256, 100
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CONVOY = {
    "convoy libjpeg": ["data.decoder=stock", "data.seek_index=off"],
    "convoy huffman": ["data.seek_index=off"],
    "convoy huffman + index": [],
}

POLICIES = {
    "none": None,
    "randaugment": "RandAugment",
    "autoaugment": "AutoAugment",
    "trivialaugment": "TrivialAugmentWide",
}


def make_policy(augment):
    if augment == "none":
        return []
    return [getattr(transforms, POLICIES[augment])(
        interpolation=transforms.InterpolationMode.BILINEAR)]


def geometry(view, augment):
    if view == "train":
        return [transforms.RandomResizedCrop(SIZE),
                transforms.RandomHorizontalFlip()] + make_policy(augment)
    return [transforms.Resize(RESIZE), transforms.CenterCrop(SIZE)]


def make_dataloader(folder, view, tail, augment):
    """One pass over an ImageFolder whose files are in memory."""
    memory = {}

    def load(path):
        return Image.open(io.BytesIO(memory[path])).convert("RGB")

    dataset = datasets.ImageFolder(folder, transforms.Compose(geometry(view, augment) + tail),
                                   loader=load)
    for path, _ in dataset.samples:
        with open(path, "rb") as file:
            memory[path] = file.read()
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=0)

    def run():
        start = time.perf_counter()
        images = sum(len(batch) for batch, _ in loader)
        return images / (time.perf_counter() - start)

    return run


def make_decode_jpeg(folder, view):
    """torchvision's own decoder; files that are no JPEG are left out."""
    files = []
    for path, _ in datasets.ImageFolder(folder).samples:
        with open(path, "rb") as file:
            files.append(torch.frombuffer(bytearray(file.read()), dtype=torch.uint8))
    files = [data for data in files if data[0] == 0xFF]
    if view == "train":
        transform = v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True),
                                v2.RandomHorizontalFlip()])
    else:
        transform = v2.Compose([v2.Resize(RESIZE, antialias=True), v2.CenterCrop(SIZE)])

    def run():
        start = time.perf_counter()
        for data in files:
            transform(tvio.decode_jpeg(data, mode=tvio.ImageReadMode.RGB))
        return len(files) / (time.perf_counter() - start)

    return run


def make_dali(folder, view):
    from nvidia import dali  # pylint: disable=import-outside-toplevel

    files = []
    for path, _ in datasets.ImageFolder(folder).samples:
        with open(path, "rb") as file:
            files.append(file.read())

    @dali.pipeline_def(batch_size=25, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        encoded = dali.fn.external_source(source=source, batch=True, dtype=dali.types.UINT8)
        if view == "train":
            image = dali.fn.decoders.image_random_crop(encoded, device="cpu",
                                                       random_area=[0.08, 1.0], num_attempts=10)
            image = dali.fn.resize(image, size=[SIZE, SIZE])
            return dali.fn.flip(image, horizontal=dali.fn.random.coin_flip())
        image = dali.fn.resize(dali.fn.decoders.image(encoded, device="cpu"), resize_shorter=RESIZE)
        return dali.fn.crop(image, crop=(SIZE, SIZE))

    import numpy  # pylint: disable=import-outside-toplevel

    arrays = [numpy.frombuffer(data, dtype=numpy.uint8) for data in files]
    at = [0]

    def source():
        batch = [arrays[(at[0] + i) % len(arrays)] for i in range(25)]
        at[0] += 25
        return batch

    built = pipeline()
    built.build()
    built.run()

    def run():
        start = time.perf_counter()
        passes = max(1, len(files) // 25)
        for _ in range(passes):
            built.run()
        return passes * 25 / (time.perf_counter() - start)

    return run


def make_convoy(convoy, folder, view, sets, core):
    command = ["taskset", "-c", str(core), convoy, "bench", "decode", "--steps", "3",
               "--warmup", "1", "--images", "100000", "--set", "data.index=off",
               "--set", "train.batch_per_rank=1",
               "--set", f"data.train={folder}"]
    command += ["--eval"] if view == "eval" else []
    for setting in sets:
        command += ["--set", setting]

    def run():
        lines = subprocess.run(command, check=True, capture_output=True,
                               text=True).stdout.splitlines()
        return float(dict(line.split(maxsplit=1) for line in lines)["images_per_s_per_thread"])

    return run


def make_contestants(folder, view, convoy, core, augment):
    policy = [f"data.auto_augment={augment}"]
    all_of_them = {name: make_convoy(convoy, folder, view, sets + policy, core)
                   for name, sets in CONVOY.items()}
    if not torch:
        return all_of_them
    normalise = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    all_of_them["dataloader"] = make_dataloader(folder, view, normalise, augment)
    all_of_them["dataloader uint8"] = make_dataloader(
        folder, view, [transforms.PILToTensor()], augment)
    if view == "train" and augment != "none":
        return all_of_them
    all_of_them["decode_jpeg"] = make_decode_jpeg(folder, view)
    try:
        all_of_them["dali"] = make_dali(folder, view)
    except ImportError:
        print("DALI is not installed")
    return all_of_them


def compare(folder, view, arguments, core):
    contestants = make_contestants(folder, view, arguments.convoy, core, arguments.augment)
    rates = {name: [] for name in contestants}
    for _ in range(arguments.rounds):
        for name, run in contestants.items():
            rates[name].append(run())
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"{view} {name}: {medians[name]:.0f} images/s "
              f"(of {arguments.rounds}: {min(values):.0f} .. {max(values):.0f})")
    for ours in CONVOY:
        ratios = ", ".join(f"{medians[ours] / medians[name]:.2f} x {name}" for name in contestants
                           if name not in CONVOY)
        if ratios:
            print(f"{view} {ours}: {ratios}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--only", choices=["train", "eval"])
    parser.add_argument("--augment", choices=sorted(POLICIES), default="none")
    arguments = parser.parse_args()
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    if torch:
        torch.set_num_threads(1)
        torch.manual_seed(1)
    print("no torch, torchvision and Pillow: Convoy alone" if not torch else
          f"Pillow {PIL.__version__} on libjpeg-turbo {features.version('libjpeg_turbo')}, "
          f"torchvision {torchvision.__version__}, "
          f"torch {torch.__version__}, Python {sys.version.split()[0]}, core {core}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder
        if not any(entry.is_dir() for entry in os.scandir(folder)):
            os.symlink(os.path.abspath(folder), os.path.join(scratch, "images"))
            folder = scratch
        for view in ["train", "eval"]:
            if arguments.only in (None, view):
                compare(folder, view, arguments, core)


if __name__ == "__main__":
    main()
