#!/usr/bin/env python3
"""Golden numbers for tests/unit/data/augment/test_mix.c: images normalised, erased and mixed, and
the loss of
mixed targets, by torch and torchvision.

Run by hand in an environment with torch and torchvision, never by build or tests:

    python3 scripts/golden/make_mix_golden.py tests/golden/mix.txt

Images, boxes, logits and labels come from formulas that the test has too. Lines:
"input KIND crc32c" of the float32 images in the order N,C,H,W, and "loss SMOOTHING LAMBDA loss top1
gradient...", the gradient being that of the mean loss, in the order of the logits.
"""
import sys

import torch
import torchvision
from torchvision.transforms import functional as F

from crc32c import crc32c

N, H, W, C, CLASSES = 4, 9, 11, 3, 7
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BOXES = ((0, 0, 0, 0), (2, 3, 4, 5), (0, 0, 9, 2), (7, 10, 2, 1))  # top, left, height, width
CUT = (3, 2, 8, 9)  # top, left, bottom, right
LABELS = (3, 0, 6, 0)
LAMBDA = 0.7


def images(erase):
    values = [(i * 2654435761 & 0xFFFFFFFF) >> 13 & 255 for i in range(N * H * W * C)]
    bytes_ = torch.tensor(values, dtype=torch.uint8).view(N, H, W, C).permute(0, 3, 1, 2)
    batch = F.normalize(F.convert_image_dtype(bytes_, torch.float32), MEAN, STD)
    for n, (top, left, height, width) in enumerate(BOXES):
        if erase and height:
            batch[n] = F.erase(batch[n], top, left, height, width, torch.tensor(0.0))
    return batch


def mixup(batch):
    """As torchvision's references: RandomMixup."""
    return batch.clone().mul_(LAMBDA).add_(batch.roll(1, 0).mul_(1.0 - LAMBDA))


def cutmix(batch):
    top, left, bottom, right = CUT
    out = batch.clone()
    out[:, :, top:bottom, left:right] = batch.roll(1, 0)[:, :, top:bottom, left:right]
    return out


def loss(out, smoothing, lam):
    logits = torch.tensor([((n * 31 + k * 17 + n * k * 5) % 23 - 11) / 4.0
                           for n in range(N) for k in range(CLASSES)],
                          dtype=torch.float64).view(N, CLASSES).requires_grad_()
    hot = torch.nn.functional.one_hot(torch.tensor(LABELS), CLASSES).double()
    target = hot * lam + hot.roll(1, 0) * (1.0 - lam)
    value = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)(logits, target)
    value.backward()
    # The label with the larger share counts, as in the references' accuracy(); no ties here.
    top1 = int((logits.argmax(1) == target.argmax(1)).sum())
    print("loss", smoothing, lam, repr(value.item()), top1,
          *(f"{v:.9g}" for v in logits.grad.flatten().tolist()), file=out)


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print(f"# torch {torch.__version__}, torchvision {torchvision.__version__}; made by "
              "scripts/golden/make_mix_golden.py", file=out)
        for name, batch in (("plain", images(False)), ("erase", images(True)),
                            ("mixup", mixup(images(False))), ("erase_mixup", mixup(images(True))),
                            ("erase_cutmix", cutmix(images(True)))):
            print("input", name, f"{crc32c(batch.contiguous().numpy().tobytes()):08x}", file=out)
        for smoothing in (0.0, 0.1):
            for lam in (1.0, 0.7, 0.3):
                loss(out, smoothing, lam)


if __name__ == "__main__":
    main()
