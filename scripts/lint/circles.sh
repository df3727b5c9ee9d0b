#!/usr/bin/env bash
# circles.sh [BUILD] - circles of calls between rooms and between files, and calls against the
# floors of rooms.txt, from the objects below BUILD/obj (build), whether or not they are of today's
# sources. `make lint` holds both. The last line counts circles; the status says if there is one.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
objects=${1:-build}/obj
cd "$objects" || exit 1
home=$OLDPWD
found=$(find base data kernels models trainer -name '*.o' | while read -r object; do
    [[ -e $home/${object%.o}.c || (-e $home/${object%.o} && $object == *.cu.o) ]] && echo "$object"
done | grep -v '^kernels/ref/' | xargs nm -A -P |
    awk -v rooms="$home/scripts/lint/rooms.txt" -f "$home/scripts/lint/rooms.awk" \
        -f "$home/scripts/lint/calls.awk")
[[ -n $found ]] && echo "$found"
rooms=$(grep -cE '^circle of [0-9]+ rooms' <<< "$found")
files=$(grep -cE '^circle of [0-9]+ files' <<< "$found")
echo "$rooms circles of rooms, $files circles of files"
((rooms + files == 0))
