#!/usr/bin/env bash
# import_dataset.sh - datasets in formats of other trainers: one line names each, with the way out,
# and scripts/import_dataset.py makes of them what convoy reads. Images of every format go in and
# come out with the same bytes and labels, where python3 has the package of the format.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 2
make_config
others=$SCRATCH/others
mkdir -p "$others"/{parquet/data,mds,lmdb,rec,both/cat,pictures}

# ---- what they are ----
printf 'PAR1....PAR1' > "$others/parquet/data/train-00000-of-00294.parquet"
printf '{"shards": [{"column_encodings": ["int"], "format": "mds"}], "version": 2}' \
    > "$others/mds/index.json"
printf '%16s\xde\xc0\xef\xbe' '' > "$others/lmdb/data.mdb"
printf '\x0a\x23\xd7\xce\0\0\0\0' > "$others/rec/train.rec"
: > "$others/rec/train.idx"

# told WHAT PATH TEXT - inspect dataset, data.train, data.dir and predict say so of PATH, on a line.
told()
{
    expect_error "inspect $1" 65 "inspect dataset: error: $2: $3" 1 inspect dataset "$2"
    train_fails "$1" 65 "data.train: $2: $3" 1 "data.train=$2"
    train_fails "$1" 65 "data.dir: $2: $3" 1 data.train= "data.dir=$2"
    expect "predict $1" 65 run 1 predict "$SCRATCH/run" "$2"
    expect_one_error "predict $1" "$2: $3"
}

to_import='which Convoy does not read; convert it: scripts/import_dataset.py'
train run 1 train.max_steps=1
told parquet "$others/parquet" "Hugging Face parquet, $to_import $others/parquet OUT"
told parquet "$others/parquet/data" "Hugging Face parquet, $to_import"
told parquet "$others/parquet/data/train-00000-of-00294.parquet" "Hugging Face parquet, $to_import"
told mds "$others/mds" "MDS (MosaicML Streaming), $to_import"
told lmdb "$others/lmdb" "LMDB, $to_import"
told lmdb "$others/lmdb/data.mdb" "LMDB, $to_import"
told rec "$others/rec" "RecordIO (MXNet), $to_import"
told rec "$others/rec/train.rec" "RecordIO (MXNet), $to_import"
told s3 s3://bucket/train 'an object store, which Convoy does not read; mount it (mount-s3, FSx'
told gs gs://bucket/train 'an object store, which Convoy does not read; mount it (gcsfuse)'
told hf hf://datasets/a/b 'a dataset on the Hugging Face Hub, which Convoy does not read; download'
told http https://a.org/train.tar 'a web address, which Convoy does not read; download it first'

# A file like that beside class folders or images changes nothing; another JSON file is no MDS.
cp -r "$SCRATCH/data/train" "$others/mixed"
cp "$others/rec/train.rec" "$others/parquet/data/"*.parquet "$others/mixed"
expect "class folders beside others" 0 run 1 inspect dataset "$others/mixed"
cp "$SCRATCH/data/train/star/"*.jpg "$others/rec/train.rec" "$others/pictures"
expect_error "images beside others" 65 "contains no class folders" 1 inspect dataset \
    "$others/pictures"
expect "predict images beside others" 0 run 1 predict "$SCRATCH/run" "$others/pictures"
echo '{"format": "other"}' > "$others/mds/index.json"
expect_error "other JSON" 65 "contains no class folders" 1 inspect dataset "$others/mds"
expect_error "a missing file" 65 "no such folder" 1 inspect dataset "$others/none.parquet"

# ---- the import ----
# By set a line for each image, "LABEL FILE"; make.py packs them. One image holds the magic number
# of RecordIO, two in a row, at every place modulo 4.
for ((i = 0; i < 4; i++)); do
    printf '\x0a\x23\xd7\xce\x0a\x23\xd7\xce-' >> "$SCRATCH/data/train/star/0000.jpg"
done
python=$(command -v python3) || { echo "not tested: the import: no python3"; exit "$failed"; }
for set in train val; do
    label=0
    for folder in "$SCRATCH/data/$set"/*/; do
        for file in "$folder"*; do echo "$label $file"; done
        label=$((label + 1))
    done > "$SCRATCH/$set.list"
done
cat > "$SCRATCH/make.py" << 'END'
import json
import os
import pickle
import struct
import sys

form, list_file, path = sys.argv[1:]
number = float if form == "recordio" else int
rows = [(number(label), open(file, "rb").read(), file.split("/")[-2])
        for label, file in (line.rstrip("\n").split(" ", 1) for line in open(list_file))]
names = sorted({name for _, _, name in rows})


def recordio():
    magic = struct.pack("<I", 0xced7230a)
    with open(path, "wb") as out:
        for i, (label, image, _) in enumerate(rows):
            data = struct.pack("<IfQQ", i % 2, 9 if i % 2 else label, i, 0)
            data += struct.pack("<f", label) * (i % 2) + image
            parts, at = [], 0
            for j in range(0, len(data) - len(data) % 4, 4):  # cut where the magic number is
                if data[j:j + 4] == magic:
                    parts.append(data[at:j])
                    at = j + 4
            parts.append(data[at:])
            for n, part in enumerate(parts):
                kind = 0 if len(parts) == 1 else 1 if n == 0 else 3 if n == len(parts) - 1 else 2
                out.write(magic + struct.pack("<I", kind << 29 | len(part)) + part +
                          b"\0" * (-len(part) % 4))


def parquet():
    import pyarrow as pa
    import pyarrow.parquet as pq
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table({
        "extra": ["x"] * len(rows),
        "image": pa.array([{"bytes": r[1], "path": None} for r in rows],
                          pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "label": pa.array([r[0] for r in rows], pa.int64()), "text": [r[2] for r in rows]})
    table = table.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})})
    for i in range(2):
        half = table.slice(i * len(rows) // 2, len(rows) // 2)
        pq.write_table(half, "%s-%05d-of-00002.parquet" % (path, i))


def mds():
    import streaming
    with streaming.MDSWriter(out=path, columns={"label": "int", "name": "str", "image": "bytes"},
                             compression="zstd", size_limit=1 << 14) as writer:
        for label, image, name in rows:
            writer.write({"label": label, "name": name, "image": image})


def lmdb(caffe=False):
    import lmdb
    with lmdb.open(path, map_size=1 << 26) as data, data.begin(write=True) as txn:
        for i, (label, image, _) in enumerate(rows):
            size = bytes([len(image) & 127 | 128, len(image) >> 7 & 127 | 128, len(image) >> 14])
            value = b"\x08\x03\x22" + size + image + b"\x28" + bytes([label]) + b"\x38\x01"
            txn.put(b"%d" % i if not caffe else b"%08d_x" % i,
                    value if caffe else pickle.dumps((image, label), protocol=2 + i % 3))
        if not caffe:
            txn.put(b"__len__", pickle.dumps(len(rows)))


{"recordio": recordio, "parquet": parquet, "mds": mds, "lmdb": lmdb,
 "caffe": lambda: lmdb(True)}[form]()
END

# import_to OUT ARGS... - as the last output
import_to()
{
    "$python" scripts/import_dataset.py "${@:2}" "$SCRATCH/$1"
}

# refused WHAT RC TEXT OUT ARGS... - one line that holds TEXT, and nothing is left behind.
refused()
{
    expect "$1" "$2" import_to "${@:4}"
    expect_text "$1" 1 "import_dataset: error: "
    expect_text "$1" 1 "$3"
    [[ ! -e $SCRATCH/$4 && -z $(find "$SCRATCH" -name '.import-*') ]] ||
        broken "$1: something of it is left"
}

# expect_images WHAT OUT SET LIST - the tars of SET hold the images of LIST, in its order.
expect_images()
{
    local n=0 label file base
    rm -rf "$SCRATCH/unpacked"
    mkdir "$SCRATCH/unpacked"
    for file in "$SCRATCH/$2/$3"-*.tar; do tar xf "$file" -C "$SCRATCH/unpacked"; done
    while read -r label file; do
        printf -v base '%s/%09d' "$SCRATCH/unpacked" "$n"
        cmp -s "$file" "$base.jpg" || broken "$1: image $n of $3 is not $file"
        [[ $(cat "$base.cls") == "$label" ]] || broken "$1: label $n of $3 is not $label"
        n=$((n + 1))
    done < "$SCRATCH/$4"
    [[ $(find "$SCRATCH/unpacked" -type f | wc -l) == $((2 * n)) ]] ||
        broken "$1: $3 has other files too"
}

# packed FORMAT MODULE TRAIN VAL - packs both sets and imports them, if python3 has the module.
packed()
{
    local form=$1 from=$SCRATCH/$1
    if ! "$python" -c "import $2" 2> "$out"; then
        echo "not tested: import of $form: python3 has no $2"
        return 1
    fi
    mkdir "$from"
    "$python" "$SCRATCH/make.py" "$form" "$SCRATCH/train.list" "$from/$3" > "$out" 2>&1 &&
        "$python" "$SCRATCH/make.py" "$form" "$SCRATCH/val.list" "$from/$4" > "$out" 2>&1 ||
        broken_run "cannot make $form"
    expect "import $form" 0 import_to "$form-out" "$from"
    expect_text "import $form" 1 "train: 40 images"
    expect_images "$form" "$form-out" train train.list
    expect_images "$form" "$form-out" validation val.list
    expect "inspect $form" 0 run 1 inspect dataset "$SCRATCH/$form-out"
    expect_text "inspect $form" 1 "images 40"
    expect_text "inspect $form" 1 "unreadable 0"
}

packed recordio json train.rec val.rec
train imported 1 train.max_steps=1 data.train= "data.dir=$SCRATCH/recordio-out"
expect_text "imported" 1 ": 40 images of 10 classes, 20 for validation"
expect_text "imported" 0 "evaluation will use training images"
expect "a set by its name" 0 import_to one "$SCRATCH/recordio" --split val --tar-mb 0
[[ $(echo "$SCRATCH"/one/*) == *validation-00019-of-00020.tar ]] ||
    broken "--split val --tar-mb 0 makes other files: $(ls "$SCRATCH/one")"
printf 'RIFFxxxxWEBP' > "$SCRATCH/web.jpg"
echo "3 $SCRATCH/web.jpg" | cat "$SCRATCH/val.list" - > "$SCRATCH/web.list"
"$python" "$SCRATCH/make.py" recordio "$SCRATCH/web.list" "$SCRATCH/web.rec"
expect "an image that convoy cannot read" 0 import_to web "$SCRATCH/web.rec"
expect_text "an image that convoy cannot read" 1 "left out: 1 images"
expect_images "web" web images val.list
grep -qx "$SCRATCH/web.rec, row 20" "$SCRATCH/web/left-out.txt" || broken "left-out.txt: other rows"
echo "3 $SCRATCH/web.jpg" > "$SCRATCH/web.list"
"$python" "$SCRATCH/make.py" recordio "$SCRATCH/web.list" "$SCRATCH/webs.rec"
refused "no image that convoy reads" 65 "images: no image is JPEG or PNG" none "$SCRATCH/webs.rec"
echo "-1 $SCRATCH/data/train/star/0000.jpg" > "$SCRATCH/web.list"
"$python" "$SCRATCH/make.py" recordio "$SCRATCH/web.list" "$SCRATCH/minus.rec"
refused "no label" 65 "minus.rec, row 0: its label is -1" none "$SCRATCH/minus.rec"
for label in nan inf 1.5; do
    echo "$label $SCRATCH/data/train/star/0000.jpg" > "$SCRATCH/web.list"
    "$python" "$SCRATCH/make.py" recordio "$SCRATCH/web.list" "$SCRATCH/$label.rec"
    refused "label $label" 65 "$label.rec, row 0: its label is $label" none "$SCRATCH/$label.rec"
done
# A record of 36 bytes, then one that ends where it may not, or is none; too small a one; no record.
printf '\x0a\x23\xd7\xce\x1c\0\0\0%24s\xff\xd8\xff.' '' | tr ' ' '\0' > "$SCRATCH/one.rec"
for bytes in 1 6 8 20 35; do
    { cat "$SCRATCH/one.rec" && head -c "$bytes" "$SCRATCH/one.rec"; } > "$SCRATCH/cut.rec"
    refused "cut at $bytes" 65 "cut.rec, row 1: the file is cut short" none "$SCRATCH/cut.rec"
done
printf '\x0a\x23\xd7\xce\0\0\0\x20' | cat "$SCRATCH/one.rec" - > "$SCRATCH/cut.rec"
refused "cut after a part" 65 "cut.rec, row 1: the file is cut short" none "$SCRATCH/cut.rec"
echo 'no record' | cat "$SCRATCH/one.rec" - > "$SCRATCH/cut.rec"
refused "no record" 65 "cut.rec, row 1: no record at byte 36" none "$SCRATCH/cut.rec"
refused "a record of nothing" 65 "train.rec, row 0: the record has no image and label" none \
    "$others/rec/train.rec"
: > "$SCRATCH/empty.rec"
refused "empty" 65 "empty.rec, row 0: the file is empty" none "$SCRATCH/empty.rec"
refused "no folder above OUT" 74 "$SCRATCH/gone: no such folder" gone/none "$SCRATCH/one.rec"
refused "nothing there" 66 "none.rec: no such file or folder" none "$SCRATCH/none.rec"
refused "no dataset" 65 "no parquet, MDS, LMDB or RecordIO here" none "$SCRATCH/data"
refused "no such set" 64 "--split: there are only train, validation" none "$SCRATCH/recordio" \
    --split test
refused "an option" 64 "unrecognized arguments: --lr" none "$SCRATCH/recordio" --lr
expect "OUT is not empty" 64 import_to one "$SCRATCH/recordio"
expect_text "OUT is not empty" 1 "$SCRATCH/one is there already and not an empty folder"
cp "$others/parquet/data/"*.parquet "$SCRATCH/recordio"
refused "two formats" 65 "holds more than one format" none "$SCRATCH/recordio"
if ! "$python" -c 'import pyarrow' 2> "$out"; then
    refused "no pyarrow" 78 "needs pyarrow: pip install pyarrow" none \
        "$others/parquet/data/train-00000-of-00294.parquet"
fi

if packed parquet pyarrow.parquet train validation; then
    [[ $(cat "$SCRATCH/parquet-out/classes.txt") == "$(ls "$SCRATCH/data/train")" ]] ||
        broken "parquet: other class names"
    refused "a broken file" 65 "294.parquet: " none \
        "$others/parquet/data/train-00000-of-00294.parquet"
    refused "one of 294 files" 65 "1 of 00294 files are there" none "$others/parquet"
    refused "a column" 64 "--label-column none: the columns are extra, image, label, text" none \
        "$SCRATCH/parquet" --label-column none
    expect "labels that are text" 0 import_to text "$SCRATCH/parquet" --label-column text
    expect "inspect text" 0 run 1 inspect dataset "$SCRATCH/text"
    expect_text "inspect text" 1 "images 40"
    expect_text "inspect text" 1 " star "
fi
packed mds streaming train val
packed lmdb lmdb train.lmdb val.lmdb
packed caffe lmdb train_lmdb val_lmdb
if [[ -d $SCRATCH/lmdb-out ]]; then
    "$python" - "$SCRATCH/code.lmdb" "$SCRATCH/pixels.lmdb" << 'END'
import lmdb, os, pickle, sys
class Call:
    def __reduce__(self):
        return os.mkdir, (sys.argv[1] + "/called",)
for path, value in zip(sys.argv[1:], (pickle.dumps((Call(), 1)), b"\x22\x03abc\x28\x01")):
    with lmdb.open(path) as data, data.begin(write=True) as txn:
        txn.put(b"0", value)
        if "code" in path:
            txn.put(b"__len__", pickle.dumps(1))
END
    refused "code in a pickle" 65 "its pickle calls posix.mkdir, which is not run" none \
        "$SCRATCH/code.lmdb"
    [[ ! -e $SCRATCH/code.lmdb/called ]] || broken "the code in a pickle was run"
    refused "pixels" 65 "key b'0': a Datum of pixels, not of an encoded image" none \
        "$SCRATCH/pixels.lmdb"
fi

# What is killed leaves nothing that convoy would read, and can be done again.
mkdir "$SCRATCH/endless" && mkfifo "$SCRATCH/endless/val.rec"
"$python" scripts/import_dataset.py "$SCRATCH/endless" "$SCRATCH/killed" > "$out" 2>&1 &
pid=$!
{ cat "$SCRATCH/recordio/val.rec" && exec sleep 60; } > "$SCRATCH/endless/val.rec" &
writer=$!
for ((tries = 0; tries < 1000; tries++)); do
    compgen -G "$SCRATCH/.import-*/out/.0.tar" > /dev/null && break
    sleep 0.02
done
((tries < 1000)) || broken "the import does not begin"
kill -9 "$pid" "$writer"
wait "$pid" "$writer" 2> /dev/null
[[ ! -e $SCRATCH/killed && -z $(find "$SCRATCH"/.import-* -name '[!.]*.tar') ]] ||
    broken "a killed import has left tars under their names"
expect "the same again" 0 import_to killed "$SCRATCH/recordio/val.rec"
expect_images "the same again" killed validation val.list
exit "$failed"
