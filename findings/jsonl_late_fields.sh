#!/usr/bin/env bash
# Polars 2.1.0, read_ndjson and scan_ndjson: fields that first appear after line 100 of a file of
# JSON lines are left out, silently. DuckDB 2.0.1's read_json does the same after line 20,480.
#
# A training log begins with hundreds of records of steps; the columns of its evaluations are then
# missing, though their lines are there. A field that is a whole number in the first 100 lines and
# 1.5 later is an error in Polars. pandas 3.1.1 and pyarrow 26.0.1 have all fields; so have Polars
# with infer_schema_length=None and DuckDB with sample_size=-1.
source "$(dirname "$0")/common.sh"
packages polars==2.1.0 duckdb==2.0.1 pandas==3.1.1 pyarrow==26.0.1

cat > "$STATED" << 'END'
after 99 lines: polars: top1
after 99 lines: polars, lazily: top1
after 99 lines: polars, all lines: top1
after 99 lines: duckdb: top1
after 99 lines: duckdb, all lines: top1
after 99 lines: pandas: top1
after 99 lines: pyarrow: top1
after 100 lines: polars: no top1
after 100 lines: polars, lazily: no top1
after 100 lines: polars, all lines: top1
after 100 lines: duckdb: top1
after 100 lines: duckdb, all lines: top1
after 100 lines: pandas: top1
after 100 lines: pyarrow: top1
after 20479 lines: polars: no top1
after 20479 lines: polars, lazily: no top1
after 20479 lines: polars, all lines: top1
after 20479 lines: duckdb: top1
after 20479 lines: duckdb, all lines: top1
after 20479 lines: pandas: top1
after 20479 lines: pyarrow: top1
after 20480 lines: polars: no top1
after 20480 lines: polars, lazily: no top1
after 20480 lines: polars, all lines: top1
after 20480 lines: duckdb: no top1
after 20480 lines: duckdb, all lines: top1
after 20480 lines: pandas: top1
after 20480 lines: pyarrow: top1
loss 1.5 after 100 lines of 2: polars: ComputeError: cannot parse '1.5' (f64) as Int64
loss 1.5 after 100 lines of 2: polars, lazily: ComputeError: cannot parse '1.5' (f64) as Int64
loss 1.5 after 100 lines of 2: polars, all lines: top1
loss 1.5 after 100 lines of 2: duckdb: top1
loss 1.5 after 100 lines of 2: duckdb, all lines: top1
loss 1.5 after 100 lines of 2: pandas: top1
loss 1.5 after 100 lines of 2: pyarrow: top1
END
"$bin/python" > "$SEEN" << 'END'
import json

import duckdb
import pandas
import polars
import pyarrow.json

tools = {
    "polars": lambda f: polars.read_ndjson(f).columns,
    "polars, lazily": lambda f: polars.scan_ndjson(f).collect().columns,
    "polars, all lines": lambda f: polars.read_ndjson(f, infer_schema_length=None).columns,
    "duckdb": lambda f: duckdb.sql("from read_json('%s')" % f).columns,
    "duckdb, all lines": lambda f: duckdb.sql("from read_json('%s', sample_size=-1)" % f).columns,
    "pandas": lambda f: pandas.read_json(f, lines=True).columns,
    "pyarrow": lambda f: pyarrow.json.read_json(f).column_names,
}


def write(name, steps, last):
    with open(name, "w") as f:
        for step in range(1, steps + 1):
            f.write(json.dumps({"event": "step", "step": step, "loss": 2}) + "\n")
        f.write(json.dumps(last) + "\n")


def tell(title, name):
    for tool, columns in tools.items():
        try:
            said = "top1" if "top1" in columns(name) else "no top1"
        except Exception as e:
            said = "%s: %s" % (type(e).__name__, str(e).split("\n")[0])
        print("%s: %s: %s" % (title, tool, said))


for steps in (99, 100, 20479, 20480):
    write("run.jsonl", steps, {"event": "eval", "step": steps, "top1": 61.5})
    tell("after %d lines" % steps, "run.jsonl")
write("run.jsonl", 100, {"event": "step", "step": 101, "loss": 1.5, "top1": 0})
tell("loss 1.5 after 100 lines of 2", "run.jsonl")
END
compare
