#!/usr/bin/env bash
# Where does a centre crop begin when an odd number of pixels is left over? torchvision 0.29.2 and
# timm 1.0.31 round half to even: 0 of 1, but 2 of 3, 2 of 5, 4 of 7. albumentations 2.0.8 always
# takes the smaller half (0, 1, 2, 3), and kornia 0.9.0 has both: its transform takes the smaller
# half, its function center_crop cuts between the pixels and returns means of neighbours.
#
# So a network sees pictures that are a pixel apart in two of these tools, for every other odd
# number.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 torchvision==0.29.2 timm==1.0.31 albumentations==2.0.8 kornia==0.9.0 \
    pytorch-ignite==0.5.5 lightning==2.6.6 pillow==13.0.0 numpy==2.4.6
export NO_ALBUMENTATIONS_UPDATE=1

cat > "$STATED" << 'END'
1 left over: torchvision 0.0, timm 0.0, album. 0.0, CenterCrop 0.0, center_crop 0.5
2 left over: torchvision 1.0, timm 1.0, album. 1.0, CenterCrop 1.0, center_crop 1.0
3 left over: torchvision 2.0, timm 2.0, album. 1.0, CenterCrop 1.0, center_crop 1.5
4 left over: torchvision 2.0, timm 2.0, album. 2.0, CenterCrop 2.0, center_crop 2.0
5 left over: torchvision 2.0, timm 2.0, album. 2.0, CenterCrop 2.0, center_crop 2.5
7 left over: torchvision 4.0, timm 4.0, album. 3.0, CenterCrop 3.0, center_crop 3.5
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
        "album.": albumentations.CenterCrop(SIZE, SIZE)(image=columns)["image"][0, 0, 0],
        "CenterCrop": kornia.augmentation.CenterCrop(SIZE)(tensor)[0, 0, 0, 0],
        "center_crop": kornia.geometry.transform.center_crop(
            tensor, (SIZE, SIZE))[0, 0, 0, 0],
    }
    print("%d left over: %s" % (left, ", ".join("%s %.1f" % (k, v) for k, v in begins.items())))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
