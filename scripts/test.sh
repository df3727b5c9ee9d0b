#!/usr/bin/env bash
# test.sh [VARIABLE=VALUE...] STAGE... - runs make targets one after another, with these variables,
# and adds up what they report.
#
# A stage's own last line "N passed, N failed, N skipped" is shown as "STAGE: N passed, ..."; one
# without counts as one test (scripts/tally.sh). After a failed build nothing else can run.
# The last line of all is "N passed, N failed, N skipped", after the reasons of what was skipped;
# the exit status says the same.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
source scripts/tally.sh

variables=()
while [[ ${1:-} == *=* ]]; do
    variables+=("$1")
    shift
done
for stage in "$@"; do
    echo "== $stage"
    jobs=()
    [[ $stage == build ]] && jobs=(-j"$(nproc)")
    tally_run "$stage" make --no-print-directory "${jobs[@]}" "${variables[@]}" "$stage" ||
        [[ $stage != build ]] || break
done
tally_end
