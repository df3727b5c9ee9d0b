#!/usr/bin/env bash
# PyTorch 2.15.0: the bytes that torch.save writes depend on the file's name.
#
# The name without its last extension is the folder inside the zip archive, so the same tensors have
# two checksums, and two sizes, as a.pt and model.pt (and one as a.pt and a.pth). A file whose name
# carries its own checksum, as torchvision's weights have (name-0123abcd.pth, checked by torch.hub),
# can be had only by renaming: saved under that name it has other bytes.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
a.pt: equal to a.pt, 1407 bytes, folder a
a.pth: equal to a.pt, 1407 bytes, folder a
other/a.pt: equal to a.pt, 1407 bytes, folder a
model.pt: not equal to a.pt, 1563 bytes, folder model
saved under the name with its own checksum: wrong
renamed to it: right
END
"$bin/python" > "$SEEN" << 'END'
import hashlib
import os
import warnings
import zipfile

import torch

warnings.simplefilter("ignore")
weights = {"weight": torch.arange(10.0)}


def saved(name):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    torch.save(weights, name)
    with open(name, "rb") as f:
        return f.read()


first = saved("a.pt")
for name in ("a.pt", "a.pth", "other/a.pt", "model.pt"):
    data = saved(name)
    print("%s: %s to a.pt, %d bytes, folder %s" % (
        name, "equal" if data == first else "not equal", len(data),
        zipfile.ZipFile(name).namelist()[0].split("/")[0]))
digest = hashlib.sha256(first).hexdigest()[:8]
name = "a-%s.pth" % digest
now = hashlib.sha256(saved(name)).hexdigest()[:8]
print("saved under the name with its own checksum: %s" % ("right" if now == digest else "wrong"))
os.replace("a.pt", name)
with open(name, "rb") as f:
    now = hashlib.sha256(f.read()).hexdigest()[:8]
print("renamed to it: %s" % ("right" if now == digest else "wrong"))
END
compare
