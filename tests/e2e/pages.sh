#!/usr/bin/env bash
# pages.sh - report, preview and gallery in a real browser, headless Chromium: nothing on the
# console, no request, nothing wider than the window, readable in light and dark, curves and values
# there.
source tests/e2e/lib/common.sh
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "not tested: pages in a browser: no chromium (scripts/setup.sh --ci installs it)"
    exit 77
}
look() { timeout 250 python3 tests/e2e/lib/browser.py --browser "$browser" "$@"; }

# It sees what is wrong.
cat > "$SCRATCH/bad.html" << 'END'
<!DOCTYPE html><html><body style="margin:0"><p style="color:#eee;background:#fff">pale words</p>
<div style="width:1000px;overflow:hidden">
<table style="width:1100px"><tr><td>cut</td></tr></table></div>
<div class="plots"><svg aria-label="empty" width="9" height="9"></svg></div>
<img src="gone.png"><script>throw Error("script")</script></body></html>
END
expect "a bad page" 0 look "$SCRATCH/bad.html"
for text in "light, 360 pixels: is 1000 pixels wide" "dark, 800 pixels: is 1000 pixels wide" \
    "cannot be read: pale words" "a table is cut off: cut" "nothing is drawn: empty" \
    "no values on hover: empty" "asks for file://" "throws Uncaught" \
    "1600 pixels: Failed to load"; do
    expect_text "a bad page" some "$text"
done
expect_text "a bad page" 0 "1600 pixels: is "

make_data "$SCRATCH/data" 8 4
make_config
run_of() # NAME RANKS KEY=VALUE...
{
    local name=$1 ranks=$2
    shift 2
    expect "$name" 0 run "$ranks" train "$SCRATCH/small.yaml" "run.dir=$SCRATCH/$name" \
        "data.val=$SCRATCH/data/val" train.epochs=4 "$@"
}
run_of "a-run-with-a-name-as-long-as-people-give-them-today" 1
run_of priced 1 cost.price_per_host_hour=36 cost.host_watts=300
! have_mpi || run_of two 2
cd "$SCRATCH" || exit 1
expect "report" 0 run 1 report a-run-* --out one.html
expect "report of all" 0 run 1 report a-run-* priced two --out all.html
expect "preview" 0 run 1 preview small.yaml --out preview.html
expect "gallery" 0 run 1 eval priced --gallery gallery.html
cd - > "$out" || exit 1
! grep -q 'Energy and cost' "$SCRATCH/one.html" || broken "a table of energy where none is known"
grep -q 'Energy and cost' "$SCRATCH/all.html" || broken "no table of energy"
expect "pages" 0 look "$SCRATCH"/{one,all,preview,gallery}.html
[[ ! -s $out ]] || broken_run "pages have faults"
exit "$failed"
