#!/usr/bin/env bash
# MLflow 3.17.2 (mlflow-skinny) on SQLite: a run's metric is the one of the highest step, not the
# last one logged; after a restart from an older checkpoint it stays what it was before, until that
# step is passed.
#
# Steps 10, 20, 30 with loss 3, 2, 1, then from step 10 on again with 9 and 8: data.metrics, the
# table of runs and filters have 1. The history has all five. Infinity comes back as 1.797e308, a
# finite number, and is found by "metrics.loss > 10"; NaN comes back as NaN, found by no filter, and
# is last in both orders.
source "$(dirname "$0")/common.sh"
packages mlflow-skinny==3.17.2 sqlalchemy==2.1.9 alembic==1.20.1 pandas==3.1.1

cat > "$STATED" << 'END'
restarted: loss 1, history 10:3 20:2 30:1 10:9 20:8
metrics.loss < 2: restarted
after step 31: loss 7
infinite: comes back as 1.798e+308, finite: True
nan: comes back as nan, finite: False
metrics.loss > 10: infinite
metrics.loss <= 10: restarted
order ASC: restarted, infinite, nan
order DESC: infinite, restarted, nan
END
MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true "$bin/python" > "$SEEN" 2> said << 'END'
import math

from mlflow import MlflowClient

client = MlflowClient(tracking_uri="sqlite:///runs.db")
experiment = client.create_experiment("e")
names = {}


def run(name, *points):
    r = client.create_run(experiment, run_name=name).info.run_id
    names[r] = name
    for when, (step, loss) in enumerate(points):
        client.log_metric(r, "loss", loss, step=step, timestamp=1000 + when)
    return r


def words(runs):
    return ", ".join(names[r.info.run_id] for r in runs) or "none"


back = run("restarted", (10, 3), (20, 2), (30, 1), (10, 9), (20, 8))
print("restarted: loss %g, history %s" % (
    client.get_run(back).data.metrics["loss"],
    " ".join("%d:%g" % (m.step, m.value) for m in client.get_metric_history(back, "loss"))))
print("metrics.loss < 2: %s" % words(client.search_runs([experiment], "metrics.loss < 2")))
client.log_metric(back, "loss", 7, step=31)
print("after step 31: loss %g" % client.get_run(back).data.metrics["loss"])
for name, loss in (("infinite", math.inf), ("nan", math.nan)):
    value = client.get_run(run(name, (1, loss))).data.metrics["loss"]
    print("%s: comes back as %.4g, finite: %s" % (name, value, math.isfinite(value)))
for query in ("metrics.loss > 10", "metrics.loss <= 10"):
    print("%s: %s" % (query, words(client.search_runs([experiment], query))))
for order in ("ASC", "DESC"):
    print("order %s: %s" % (order, words(
        client.search_runs([experiment], order_by=["metrics.loss " + order]))))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
