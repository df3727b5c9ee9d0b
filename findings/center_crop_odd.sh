#!/usr/bin/env bash
# Where does a centre crop begin when an odd number of pixels is left over? torchvision 0.29.2 and
# timm 1.0.31 round half to even: 0 of 1, but 2 of 3, 2 of 5, 4 of 7. albumentations 2.0.8 always
# takes the smaller half (0, 1, 2, 3), and kornia 0.9.0 has both: its transform takes the smaller
# half, its function center_crop cuts between the pixels and returns means of neighbours.
#
# So two of these tools show a network pictures that are a pixel apart for every other odd rest, in
# either direction. Python's round(), which two of them use, rounds 0.5 to 0, 1.5 and 2.5 to 2.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 torchvision==0.29.2 timm==1.0.31 albumentations==2.0.8 kornia==0.9.0 \
    pytorch-ignite==0.5.5 lightning==2.6.6 pillow==13.0.0 numpy==2.4.6
export NO_ALBUMENTATIONS_UPDATE=1

cat > "$STATED" << 'END'
END
"$bin/python" > "$SEEN" 2> said << 'END'
import warnings

warnings.simplefilter("ignore")
import albumentations
import kornia.augmentation
import kornia.geometry.transform
import numpy as np
import PIL.Image
import torch
from timm.data.transforms import CenterCropOrPad
from torchvision.transforms import v2

SIZE = 8
for left in (1, 2, 3, 4, 5, 7):
    size = SIZE + left
    columns = np.tile(np.arange(size, dtype=np.uint8)[None, :, None], (size, 1, 3))
    picture = PIL.Image.fromarray(columns)
    tensor = torch.from_numpy(columns).permute(2, 0, 1)[None].float()
    begins = {
        "torchvision": np.asarray(v2.CenterCrop(SIZE)(picture))[0, 0, 0],
        "timm": np.asarray(CenterCropOrPad(SIZE)(picture))[0, 0, 0],
        "albumentations": albumentations.CenterCrop(SIZE, SIZE)(image=columns)["image"][0, 0, 0],
        "kornia CenterCrop": kornia.augmentation.CenterCrop(SIZE)(tensor)[0, 0, 0, 0],
        "kornia center_crop": kornia.geometry.transform.center_crop(
            tensor, (SIZE, SIZE))[0, 0, 0, 0],
    }
    print("%d left over: %s" % (left, ", ".join("%s %.1f" % (k, v) for k, v in begins.items())))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
