#!/usr/bin/env bash
# grafana.sh - the dashboard and the alert rules ask for metrics that a run writes, and the rules
# fire where they should and nowhere else.
source tests/e2e/lib/common.sh
command -v python3 > /dev/null || { echo "no python3"; exit 77; }

sed -nE 's/.*(\{| )"([a-z0-9_]+)", "(gauge|counter)".*/\2/p; s/.* name\[\] = "([a-z_]+)";/\1/p' \
    trainer/app/monitor/gauges.c > "$SCRATCH/metrics"
# ask FILE LEAST - every metric in it, so many at least, is one that a run writes.
ask()
{
    local name names
    names=$(grep -oE 'convoy_[a-z0-9_]+' "$1" | sort -u)
    (($(wc -w <<< "$names") >= $2)) || broken "$1 asks for too little: $names"
    for name in $names; do
        grep -qxF "${name#convoy_}" "$SCRATCH/metrics" || broken "$1: there is no metric $name"
    done
}
ask scripts/grafana/alerts.yaml 8
ask scripts/grafana/dashboard.json 15

expect "the dashboard" 0 python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
panels = d["panels"]
assert len({p["id"] for p in panels}) == len(panels) > 10
places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
assert len(places) == len(panels)
for p in panels:
    for t in p["targets"]:
        assert "run=~\"$run\"" in t["expr"], t["expr"]
        assert t["expr"].count("(") == t["expr"].count(")"), t["expr"]
' scripts/grafana/dashboard.json

if command -v promtool > /dev/null; then # Debian's package prometheus has it
    expect "the rules" 0 promtool check rules scripts/grafana/alerts.yaml
    expect "what fires" 0 promtool test rules scripts/grafana/alerts_test.yaml
else
    echo "not tested: promtool on the alert rules: it is not installed (package prometheus)"
fi
exit "$failed"
