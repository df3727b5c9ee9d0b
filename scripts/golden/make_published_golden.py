#!/usr/bin/env python3
"""Golden file for tests/unit/models/test_registry.c: how the published weights of each network that
Convoy knows want images prepared, and what they reach, as torchvision and timm say. Run by hand in
an environment with both, never by build or tests:

    python3 scripts/golden/make_published_golden.py > tests/golden/published.txt

NETWORK WEIGHTS TOP1 SIZE RESIZE INTERPOLATION MEAN FILE   TOP1 is 0 for timm's, whose package does
                                                           not know it; MEAN that of red
"""
import re
import subprocess

import timm
import torchvision


def convoy(*words):
    return subprocess.run(["./convoy", *words], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def main():
    print(f"# torchvision {torchvision.__version__}, timm {timm.__version__}; made by "
          "scripts/golden/make_published_golden.py")
    networks = convoy("inspect", "model", "--help").split("\nNetworks, ")[1]
    for name in re.findall(r"^  (\w+)", networks, re.M):
        if name in torchvision.models.list_models():
            for weights in torchvision.models.get_model_weights(name):
                how, top1 = weights.transforms(), weights.meta["_metrics"]["ImageNet-1K"]["acc@1"]
                print(name, weights.name, top1, how.crop_size[0], how.resize_size[0],
                      how.interpolation.value, how.mean[0], weights.url.rsplit("/", 1)[1])
        for file in re.findall(r"^weights .* of timm/(.*)", convoy("inspect", "model", name), re.M):
            cfg = timm.get_pretrained_cfg(file)
            size = (cfg.test_input_size or cfg.input_size)[-1]
            resize = int(size / (cfg.test_crop_pct or cfg.crop_pct) + 1e-9)
            print(name, cfg.tag, 0, size, resize, cfg.interpolation, cfg.mean[0], cfg.hf_hub_id)


if __name__ == "__main__":
    main()
