#!/usr/bin/env bash
# test.sh [--san=LIST] STAGE... - runs make targets one after another and adds up what they report.
#
# A stage's own last line "N passed, N failed" is shown as "STAGE: N passed, N failed"; a stage that
# ends badly without counting a failure counts as one. After a failed build nothing else can run.
# The last line of all is "N passed, N failed"; the exit status says the same.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

variables=()
if [[ ${1:-} == --san=* ]]; then
    variables+=("SAN=${1#--san=}")
    shift
fi
mkdir -p build
log=$(mktemp build/stage-XXXXXX.log)
trap 'rm -f "$log"' EXIT
total_passed=0 total_failed=0
for stage in "$@"; do
    echo "== $stage"
    jobs=()
    [[ $stage == build ]] && jobs=(-j"$(nproc)")
    make --no-print-directory "${jobs[@]}" "${variables[@]}" "$stage" 2>&1 | tee "$log" |
        sed -u -E "s/^([0-9]+ passed, [0-9]+ failed)\$/$stage: \\1/"
    status=${PIPESTATUS[0]}
    read -r passed failed < <(awk \
        '/^[0-9]+ passed, [0-9]+ failed$/ { p = $1; f = $3 } END { print p + 0, f + 0 }' "$log")
    if ((status != 0 && failed == 0)); then
        echo "$stage: ended with status $status"
        failed=1
    fi
    ((total_passed += passed, total_failed += failed))
    [[ $stage == build && $failed -gt 0 ]] && break
done
echo "$total_passed passed, $total_failed failed"
((total_failed == 0 && total_passed > 0))
