#!/usr/bin/env bash
# headers.sh HEADER:DEBIAN:FEDORA... - whether the compiler finds what a build includes; if not, one
# line with all that is missing, by the packages that hold it. COMPILE: compiler and flags, as the
# build hands them to a shell.
set -uo pipefail
: "${COMPILE:?}"
if ! command -v "${COMPILE%% *}" > /dev/null; then
    echo "build: there is no ${COMPILE%% *}: install a C compiler, or name one by CC=" >&2
    exit 1
fi
missing=() debian=() fedora=()
for row in "$@"; do
    IFS=: read -r header deb rpm <<< "$row"
    printf '#include <stdlib.h>\n#include <stdio.h>\n#include <%s>\n' "$header" |
        sh -c "$COMPILE -fsyntax-only -x c -" 2> /dev/null && continue
    missing+=("$header") debian+=("$deb") fedora+=("$rpm")
done
((${#missing[@]} == 0)) && exit
echo "build: missing headers: ${missing[*]}. Debian, Ubuntu: apt-get install ${debian[*]} (or" \
    "make setup); Fedora, Rocky with EPEL: dnf install ${fedora[*]}" >&2
[[ ${missing[*]} != *mpi.h* ]] ||
    echo "build: mpi.h is found by mpicc, which Fedora has after: module load mpi; without MPI:" \
        "make MPI=0" >&2
exit 1
