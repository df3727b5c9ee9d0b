#!/usr/bin/env bash
# text.sh - a network learns masked words the same on any ranks and after a stop; what becomes of it
# in eval, predict, export and in a classification of texts and of pairs; what is refused.
source tests/e2e/lib/common.sh
text=$SCRATCH/text
mkdir -p "$text"

# make_sentences NAME COUNT SEED - pairs of sentences, each glad or sad: NAME.0 and NAME.1,
# NAME.label of the first, and NAME.both in one line.
make_sentences()
{
    awk -v base="$text/$1" -v count="$2" -v state="$3" '
        function draw(n)
        {
            state = (state * 16807) % 2147483647
            return int(state / 2147483647 * n)
        }
        function say(glad) {
            return "the " noun[draw(6) + 1] " was " \
                (glad ? good[draw(4) + 1] : bad[draw(4) + 1]) \
                " and i " (glad ? "liked" : "hated") " it"
        }
        BEGIN {
            split("film book song meal play day", noun)
            split("good fine great lovely", good)
            split("bad poor awful dull", bad)
            for (i = 0; i < count; i++) {
                glad = draw(2)
                first = say(glad)
                second = say(draw(2))
                print first > (base ".0")
                print second > (base ".1")
                print glad ? "yes" : "no" > (base ".label")
                print first " . " second > (base ".both")
            }
        }'
}

make_sentences train 200 7
make_sentences valid 60 11
data=$SCRATCH/words
classes=$SCRATCH/classes
pairs=$SCRATCH/pairs
mkdir -p "$data" "$classes"/{input0,label} "$pairs"/{input0,input1,label}
tokens() # OUT KIND OPTION... - both sets
{
    "$tools"/make_tokens "${@:3}" "$1" "train=$text/train.$2" "valid=$text/valid.$2" ||
        broken "make_tokens $1"
}
tokens "$data" both
tokens "$classes/input0" 0 --dict "$data/dict.txt"
tokens "$classes/label" label
cp "$classes"/input0/* "$pairs/input0"
cp "$classes"/label/* "$pairs/label"
tokens "$pairs/input1" 1 --dict "$data/dict.txt"
cat > "$SCRATCH/small.yaml" << END
model: {name: roberta_tiny, layers: 1, hidden: 32, heads: 2}
data: {dir: $data, tokens: 24, break_mode: complete, threads: 1}
train: {precision: fp32, epochs: 4, batch_per_rank: 8}
optimizer: {name: adamw, lr: 5.0e-3, lr_scaling: none}
schedule: {name: constant, warmup_epochs: 0}
device: {backend: cpu, threads: 1}
log: {every: 1}
END

# ---- masked words ----
train whole 1
expect_text "whole" 1 "at most 24 tokens"
train parts 1 train.max_steps=37
train parts 1
expect_text "parts" some "resumed from"
same "in one piece and in two" whole parts
train micro 1 train.batch_per_rank=4 train.accumulate=2
follows "1 x 8 and 1 x 4 accumulated twice" whole micro 1e-4
if have_mpi; then
    train two 2 train.batch_per_rank=4 train.epochs=1
    train one 1 train.epochs=1
    follows "1 x 8 and 2 x 4" one two 1e-5
fi
train other 1 train.seed=2 train.max_steps=3
far "two seeds" whole other 1e-3
train few 1 data.mask=0.01 train.max_steps=40
[[ $(grep -c '"loss":null' "$SCRATCH/few/metrics.jsonl") -gt 2 ]] ||
    broken "few: no step without a loss"
cmp -s <(grep '"event":"step"' "$SCRATCH/few/metrics.jsonl" | grep '"loss":null') \
    <(grep '"masked":0,"ppl":null' "$SCRATCH/few/metrics.jsonl") ||
    broken "few: not only steps without masked words are without a loss"
run=$SCRATCH/whole

# The same words, masked at the same places, on any threads and in any version.
for threads in 1 3; do
    expect "bench loader --crc" 0 run 1 bench loader "$SCRATCH/small.yaml" --crc --steps 2 \
        "data.threads=$threads"
    [[ $(sed -n 's/.* crc \([^ ]*\) .*/\1/p' "$out" | xargs) == "05cbc1ef c0a3648f" ]] ||
        broken_run "bench loader --crc, $threads threads: other words, or other masks"
done
expect "eval" 0 run 1 eval "$run"
expect_text "eval" 1 "of the masked words found, 60 sequences"
expect_text "eval" 1 "(base 2), ppl"
expect "inspect checkpoint" 0 run 1 inspect checkpoint "$run"
expect "inspect dataset" 0 run 1 inspect dataset "$data" data.tokens=24
expect "a batch of one" 0 run 1 inspect dataset "$data" data.tokens=24 train.batch_per_rank=1 \
    --batch 0 --out "$SCRATCH/one.safetensors"
expect_text "a batch of one" 1 "one.safetensors: 1 sequence, "
mkdir -p "$SCRATCH/apart"
cp -r "$data" "$SCRATCH/apart/train"
cp -r "$data" "$SCRATCH/apart/val"
expect "inspect dataset, sets apart" 0 run 1 inspect dataset "$SCRATCH/apart" data.tokens=24
expect_text "inspect dataset, sets apart" 2 "data.break_mode"
expect_text "inspect dataset, sets apart" 0 "image"
expect "bench step" 0 run 1 bench step "$SCRATCH/small.yaml" --steps 2 --warmup 1
expect_text "bench step" 1 "tokens_per_s"
expect "bench loader" 0 run 1 bench loader "$SCRATCH/small.yaml" --steps 2 --input now
expect "inspect memory" 0 run 1 inspect memory "$SCRATCH/small.yaml" data.dir=
expect_text "inspect memory" some "sequences per micro-batch"
expect "inspect config" 0 run 1 inspect config "$SCRATCH/small.yaml"
expect_text "inspect config" 1 "longest sequence 24 tokens"
expect "inspect config of classes" 0 run 1 inspect config "$SCRATCH/small.yaml" \
    model.head=classify data.break_mode=none "data.dir=$classes" model.hidden=256
expect_text "inspect config of classes" 1 "memory           0.0" # of 50,265 words 0.2 GiB
expect "inspect model" 0 run 1 inspect model roberta_large data.tokens=512
expect_text "inspect model" 1 "parameters 355411033"
expect "inspect model, masked" 0 run 1 inspect model roberta_base data.tokens=64 data.mask=0.3

# ---- <mask> filled in ----
lines=$SCRATCH/lines
printf '<mask> film was good and i liked <mask>\n\nthe zebra was <mask>\n' > "$lines"
expect "predict" 0 run 1 predict "$run" "$lines" --top 1
expect_text "predict" 1 "$lines:1:1"
expect_text "predict" 1 "$lines:1:8"
expect_text "predict" 1 "$lines:3:4"
expect_text "predict" 1 'read as <unk>: 1; the first is "zebra"'
grep -A1 ":1:1$" "$out" | grep -q '%  the$' || broken_run "predict: the first word is not 'the'"
expect "predict --csv" 0 run 1 predict "$run" - --csv --top 2 < "$lines"
expect_text "predict --csv" 2 "standard input,1,8,"
expect "predict --json" 0 run 1 predict "$run" "$lines" --json --top 1
expect_text "predict --json" 1 '"line":1,"position":8,"top":[{"class":'
yes '<mask>' | head -22 | paste -sd ' ' > "$lines"
expect "predict many" 0 run 1 predict "$run" "$lines" --csv --top 1
expect_text "predict many" 22 "$lines,1,"
yes the | head -23 | paste -sd ' ' > "$lines"
echo "the film was <mask>" >> "$lines"
expect "predict too long" 65 run 1 predict "$run" "$lines" --csv --top 1
expect_one_error "predict too long" "$lines:1: 23 words; the network reads at most 22 (data.tokens)"
expect_text "predict too long" 1 "$lines,2,4,1,"
printf 'the <mask>\0' > "$lines"
expect_error "a zero byte" 65 "$lines:1: contains a zero byte" 1 predict "$run" "$lines"
echo "the film was good" > "$lines"
expect_error "no mask" 65 "$lines:1: no <mask> in this line" 1 predict "$run" "$lines"
expect_error "no file" 65 "nowhere: " 1 predict "$run" nowhere

# ---- classes ----
expect "export" 0 run 1 export "$run" "$SCRATCH/whole.safetensors"
grep -qa '"lm_head.decoder.weight"' "$SCRATCH/whole.safetensors" || broken "no decoder is exported"
classify=(model.head=classify data.break_mode=none "data.dir=$classes" train.epochs=2)
train glad 1 "${classify[@]}" "model.init=$run"
expect_text "from a checkpoint" 1 \
    "layers that it does not have start from scratch: classifier.dense, classifier.out_proj"
train again 1 "${classify[@]}" "model.init=$SCRATCH/whole.safetensors"
same "from a checkpoint and from its export" glad again
expect "eval glad" 0 run 1 eval "$SCRATCH/glad" --per-class "$SCRATCH/classes.csv" \
    --confusion "$SCRATCH/confusion.csv"
expect_text "eval glad" 1 ", top-1 100.00 %"
[[ $(cut -d, -f2 "$SCRATCH/classes.csv" | sort | paste -sd' ') == "class no yes" ]] ||
    broken "the table of classes has other classes"
printf 'the film was awful and i hated it\nthe day was great and i liked it\n' > "$lines"
expect "predict glad" 0 run 1 predict "$SCRATCH/glad" "$lines" --top 1
[[ $(grep -o '[a-z]*$' "$out" | grep -xE 'yes|no' | paste -sd' ') == "no yes" ]] ||
    broken_run "predict glad: not 'no' and 'yes'"
train pairs 1 "${classify[@]}" "data.dir=$pairs" "model.init=$SCRATCH/glad"
expect_text "from a classification" 1 "weights from"
expect_text "from a classification" 0 "are cut"
printf 'the film was awful and i hated it\tthe day was great and i liked it\n' > "$lines"
expect "predict pairs" 0 run 1 predict "$SCRATCH/pairs" "$lines" --top 1 --csv
expect_text "predict pairs" 1 "$lines,1,1,no,"
expect_error "two texts for one" 65 \
    "$lines:1: two texts, with a tab between them; the network has learnt single texts" \
    1 predict "$SCRATCH/glad" "$lines"
echo "the film was good" > "$SCRATCH/single"
expect_error "one text for two" 65 \
    "single:1: one text; the network has learnt pairs: a tab must separate two texts" \
    1 predict "$SCRATCH/pairs" "$SCRATCH/single"
train bert 1 "${classify[@]}" model.name=bert_tiny "data.dir=$pairs" train.max_steps=3 \
    data.tokens=10
expect_text "bert" 1 "200 of 200 sequences are longer than data.tokens (10) and are cut; pairs"
expect "predict bert" 0 run 1 predict "$SCRATCH/bert" "$lines" --top 1

# ---- refused ----
other=$SCRATCH/other
mkdir -p "$other"
sed 's/film/movie/' "$data/dict.txt" > "$SCRATCH/dict.txt"
for set in train valid; do sed 's/film/movie/' "$text/$set.both" > "$text/$set.movie"; done
tokens "$other" movie --dict "$SCRATCH/dict.txt"
differs="differs from the dictionary of"
train_fails init 65 "$differs" 1 "data.dir=$other" "model.init=$run"
train_fails whole 65 "$differs" 1 "data.dir=$other"
train_fails vals 65 "$differs" 1 data.dir= "data.train=$data" "data.val=$other"
expect_error "eval of other words" 65 "$differs" 1 eval "$run" "data.val=$other"
expect_error "eval of no labels" 65 "data.val has no labels, which model.head: classify requires" \
    1 eval "$SCRATCH/glad" "data.val=$data"
train_fails words 64 "model.classes is 9, but the dictionary" 1 model.classes=9
expect_error "eval --per-class" 64 \
    "--per-class: roberta_tiny (model.name) learns masked words" 1 eval "$run" \
    --per-class "$SCRATCH/a.csv"
expect_error "eval --gallery" 64 "reads text" 1 eval "$SCRATCH/glad" --gallery "$SCRATCH/a.html"
expect_error "export" 64 "only .safetensors" 1 export "$run" "$SCRATCH/a.onnx"
expect_error "preview" 64 "reads text" 1 preview "$SCRATCH/small.yaml" --out "$SCRATCH/a.html"
expect_error "bench decode" 64 "reads text" 1 bench decode "$SCRATCH/small.yaml"
expect_error "pack" 64 "contains text" 1 pack "$data" "$SCRATCH/packed"
expect_error "index" 64 "needs no index" 1 index "$data"
expect_error "predict --model" 64 "reads text" 1 predict "$SCRATCH/whole.safetensors" "$lines" \
    --model roberta_base
train_fails split 64 "data.val_split requires a network that reads images" 1 data.val_split=0.1
for key in data.image_size=32 data.mean=0 data.augment=none model.bn=sync; do
    train_fails images 64 "${key%=*} requires a network that reads images" 1 "$key"
done
train_fails long 64 "data.tokens" 1 data.tokens=32769
train_fails weights 64 "train.class_weights requires model.head: classify" 1 \
    train.class_weights=auto
train_fails head 65 "data.train has no labels; set model.head: mlm" 1 model.head=classify
train_fails labels 65 "has labels, which requires model.head: classify" 1 "data.dir=$classes"
train_fails vals 65 "data.val has labels, which requires model.head: classify" 1 data.dir= \
    "data.train=$data" "data.val=$classes"
train_fails trains 65 "data.train has no labels; set model.head: mlm" 1 model.head=classify \
    data.dir= "data.train=$data" "data.val=$classes"
make_data "$SCRATCH/images" 2 2
train_fails images 65 "has images" 1 "data.dir=$SCRATCH/images"
cat > "$SCRATCH/small.yaml" << END
model: {name: resnet20}
data: {dir: $data}
END
train_fails resnet 65 "has text (fairseq), but resnet20 (model.name) reads images" 1
exit "$failed"
