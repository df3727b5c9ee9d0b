#!/usr/bin/env bash
# checksums.sh - the batches of training are the same, bit for bit, for any number of threads,
# readers, ranks and micro-batches, from the page cache, a shared cache or none, and wherever the
# run starts; bad files among them too. And the checksums tell when they are not.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 1
make_config
bad=$SCRATCH/data/train/star/bad.jpg
cp "$SCRATCH/data/train/star/0000.jpg" "$bad"
truncate -s 300 "$bad"

# checksums NAME RANKS FIRST STEPS KEY=VALUE... - writes the lines of so
# many steps to $SCRATCH/NAME.
checksums()
{
    local name=$1 ranks=$2 first=$3 steps=$4
    shift 4
    settings bench data.augment=imagenet train.batch_mode=global train.global_batch=24 \
        train.batch_per_rank=24 "$@"
    expect "checksums $name" 0 run "$ranks" bench loader "${sets[@]}" --crc --first "$first" \
        --steps "$steps"
    grep '^step ' "$out" > "$SCRATCH/$name"
    [[ $(wc -l < "$SCRATCH/$name") == "$steps" ]] ||
        broken_run "checksums $name: expected $steps lines"
}

# equal NAME - the lines are those of the first run.
equal()
{
    diff "$SCRATCH/first" "$SCRATCH/$1" > "$out" || broken_run "$1: other checksums"
}

checksums first 1 0 14 # almost three epochs of 121 images
for threads in 2 3 5 8; do
    checksums "threads$threads" 1 0 14 "data.threads=$threads"
    equal "threads$threads"
done
checksums readers 1 0 14 data.readers=9 data.threads=2 data.read_ahead_mb=0.01
equal readers
checksums micro 1 0 14 train.accumulate=4
equal micro
for cache in ram none; do
    checksums "cache_$cache" 1 0 14 "data.cache=$cache"
    equal "cache_$cache"
done
if have_mpi; then
    for ranks in 2 3 4; do
        checksums "ranks$ranks" "$ranks" 0 14 data.threads=2
        equal "ranks$ranks"
    done
    checksums both 2 0 14 train.accumulate=3 data.cache=ram data.threads=3
    equal both

    # A rank without memory for its batches ends all of them, in its own words.
    settings bench data.format=synthetic data.synthetic_images=200000 data.image_size=64 \
        data.eval_resize=0 train.batch_per_rank=100000
    # shellcheck disable=SC2016 # for the shell of each rank
    limited='[[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} == 0 ]] || ulimit -v 3000000; exec "$@"'
    expect "a rank without memory" 70 timeout 30 mpirun -n 2 bash -c "$limited" limited \
        "$CONVOY" bench loader "${sets[@]}" --crc --steps 1
    expect_one_error "a rank without memory" "rank 1: out of memory: a batch slot of"
fi
for first in 1 5 6 13; do
    checksums "from$first" 1 "$first" $((14 - first))
    tail -n $((14 - first)) "$SCRATCH/first" | diff - "$SCRATCH/from$first" > "$out" ||
        broken_run "from step $first: other checksums"
done

# One step of another seed, and one with another file, must not have the same.
checksums seed 1 0 14 train.seed=2
[[ $(sort "$SCRATCH/first" "$SCRATCH/seed" | uniq -d | wc -l) == 0 ]] ||
    broken "another seed: some checksums are the same"
cp "$SCRATCH/data/train/circle/0001.jpg" "$SCRATCH/data/train/star/0001.jpg"
checksums file 1 0 14
changed=$(diff "$SCRATCH/first" "$SCRATCH/file" | grep -c '^>')
((changed >= 2 && changed < 14)) ||
    broken "another file: $changed of 14 checksums changed, expected those of its steps alone"
exit "$failed"
