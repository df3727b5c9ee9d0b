#!/usr/bin/env bash
# bench_index.sh [FOLDER] - how fast a tree is listed and its index loaded: 200,000 files in 200
# classes, and 1,281,000 in 1000, as many as ImageNet has. Makes the trees below FOLDER (default: a
# temporary one, removed at the end). SHAPES="2 3" makes one of 2 classes with 3 files each instead.
# Each number is the median of seven runs; the first line of each tree is from a page cache that has
# just seen the files made.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-} convoy=${CONVOY:-./convoy}
shapes=("200 1000" "1000 1281")
[[ -z ${SHAPES:-} ]] || shapes=("$SHAPES")
if [[ -z $folder ]]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'

# median WHAT COMMAND...: of the seconds in the command's last line that says
# "... N s" or "... N.NN s; ..."
median()
{
    local what=$1
    shift
    for _ in 1 2 3 4 5 6 7; do
        eval "$*" | tail -n 1 | sed -E 's/.* ([0-9.]+) s$/\1/'
    done | sort -n | sed -n 4p | sed "s/^/  $what: /; s/$/ s/"
}

for shape in "${shapes[@]}"; do
    read -r classes each <<< "$shape"
    tree=$folder/$((classes * each))
    [[ -d $tree ]] || "${CONVOY_TOOLS:-build}/make_files" "$tree" "$classes" "$each"
    echo "$((classes * each)) files in $classes folders"
    median "scan, written to a file (2 CPUs, 16 threads)" \
        "rm -f '$folder/i.index'; taskset -c 0,1 '$convoy' index '$tree' --out '$folder/i.index'"
    median "start from the file" "'$convoy' index '$tree' --out '$folder/i.index'"
    bytes=$(stat -c %s "$folder/i.index")
    echo "  index: $bytes bytes, $((bytes / (classes * each))) an image"
done
