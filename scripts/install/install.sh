#!/usr/bin/env bash
# install.sh PROGRAM PREFIX - what `make install` does: PROGRAM, the plugins for MPI beside it, its
# manual pages and completion, which are made of its own words, configs, the scripts that users
# need, and the pages, below DESTDIR and PREFIX. install.sh --remove PREFIX takes away what is in
# the list that it has left: files, and with a / behind them the folders that were not there before.
#
# scripts/ and configs/ lie in PREFIX/share/convoy, as in the tree; from PREFIX/share/doc/convoy,
# where the pages are, links of the same names lead there, so what pages name is found.
# ZSH_FOLDER: where zsh looks, below PREFIX.
set -euo pipefail
shopt -s lastpipe # what put notes down at the end of a pipe is kept
umask 022
program=$1 prefix=$2
root=${DESTDIR:-}$prefix
list=share/convoy/installed-files
if [[ $prefix != /* ]]; then
    echo "install: PREFIX $prefix does not begin with /" >&2
    exit 64
fi

if [[ $program == --remove ]]; then
    if [[ ! -f $root/$list ]]; then
        echo "install: $root/$list is not there: convoy is not installed in $root" >&2
        exit 66
    fi
    cd "$root"
    mapfile -t files < <(grep -v '/$' "$list")
    mapfile -t folders < <(grep '/$' "$list" | sort -r)
    for file in "${files[@]}" "$list"; do
        [[ /$file/ == */../* ]] || rm -f "$file"
    done
    for folder in "${folders[@]%/}"; do
        [[ /$folder/ == */../* || -L $folder || ! -d $folder ]] ||
            rmdir --ignore-fail-on-non-empty "$folder"
    done
    echo "removed ${#files[@]} files of convoy from $root"
    exit
fi

program=$(realpath "$program")
cd "$(dirname "$0")/../.."
if [[ $root == *[[:space:]]* ]]; then
    echo "install: $root has a blank in it" >&2
    exit 64
fi
version=$("$program" --version | sed -n '1s/^convoy //p') || {
    echo "install: $program does not start: docs/running.md says where its libraries must be" >&2
    exit 78
}
date=$(date -u +%F -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null ||
    stat -c %Y base/version.h)}")
files=() folders=() before=()
if [[ -f $root/$list ]]; then # of an earlier version, too
    mapfile -t before < <(grep -v '/$' "$root/$list")
    mapfile -t folders < <(grep '/$' "$root/$list")
fi
mkdir -p "$root"

# make_folder FOLDER - with those above it
make_folder()
{
    [[ ! -d $root/$1 ]] || return 0
    [[ $1 != */* ]] || make_folder "${1%/*}"
    mkdir "$root/$1"
    folders+=("$1/")
}

# put MODE FILE TO - installs FILE (- is standard input) as PREFIX/TO
put()
{
    make_folder "${3%/*}"
    # Never through a link, and a program that runs keeps its file.
    rm -f "$root/$3"
    cat "${2/#-//dev/stdin}" > "$root/$3"
    chmod "$1" "$root/$3"
    files+=("$3")
}

# page SECTION NAME ABOUT - a manual page of what man.awk reads on standard input
page()
{
    awk -v section="$1" -v name="$2" -v about="$3" -v version="$version" -v date="$date" \
        -v more="$also" -f scripts/install/man.awk | put 644 - "share/man/man$1/${2// /-}.$1"
}

put 755 "$program" bin/convoy
while read -r plugin; do
    put 644 "$plugin" "lib/convoy/${plugin##*/}"
done < <(find "${program%/*}" -maxdepth 1 -name 'libconvoy_mpi_*.so' | sort)

also='.SH SEE ALSO'
also+=$'\n.BR convoy (1),\n.BR convoy\\-config (5)\n.PP\nPages and examples are in'
also+=" $prefix/share/doc/convoy and $prefix/share/convoy."
tables=$("$program" --tables)
while IFS=$'\t' read -r kind name about; do
    [[ $kind != command ]] || page 1 "$name" "$about" <<< "$tables"
done <<< "$tables"
"$program" inspect config | page 5 convoy-config 'every key of a config file'

for shell in bash zsh; do
    to=share/bash-completion/completions/convoy
    [[ $shell == bash ]] || to=${ZSH_FOLDER:-share/zsh/site-functions}/_convoy
    scripts/install/completion.sh "$program" "$shell" | put 644 - "$to"
done

while read -r file; do
    [[ $(head -c 2 "$file") == '#!' ]] && mode=755 || mode=644
    put "$mode" "$file" "share/convoy/$file"
done < <(find configs scripts/{slurm,k8s,parallelcluster,grafana} scripts/docker/*.json \
    scripts/{follow.py,prepare_imagenet.sh,devkit_meta.py,import_dataset.py} -type f | sort)
while read -r file; do
    put 644 "$file" "share/doc/convoy/$file"
done < <(find README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs -type f | sort)
for folder in configs scripts; do
    ln -sfn "../../convoy/$folder" "$root/share/doc/convoy/$folder"
    files+=("share/doc/convoy/$folder")
done
printf '%s\n' "${before[@]}" | grep -vxF -f <(printf '%s\n' "${files[@]}" "$list") |
    while read -r file; do
        [[ -z $file || /$file/ == */../* ]] || rm -f "$root/$file"
    done || true
printf '%s\n' "${files[@]}" "${folders[@]}" | sort -u | put 644 - "$list"
echo "installed convoy $version: ${#files[@]} files in $root"
