#!/usr/bin/env bash
# torchvision 0.29.2 and kornia 0.9.0: RandomRotation and RandomAffine turn a picture by the same
# positive angle in opposite directions. albumentations 2.0.8 turns both to the left.
#
# rotate(90) brings a dot from the right to the top, as Pillow, and affine(angle=90) to the bottom.
# Where the angle is drawn evenly from -d to d nothing is seen of it; where it is fixed, drawn from
# one side only, or undone later (test-time augmentation, boxes), it is.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 torchvision==0.29.2 timm==1.0.31 albumentations==2.0.8 kornia==0.9.0 \
    pytorch-ignite==0.5.5 lightning==2.6.6 pillow==13.0.0 numpy==2.4.6
export NO_ALBUMENTATIONS_UPDATE=1

cat > "$STATED" << 'END'
Pillow rotate by 90 degrees: from the right to the top (to the left)
torchvision RandomRotation by 90 degrees: from the right to the top (to the left)
torchvision RandomAffine by 90 degrees: from the right to the bottom (to the right)
kornia RandomRotation by 90 degrees: from the right to the top (to the left)
kornia RandomAffine by 90 degrees: from the right to the bottom (to the right)
albumentations Rotate by 90 degrees: from the right to the top (to the left)
albumentations Affine by 90 degrees: from the right to the top (to the left)
END
"$bin/python" > "$SEEN" 2> said << 'END'
import warnings

warnings.simplefilter("ignore")
import albumentations
import kornia.augmentation
import numpy as np
import PIL.Image
import torch
from torchvision.transforms import v2

dot = np.zeros((9, 9, 3), np.uint8)
dot[4, 7] = 255  # right of the middle
picture = PIL.Image.fromarray(dot)
tensor = torch.from_numpy(dot).permute(2, 0, 1)[None].float() / 255
places = {(1, 4): "top (to the left)", (7, 4): "bottom (to the right)"}


def place(picture):
    array = np.asarray(picture, dtype=float)
    array = array[0].transpose(1, 2, 0) if array.ndim == 4 else array
    return places.get(tuple(np.argwhere(array[..., 0] > 0.5 * array.max())[0]), "elsewhere")


by = (90, 90)
for name, turned in (
    ("Pillow rotate", picture.rotate(90)),
    ("torchvision RandomRotation", v2.RandomRotation(by)(picture)),
    ("torchvision RandomAffine", v2.RandomAffine(by)(picture)),
    ("kornia RandomRotation", kornia.augmentation.RandomRotation(by, p=1.0)(tensor)),
    ("kornia RandomAffine", kornia.augmentation.RandomAffine(by, p=1.0)(tensor)),
    ("albumentations Rotate", albumentations.Rotate(by, p=1)(image=dot)["image"]),
    ("albumentations Affine", albumentations.Affine(rotate=by, p=1)(image=dot)["image"]),
):
    print("%s by 90 degrees: from the right to the %s" % (name, place(turned)))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
