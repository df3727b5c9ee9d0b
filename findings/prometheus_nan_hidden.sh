#!/usr/bin/env bash
# Prometheus 2.42.0 (Debian): of a loss that is NaN on one rank and 3 on the other, max, min, topk
# and max_over_time show no NaN, and no comparison with a number is true.
#
# So neither `loss > 10` nor `loss <= 10` fires for it, and max by (run) (loss) looks healthy; avg,
# quantile and avg_over_time are NaN. What finds it is `loss != loss`. count_over_time counts NaN as
# a sample like any other.
source "$(dirname "$0")/common.sh"
debian prometheus=2.42.0+ds-5+deb12u1
command -v promtool > /dev/null || cannot "needs promtool"

cat > "$STATED" << 'END'
max(loss): {} 3E+00
min(loss): {} 3E+00
topk(1, loss): {__name__="loss", rank="1"} 3E+00
avg(loss): {} NaN
quantile(0.5, loss): {} NaN
loss > 10: nothing
loss <= 10: {__name__="loss", rank="1"} 3E+00
loss != loss: {__name__="loss", rank="0"} NaN
max_over_time(loss{rank="0"}[5m]): {rank="0"} 2E+00
avg_over_time(loss{rank="0"}[5m]): {rank="0"} NaN
count_over_time(loss{rank="0"}[5m]): {rank="0"} 5E+00
END
expressions=('max(loss)' 'min(loss)' 'topk(1, loss)' 'avg(loss)' 'quantile(0.5, loss)'
    'loss > 10' 'loss <= 10' 'loss != loss' 'max_over_time(loss{rank="0"}[5m])'
    'avg_over_time(loss{rank="0"}[5m])' 'count_over_time(loss{rank="0"}[5m])')
echo 'groups: []' > rules.yaml
{
    cat << 'END'
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'loss{rank="0"}', values: '2 2 NaN NaN NaN'}
      - {series: 'loss{rank="1"}', values: '3 3 3 3 3'}
    promql_expr_test:
END
    # promtool shows what it got where that is not what was expected: here never
    for e in "${expressions[@]}"; do
        echo "      - {expr: '$e', eval_time: 4m, exp_samples: [{labels: none, value: 123456}]}"
    done
} > test.yaml
promtool test rules test.yaml 2>&1 | awk '
    $1 == "expr:" { sub(/^ *expr: "/, ""); sub(/", time:.*/, ""); gsub(/\\/, ""); e = $0 }
    $1 == "got:" { sub(/^ *got: */, ""); print e ": " ($0 == "nil" ? "nothing" : $0) }' > "$SEEN"
compare
