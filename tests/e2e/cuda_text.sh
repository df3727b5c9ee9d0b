#!/usr/bin/env bash
# cuda_text.sh - a network of text on the CUDA backend: as on the CPU in fp32, close in 16 bits,
# with canvases of several sizes; recorded or not, stopped or not, on one rank or two.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh

# Sentences of 1 to 28 words of 20.
data=$SCRATCH/words
mkdir -p "$data"
for set in train valid; do
    awk -v state="${#set}" '
        function draw(n)
        {
            state = (state * 16807) % 2147483647
            return int(state / 2147483647 * n)
        }
        BEGIN {
            for (i = 0; i < 60; i++) {
                line = "w" draw(20)
                for (more = draw(28); more > 0; more--) line = line " w" draw(20)
                print line
            }
        }' > "$SCRATCH/$set"
done
"$tools"/make_tokens "$data" "train=$SCRATCH/train" "valid=$SCRATCH/valid" || broken "make_tokens"
cat > "$SCRATCH/small.yaml" << END
model: {name: roberta_tiny, layers: 1, hidden: 32, heads: 2}
data: {dir: $data, tokens: 32, break_mode: complete, threads: 1}
train: {precision: fp32, epochs: 4, max_steps: 24, batch_per_rank: 4}
optimizer: {name: adamw, lr: 2.0e-3, lr_scaling: none}
schedule: {name: constant, warmup_epochs: 0}
device: {backend: cuda, threads: 1}
log: {every: 1}
END

train cpu 1 device.backend=cpu
train fp32 1
expect_text "nothing prevents recording" 0 "cannot be recorded as a CUDA graph"
# A micro-batch takes the smallest of the programs that holds it: here of 80, 96, 112, 128 places.
as_cpu_at_first "fp32" fp32
follows "fp32" fp32 cpu "$(in_any_order 1e-5)"
near "fp32" fp32 cpu "$(in_any_order 1e-5)"
train calm_cpu 1 model.dropout=0 model.attention_dropout=0 device.backend=cpu
train calm 1 model.dropout=0 model.attention_dropout=0
follows "without dropout" calm calm_cpu "$(in_any_order 1e-5)"
far "without dropout it is another run" calm fp32 1e-3
train bf16 1 train.precision=bf16
expect_text "attention by cuDNN" 1 "attention_bwd 4 of 4 shapes"
follows "bf16" bf16 cpu 0.03
train own 1 train.precision=bf16 device.attention=own
follows "attention by our kernels" own cpu 0.03
far "they round elsewhere" own bf16 1e-9
far "bf16 is another computation" bf16 cpu 1e-5
train fp16 1 train.precision=fp16
follows "fp16" fp16 cpu 0.01

# Each number of places has programs and recordings of its own.
for precision in fp32 fp16; do
    train "eager_$precision" 1 "train.precision=$precision" device.cuda_graph=false
    same "$precision, recorded and eager" "$precision" "eager_$precision"
    [[ $(losses "$precision") == "$(losses "eager_$precision")" ]] ||
        broken "$precision, recorded and eager: the losses differ"
done
train parts 1 train.precision=fp16 checkpoint.every_steps=7 train.max_steps=7
train parts 1 train.precision=fp16
expect_text "a run goes on" 1 "resumed from"
same "whole and in parts" fp16 parts
CONVOY_EMU_SEED=7 train reordered 1
same "whatever the order between streams" fp32 reordered

# The head's gradient of the words is added to over micro-batches, then the embedding's.
train micro 1 train.batch_per_rank=2 train.accumulate=2
near "1 x 4 and 1 x 2 accumulated twice" fp32 micro "$(in_any_order 1e-5)"
train micro_eager 1 train.batch_per_rank=2 train.accumulate=2 device.cuda_graph=false
same "accumulated, recorded and eager" micro micro_eager

# Texts that are classified: segments, the first place of each sequence.
classes=$SCRATCH/classes
mkdir -p "$classes"/{input0,input1,label}
for set in train valid; do
    awk '{ print $1 < "w4" ? "yes" : "no" }' "$SCRATCH/$set" > "$SCRATCH/$set.label"
done
for part in input0 input1; do
    "$tools"/make_tokens --dict "$data/dict.txt" "$classes/$part" "train=$SCRATCH/train" \
        "valid=$SCRATCH/valid" || broken "make_tokens $part"
done
"$tools"/make_tokens "$classes/label" "train=$SCRATCH/train.label" \
    "valid=$SCRATCH/valid.label" || broken "make_tokens label"
classify=(model.name=bert_tiny model.head=classify "data.dir=$classes" data.tokens=64
    data.break_mode=none train.max_steps=4)
train classify_cpu 1 "${classify[@]}" device.backend=cpu
train classify 1 "${classify[@]}"
follows "classes" classify classify_cpu "$(in_any_order 1e-5)"
near "classes" classify classify_cpu "$(in_any_order 1e-5)"

if have_mpi; then
    train staged 2 train.batch_per_rank=2
    near "1 x 4 and 2 x 2 through the host" fp32 staged "$(in_any_order 1e-5)"
    emulated || exit "$failed"
    # Texts of the ranks differ in length, but all take the same programs, which sum over them.
    export CONVOY_EMU_OWN_DEVICES=1
    train nccl 2 train.batch_per_rank=2
    same "2 x 2 through the host and by the devices" staged nccl
    train ranks_eager 2 train.batch_per_rank=2 device.cuda_graph=false
    same "2 x 2, recorded and eager" nccl ranks_eager
    train ranks_micro 2 train.batch_per_rank=1 train.accumulate=2
    near "2 x 2 and 2 x 1 accumulated twice" nccl ranks_micro 1e-5
    half=(train.batch_per_rank=2 train.precision=bf16)
    train half 2 "${half[@]}"
    train half_eager 2 "${half[@]}" device.cuda_graph=false
    same "bf16: 2 x 2, recorded and eager" half half_eager
    follows "bf16: 2 x 2" half staged 0.03
fi
exit "$failed"
