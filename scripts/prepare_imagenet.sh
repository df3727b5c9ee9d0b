#!/usr/bin/env bash
# prepare_imagenet.sh - unpacks the archives of ILSVRC2012 into ImageFolder trees,
# OUT/train/WNID/*.JPEG and OUT/val/WNID/*.JPEG.
#
# Everything is made below OUT/.prepare and moved to OUT/train and OUT/val once it is complete and
# counted, so a tree that is there is whole. The train archive is cut into its 1000 inner archives,
# the val archive into pieces of 100 images: each is read where it lies, by several processes, and
# is either done or made again at the next start. Needs GNU tar,
# and python3 for the labels of the development kit.
set -uo pipefail
export LC_ALL=C

usage() {
    cat << END
usage: scripts/prepare_imagenet.sh [--train TAR] [--val TAR --labels FILE] --out DIR [--jobs N]

Unpacks the archives of ILSVRC2012 to DIR/train and DIR/val, a folder for each class. The same
command goes on after an interruption; once all is done, it counts again what is there.

  --train TAR         ILSVRC2012_img_train.tar
  --val TAR           ILSVRC2012_img_val.tar
  --labels FILE       the classes of the val images, as one of
                      - the annotations, a folder or ILSVRC2012_bbox_val_v3.tgz with
                        ILSVRC2012_val_*.xml
                      - Kaggle's LOC_val_solution.csv
                      - the development kit, a folder or ILSVRC2012_devkit_t12.tar.gz (needs
                        python3)
  --out DIR           where the trees go; 145 GB beside the archives
  --jobs N            processes that unpack (the number of CPUs)
  --train-images N    what must come out (1281167); another number is for parts of the data
  --val-images N      likewise (50000)
  --classes N         likewise (1000)
END
}

# die CODE TEXT... - one line that says what is wrong. 64: command line. 65: data. 74: cannot write.
# 78: something else runs or is missing.
die() {
    local code=$1 said
    shift
    # Where a list of it could not be written to the end, data seem wrong too.
    if [[ $code == 65 && -d ${work:-} ]]; then
        if ! said=$( (head -c 65536 /dev/zero > "$work/room") 2>&1); then
            code=74
            set -- "$work: cannot write${said:+: ${said##*: }}"
        fi
        rm -f "$work/room"
    fi
    echo "prepare_imagenet: error: $*" >&2
    exit "$code"
}

say() {
    echo "prepare_imagenet: $*"
}

parse() {
    train='' val='' labels='' out='' jobs=$(nproc) train_images=1281167 \
        val_images=50000 classes=1000
    while (($#)); do
        case $1 in
        -h | --help) usage && exit 0 ;;
        --train | --val | --labels | --out | --jobs | --train-images | --val-images | --classes)
            (($# >= 2)) || die 64 "$1 needs a value"
            local name=${1#--}
            printf -v "${name//-/_}" %s "$2"
            shift 2
            ;;
        *) die 64 "unknown argument $1; --help lists them" ;;
        esac
    done
    local key
    for key in jobs train_images val_images classes; do
        [[ ${!key} =~ ^[1-9][0-9]{0,8}$ ]] ||
            die 64 "--${key//_/-} ${!key} is no whole number from 1"
    done
    [[ -n $out ]] || die 64 "--out is missing"
    [[ -n $train$val ]] || die 64 "--train or --val is missing"
    [[ -z $val || -n $labels ]] || die 64 "--val needs --labels"
    [[ -z $labels || -n $val ]] || die 64 "--labels is for --val, which is missing"
    for key in train val; do
        [[ -z ${!key} || -f ${!key} ]] || die 65 "${!key}: no such file"
    done
    [[ -z $labels || -e $labels ]] || die 65 "$labels: no such file or folder"
}

# ---- archives: where each member begins, and the bytes from one to another ----

# list_archive ARCHIVE LIST PATTERN - writes LIST, "NAME FIRST_BLOCK END_BLOCK" for each member, all
# of whose names must match PATTERN. A LIST that an earlier start has written is kept,
# if it is of this archive.
list_archive() {
    local mark first said odd
    mark="# $(stat -Lc '%s %Y' "$1")"
    if [[ -s $2 ]]; then
        read -r first < "$2"
        [[ $first == "$mark" ]] ||
            die 65 "$work was begun with another archive than $1: remove that folder to start anew"
        return
    fi
    say "$1: listing"
    # tar would read it all the same, but its pieces could not be.
    [[ $(tail -c +258 "$1" | head -c 5 | tr -d '\0') == ustar ]] ||
        die 65 "$1: no tar archive, or one that is compressed: unpack it first (gunzip)"
    said=$(tar -tRf "$1" 2>&1 > "$2.raw") || die 65 "$1: $(head -n 1 <<< "$said")"
    odd=$(awk -v size="$(stat -Lc %s "$1")" -v mark="$mark" -v pattern="$3" '
        { block = $2 + 0; name = $0; sub(/^block [0-9]+: /, "", name) }
        name == "** Block of NULs **" { end = block; next }
        { sub(/^[.]\//, "", name) }
        name == "" || name ~ /\/$/ { next }
        name !~ pattern { print name > "/dev/stderr"; exit 1 }
        { names[++n] = name; first[n] = block }
        END {
            if (!end) end = int((size + 511) / 512)
            print mark
            for (i = 1; i <= n; i++) print names[i], first[i], i < n ? first[i + 1] : end
        }' "$2.raw" 2>&1 > "$2.new")
    case $? in
    0) ;;
    1) die 65 "$1: holds $odd, which is not in the archive of ILSVRC2012" ;;
    *) die 74 "$2.new: cannot write: $odd" ;;
    esac
    mv "$2.new" "$2" || die 74 "$2: cannot write"
    rm -f "$2.raw"
}

# slice ARCHIVE FIRST_BLOCK END_BLOCK
slice() {
    dd if="$1" bs=1M iflag=skip_bytes,count_bytes skip=$(($2 * 512)) \
        count=$((($3 - $2) * 512)) status=none
}

# ---- pieces: each is called by xargs in a shell of its own ----
# Prints "NAME IMAGES" when it is done; 255 stops all.

# piece_failed WHAT SAID - prints "! CODE TEXT": WHAT cannot be used, or, by what programs SAID, the
# result cannot be written.
piece_failed() {
    local line unwritable='No space left on device|Disk quota exceeded|File too large'
    unwritable+='|Read-only file system|Permission denied|Wrote only'
    # dd only reads what is to be unpacked
    if line=$(grep -vE '^dd:' <<< "$2" | grep -m 1 -E "$unwritable"); then
        echo "! 74 $work: cannot write: $line"
    else
        echo "! 65 $1: $(head -n 1 <<< "$2")"
    fi
    return 255
}

# unpack_class WNID.tar FIRST_BLOCK END_BLOCK
unpack_class() {
    local wnid=${1%.tar} part said images
    part=$work/train.part/$wnid
    rm -rf "$part"
    if ! said=$( (mkdir -p "$part" && slice "$train" "$2" "$3" | tar -xOf - |
            tar -xf - -C "$part" --no-same-owner) 2>&1)
    then
        piece_failed "$train: $1" "$said"
        return
    fi
    images=$(find "$part" -type f | wc -l)
    if ((images == 0)); then
        piece_failed "$train: $1" "holds no image"
        return
    fi
    said=$(mv -T "$part" "$work/train/$wnid" 2>&1) ||
        piece_failed "$work/train/$wnid" "$said" || return
    echo "$wnid $images"
}

# unpack_val PIECE FIRST_BLOCK END_BLOCK - straight into the folders of the classes:
# val.pieces/PIECE lists "NAME WNID".
unpack_val() {
    local rename said
    rename="s,^[.]/,,;$(awk '{ gsub(/[.]/, "[.]", $1); printf "s,^%s$,%s/&,;", $1, $2 }' \
        "$work/val.pieces/$1")"
    if ! said=$( (slice "$val" "$2" "$3" |
            tar -xf - -C "$work/val" --no-same-owner --transform "$rename") 2>&1)
    then
        piece_failed "$val" "$said"
        return
    fi
    said=$( (: > "$work/val.done/$1") 2>&1) || piece_failed "$work/val.done/$1" "$said" || return
    echo "$1 $(wc -l < "$work/val.pieces/$1")"
}

# progress WHAT ALL DONE - reads what pieces print: one line that changes on a terminal, else a line
# every twentieth. Says why the first piece failed, and returns its code at the end.
progress() {
    local what=$1 all=$2 done=$3 begun=$3 images=0 code=0 name count text start=$SECONDS
    while read -r name count; do
        if [[ $name == '!' ]]; then
            ((code == 0)) || continue
            code=${count%% *}
            [[ ! -t 1 ]] || echo
            echo "prepare_imagenet: error: ${count#* }" >&2
            continue
        fi
        ((done += 1, images += count))
        text="$what: $done of $all, $images images"
        ((SECONDS - start < 5)) ||
            text+=", $(((SECONDS - start) * (all - done) / (done - begun) / 60 + 1)) min left"
        if [[ -t 1 ]]; then
            printf '\rprepare_imagenet: %s   ' "$text"
        elif ((done == all || done * 20 / all > (done - 1) * 20 / all)); then
            say "$text (last: $name)"
        fi
    done
    [[ ! -t 1 ]] || echo
    return "$code"
}

# run_pieces FUNCTION LIST WHAT ALL - calls FUNCTION with each line of LIST, jobs at a time, in a
# process group of their own.
run_pieces() {
    local left code
    left=$(wc -l < "$2")
    ((left == $4)) || say "$3: $(($4 - left)) of $4 are there already"
    ((left > 0)) || return 0
    set -m
    # What failed the pieces have said; what xargs adds to it would only get between the words.
    (xargs -P "$jobs" -n 3 bash -c "exec 2>&3; $1"' "$@" || exit 255' piece \
        < "$2" 3>&2 2> /dev/null | progress "$3" "$4" $(($4 - left))) &
    group=$!
    set +m
    wait "$group"
    code=$?
    group=
    ((code == 0)) && return
    echo "prepare_imagenet: $3: not complete; the same command goes on from here" >&2
    ((code == 74)) || code=65
    exit "$code"
}

# stop CODE - asked to: what is not finished yet is made again at the next start.
stop() {
    trap '' INT TERM
    [[ -z $group ]] || { kill -TERM -- "-$group" && wait "$group"; } 2> /dev/null
    echo "prepare_imagenet: interrupted; the same command goes on from here" >&2
    exit "$1"
}

# ---- labels: "ILSVRC2012_val_00000001 n01751748" a line, from any of three sources ----

# labels_kind NAMES - which of the sources a list of file names is.
labels_kind() {
    if grep -q 'ILSVRC2012_val_[0-9]*[.]xml$' <<< "$1"; then
        echo xml
    elif grep -q 'ILSVRC2012_validation_ground_truth[.]txt$' <<< "$1"; then
        echo devkit
    fi
}

labels_of_csv() {
    awk -F, 'NR == 1 && $1 == "ImageId" { next } { split($2, word, " "); print $1, word[1] }' "$1"
}

# An image's objects are all of its one class.
labels_of_xml() {
    local name='<name>[[:space:]]*([^<[:space:]]*)[[:space:]]*</name>'
    grep -RoE '<name>[^<]*</name>' --include='ILSVRC2012_val_*.xml' "$1" |
        sed -E "s,^.*/(ILSVRC2012_val_[0-9]+)[.]xml:$name\$,\1 \2,"
}

labels_of_devkit() {
    local truth meta
    truth=$(find -L "$1" -name ILSVRC2012_validation_ground_truth.txt -print -quit)
    meta=$(find -L "$1" -name meta.mat -print -quit)
    [[ -n $meta ]] ||
        die 65 "$labels: the development kit has no data/meta.mat, which says what its numbers mean"
    command -v python3 > /dev/null ||
        die 78 "$labels: reading meta.mat needs python3; the annotations or the CSV file do not"
    python3 "$(dirname "$0")/devkit_meta.py" "$meta" > "$work/meta" || exit 65
    awk 'NR == FNR { wnid[$1] = $2; next }
        { sub(/\r$/, "")
          printf "ILSVRC2012_val_%08d %s\n", FNR, $1 in wnid ? wnid[$1] : "number_" $1 }' \
        "$work/meta" "$truth"
}

# find_labels - writes $work/labels, sorted, each image once; checked.
find_labels() {
    local kind from=$labels names odd wanted=('*ILSVRC2012_val*')
    if [[ -d $labels ]]; then
        names=$(find -L "$labels" \( -name 'ILSVRC2012_val_*.xml' -o \
            -name ILSVRC2012_validation_ground_truth.txt \) -print -quit)
        kind=$(labels_kind "$names")
    elif [[ $(head -c 7 "$labels" | tr -d '\0') == ImageId || $labels == *.csv ]]; then
        kind=csv
    else
        names=$(tar -tf "$labels" 2> /dev/null) ||
            die 65 "$labels: neither a CSV file nor a whole tar archive"
        kind=$(labels_kind "$names")
        [[ $kind != devkit ]] || wanted+=('*meta.mat')
        from=$work/labels.from
        rm -rf "$from" && mkdir -p "$from"
        [[ -z $kind ]] ||
            tar -xf "$labels" -C "$from" --no-same-owner --wildcards "${wanted[@]}" 2> /dev/null ||
            die 65 "$labels: cannot unpack ${wanted[*]} from it"
    fi
    [[ -n $kind ]] || die 65 \
        "$labels: holds neither ILSVRC2012_val_*.xml nor ILSVRC2012_validation_ground_truth.txt"
    "labels_of_$kind" "$from" > "$work/labels.raw" || die 65 "$labels: no class is found in it"
    sort -u "$work/labels.raw" > "$work/labels" || die 74 "$work/labels: cannot write"
    odd=$(grep -vE -m 1 '^ILSVRC2012_val_[0-9]{8} n[0-9]{8}$' "$work/labels")
    [[ -z $odd ]] || die 65 "$labels: '$odd' is no image with its class"
    odd=$(cut -d ' ' -f 1 "$work/labels" | uniq -d | head -n 1)
    [[ -z $odd ]] || die 65 "$labels: gives $odd more than one class"
    [[ -s $work/labels ]] || die 65 "$labels: gives no image a class"
    say "$labels: classes of $(wc -l < "$work/labels") images"
}

# ---- the two trees ----

# check_tree FOLDER IMAGES WHAT - counts; dies with what is wrong, and the word WHAT on what to do.
check_tree() {
    local images folders other empty
    images=$(find "$1" -mindepth 2 -maxdepth 2 -type f -name '*.JPEG' | wc -l)
    folders=$(find "$1" -mindepth 1 -maxdepth 1 -type d | wc -l)
    other=$(find "$1" -mindepth 1 ! -type d ! \( -type f -name '*.JPEG' \) -print -quit)
    empty=$(find "$1" -type f -empty -print -quit)
    ((images == $2)) || die 65 "$1: $images images, expected $2: $3"
    ((folders == classes)) || die 65 "$1: $folders classes, expected $classes: $3"
    [[ -z $other ]] || die 65 "$other: no image of ILSVRC2012: $3"
    [[ -z $empty ]] || die 65 "$empty: empty: $3"
}

# A tree is planned, which finds what is wrong with archives and labels,
# before anything is unpacked.
plan_train() {
    list_archive "$train" "$work/train.list" '^n[0-9]+[.]tar$'
    local count
    count=$(grep -c '^n' "$work/train.list")
    ((count == classes)) || die 65 \
        "$train: holds $count classes, expected $classes: it is cut short, or another archive"
}

make_train() {
    mkdir -p "$work/train" "$work/train.part" || die 74 "$work: cannot write"
    find "$work/train" -mindepth 1 -maxdepth 1 -printf '%f.tar\n' > "$work/train.done" ||
        die 74 "$work: cannot write"
    awk 'FILENAME == ARGV[1] { done[$1] = 1; next } /^n/ && !($1 in done)' "$work/train.done" \
        "$work/train.list" > "$work/train.todo" ||
        die 74 "$work: cannot write"
    run_pieces unpack_class "$work/train.todo" "train: classes" "$classes"
    check_tree "$work/train" "$train_images" \
        "the archive is not complete, or files were lost; remove $work/train to unpack it again"
    mv -T "$work/train" "$out/train" || die 74 "$out/train: cannot write"
}

# cut_val LIST - joins the archive's list with the labels; writes val.pieces/K and val.pieces.list,
# "K FIRST_BLOCK END_BLOCK".
cut_val() {
    rm -rf "$work/val.pieces"
    mkdir -p "$work/val.pieces"
    awk -v folder="$work/val.pieces" -v list="$work/val.pieces.list" '
        NR == FNR { wnid[$1] = $2; next }
        /^#/ { next }
        {
            image = $1; sub(/[.]JPEG$/, "", image)
            if (!(image in wnid)) { print "no class for " $1; bad = 1; exit }
            piece = sprintf("%05d", int(n / 100))
            n++
            if (piece != last) {
                if (last != "") { print last, first, end > list; close(folder "/" last) }
                last = piece; first = $2
            }
            print $1, wnid[image] > (folder "/" piece)
            end = $3
        }
        END { if (!bad && last != "") print last, first, end > list; exit bad }' "$work/labels" "$1"
}

plan_val() {
    local count odd
    find_labels
    if [[ -n $train || -d $out/train ]]; then
        odd=$(cut -d ' ' -f 2 "$work/labels" | sort -u | comm -23 - <(train_classes) | head -n 1)
        [[ -z $odd ]] || die 65 "$labels: class $odd is not among those of the train images"
    fi
    list_archive "$val" "$work/val.list" '^ILSVRC2012_val_[0-9]+[.]JPEG$'
    count=$(grep -c '^I' "$work/val.list")
    ((count == val_images)) || die 65 \
        "$val: holds $count images, expected $val_images: it is cut short, or another archive"
    odd=$(cut_val "$work/val.list") || die 65 "$labels: $odd"
}

make_val() {
    if ! cmp -s "$work/labels" "$work/val.labels"; then # begun with other labels, or not begun
        rm -rf "$work/val" "$work/val.done"
        cp "$work/labels" "$work/val.labels" || die 74 "$work: cannot write"
    fi
    mkdir -p "$work/val" "$work/val.done" || die 74 "$work: cannot write"
    # Beforehand: of two processes of tar that both miss a folder,
    # the one that loses the race to make it gives up.
    cut -d ' ' -f 2 "$work/labels" | sort -u | (cd "$work/val" && xargs mkdir -p) ||
        die 74 "$work/val: cannot write"
    find "$work/val.done" -type f -printf '%f\n' > "$work/val.had" || die 74 "$work: cannot write"
    awk 'FILENAME == ARGV[1] { done[$1] = 1; next } !($1 in done)' "$work/val.had" \
        "$work/val.pieces.list" > "$work/val.todo" ||
        die 74 "$work: cannot write"
    run_pieces unpack_val "$work/val.todo" "val: pieces of 100 images" \
        "$(wc -l < "$work/val.pieces.list")"
    check_tree "$work/val" "$val_images" "files were lost; remove $work/val.done to unpack it again"
    mv -T "$work/val" "$out/val" || die 74 "$out/val: cannot write"
}

# The classes of the train tree, sorted.
train_classes() {
    if [[ -d $out/train ]]; then
        find "$out/train" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort
    else
        sed -n 's/^\(n[0-9]*\)[.]tar .*/\1/p' "$work/train.list" | sort
    fi
}

parse "$@"
work=$out/.prepare group=
mkdir -p "$work" || die 74 "$work: cannot write"
exec 9> "$work/lock"
flock -n 9 || die 78 "another prepare_imagenet.sh works in $out, or what it had started still ends"
export -f slice piece_failed unpack_class unpack_val
export train val work
trap 'stop 130' INT
trap 'stop 143' TERM
for set in train val; do # a tree that is there was complete
    [[ -z ${!set} || -d $out/$set ]] || "plan_$set"
done
for set in train val; do
    [[ -n ${!set} ]] || continue
    expected=${set}_images
    if [[ -d $out/$set ]]; then
        check_tree "$out/$set" "${!expected}" "remove $out/$set to make it anew"
    else
        "make_$set"
    fi
    say "$set: complete, ${!expected} images in $classes classes"
done
rm -rf "$work"
