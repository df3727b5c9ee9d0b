#!/usr/bin/env bash
# test.sh [--san=LIST] STAGE... - runs make targets one after another and adds up what they report.
#
# A stage's own last line "N passed, N failed, N skipped" is shown as "STAGE: N passed, ..."; one
# without counts as one test (scripts/tally.sh). After a failed build nothing else can run.
# The last line of all is "N passed, N failed, N skipped", after the reasons of what was skipped;
# the exit status says the same.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
source scripts/tally.sh

variables=()
if [[ ${1:-} == --san=* ]]; then
    variables+=("SAN=${1#--san=}")
    shift
fi
for stage in "$@"; do
    echo "== $stage"
    jobs=()
    [[ $stage == build ]] && jobs=(-j"$(nproc)")
    tally_run "$stage" make --no-print-directory "${jobs[@]}" "${variables[@]}" "$stage" ||
        [[ $stage != build ]] || break
done
tally_end
