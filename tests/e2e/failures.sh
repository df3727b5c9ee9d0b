#!/usr/bin/env bash
# failures.sh - the short form of scripts/dev/failure_sweep.sh: each kind of failure once,
# at another moment every time.
seed=$RANDOM
echo "seed $seed"
scripts/dev/failure_sweep.sh --moments 1 --seed "$seed"
