#!/usr/bin/env bash
# litdata 0.2.76: the type of the first sample's one-dimensional arrays and tensors is taken for all
# samples. Where a later one has another type, its bytes are read as the first one's, silently.
#
# After whole numbers, the array [1.5, 2.5] comes back as two numbers of nineteen digits, and the
# float32 tensor [1.5, 2.5] as one; bytes after uint8 come back as eight times as many. Labels that
# are whole numbers in the first sample and fractions in another (soft labels, regression) do this.
# Arrays of two dimensions keep their own type. A plain Python float after an int is an error.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 litdata==0.2.76 numpy==2.4.6

cat > "$STATED" << 'END'
float64 [1.5, 2.5] after int64 [1, 2]: int64 [4609434218613702656, 4612811918334230528]
float32 [1.5, 2.5] after int64 [1, 2]: int64 [4620693218751676416]
int64 [300] after uint8 [1, 2]: uint8 [44, 1, 0, 0, 0, 0, 0, 0]
int64 [1, 2] after float64 [1.5, 2.5]: float64 [5e-324, 1e-323]
float64 [[1.5, 2.5]] after int64 [[1, 2]]: float64 [[1.5, 2.5]]
END
DO_NOT_TRACK=1 "$bin/python" > "$SEEN" 2> said << 'END'
import tempfile
import warnings

warnings.simplefilter("ignore")
import numpy as np
import torch
from litdata import StreamingDataset
from litdata.streaming.writer import BinaryWriter


def words(x):
    return "%s %s" % (str(x.dtype).replace("torch.", ""), x.tolist())


def tell(first, second):
    folder = tempfile.mkdtemp(dir=".")
    writer = BinaryWriter(folder, chunk_bytes=1 << 20)
    for i, x in enumerate((first, second)):
        writer[i] = x
    writer.done()
    writer.merge()
    back = StreamingDataset(folder)[1]
    print("%s after %s: %s" % (words(second), words(first), words(back)))


tell(np.array([1, 2]), np.array([1.5, 2.5]))
tell(torch.tensor([1, 2]), torch.tensor([1.5, 2.5]))
tell(np.array([1, 2], np.uint8), np.array([300]))
tell(np.array([1.5, 2.5]), np.array([1, 2]))
tell(np.array([[1, 2]]), np.array([[1.5, 2.5]]))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
