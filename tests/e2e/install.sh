#!/usr/bin/env bash
# install.sh - what make install and make deb write: a program without folders of this machine that
# still knows its functions' names, manual pages without faults, completion that knows commands,
# options, keys and words, pages whose links hold; and nothing is left when it is removed.
source tests/e2e/lib/common.sh
prefix=/opt/convoy root=$SCRATCH/root/opt/convoy

program=$tools/install/convoy # make e2e links it
if [[ ! -f $program || $program -ot $CONVOY ]]; then
    echo "not tested: installing: $program is not of this build"
    exit 77
fi
if missing=$(ldd "$program" | grep 'not found'); then
    echo "not tested: installing: not where the loader looks:$missing"
    exit 77
fi
[[ -s $program.debug ]] || broken "no debug information is kept"
! readelf -S "$program" | grep -q '\.debug_info' || broken "debug information is installed"
readelf -d "$program" > "$out"
! grep -E 'R(UN)?PATH' "$out" || broken "an installed program has folders of this machine"
readelf -sW "$program" | grep -w loop_run > "$out" || broken "no names for the report of a hang"
# links TARGET - how make would link it where MPI has a folder of its own
links()
{
    make -n V=1 "B=$SCRATCH/b" CONVOY=tree 'MPI_LINK=-Wl,-rpath -Wl,/opt/mpi -lmpi' "$1" 2> "$out" |
        grep -F -- "-o $1 "
}
[[ $(links tree) == *"-Wl,-rpath -Wl,/opt/mpi"* ]] || broken_run "the tree: no folders"
linked=$(links "$SCRATCH/b/install/convoy")
[[ $linked == *" -ldnnl "* && $linked != *rpath* ]] || broken_run "installed with folders: $linked"

install() { DESTDIR=$SCRATCH/root scripts/install/install.sh "$@"; }
mkdir -p "$root/bin" "$root/share/man" # of others, as in /usr/local
expect "install" 0 install "$program" $prefix
list=$root/share/convoy/installed-files gone=share/convoy/configs/gone.yaml
echo $gone >> "$list" && touch "$root/$gone"
expect "install again" 0 install "$program" $prefix
[[ ! -e $root/$gone ]] || broken "what an earlier version had is left"
expect "no absolute prefix" 64 install "$program" opt
expect "no program that starts" 78 install /bin/false $prefix
expect "version" 0 "$root/bin/convoy" --version
"$CONVOY" --version | diff <(grep ^MPI "$out") <(grep ^MPI) > /dev/null ||
    broken_run "the installed one finds other MPIs than $CONVOY"

# Manual pages: one a command, and keys; all that the help says is on them.
find "$root/share/man" -type f > "$SCRATCH/pages"
while read -r page; do
    for check in "man --warnings -E UTF-8 -l" "mandoc -T lint -W warning"; do
        command -v "${check%% *}" > /dev/null || continue
        $check "$page" 2>&1 > /dev/null | sed "s|^|${page##*/}: |"
    done
done < "$SCRATCH/pages" > "$out"
[[ ! -s $out ]] || broken_run "manual pages have faults"
command -v man > /dev/null || echo "not tested: manual pages: no man"
"$CONVOY" --tables > "$SCRATCH/tables"
# names_of COMMAND - the options in its table, a name per line
names_of()
{
    awk -F '\t' -v name="$1" '$1 == "command" { wanted = $2 == name }
        wanted && $1 == "option" { print $2 }' "$SCRATCH/tables" |
        sed 's/, /\n/g' | sed 's/ .*//' | sort
}
while IFS=$'\t' read -r kind command about; do
    [[ $kind == command ]] || continue
    page=$root/share/man/man1/${command// /-}.1
    [[ -s $page ]] || { broken "no manual page of $command" && continue; }
    grep -qF "${about//-/\\-}" "$page" || broken "$command: its page does not say what it does"
    names_of "$command" > "$SCRATCH/names"
    sed -n '/^\\fB\\-/{s/\\fB\|\\fR//g; s/\\-/-/g; s/, /\n/g; p}' "$page" | sed 's/ .*//' |
        sort | diff "$SCRATCH/names" - > "$out" || broken_run "page of $command: other options"
    own=${command#convoy}
    bash -c 'source "$1" && _convoy_words "$2"' - \
        "$root/share/bash-completion/completions/convoy" "${own# }" | tr ' ' '\n' |
        sed -n '/^--\(help\|version\)$/d; /^-/p' | sort | diff "$SCRATCH/names" - > "$out" ||
        broken_run "completion of $command: other options"
done < "$SCRATCH/tables"
"$CONVOY" inspect config | sed -n 's/^\([a-z_]*[.][a-z_0-9]*\) = .*/\1/p' > "$SCRATCH/keys"
(($(wc -l < "$SCRATCH/keys") > 100)) || broken "few keys"
sed -n 's/^\\fB\([a-z_]*[.][a-z_0-9]*\) = .*/\1/p' "$root/share/man/man5/convoy-config.5" |
    diff "$SCRATCH/keys" - > "$out" || broken_run "convoy-config(5) has other keys"

# completes LINE WORD... - what bash offers behind LINE
bash_completion=$root/share/bash-completion/completions/convoy
completes()
{
    local line=$1 got
    shift
    got=$(bash -c 'source "$1" && COMP_LINE=$2 COMP_POINT=${#2} && _convoy 2> /dev/null
        printf "%s\n" "${COMPREPLY[@]}"' - "$bash_completion" "$line" | paste -sd ' ')
    [[ $got == "$*" ]] || broken "completion of '$line': '$got', expected '$*'"
}
completes "convoy tr" train
completes "convoy inspect mo" model
completes "convoy inspect model --d" --dot
completes "convoy bench all" allreduce
completes "convoy bench loader --input ca" cached
completes "convoy inspect dataset DIR --format li" list
completes "convoy train x.yaml --set model.ste" model.stem=
completes "convoy train x.yaml --set model.stem=" imagenet cifar
completes "convoy train x.yaml --set=model.stem=c" cifar
completes "convoy eval x.yaml --set model.name=resnet11" resnet110
completes "convoy train data.train=/" ""
if command -v zsh > /dev/null; then
    # The same tables; compadd stands in for the editor.
    got=$(zsh -f -c 'compadd() { shift $(($# - 1)); print -r -- ${(P)1} }; compset() { : }
        _files() { : }; words=(convoy train x.yaml model.stem=) CURRENT=4; source $1' \
        - "$root/share/zsh/site-functions/_convoy" 2>&1)
    [[ $got == "imagenet cifar" ]] || broken "zsh completes model.stem= with '$got'"
else
    echo "not tested: completion of zsh: no zsh"
fi

# Links of pages, and what they name, lead somewhere; the batch file is found from anywhere.
(cd "$root/share/doc/convoy" && for page in README.md $(find docs -name '*.md'); do
    grep -oE '\]\([^)#]+' "$page" | cut -c 3- | grep -v '^https*:' | while read -r link; do
        [[ -e ${page%/*}/$link || -e $link && $page == README.md ]] || echo "$page: $link"
    done
    grep -oE '\b(configs|scripts/(slurm|k8s|parallelcluster))/[a-z0-9_./-]+[a-z]' "$page" |
        while read -r file; do [[ -e $file ]] || echo "$page: $file"; done
done) > "$out"
[[ ! -s $out ]] || broken_run "pages name what is not installed"
job=$(cd "$SCRATCH" && root/opt/convoy/bin/convoy scale \
    root/opt/convoy/share/convoy/configs/scale-resnet20.yaml --print sbatch 2>&1 | head -n 1)
[[ $job == *" $(realpath "$root")/share/convoy/scripts/slurm/train.sbatch "* ]] ||
    broken "scale --print sbatch of an installed program: $job"

# A config of the pages is found from anywhere, and said; one that lies here goes first.
installed() { (cd "$SCRATCH" && root/opt/convoy/bin/convoy "$@"); }
small=(data.format=synthetic data.synthetic_images=8 model.classes=2
    train.max_steps=1 train.batch_per_rank=2 data.image_size=32 device.backend=cpu run.dir=run)
expect "installed config" 0 installed train configs/scratch.yaml "${small[@]}"
[[ $(head -n 1 "$out") == "config: $(realpath "$root")/share/convoy/configs/scratch.yaml" ]] ||
    broken_run "installed config: not the first line"
expect "installed config, JSON" 0 installed train configs/scratch.yaml "${small[@]}" \
    log.format=json run.dir=json
[[ $(head -c 1 "$out") == '{' ]] || broken_run "JSON: a line that is none"
expect "no such config" 64 installed train configs/none.yaml "${small[@]}"
expect_text "no such config" 1 "error: configs/none.yaml: no such config"
expect "not below configs" 64 installed train scratch.yaml "${small[@]}"
mkdir "$SCRATCH/configs" && cp configs/scratch.yaml "$SCRATCH/configs"
expect "own config" 0 installed train configs/scratch.yaml "${small[@]}" run.dir=own
expect_text "own config" 0 "config: "

# A program built on Debian 12 starts with the C library of RHEL 9.
if grep -qx 'VERSION_CODENAME=bookworm' /etc/os-release; then
    newest=$(readelf -V "$program" | grep -oE 'GLIBC_[0-9.]+' | sort -V | tail -n 1)
    [[ $newest == "$(printf '%s\nGLIBC_2.34\n' "$newest" | sort -V | head -n 1)" ]] ||
        broken "the program needs $newest"
else
    echo "not tested: which C library is needed: not Debian 12"
fi

expect "uninstall" 0 install --remove $prefix
left=$(cd "$root" && find . -mindepth 1 | sort | paste -sd ' ')
[[ $left == "./bin ./share ./share/man" ]] || broken "left: $left"
expect "uninstall what is not there" 66 install --remove $prefix

if command -v dpkg-shlibdeps > /dev/null; then
    expect "deb" 0 scripts/install/deb.sh "$program" "$SCRATCH"
    deb=$(find "$SCRATCH" -maxdepth 1 -name 'convoy_*.deb')
    dpkg-deb -f "$deb" Depends > "$out"
    for library in libdnnl libjpeg libspng libyaml libhwloc libc6; do
        expect_text Depends 1 "$library"
    done
    ! grep -E 'cuda|cudnn|nccl|mpi' "$out" || broken "the package depends on CUDA or MPI"
    dpkg-deb -x "$deb" "$SCRATCH/unpacked"
    dpkg-deb -e "$deb" "$SCRATCH/control"
    expect "checksums" 0 env -C "$SCRATCH/unpacked" md5sum -c --quiet ../control/md5sums
    cmp "$program" "$SCRATCH/unpacked/usr/bin/convoy" || broken "another program is packed"
    for plugin in "${program%/*}"/libconvoy_mpi_*.so; do
        [[ ! -e $plugin ]] || cmp "$plugin" "$SCRATCH/unpacked/usr/lib/convoy/${plugin##*/}" ||
            broken "a plugin is missing"
    done
    if command -v lintian > /dev/null; then
        nobody=bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact
        expect "lintian" 0 lintian --allow-root --fail-on error --suppress-tags $nobody "$deb"
    fi
else
    echo "not tested: make deb: no dpkg-dev"
fi
exit "$failed"
