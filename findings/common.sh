# shellcheck shell=bash
# common.sh - what the scripts of this folder share; sourced by each of them. A script states in
# STATED what it expects to see, puts what it sees into SEEN, and ends with compare.
#
# FINDINGS_VENVS=DIR keeps the Python environments there, so that the next script with the same
# packages need not install them again; FINDINGS_PIP_CACHE=DIR is pip's cache (else pip's own).
set -uo pipefail
# shellcheck disable=SC2034 # slurm.sh is there
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SCRATCH=$(mktemp -d /tmp/finding-XXXXXX)
trap 'rm -rf "$SCRATCH"' EXIT
STATED=$SCRATCH/stated SEEN=$SCRATCH/seen
cd "$SCRATCH" || exit 1

# cannot WHY... - ends with 77: this cannot be run here
cannot()
{
    echo "cannot run here: $*"
    exit 77
}

# debian PACKAGE=VERSION... - those Debian packages are installed in those versions
debian()
{
    local want have
    for want in "$@"; do
        have=$(dpkg-query -W -f '${Version}' "${want%%=*}" 2> /dev/null)
        [[ $have == "${want#*=}" ]] ||
            cannot "needs Debian's ${want%%=*} ${want#*=}, found ${have:-none}"
    done
}

# packages NAME==VERSION... - $bin is the bin folder of an environment that has those from PyPI
packages()
{
    local venv
    venv=${FINDINGS_VENVS:-$SCRATCH/venvs}/$(printf '%s\n' "$@" | sha256sum | cut -c 1-16)
    mkdir -p "${venv%/*}"
    # shellcheck disable=SC2034 # used by the scripts
    bin=$venv/bin
    [[ ! -e $venv/complete ]] || return 0
    python3 -m venv --clear "$venv" 2> "$SCRATCH/pip" &&
        nice "$venv/bin/pip" install -q --disable-pip-version-check \
            ${FINDINGS_PIP_CACHE:+--cache-dir "$FINDINGS_PIP_CACHE"} "$@" 2> "$SCRATCH/pip" &&
        touch "$venv/complete" && return
    cannot "pip install $*: $(grep -m 1 ERROR "$SCRATCH/pip" || tail -n 1 "$SCRATCH/pip")"
}

# compare - shows what was seen; 1 where it is not what was stated
compare()
{
    cat "$SEEN"
    if diff "$STATED" "$SEEN" > "$SCRATCH/diff"; then
        echo "as stated"
    else
        echo "changed (<: stated, >: seen):"
        cat "$SCRATCH/diff"
        exit 1
    fi
}
