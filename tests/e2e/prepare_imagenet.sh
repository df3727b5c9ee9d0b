#!/usr/bin/env bash
# prepare_imagenet.sh - scripts/prepare_imagenet.sh on small archives of the same form as those of
# ILSVRC2012: the trees from each source of labels, interruptions and restarts, what is refused.
source tests/e2e/lib/common.sh
wnids=(n01440764 n01443537 n01484850 n02119789)
source=$SCRATCH/source

# ---- archives: four classes of 5 train images; 250 files of val in random order ----
# So that there are three pieces of them.
make_data "$SCRATCH/shapes" 5 0
mkdir -p "$source"/{inner,val,xml/val,kit/ILSVRC2012_devkit_t12/data}
for wnid in "${wnids[@]}"; do
    mkdir -p "$source/train/$wnid"
    pictures=("$SCRATCH"/shapes/train/*/)
    for k in 0 1 2 3 4; do
        cp "${pictures[${wnid: -1}]}/000$k.jpg" "$source/train/$wnid/${wnid}_$k.JPEG"
    done
    (cd "$source/train/$wnid" && tar -cf "$source/inner/$wnid.tar" ./*.JPEG)
done
(cd "$source/inner" && tar -cf ../train.tar ./*.tar)
echo ImageId,PredictionString > "$source/LOC_val_solution.csv"
for ((k = 1; k <= 250; k++)); do
    printf -v image 'ILSVRC2012_val_%08d' "$k"
    number=$((k * 7 % 13 % 4))
    wnid=${wnids[number]}
    echo "image $k" > "$source/val/$image.JPEG"
    echo "$image,$wnid 1 2 30 40 $wnid 5 6 7 8 " >> "$source/LOC_val_solution.csv"
    echo $((number + 1)) \
        >> "$source/kit/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
    {
        printf '<annotation>\n\t<filename>%s</filename>\n' "$image"
        printf '\t<object>\n\t\t<name>%s</name>\n\t</object>\n' "$wnid" "$wnid"
        echo '</annotation>'
    } > "$source/xml/val/$image.xml"
    echo "$wnid/$image.JPEG"
done | sort > "$SCRATCH/expected.val"
find "$source/val" -name '*.JPEG' -printf '%f\n' | shuf > "$source/order"
tar -cf "$source/val.tar" -C "$source/val" -T "$source/order"
tar -czf "$source/bbox_val.tgz" -C "$source/xml" val
# Written by scipy.io.savemat, compressed.
base64 -d tests/golden/devkit_meta.txt > "$source/kit/ILSVRC2012_devkit_t12/data/meta.mat"
mkdir -p "$source/linked_xml" && ln -s ../xml/val "$source/linked_xml/val" &&
    ln -s kit "$source/linked_kit"
tar -czf "$source/devkit.tar.gz" -C "$source/kit" ILSVRC2012_devkit_t12
(cd "$source/train" && find . -type f -printf '%P\n' | sort) > "$SCRATCH/expected.train"
all=(--train-images 20 --val-images 250 --classes 4)

# prepare OUT ARGS... - without progress in a terminal.
prepare()
{
    scripts/prepare_imagenet.sh --out "$SCRATCH/$1" "${all[@]}" "${@:2}"
}

# expect_tree OUT SET - the files are those that were packed, in the folders of their classes,
# byte for byte.
expect_tree()
{
    local line
    (cd "$SCRATCH/$1/$2" && find . -type f -printf '%P\n' | sort) |
        cmp -s - "$SCRATCH/expected.$2" || broken "$1/$2: other files than packed"
    while read -r line; do
        cmp -s "$SCRATCH/$1/$2/$line" \
            "$source/$2/$([[ $2 == train ]] && echo "$line" || basename "$line")" && continue
        broken "$1/$2/$line: other bytes than packed"
        return
    done < <(sed -n '1~37p' "$SCRATCH/expected.$2")
}

# refused WHAT RC TEXT OUT ARGS... - one error line, which holds TEXT.
refused()
{
    local lines
    expect "$1" "$2" prepare "${@:4}"
    lines=$(grep -c '^prepare_imagenet: error:' "$out")
    ((lines == 1)) || broken_run "$1: $lines error lines, expected 1"
    grep '^prepare_imagenet: error:' "$out" | grep -qF -- "$3" ||
        broken_run "$1: the error does not hold '$3'"
}

# ---- each source of labels gives the same tree ----
expect "both sets, annotations" 0 prepare a --train "$source/train.tar" --val "$source/val.tar" \
    --labels "$source/bbox_val.tgz"
expect_text "both sets, annotations" 1 "train: complete, 20 images in 4 classes"
expect_text "both sets, annotations" 1 "val: complete, 250 images in 4 classes"
expect_text "progress" some "val: pieces of 100 images: 3 of 3, 250 images"
expect_tree a train
expect_tree a val
[[ ! -e $SCRATCH/a/.prepare ]] || broken "a/.prepare is left behind"
for labels in LOC_val_solution.csv xml devkit.tar.gz kit linked_xml linked_kit; do
    rm -rf "$SCRATCH/b"
    if [[ $labels == *kit* ]] && ! command -v python3 > /dev/null; then
        refused "labels of $labels, no python3" 78 "needs python3" b --val "$source/val.tar" \
            --labels "$source/$labels"
        continue
    fi
    expect "labels of $labels" 0 prepare b --val "$source/val.tar" --labels "$source/$labels"
    expect_tree b val
done
"$CONVOY" inspect dataset "$SCRATCH/a/train" > "$out" 2>&1 ||
    broken_run "convoy does not read the tree"
expect "done before" 0 prepare a --train "$source/train.tar" --val "$source/val.tar" \
    --labels "$source/xml"
expect_text "done before" 1 "train: complete"

# ---- an interruption, and the same command again: with a dd that is slow then ----
mkdir -p "$SCRATCH/slow"
cat > "$SCRATCH/slow/dd" << END
#!/bin/sh
[ "\$(ls "\$PIECES" | wc -l)" -lt 2 ] || sleep 4
exec $(command -v dd) "\$@"
END
chmod +x "$SCRATCH/slow/dd"

# interrupt OUT FOLDER SIGNAL RC - while it unpacks, once two pieces are in FOLDER.
interrupt()
{
    local tries
    PIECES=$SCRATCH/$1/.prepare/$2 PATH=$SCRATCH/slow:$PATH \
        prepare "$1" --jobs 1 --train "$source/train.tar" --val "$source/val.tar" \
        --labels "$source/xml" > "$SCRATCH/$1.out" 2>&1 &
    pid=$!
    for ((tries = 0; tries < 500; tries++)); do
        (($(find "$SCRATCH/$1/.prepare/$2" -mindepth 1 -maxdepth 1 2> /dev/null | wc -l) >= 2)) &&
            break
        sleep 0.02
    done
    # prepare is a function: what runs is a shell and the script in it.
    mapfile -t processes < <(children "$pid")
    kill "-$3" "${processes[0]:-$pid}"
    wait_to_end 20
    [[ $code == "$4" ]] || broken "$1, $3: exit code $code, expected $4"
}
interrupt c train TERM 143
[[ ! -e $SCRATCH/c/train ]] || broken "c/train is there before it is complete"
kept=$(find "$SCRATCH/c/.prepare/train" -mindepth 1 -maxdepth 1 | wc -l)
((kept >= 2 && kept < 4)) ||
    broken "$kept classes are there after the interruption, expected 2 or 3"
interrupt c val.done KILL 137
expect_tree c train
[[ ! -e $SCRATCH/c/val ]] || broken "c/val is there before it is complete"
# What kill -9 has left ends by itself, and nobody else works in the folder until then.
for ((tries = 0; tries < 100; tries++)); do
    prepare c --train "$source/train.tar" --val "$source/val.tar" \
        --labels "$source/xml" > "$out" 2>&1
    code=$?
    ((code == 78)) || break
    sleep 0.1
done
((code == 0)) || broken_run "c, restarted: exit code $code, expected 0"
expect_tree c train
expect_tree c val
grep -qE 'classes: [23] of 4 are there already' "$SCRATCH/c.out" ||
    broken "c: classes that were there have been unpacked again"

# ---- what is refused ----
head -c 40000 "$source/train.tar" > "$source/cut.tar"
refused "a cut archive" 65 "cut.tar" d --train "$source/cut.tar"
cp "$source/train.tar" "$source/damaged.tar"
flip_byte "$source/damaged.tar" $((512 + 100)) # in the first header of the first inner archive
refused "a damaged inner archive" 65 "n01440764.tar" g --train "$source/damaged.tar"
[[ ! -e $SCRATCH/g/train ]] || broken "a damaged inner archive: g/train is there"
head -c 100000 "$source/val.tar" > "$source/cut_val.tar"
refused "a cut val archive" 65 "cut_val.tar" d --val "$source/cut_val.tar" --labels "$source/xml"
refused "another archive" 65 "which is not in the archive" d --train "$source/val.tar"
refused "too few images" 65 "20 images, expected 21" e --train "$source/train.tar" --train-images 21
refused "begun with another archive" 65 "was begun with another archive" e \
    --train "$source/cut.tar" --train-images 21
refused "no such labels" 65 "no such file" e --val "$source/val.tar" --labels "$source/none.csv"
refused "other labels" 65 "neither ILSVRC2012_val_*.xml nor" e --val "$source/val.tar" \
    --labels "$source/inner"
gzip -k "$source/train.tar"
refused "a compressed archive" 65 "train.tar.gz: no tar archive, or one that is compressed" h \
    --train "$source/train.tar.gz"
head -n 1 "$source/LOC_val_solution.csv" > "$source/empty.csv"
refused "labels of nothing" 65 "empty.csv: gives no image a class" h --val "$source/val.tar" \
    --labels "$source/empty.csv"
refused "no labels" 64 "--val needs --labels" e --val "$source/val.tar"
sed '5d' "$source/LOC_val_solution.csv" > "$source/less.csv"
refused "an image without class" 65 "no class for ILSVRC2012_val_00000004.JPEG" e \
    --val "$source/val.tar" --labels "$source/less.csv"
echo "ILSVRC2012_val_00000004,n00000001 1 2 3 4" >> "$source/LOC_val_solution.csv"
refused "two classes" 65 "gives ILSVRC2012_val_00000004 more than one class" e \
    --val "$source/val.tar" --labels "$source/LOC_val_solution.csv"
echo "ILSVRC2012_val_00000004,n00000001 1 2 3 4" >> "$source/less.csv"
refused "a class of val alone" 65 "class n00000001 is not among" f --train "$source/train.tar" \
    --val "$source/val.tar" --labels "$source/less.csv"

# ---- where nothing can be written: by a limit on the size of files, as on a full disk ----
# limited KIB OUT ARGS...
limited()
{
    (trap '' XFSZ && ulimit -f "$1" && prepare "${@:2}")
}

# no_room WHAT TEXT KIB OUT ARGS... - 74, one error line, which holds TEXT.
no_room()
{
    expect "$1" 74 limited "${@:3}"
    [[ $(grep -c '^prepare_imagenet: error:' "$out") == 1 ]] || broken_run "$1: not one error line"
    expect_text "$1" 1 "error: $SCRATCH/$4/.prepare: cannot write: $2"
}
no_room "no room for images" "tar: " 1 h --train "$source/train.tar"
expect "room again" 0 prepare h --train "$source/train.tar"
expect_tree h train
no_room "no room for lists" "File too large" 4 i --val "$source/val.tar" \
    --labels "$source/LOC_val_solution.csv"
exit "$failed"
