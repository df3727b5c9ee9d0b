# shellcheck shell=bash
# shellcheck disable=SC2154 # gpu_check.sh sets what is not set here
# train_checks.sh - what scripts/gpu_check.sh trains on and how: JPEG files, CIFAR-10. Sourced.

# Class folders of JPEGs of about ImageNet's size: links to those of .gpu/images.tar,
# else made here.
images_folder() {
    local to=$1 i=0 copy file
    if [[ ! -f .gpu/images.tar ]]; then
        "$CONVOY_TOOLS/make_shapes" "$to" --train "${2:-512}" --val 8 --size 400
        return
    fi
    mkdir -p "$to/originals" && tar -xf .gpu/images.tar -C "$to/originals" || return 74
    for class in 0 1 2 3 4 5 6 7 8 9; do mkdir -p "$to/train/$class"; done
    for copy in {1..20}; do
        while read -r file; do
            ln -s "$file" "$to/train/$((i++ % 10))/$copy-$(basename "$file")"
        done < <(find "$to/originals" -type f -iname '*.jp*g' | sort)
    done
    ((i > 0))
}

train_from_files() { # the first epoch warms up
    local scratch=$1 plans=$2 rehearse=$3
    local settings=(--set train.precision=bf16 --set train.batch_per_rank=256 --set train.epochs=16)
    [[ -n $rehearse ]] && settings=(--set train.precision=bf16 --set train.batch_per_rank=2
        --set train.max_steps=12 --set train.epochs=2 --set model.name=resnet20
        --set data.image_size=16 --set data.eval_resize=16)
    images_folder "$scratch/jpegs" ${rehearse:+2} &&
        "$CONVOY" train configs/resnet50-imagenet.yaml --set data.train="$scratch/jpegs/train" \
            --set data.val= --set run.dir="$scratch/files" \
            --set device.plan_cache="$plans" --set device.backend=cuda \
            --set checkpoint.every_epochs=0 "${settings[@]}"
}

# Median rate and mean wait of the steps after the first epoch,
# and the share of the rate on synthetic images.
tell_files() { # CHECK
    local synthetic
    synthetic=$(sed -n 's/.*: \([0-9]*\) images.s, .* ms a step$/\1/p' "$work/$1.log")
    awk 'index($0, "\"event\":\"step\"") && match($0, /"epoch":[0-9]+/) &&
            substr($0, RSTART + 8, RLENGTH - 8) > 0 {
            n = split("images_per_s step_ms data_wait_ms", key, " ")
            for (k = 1; k <= n; k++) {
                match($0, "\"" key[k] "\":[^,}]+"); skip = length(key[k]) + 3
                printf "%s ", substr($0, RSTART + skip, RLENGTH - skip)
            }
            print "" }' "$work/from_files.jsonl" 2> /dev/null | sort -g |
        awk -v synthetic="${synthetic:-0}" '{ rate[NR] = $1; step += $2; wait += $3 }
            END {
                if (NR == 0) exit
                median = rate[int((NR + 1) / 2)]
                printf "from JPEG files: %.0f images/s (median of %d steps), ", median, NR
                printf "%.1f %% of %.0f on synthetic images; ",
                       (synthetic > 0 ? 100 * median / synthetic : 0), synthetic
                printf "data wait %.2f ms of %.2f ms a step\n", wait / NR, step / NR
            }'
}

jpeg_files() { # SECONDS CHECK: the check that had the rate on synthetic images
    check from_files "$1" train_from_files "$scratch" "$plans" "$rehearse"
    cp "$scratch/files/metrics.jsonl" "$work/from_files.jsonl" 2> /dev/null &&
        tell_files "$2" > "$work/from_files.txt" && say "    $(< "$work/from_files.txt")"
}

train_cifar() { # PRECISION CIFAR SCRATCH REHEARSE PLANS
    local settings=(--set train.epochs=60 --set train.batch_per_rank=128 --set train.eval_every=5)
    [[ -n $4 ]] && settings=(--set train.epochs=1 --set train.batch_per_rank=2
        --set train.max_steps=3 --set model.name=mlp --set data.image_size=8
        --set data.eval_resize=8)
    "$CONVOY" train configs/resnet20-cifar10.yaml --set data.train="$2/train" \
        --set data.val="$2/test" --set run.dir="$3/cifar_$1" \
        --set device.backend=cuda --set train.precision="$1" \
        --set device.plan_cache="$5" "${settings[@]}"
}

top1() {
    awk 'index($0, "\"event\":\"eval\"") && match($0, /"top1":[^,}]+/) {
            v = 100 * substr($0, RSTART + 7, RLENGTH - 7) }
        END { print v }' "$work/cifar_$1.jsonl"
}

accuracies() { # at least 91 %, and 16 bits within 0.5 points of fp32
    echo "top-1: fp32 $1 %, bf16 $2 %, fp16 $3 %"
    awk -v a="$1" -v b="$2" -v c="$3" \
        'BEGIN { exit !(a >= 91 && b >= 91 && c >= 91 && b >= a - 0.5 && c >= a - 0.5) }'
}

have_cifar() {
    [[ -z ${CIFAR:-} ]] || return 0
    CIFAR=$scratch/cifar10
    if [[ -n $rehearse ]]; then
        "$bin/make_shapes" "$CIFAR" --train 2 --val 1 --size 32 > /dev/null &&
            mv "$CIFAR/val" "$CIFAR/test"
    else
        tar -xzf .gpu/cifar10-jpeg.tar.gz -C "$scratch"
    fi
}
