#!/usr/bin/env bash
# plain_words.sh [--lint | PATTERN] - how often messages (text in quotes in the product's C: errors,
# log lines, help of options and keys) and pages (*.md) have what plain English says otherwise. The
# patterns are the rows of plain_words.txt. Alone it counts: a row for each pattern, of messages and
# of pages. With the text of a PATTERN, or a part of it, it shows each hit. --lint shows hits in
# messages of the patterns marked there, and rows of plain_excuses.txt that excuse nothing.
set -euo pipefail
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
mode=count only=
case ${1:-} in
'') ;;
--lint) mode=lint ;;
*) mode=show only=$1 ;;
esac
rooms=() pages=()
for room in base data kernels models trainer; do [[ ! -d $room ]] || rooms+=("$room"); done
mapfile -t product < <(find "${rooms[@]}" -name '*.[ch]' | sort)
# config.md is made of messages
[[ $mode == lint ]] || mapfile -t pages < <(
    find . -path ./build -prune -o -path ./.git -prune -o -name '*.md' -print |
        sed 's|^[.]/||' | grep -vx docs/config.md | sort)
awk -f scripts/lint/text.awk -f scripts/lint/plain_words.awk -v mode="$mode" -v only="$only" \
    -v words=scripts/lint/plain_words.txt -v excuses=scripts/lint/plain_excuses.txt \
    "${product[@]}" "${pages[@]}"
