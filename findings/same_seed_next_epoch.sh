#!/usr/bin/env bash
# Five loaders draw the order of epoch e of seed s from s + e. Runs with seeds 5 and 6 then see the
# same orders, one an epoch later than the other: they are not independent.
#
# PyTorch 2.15.0 DistributedSampler, accelerate 1.15.0 SeedableRandomSampler, mosaicml-streaming
# 0.13.0 StreamingDataset, webdataset 1.0.2 detshuffle and Grain 0.2.18 IndexSampler: epoch 2 of
# seed 5 is epoch 1 of seed 6. Grain's other interface, MapDataset, has other orders for each seed.
# Seeds further apart than a run has epochs do not meet.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 accelerate==1.15.0 mosaicml-streaming==0.13.0 webdataset==1.0.2 \
    grain==0.2.18 numpy==2.1.3

cat > "$STATED" << 'END'
torch DistributedSampler: epoch 2 of seed 5 is equal to epoch 1 of seed 6
accelerate SeedableRandomSampler: epoch 2 of seed 5 is equal to epoch 1 of seed 6
streaming StreamingDataset: epoch 2 of seed 5 is equal to epoch 1 of seed 6
webdataset detshuffle: epoch 2 of seed 5 is equal to epoch 1 of seed 6
grain IndexSampler: epoch 2 of seed 5 is equal to epoch 1 of seed 6
grain MapDataset: epoch 2 of seed 5 is not epoch 1 of seed 6
END
"$bin/python" > "$SEEN" 2> said << 'END'
import warnings

warnings.simplefilter("ignore")
import grain
import webdataset
from accelerate.data_loader import SeedableRandomSampler
from grain.samplers import IndexSampler
from grain.sharding import NoSharding
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DistributedSampler

N = 500
with MDSWriter(out="mds", columns={"x": "int"}) as out:
    for i in range(N):
        out.write({"x": i})


def torch_order(seed, epoch):
    sampler = DistributedSampler(range(N), 2, 0, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def accelerate_order(seed, epoch):
    sampler = SeedableRandomSampler(range(N), data_seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def streaming_order(seed, epoch):
    data = StreamingDataset(local="mds", shuffle=True, shuffle_seed=seed, batch_size=4,
                            num_canonical_nodes=1)
    for _ in range(epoch + 1):
        order = [sample["x"] for sample in data]
    return order


def webdataset_order(seed, epoch):
    shuffle = webdataset.detshuffle(N, seed=seed)
    for _ in range(epoch + 1):
        order = list(shuffle.run(iter(range(N))))
    return order


def grain_sampler_order(seed, epoch):
    sampler = IndexSampler(N, NoSharding(), shuffle=True, num_epochs=9, seed=seed)
    return [sampler[i].record_key for i in range(N * epoch, N * (epoch + 1))]


def grain_dataset_order(seed, epoch):
    data = grain.MapDataset.range(N).seed(seed).shuffle().repeat(9)
    return [int(data[i]) for i in range(N * epoch, N * (epoch + 1))]


for name, order in (
    ("torch DistributedSampler", torch_order),
    ("accelerate SeedableRandomSampler", accelerate_order),
    ("streaming StreamingDataset", streaming_order),
    ("webdataset detshuffle", webdataset_order),
    ("grain IndexSampler", grain_sampler_order),
    ("grain MapDataset", grain_dataset_order),
):
    assert order(5, 2) != order(5, 1)
    print("%s: epoch 2 of seed 5 is %s epoch 1 of seed 6" % (
        name, "equal to" if order(5, 2) == order(6, 1) else "not"))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
