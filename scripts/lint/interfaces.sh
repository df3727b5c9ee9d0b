#!/usr/bin/env bash
# interfaces.sh [--list] - what users' files and scripts may rely on: keys with their defaults,
# records and their fields, exit codes, formats of files. What is not as in the list of the last
# release, scripts/lint/interfaces.txt, must stand in backticks in the first section of
# CHANGELOG.md. --list prints the list of today, for the next release.
set -euo pipefail
export LC_ALL=C

today() {
    # pages that tests hold to be what the program has
    sed -nE 's/^[|] `([a-z_]+[.][a-z_0-9]+)` [|] ([^|]*[^| ]) [|].*/key \1=\2/p' docs/config.md
    awk -F'|' '
        /^[|] `event` [|]/ { inside = 1; next }
        !/^[|]/ { inside = 0 }
        inside && match($2, /`[a-z_]+`/) {
            event = substr($2, RSTART + 1, RLENGTH - 2)
            print "record " event
            for (i = 3; i <= NF; i++)
                while (match($i, /`[a-z_0-9]+`/)) {
                    print "field " event "." substr($i, RSTART + 1, RLENGTH - 2)
                    $i = substr($i, RSTART + RLENGTH)
                }
        }' docs/running.md
    sed -nE 's/^ +(ERR_[A-Z]+) = .*-> exit ([0-9]+) .*/exit \1=\2/p' base/status.h
    sed -nE 's/^#define INDEX_VERSION ([0-9]+)u?.*/format index=\1/p' data/index/index.h
    sed -nE 's/.*format_number[^"]*"([0-9]+)".*/format checkpoint_format=\1/p' \
        trainer/engine/files/checkpoint.c
}

if [[ ${1:-} == --list ]]; then
    today | sort -u
    exit
fi
list=scripts/lint/interfaces.txt
section=$(awk '/^## / && n++ { exit } n' CHANGELOG.md)
comm -3 <(grep -v '^#' "$list" | sort -u) <(today | sort -u) | while IFS= read -r row; do
    what=added row=${row#$'\t'} name=
    grep -qxF "$row" "$list" && what=gone
    name=${row#* }
    [[ $section == *"\`${name%%=*}\`"* ]] ||
        echo "CHANGELOG.md: ${row%% *} \`${name%%=*}\` is $what since the last release: say so"
done
