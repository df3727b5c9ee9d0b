#!/usr/bin/env python3
"""Holds `convoy export --hub` against timm: a network of each family that timm has is trained for
two steps on random pictures, exported, and made by timm.create_model, from the folder and from what
stands for a repository of the Hub; timm must find convoy's logits of a picture, which its own
transform resizes and cuts, and the names of the classes, and take another number of classes.

Needs torch, torchvision, timm 1.0.31 and safetensors (pip); no part of build or tests.

    python3 scripts/bench/check_hub.py [MODEL...] [--convoy PATH]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np
import timm
import torch
from PIL import Image

CLASSES = ["apple", "bee", "cat \"c\"", "déjà", "egg"]
MODELS = ["resnet18", "resnext50_32x4d", "wide_resnet50_2", "seresnet50", "resnet50d",
          "efficientnet_b0", "tf_efficientnet_b0", "mobilenet_v2", "mobilenetv3_large_100",
          "mobilenetv3_small_100", "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny",
          "convnextv2_atto", "convnextv2_tiny", "vit_b_32", "vit_tiny_patch16_224",
          "deit_tiny_patch16_224", "vit_small_patch14_dinov2"]
LIMIT = 1e-4


def convoy(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"convoy {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def picture(path, seed, shape):
    """A few waves of each colour: noise would be grey once it is resized."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:shape[0], :shape[1]] / 32
    waves = [sum(np.sin(a * x + b * y + c) for a, b, c in rng.normal(0, 3, (4, 3)))
             for _ in range(3)]
    Image.fromarray((127.5 + 31 * np.stack(waves, -1)).astype(np.uint8)).save(path)


def logits(model, path):
    """Of a picture, prepared as timm's own scripts do."""
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    with torch.no_grad():
        return model.eval().double()(transform(Image.open(path))[None].double()).numpy()[0]


def from_hub(folder, **arguments):
    """The same files as of a repository."""
    def download(repo_id, filename, **_):
        path = os.path.join(folder, filename)
        if repo_id != "some/where":
            raise ValueError(repo_id)
        return path
    with mock.patch("timm.models._hub.hf_hub_download", download):
        return timm.create_model("hf-hub:some/where", pretrained=True, **arguments)


def check(binary, name, scratch):
    """Errors, as a list of words."""
    size = 70 if "patch14" in name else 64
    run, hub, shown = (os.path.join(scratch, part) for part in ("run", "hub", "picture.png"))
    empty = os.path.join(scratch, "empty.yaml")
    open(empty, "w").close()
    picture(shown, 99, (120, 101))
    for i, label in enumerate(CLASSES):
        os.makedirs(os.path.join(scratch, "data", label))
        for k in range(2):
            picture(os.path.join(scratch, "data", label, f"{k}.png"), 10 * i + k, (80, 80))
    keys = {"model.name": name, "data.train": os.path.join(scratch, "data"), "data.val": "",
            "data.image_size": size, "data.eval_resize": size + 9, "train.batch_per_rank": 4,
            "data.interpolation": "bicubic", "data.mean": "[0.4,0.5,0.6]",
            "data.std": "[0.2,0.25,0.3]", "train.max_steps": 2, "train.eval_every": 0,
            "train.precision": "fp32", "run.dir": run, "device.backend": "cpu"}
    convoy(binary, "train", empty, *[f"{key}={value}" for key, value in keys.items()])
    convoy(binary, "export", run, "--hub", hub)
    found = np.zeros(len(CLASSES))
    line = json.loads(convoy(binary, "predict", run, shown, "--json", "--top", "5", "--precision",
                             "fp32"))
    for row in line["top"]:
        found[row["label"]] = np.log(row["probability"])
    errors, worst = [], 0
    for model in timm.create_model("local-dir:" + hub, pretrained=True), from_hub(hub):
        want = logits(model, shown)
        worst = max(worst, np.abs(found - found.mean() - want + want.mean()).max()
                    / np.abs(want).max())
        if list(model.pretrained_cfg["label_names"]) != CLASSES:
            errors.append("other classes")
    if timm.create_model("local-dir:" + hub, pretrained=True, num_classes=7).num_classes != 7:
        errors.append("not another number of classes")
    if not worst <= LIMIT:
        errors.append("other logits")
    print(f"| `{name}` | {model.pretrained_cfg['architecture']} | {size} | {worst:.1e} |"
          + (" " + ", ".join(errors) if errors else ""), flush=True)
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--convoy", default="./convoy")
    args = parser.parse_args()
    failed = 0
    for name in args.models:
        with tempfile.TemporaryDirectory() as scratch:
            failed += bool(check(args.convoy, name, scratch))
    print(f"{len(args.models) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
