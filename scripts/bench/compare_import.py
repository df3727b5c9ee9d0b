#!/usr/bin/env python3
"""Compares scripts/import_dataset.py with the libraries that the formats come from.

    python3 scripts/bench/compare_import.py IMAGES [--convoy FILE]

IMAGES holds train/ and val/ with a folder for each class. Each library that this Python has packs
them with its own writer; what the import makes of that is compared, image by image, with what the
library's own reader gives: labels, bytes, and the names of the classes. Then convoy decodes every
image and trains two steps. The packages exclude each other, so this runs in three environments:

    pip install datasets==5.2.0 lmdb==3.0.0 pillow==13.0.0
    pip install mosaicml-streaming==0.13.0
    pip install mxnet==1.9.1 numpy==1.23.5          # Python up to 3.11"""
import argparse
import importlib.util
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = {"train": "train", "validation": "val"}


def files_of(images, folder):
    """(file, label) in the order of torchvision's ImageFolder; the names of the classes."""
    top = os.path.join(images, folder)
    names = sorted(os.listdir(top))
    return [(os.path.join(top, name, file), label) for label, name in enumerate(names)
            for file in sorted(os.listdir(os.path.join(top, name)))], names


def content(path):
    with open(path, "rb") as file:
        return file.read()


def imported(out, name):
    """(image, label) of what the import has written."""
    rows = []
    for file in sorted(os.listdir(out)):
        if file.startswith(name + "-"):
            with tarfile.open(os.path.join(out, file)) as tar:
                members = [(m.name, tar.extractfile(m).read()) for m in tar]
            rows += [(image, int(label)) for (_, image), (_, label) in zip(
                members[::2], members[1::2])]
    return rows


# Each packs the sets into a folder and returns, by set, what the library itself reads from there.

def with_datasets(images, folder):
    import datasets
    datasets.disable_progress_bars()
    made = datasets.load_dataset("imagefolder", data_files={
        name: os.path.join(os.path.abspath(images), of, "**") for name, of in SETS.items()})
    made = made.with_format("arrow").map(datasets.table.embed_table_storage, batched=True)
    read = {}
    for name in SETS:
        for i in range(3):
            made[name].shard(3, i, contiguous=True).to_parquet(
                os.path.join(folder, "%s-%05d-of-00003.parquet" % (name, i)))
        again = datasets.load_dataset("parquet", split="train", data_files=[
            os.path.join(folder, "%s-%05d-of-00003.parquet" % (name, i)) for i in range(3)])
        again = again.cast_column("image", datasets.Image(decode=False))
        read[name] = [(row["image"]["bytes"], row["label"]) for row in again]
    return read, again.features["label"].names


def unpack(streaming, packed, plain):
    """LocalDataset reads only shards that are not compressed."""
    os.mkdir(plain)
    index = content(os.path.join(packed, "index.json"))
    with open(os.path.join(plain, "index.json"), "wb") as file:
        file.write(index)
    for shard in json.loads(index)["shards"]:
        data = content(os.path.join(packed, (shard["zip_data"] or shard["raw_data"])["basename"]))
        if shard["compression"]:
            data = streaming.base.compression.decompress(shard["compression"], data)
        with open(os.path.join(plain, shard["raw_data"]["basename"]), "wb") as file:
            file.write(data)


def with_streaming(encoding, compression):
    def pack(images, folder):
        import streaming
        from PIL import Image
        read = {}
        for name, of in SETS.items():
            columns = {"image": encoding, "label": "int", "name": "str"}
            with streaming.MDSWriter(out=os.path.join(folder, of), columns=columns,
                                     compression=compression, size_limit=1 << 18) as writer:
                for file, label in files_of(images, of)[0]:
                    writer.write({"label": label, "name": file, "image": Image.open(file)
                                  if encoding == "jpeg" else content(file)})
            unpack(streaming, os.path.join(folder, of), os.path.join(folder, os.pardir, of))
            rows = streaming.LocalDataset(local=os.path.join(folder, os.pardir, of))
            read[name] = [(row["image"].fp.getvalue() if encoding == "jpeg" else row["image"],
                           row["label"]) for row in map(rows.get_item, range(len(rows)))]
        return read, []
    return pack


def with_lmdb(images, folder):
    import lmdb
    read = {}
    for name, of in SETS.items():
        rows = files_of(images, of)[0]
        with lmdb.open(os.path.join(folder, of + ".lmdb"), map_size=1 << 30) as env:
            with env.begin(write=True) as txn:
                for i, (file, label) in enumerate(rows):
                    txn.put(b"%d" % i, pickle.dumps((content(file), label), protocol=2 + i % 4))
                txn.put(b"__keys__", pickle.dumps([b"%d" % i for i in range(len(rows))]))
                txn.put(b"__len__", pickle.dumps(len(rows)))
        with lmdb.open(os.path.join(folder, of + ".lmdb"), readonly=True) as env:
            with env.begin() as txn:
                read[name] = [pickle.loads(txn.get(b"%d" % i)) for i in range(len(rows))]
    return read, []


def with_caffe(images, folder):
    import lmdb
    read = {}
    for name, of in SETS.items():
        rows = [(content(file), label) for file, label in files_of(images, of)[0]]
        with lmdb.open(os.path.join(folder, of + "_lmdb"), map_size=1 << 30) as env:
            with env.begin(write=True) as txn:
                for i, (image, label) in enumerate(rows):
                    size = bytes([len(image) & 127 | 128, len(image) >> 7 & 127 | 128,
                                  len(image) >> 14])
                    txn.put(b"%08d" % i, b"\x22" + size + image + b"\x28%c\x38\x01" % label)
        read[name] = rows
    return read, []


def with_mxnet(images, folder):
    from mxnet import recordio
    read = {}
    magic = struct.pack("<I", 0xced7230a)
    for name, of in SETS.items():
        path, rows = os.path.join(folder, of), files_of(images, of)[0]
        writer = recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
        for i, (file, label) in enumerate(rows):
            # MXNet cuts records where they hold the magic number, which a JPEG may at its end.
            end = magic * (i % 4) + b"\0" * (i % 3) + magic * (i % 2)
            header = recordio.IRHeader(0, label if i % 2 else [label], i, 0)
            writer.write_idx(i, recordio.pack(header, content(file) + end))
        writer.close()
        reader = recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "r")
        unpacked = [recordio.unpack(reader.read_idx(i)) for i in range(len(rows))]
        read[name] = [(image, int(getattr(h.label, "item", lambda: h.label)()))
                      for h, image in unpacked]
        reader.close()
    return read, []


FORMATS = (("parquet", "datasets", with_datasets),
           ("mds", "streaming", with_streaming("bytes", None)),
           ("mds-zstd", "streaming", with_streaming("bytes", "zstd")),
           ("mds-jpeg", "streaming", with_streaming("jpeg", "gz")),
           ("lmdb", "lmdb", with_lmdb), ("lmdb-caffe", "lmdb", with_caffe),
           ("recordio", "mxnet", with_mxnet))


def compare(options, name, pack, scratch):
    folder, out = os.path.join(scratch, name), os.path.join(scratch, name + "-out")
    os.mkdir(folder)
    read, names = pack(options.images, folder)
    subprocess.run([sys.executable, os.path.join(HERE, "../import_dataset.py"), folder, out,
                    "--tar-mb", "1"], check=True)
    wrong, count = 0, 0
    for part, of in SETS.items():
        expected = read[part]
        files = [(content(file), label) for file, label in files_of(options.images, of)[0]]
        assert len(expected) == len(files) and all(
            got[0].startswith(file[0]) and got[1] == file[1]
            for got, file in zip(expected, files)), "the library itself gives other images"
        got = imported(out, part)
        wrong += abs(len(got) - len(expected)) + sum(a != b for a, b in zip(got, expected))
        count += len(expected)
    if names:
        wrong += content(os.path.join(out, "classes.txt")).decode().split("\n")[:-1] != names
    print("%s: %d images, %d differ" % (name, count, wrong), flush=True)
    settings = ["data.dir=" + out, "model.name=resnet20", "data.image_size=32", "train.epochs=1",
                "train.max_steps=2", "train.batch_per_rank=8", "device.backend=cpu",
                "run.dir=" + os.path.join(scratch, name + "-run")]
    subprocess.run([options.convoy, "inspect", "dataset", out], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([options.convoy, "train", "configs/scratch.yaml", *settings], check=True)
    return wrong == 0


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("images", metavar="IMAGES")
    p.add_argument("--convoy", default="./convoy")
    options = p.parse_args()
    passed = failed = skipped = 0
    for name, module, pack in FORMATS:
        if importlib.util.find_spec(module) is None:
            print("skip %s: python3 has no %s" % (name, module))
            skipped += 1
            continue
        with tempfile.TemporaryDirectory() as scratch:
            if compare(options, name, pack, scratch):
                passed += 1
            else:
                failed += 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(failed > 0 or passed == 0)


main()
