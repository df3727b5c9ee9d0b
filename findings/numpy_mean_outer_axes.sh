#!/usr/bin/env bash
# NumPy 2.4.6, float32: the mean and deviation of each channel over 51.2 million pixels, as
# images.mean(axis=(0, 1, 2)) of 50,000 pictures of 32 x 32 x 3, are wrong by a factor.
#
# NumPy adds in pairs along the last axis only. Where the last axis is the channels, it adds pixel
# after pixel in float32, and a sum that has reached 2^23 no longer grows by values below 0.5.
# Pictures that are 0.49 throughout have mean 0.16; noise between 0 and 1 has mean 0.33 and
# deviation 0.31 (0.50 and 0.29). Right are the same numbers with the channels first, the mean over
# everything, and dtype=np.float64. Takes 1.5 GB of memory.
source "$(dirname "$0")/common.sh"
packages numpy==2.4.6

cat > "$STATED" << 'END'
0.49 everywhere, mean of a channel: 0.163840
the same in float64: 0.490000
mean of all channels: 0.490000
channels first: 0.490000
noise, mean of the channels: [0.3277 0.3277 0.3277]
noise, deviation of the channels: [0.3142 0.3141 0.3141]
END
"$bin/python" > "$SEEN" << 'END'
import numpy as np

outer = (0, 1, 2)
images = np.full((50000, 32, 32, 3), 0.49, np.float32)
print("0.49 everywhere, mean of a channel: %.6f" % images.mean(axis=outer)[0])
print("the same in float64: %.6f" % images.mean(axis=outer, dtype=np.float64)[0])
print("mean of all channels: %.6f" % images.mean())
first = np.empty((3, 50000, 32, 32), np.float32)
first[:] = 0.49
print("channels first: %.6f" % first.mean(axis=(1, 2, 3))[0])
del first
np.random.Generator(np.random.Philox(1)).random(dtype=np.float32, out=images)
print("noise, mean of the channels: %s" % images.mean(axis=outer).round(4))
print("noise, deviation of the channels: %s" % images.std(axis=outer).round(4))
END
compare
