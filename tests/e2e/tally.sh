#!/usr/bin/env bash
# tally.sh - the counting of tests itself: what scripts/tally.sh makes of commands that pass, fail,
# skip, say nothing and say what cannot be, and the scripts around it with planted tests.
source tests/e2e/lib/common.sh
house=$SCRATCH/house
mkdir -p "$house"/{scripts,.ci,tests/e2e,build}
mkdir -p "$house/scripts/dev"
cp scripts/{tally,test,e2e}.sh "$house/scripts"
cp scripts/dev/ptxas.sh "$house/scripts/dev"
cp .ci/run "$house/.ci"
cd "$house" || exit 1

# closes WHAT STATUS LINE COMMAND... - the command ends with this status and this line.
closes()
{
    expect "$1" "$2" "${@:4}"
    [[ $(tail -n 1 "$out") == "$3" ]] || broken_run "$1: the last line is not '$3'"
}

# counts WHAT STATUS LINE TEXT... - a step that prints TEXT, lines, and ends with STATUS is counted
# as LINE, in a sum with one other test.
counts()
{
    # shellcheck disable=SC2016 # the inner shell's words
    expect "$1" "$([[ $3 == *" 0 failed, "* ]] && echo 0 || echo 1)" bash -c '
        source scripts/tally.sh
        ends=$1
        shift
        say() { printf "%s\n" "$@"; return "$ends"; }
        tally_run other true
        tally_run a/step say "$@"
        tally_end' tally "$2" "${@:4}"
    [[ $(tail -n 1 "$out") == "$3" ]] || broken_run "$1: the last line is not '$3'"
}

none='0 passed, 0 failed, 0 skipped'
counts "passes" 0 "4 passed, 0 failed, 0 skipped" "3 passed, 0 failed, 0 skipped"
expect_text "shown with its title" 1 "a/step: 3 passed, 0 failed, 0 skipped"
counts "fails" 1 "4 passed, 2 failed, 0 skipped" "3 passed, 2 failed, 0 skipped"
counts "only the last line counts" 0 "3 passed, 0 failed, 0 skipped" \
    "7 passed, 1 failed, 0 skipped" "2 passed, 0 failed, 0 skipped"
counts "no line, status 0" 0 "2 passed, 0 failed, 0 skipped" "some words"
counts "no line, status 3" 3 "1 passed, 1 failed, 0 skipped" "some words"
expect_text "no line, status 3" 1 "a/step: ended with status 3"
counts "a line in other words is none" 0 "2 passed, 0 failed, 0 skipped" "3 passed, 5 failed"
counts "all passed, status 3" 3 "4 passed, 1 failed, 0 skipped" "3 passed, 0 failed, 0 skipped"
counts "nothing counted" 0 "1 passed, 1 failed, 0 skipped" "$none"
expect_text "nothing counted" 1 "a/step: counted nothing"
counts "nothing counted, status 3" 3 "1 passed, 1 failed, 0 skipped" "$none"
counts "skips" 0 "3 passed, 0 failed, 2 skipped" "skip x.a: no GPU" "skip b, in part: no GPU: x" \
    "2 passed, 0 failed, 2 skipped"
expect_text "skips" 2 "      1 no GPU"
expect_text "skips" 1 "      1 no GPU: x"
counts "only skips" 0 "1 passed, 0 failed, 1 skipped" "skip x: no GPU" \
    "0 passed, 0 failed, 1 skipped"
counts "a skip without a reason" 0 "3 passed, 1 failed, 2 skipped" "skip x: no GPU" "skip y" \
    "2 passed, 0 failed, 2 skipped"
expect_text "a skip without a reason" 1 "says 1 times why, of 2 skipped"
counts "a reason that was not counted" 0 "3 passed, 1 failed, 0 skipped" "skip x: no GPU" \
    "2 passed, 0 failed, 0 skipped"

# ---- stages, and all of .ci/run, over a Makefile that is planted ----
cat > Makefile << 'END'
.PHONY: build
build demo fuzz caps: ; @echo made
unit: ; @echo 'skip a.b: no GPU'; echo 'skip a.c: no GPU'; echo '5 passed, 0 failed, 2 skipped'
ops: ; @echo '7 passed, 1 failed, 0 skipped'; false
test: ; @scripts/test.sh build unit
ptxas sweep: ; @echo 'skip $@: no CUDA in this build'; echo '0 passed, 0 failed, 1 skipped'
asan emu: ; @echo '10 passed, 0 failed, 0 skipped'
none: ; @echo '0 passed, 0 failed, 0 skipped'
broken: ; @false
END
sed -i '/setup[.]sh/d' .ci/run
mkdir bin
printf '#!/bin/sh\n' > bin/clang
chmod +x bin/clang
export PATH=$house/bin:$PATH
sed -n 's/^ *step "\(.*\)" .*/\1/p' .ci/run > "$SCRATCH/steps"
steps=$(wc -l < "$SCRATCH/steps")
sweeps=$(grep -c '^sweep' "$SCRATCH/steps")
((steps >= 9 && sweeps >= 3)) || broken "cannot find the steps in .ci/run"
closes "stages" 0 "6 passed, 0 failed, 2 skipped" scripts/test.sh build unit
expect_text "stages" 1 "      2 no GPU"
closes "stages, one with a failure" 1 "13 passed, 1 failed, 2 skipped" \
    scripts/test.sh build unit ops
closes "a stage of nothing" 1 "1 passed, 1 failed, 0 skipped" scripts/test.sh build none
closes "no stage after a broken build" 1 "0 passed, 1 failed, 0 skipped" \
    bash -c "sed -i 's/made/made; false/' Makefile; scripts/test.sh build unit"
sed -i 's/made; false/made/' Makefile
# make test 6, demo, asan and emu 10 each, and builds; registers, sweeps and oneDNN 3.2 are skipped
left=$((2 + 1 + sweeps + 1))
closes "ci" 0 "$((6 + 1 + 20 + steps - 6 - sweeps)) passed, 0 failed, $left skipped" .ci/run
expect_text "ci" 1 "      $((1 + sweeps)) no CUDA in this build"
sed -i 's/10 passed, 0/9 passed, 1/' Makefile
expect "ci with failures" 1 .ci/run
expect_text "ci with failures" 1 ", 2 failed, $left skipped"

# ---- whole runs: as many at a time as are asked for ----
plant() { cat > "tests/e2e/$1.sh"; }
echo 'echo "not tested: a part: no tool"; echo "not tested: a part: no tool"' | plant passes
echo 'echo "why not"; exit 77' | plant skips
echo 'exit 77' | plant silent
echo ': > "$SCRATCH/broken"; echo "why not"; exit 77' | plant hides
echo 'echo "skip not.counted: it failed"; exit 3' | plant fails
echo 'echo $$ > build/hangs; sleep 99' | plant hangs
echo 'trap "echo asked; exit 0" INT; kill -INT $$; exit 4' | plant interrupted
printf '%s\n' '# alone: it says so' 'ls -d build/e2e-*/*/ | wc -l > build/beside' | plant lone
# "fails" comes before it by name, and leaves its folder.
printf '%s\n' '# first: it says so' '((E2E_JOBS > 1)) || ! ls -d build/e2e-*/fails' | plant z
for jobs in 1 2; do
    closes "e2e, $jobs at a time" 1 "4 passed, 4 failed, 2 skipped" \
        env E2E_JOBS=$jobs E2E_LIMIT_S=4 scripts/e2e.sh
    expect_text "e2e" 1 "skip passes, in part: a part: no tool"
    expect_text "e2e" 1 "skip skips: why not"
    expect_text "e2e" 1 "FAIL fails: status 3"
    expect_text "e2e" 1 "FAIL silent: skipped without a reason, or after something was broken"
    expect_text "e2e" 1 "FAIL hides: skipped without a reason, or after something was broken"
    expect_text "e2e" 1 "FAIL hangs: took longer than 4 s"
    # its own folder, and those that fails, hangs, silent and hides leave
    [[ $(cat build/beside) == 5 ]] || broken_run "e2e: something ran beside lone"
    rm -rf build/e2e-*
done
rm -f build/hangs
scripts/e2e.sh tests/e2e/hangs.sh > "$out" 2>&1 &
pid=$!
for ((tries = 0; tries < 500; tries++)); do
    [[ -s build/hangs ]] && break
    sleep 0.02
done
kill "$pid"
wait_to_end 20
((code == 130)) || broken "e2e, asked to end: exit code $code, expected 130"
expect_gone "e2e, asked to end" "$(cat build/hangs)"
rm -rf build/e2e-*
# The one that would tell of a script is killed.
echo 'kill -9 "$(awk "/^PPid/ { print \$2 }" /proc/$PPID/status)"; sleep 1' | plant killer
closes "a test that is killed" 1 "0 passed, 1 failed, 0 skipped" \
    scripts/e2e.sh tests/e2e/killer.sh
expect_text "a test that is killed" 1 "FAIL tests/e2e/killer.sh: status 137, without a word"
rm -rf build/e2e-*
closes "a script that is not there" 1 "0 passed, 1 failed, 0 skipped" scripts/e2e.sh tests/e2e/x.sh
closes "no kernels" 1 "0 passed, 1 failed, 0 skipped" scripts/dev/ptxas.sh

# ---- the programs say the line too, and no script has another ----
cd - > /dev/null || exit 1
closes "unit" 0 "$(build/unit --list --filter=str. | wc -l) passed, 0 failed, 0 skipped" \
    build/unit --filter=str.
closes "unit: nothing" 1 "$none" build/unit --filter=there_is_none
expect "check" 0 build/ops --op=subsample
tail -n 1 "$out" | grep -qE '^[0-9]+ passed, 0 failed, 0 skipped$' || broken_run "check: last line"
grep -rnE ' passed, .* failed' Makefile ./*.md .ci scripts tests docs |
    grep -vE 'skipped|board->|^tests/e2e/tally.sh' > "$out" && broken_run "another closing line"
exit "$failed"
