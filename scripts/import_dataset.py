#!/usr/bin/env python3
"""Makes tar files that convoy reads from image datasets in formats of other trainers:

  parquet of Hugging Face (needs pyarrow), MDS of MosaicML Streaming (needs mosaicml-streaming),
  RecordIO of MXNet (needs no package), and LMDB (needs lmdb) in one of two layouts.
  Caffe's: each value is a Datum with an encoded image. PyTorch's folder2lmdb: each value is a
  pickle of (image, label), and __keys__ or __len__ gives the keys. No code of a pickle is run.

Images are copied byte for byte; those that are neither JPEG nor PNG are left out and listed in
OUT/left-out.txt. Labels stay as they are. Class names are those of parquet's features, or labels
that are text; else classes have numbers. OUT gets train-*.tar and validation-*.tar, or images-*.tar
if file names do not tell sets apart; a test set if there is no validation set, or by --split.
OUT appears when it is complete. Exit codes: 64 command line, 65 the data cannot be used, 66 no
SOURCE, 74 OUT cannot be written, 78 a package is missing."""
import argparse
import contextlib
import glob
import importlib
import io
import json
import os
import pickle
import re
import signal
import struct
import sys
import tarfile
import tempfile

SETS = {word: name for name, words in (
    ("train", "train training"), ("validation", "validation val valid dev eval"),
    ("test", "test testing")) for word in words.split()}
LABELS = ("label", "labels", "class", "cls", "target", "y")
ENDINGS = {b"\xff\xd8\xff": "jpg", b"\x89PNG\r\n\x1a\n": "png"}


class Refused(Exception):
    """Exit code, text."""


@contextlib.contextmanager
def blame(path, row=None):
    """Whatever goes wrong inside names the file, and row() if given."""
    try:
        yield
    except Exception as error:
        code, text = error.args if isinstance(error, Refused) else (65, error)
        place = "%s, row %d" % (path, row()) if row else path
        raise Refused(code, "%s: %s" % (place, text or type(error).__name__))


def need(module, package):
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise Refused(78, "needs %s: pip install %s (%s)" % (package, package, missing))


def choose(option, given, columns, candidates):
    """The column that was asked for, or the only candidate."""
    if given and given not in columns:
        raise Refused(64, "%s %s: the columns are %s" % (option, given, ", ".join(columns)))
    if not given and len(candidates) != 1:
        raise Refused(65, "%s must name one of %s" % (option, ", ".join(candidates or columns)))
    return given or candidates[0]


# Each reader returns the names of the classes, [] without, and a function that yields image, label.

def parquet(path, options):
    file = need("pyarrow.parquet", "pyarrow").ParquetFile(path)
    columns, about = file.schema_arrow.names, file.schema_arrow.metadata or {}
    features = json.loads(about.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    features = {n: f for n, f in features.items() if isinstance(f, dict)}

    def of_type(kind):
        return [n for n in columns if features.get(n, {}).get("_type") == kind]
    image = choose("--image-column", options.image_column, columns,
                   of_type("Image") or [n for n in columns if n in ("image", "img")])
    label = choose("--label-column", options.label_column, columns,
                   of_type("ClassLabel") or [n for n in columns if n in LABELS])

    def rows():
        for batch in file.iter_batches(batch_size=64, columns=[image, label]):
            for row in batch.to_pylist():
                kept = row[image]["bytes"] if isinstance(row[image], dict) else row[image]
                yield kept, row[label]
    return features.get(label, {}).get("names", []), rows


def mds(path, options):
    need("streaming", "mosaicml-streaming")
    compression = need("streaming.base.compression", "mosaicml-streaming")
    encodings = need("streaming.base.format.mds.encodings", "mosaicml-streaming")
    with open(path, encoding="utf-8") as file:
        shards = json.load(file).get("shards")
    if not shards or any(shard["format"] != "mds" for shard in shards):
        raise ValueError("not MDS")
    kinds = dict(zip(shards[0]["column_names"], shards[0]["column_encodings"]))
    images = [n for n in kinds if kinds[n] in ("bytes", "jpeg", "png")]
    labels = [n for n in kinds if re.fullmatch(r"u?int\d*|str|str_int", kinds[n])]
    image = choose("--image-column", options.image_column, images, images)
    label = choose("--label-column", options.label_column, labels,
                   [n for n in labels if n in LABELS])

    def read(shard):
        raw, packed = shard["raw_data"], shard["zip_data"]
        files = [os.path.join(os.path.dirname(path), f["basename"]) for f in (raw, packed) if f]
        kept = files[0] if os.path.exists(files[0]) else files[-1]
        with open(kept, "rb") as file:
            data = file.read()
        data = data if kept == files[0] else compression.decompress(shard["compression"], data)
        if len(data) != raw["bytes"]:
            raise ValueError("%s has %d bytes, not %d" % (kept, len(data), raw["bytes"]))
        return data

    def rows():
        for shard in shards:
            data, sizes = read(shard), shard["column_sizes"]
            head = struct.Struct("<%dI" % sizes.count(None))
            for at, in struct.iter_unpack("<I", data[4:4 + 4 * shard["samples"]]):
                stored, at, sample = iter(head.unpack_from(data, at)), at + head.size, {}
                for name, size in zip(shard["column_names"], sizes):
                    size = next(stored) if size is None else size
                    sample[name], at = data[at:at + size], at + size
                value = encodings.mds_decode(kinds[label], sample[label])
                yield sample[image], value if isinstance(value, str) else int(value)
    return [], rows


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) != ("_codecs", "encode"):  # how old protocols keep bytes
            raise ValueError("its pickle calls %s.%s, which is not run" % (module, name))
        return super().find_class(module, name)


def datum(key, value):
    """Caffe's protobuf message: field 4 the data, 5 the label, 7 whether it is encoded."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        number = shift = 0
        while not shift or value[at - 1] > 127:
            number, at, shift = number | (value[at] & 127) << shift, at + 1, shift + 7
        return number
    try:
        while at < len(value):
            field, kind = divmod(varint(), 8)
            size = varint() if kind == 2 else {0: 0, 1: 8, 5: 4}[kind]
            fields[field], at = (value[at:at + size], at + size) if kind else (varint(), at)
        image, label = fields[4], fields.get(5, 0)
        assert at == len(value)
    except (AssertionError, IndexError, KeyError):
        raise ValueError("key %r: not Caffe's Datum, and no __keys__ or __len__ of PyTorch's "
                         "folder2lmdb" % key)
    if not fields.get(7):
        raise ValueError("key %r: a Datum of pixels, not of an encoded image" % key)
    return image, label - (label >> 63 << 64)


def lmdb(path, options):
    inside = os.path.basename(path) == "data.mdb"
    data = need("lmdb", "lmdb").open(os.path.dirname(path) or "." if inside else path,
                                     subdir=inside, readonly=True, lock=False)

    def load(value):
        return Unpickler(io.BytesIO(value)).load()

    def rows():
        with data.begin() as txn:
            keys, length = txn.get(b"__keys__"), txn.get(b"__len__")
            if keys is None and length is None:
                yield from (datum(key[:40], value) for key, value in txn.cursor())
                return
            for key in load(keys) if keys is not None else range(load(length)):
                image, label = load(txn.get(key if isinstance(key, bytes) else b"%d" % key))
                yield image, label
    return [], rows


def recordio(path, options):
    """Records begin with a magic number and their length, padded to four bytes. One that holds the
    magic number at such a place is cut there into a first part (1), others (2) and a last one (3).
    Before the image stand flag, label, id, id2, and then as many labels as flag says."""
    def rows():
        magic, parts, at = struct.pack("<I", 0xced7230a), [], 0
        with open(path, "rb") as file:
            while head := file.read(8):
                part, length = divmod(int.from_bytes(head[4:], "little"), 1 << 29)
                data = file.read(length + -length % 4)
                if head[:4] != magic[:len(head)]:
                    raise ValueError("no record at byte %d" % at)
                if len(head + data) != 8 + length + -length % 4:
                    raise ValueError("the file is cut short")
                parts.append(data[:length])
                at += 8 + len(data)
                if part in (0, 3):
                    record, parts = magic.join(parts), []
                    try:
                        count, label = struct.unpack_from("<If16x", record)
                        if count:
                            label, = struct.unpack_from("<f", record, 24)
                    except struct.error:
                        raise ValueError("the record has no image and label")
                    if count > 1 or not label.is_integer():
                        raise ValueError("%d labels" % count if count > 1 else
                                         "its label is %g" % label)
                    yield record[24 + 4 * count:], int(label)
        if parts or not at:
            raise ValueError("the file is %s" % ("cut short" if at else "empty"))
    return [], rows


KINDS = {r"\.parquet$": parquet, r"^index\.json$": mds, r"(?<!^lock)\.mdb$": lmdb,
         r"\.rec$": recordio}


def set_of(path):
    """By a word in the file's name, or else in that of a folder."""
    words = [w for part in reversed(path.split(os.sep)) for w in re.findall("[a-z]+", part.lower())]
    return next((SETS[word] for word in words if word in SETS), "images")


def find(source, asked):
    """How to read what lies there, and its files by set."""
    found, numbered = {}, {}
    if not os.path.exists(source):
        raise Refused(66, "%s: no such file or folder" % source)
    for path in [source] if os.path.isfile(source) else sorted(
            glob.glob(os.path.join(glob.escape(source), "**"), recursive=True)):
        for ending, kind in KINDS.items():
            if re.search(ending, os.path.basename(path), re.I):
                name = set_of(os.path.relpath(path, os.path.dirname(os.path.abspath(source))))
                found.setdefault(kind, {}).setdefault(name, []).append(path)
    if len(found) != 1:
        raise Refused(65, "%s: %s" % (source, "holds more than one format" if found else
                                      "no parquet, MDS, LMDB or RecordIO here"))
    kind, sets = found.popitem()
    names = [SETS.get(name, name) for name in asked] or [
        n for n in ("train", "validation" if "validation" in sets else "test") if n in sets] or sets
    if set(names) - set(sets):
        raise Refused(64, "--split: there are only %s" % ", ".join(sorted(sets)))
    for name in sorted(set(sets) - set(names)):
        print("left out: %s (--split %s)" % (sets[name][0], name))
    for paths in (sets[name] for name in names):
        if len({os.path.dirname(p) if kind is parquet else p for p in paths}) > 1:
            raise Refused(65, "%s and %s: two datasets; import one" % (paths[0], paths[-1]))
        for path in paths:
            count = re.search(r"\d+-of-(\d+)", path)
            if count and path != source and int(count[1]) != len(paths):
                raise Refused(65, "%s: %d of %s files are there" % (path, len(paths), count[1]))
    return kind, {name: sets[name] for name in names}


def samples(path, rows, names, left):
    """The files of each sample; where labels are text, they are folders."""
    at = 0
    with blame(path, lambda: at):
        for image, label in rows():
            text = isinstance(label, str)
            if not (re.fullmatch(r"[^./\n][^/\n]*", label) if text else
                    type(label) is int and 0 <= label < (len(names) or 1 << 31)):
                raise ValueError("its label is %r" % label)
            if not image:
                raise ValueError("the image itself is not in the file")
            ending = [e for head, e in ENDINGS.items() if image.startswith(head)]
            if not ending:
                left.append("%s, row %d" % (path, at))
            elif text:
                yield (label + "/", ending[0], image),
            else:
                yield ("", ending[0], image), ("", "cls", b"%d" % label)
            at += 1


def write_tars(folder, name, samples, limit):
    """Under hidden names, which convoy does not read, until all are there."""
    paths, images, sample = [], 0, next(samples, None)
    while sample:
        paths.append(os.path.join(folder, ".%d.tar" % len(paths)))
        with tarfile.open(paths[-1], "w", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar:
            while sample and tar.offset < max(limit, 1):
                for above, ending, data in sample:
                    about = tarfile.TarInfo("%s%09d.%s" % (above, images, ending))
                    about.size = len(data)
                    tar.addfile(about, io.BytesIO(data))
                images, sample = images + 1, next(samples, None)
    for i, path in enumerate(paths):
        os.rename(path, os.path.join(folder, "%s-%05d-of-%05d.tar" % (name, i, len(paths))))
    if not images:
        raise Refused(65, "%s: no image is JPEG or PNG" % name)
    print("%s: %d images" % (name, images))


def convert(options):
    out, left, sources = os.path.realpath(options.out), [], {}
    if os.path.exists(out) and (not os.path.isdir(out) or os.listdir(out)):
        raise Refused(64, "%s is there already and not an empty folder" % options.out)
    if not os.path.isdir(os.path.dirname(out)):
        raise Refused(74, "%s: no such folder" % os.path.dirname(out))
    kind, sets = find(options.source, options.split)
    for path in sum(sets.values(), []):
        with blame(path):
            sources[path] = kind(path, options)
    lists = {tuple(names) for names, _ in sources.values()}
    names = lists.pop()
    if lists or not all(re.fullmatch(r"[^\r\n\0]+", name) for name in names):
        raise Refused(65, "%s: class names %s" % (
            options.source, "of its files differ" if lists else "are empty or have line breaks"))
    with tempfile.TemporaryDirectory(prefix=".import-", dir=os.path.dirname(out)) as above:
        folder = os.path.join(above, "out")
        os.mkdir(folder)
        for name, paths in sets.items():
            write_tars(folder, name, (sample for path in paths for sample in samples(
                path, sources[path][1], names, left)), options.tar_mb << 20)
        for name, lines in (("classes.txt", names), ("left-out.txt", left)):
            if lines:
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.writelines(line + "\n" for line in lines)
        os.sync()
        os.rename(folder, out)
    if left:
        print("left out: %d images; %s/left-out.txt lists them" % (len(left), options.out))


def refuse(code, text):
    print("import_dataset: error: " + " ".join(str(text).split()), file=sys.stderr)
    sys.exit(code)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.error = lambda text: refuse(64, text)
    p.add_argument("source", metavar="SOURCE", help="a file or a folder")
    p.add_argument("out", metavar="OUT", help="a new folder")
    p.add_argument("--split", action="append", default=[], metavar="NAME",
                   help="only this set: train, validation or test; may be repeated")
    p.add_argument("--image-column", metavar="NAME", help="of parquet and MDS")
    p.add_argument("--label-column", metavar="NAME", help="of parquet and MDS")
    p.add_argument("--tar-mb", type=int, default=512, metavar="N", help="size of a file (512)")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        convert(p.parse_args())
    except OSError as error:
        refuse(74, error)
    except Refused as error:
        refuse(*error.args)


main()
