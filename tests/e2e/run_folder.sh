#!/usr/bin/env bash
# run_folder.sh - what a run leaves in its folder: nothing changes there before a command is known
# to be good, each part of a run keeps its configuration, and an evaluation ends no training.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
no_grace
ranks=(1)
have_mpi && ranks=(1 2)
val=data.val=$SCRATCH/data/val

# contents DIR - every file with its sum, and every link.
contents()
{
    (cd "$SCRATCH/$1" && find . -type f -exec cksum {} + && find . -type l -printf '%p %l\n') | sort
}

# untouched TEXT CODE KEY=VALUE... - the run ends with CODE and an error that holds TEXT, and the
# folder of the finished run is as it was.
untouched()
{
    local text=$1 code=$2 n
    shift 2
    for n in "${ranks[@]}"; do
        train_fails run "$code" "$text" "$n" "$@"
        [[ $(contents run) == "$before" ]] ||
            broken "$* on $n: the run folder has changed:" \
                "$(diff <(echo "$before") <(contents run) | grep '^[<>]' | cut -c1-100)"
    done
}

train run 1 "$val" train.max_steps=2 monitor.tensorboard=true "log.file=rank%r.txt"
touch "$SCRATCH/run/checkpoints/step-00000009.safetensors.tmp-1"
printf '{"event":"st' >> "$SCRATCH/run/metrics.jsonl" # as a kill leaves it
before=$(contents run)
more=("$val" train.max_steps=3 monitor.tensorboard=true "log.file=rank%r.txt")
untouched "data.train is not set" 64 "${more[@]}" data.train=
untouched "$SCRATCH/nowhere" 65 "${more[@]}" "data.train=$SCRATCH/nowhere"
untouched "data.val" 65 "${more[@]}" "data.val=$SCRATCH/data"
untouched "train.batch_per_rank" 64 "${more[@]}" train.batch_per_rank=121
untouched "the checkpoint is of resnet20" 65 "${more[@]}" model.name=resnet32
untouched "tensor fc.weight" 65 "${more[@]}" model.classes=11
untouched "tensor optimizer." 65 "${more[@]}" optimizer.name=adam
untouched "$SCRATCH/nowhere" 65 "${more[@]}" model.init="$SCRATCH/nowhere" checkpoint.resume=none
untouched "log.file" 64 "${more[@]}" "log.file=%x.txt"
untouched "log.trace_steps" 64 "${more[@]}" log.trace_steps=9-3
untouched "monitor.prometheus" 64 "${more[@]}" monitor.prometheus=%q
if ((${#ranks[@]} == 2)); then # what rank 1 alone cannot do
    mkdir "$SCRATCH/run/own1.txt"
    ranks=(2) && untouched "log.file" 74 "${more[@]}" "log.file=own%r.txt"
    rmdir "$SCRATCH/run/own1.txt" && ranks=(1 2)
fi
expect "top" 0 run 1 top "$SCRATCH/run" --once
expect_text "top" 1 "run         $SCRATCH/run: done"

# A configuration in a checkpoint that cannot be parsed is the file's fault, not the user's.
"$tools"/make_ckptmeta "$(latest run)" "$SCRATCH/bad.safetensors" config "train: [" ||
    broken "cannot make a checkpoint with a bad config"
untouched "$SCRATCH/bad.safetensors" 65 "${more[@]}" checkpoint.resume="$SCRATCH/bad.safetensors" \
    run.dir="$SCRATCH/elsewhere"

# A checkpoint of another version is refused by its name, whatever asks for it, and nothing is lost.
another="was written by another version of convoy and cannot be read"
cp -r "$SCRATCH/run" "$SCRATCH/other"
"$tools"/make_ckptmeta "$(latest run)" "$SCRATCH/other.safetensors" checkpoint_format "" ||
    broken "cannot make a checkpoint of another version"
cp "$SCRATCH/other.safetensors" "$(latest other)"
of_other=$(contents other)
for n in "${ranks[@]}"; do
    train_fails other 65 "step-00000002.safetensors: $another" "$n" "${more[@]}"
    expect_text "resume from another version" 0 "falling back"
done
expect_error "eval of another version" 65 "$another" 1 eval "$SCRATCH/other"
expect_error "predict of another version" 65 "$another" 1 predict "$SCRATCH/other" "$SCRATCH/data"
expect_error "export of another version" 65 "$another" 1 export "$SCRATCH/other" \
    "$SCRATCH/exported.safetensors"
[[ ! -e $SCRATCH/exported.safetensors ]] || broken "weights of another version are exported"
[[ $(contents other) == "$of_other" ]] || broken "the folder of another version has changed"
untouched "other.safetensors: $another" 65 "${more[@]}" run.dir="$SCRATCH/elsewhere" \
    checkpoint.resume="$SCRATCH/other.safetensors"
untouched "other.safetensors: $another" 65 "${more[@]}" run.dir="$SCRATCH/elsewhere" \
    model.init="$SCRATCH/other.safetensors"

# A good command begins, and what it said before is in the log too.
lines=$(wc -l < "$SCRATCH/run/log.txt")
train run 1 "${more[@]}"
[[ ! -e $SCRATCH/run/checkpoints/step-00000009.safetensors.tmp-1 ]] ||
    broken "a temporary file of a killed run stays"
for text in " images of 10 classes" "resumed from" "done; everything is in"; do
    sed "1,${lines}d" "$SCRATCH/run/log.txt" | grep -qF "$text" ||
        broken "log.txt does not hold '$text' of the second part"
    grep -cF "$text" "$SCRATCH/run/rank0.txt" | grep -q '^2$' || [[ $text == resumed* ]] ||
        broken "rank0.txt does not hold '$text' twice"
done

# A first failure can be found in the folder; the corrected command begins the run there.
train_fails first 65 "$SCRATCH/nowhere" 1 "data.train=$SCRATCH/nowhere"
grep -qF "error data.train: $SCRATCH/nowhere" "$SCRATCH/first/log.txt" ||
    broken "log.txt of a run that failed at first does not say why"
train_fails first 64 "data.train is not set" 1 data.train=
grep -qF "error data.train is not set" "$SCRATCH/first/log.txt" ||
    broken "log.txt of a run that failed twice does not say why"
train first 1 train.max_steps=1
[[ ! -e $SCRATCH/first/config-1.yaml ]] || broken "a failed command counts as a part of a run"

# Parts: their configurations stay, and the record says what changed.
expect_field "another length" run resume changed "train.max_steps was 2 and is 3"
cp "$SCRATCH/run/config.yaml" "$SCRATCH/part.yaml"
[[ -e $SCRATCH/run/config-1.yaml && ! -e $SCRATCH/run/config-2.yaml ]] ||
    broken "one change of train.max_steps left not one config: $(ls "$SCRATCH/run")"
cp -r "$SCRATCH/run" "$SCRATCH/finished"
train run 1 "${more[@]}"
diff -r "$SCRATCH/finished" "$SCRATCH/run" > "$out" ||
    broken_run "a run that has nothing to do changed its folder"
train run 1 "${more[@]}" train.max_steps=4 optimizer.lr=0.5
cmp "$SCRATCH/run/config-2.yaml" "$SCRATCH/part.yaml" ||
    broken "config-2.yaml is not that of the part before"
grep -q '^  lr: 0.5$' "$SCRATCH/run/config.yaml" ||
    broken "config.yaml is not that of the last part"
grep '"event":"resume"' "$SCRATCH/run/metrics.jsonl" | tail -n 1 > "$out"
expect_text "resume record" 1 "train.max_steps was 3 and is 4; optimizer.lr was 0.02 and is 0.5"

# An evaluation is no end of training: of a run that goes on, was stopped, or was killed.
train_in_background stopped 1 "$val" train.epochs=1000 train.eval_every=0 schedule.name=constant
wait_for_step stopped 3
kill -USR1 "$pid"
wait_to_end 60
((code == 75)) || broken "stopped: exit code $code, expected 75"
settings stopped "$val"
expect "eval" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest stopped)"
[[ $(events stopped "done") == 1 ]] || broken "an evaluation has recorded an end"
expect_field "eval" stopped eval checkpoint "$(latest stopped)"
sound_metrics stopped
expect "top of a stopped run" 0 run 1 top "$SCRATCH/stopped" --once
expect_text "top of a stopped run" 1 "ended with code 75"
expect_text "top of a stopped run" 1 "evaluation  top-1"
expect "report of a stopped run" 0 run 1 report "$SCRATCH/stopped" --out "$SCRATCH/report.html"
grep -q "ended with exit code 75" "$SCRATCH/report.html" ||
    broken "the report takes an evaluation for the end of a run"
grep -v '"event":"done"' "$SCRATCH/stopped/metrics.jsonl" > "$SCRATCH/killed.jsonl"
cp "$SCRATCH/killed.jsonl" "$SCRATCH/stopped/metrics.jsonl"
expect "report of a killed run" 0 run 1 report "$SCRATCH/stopped" --out "$SCRATCH/report.html"
grep -q "no end was recorded" "$SCRATCH/report.html" ||
    broken "the report takes a killed run for ended"

# A run is its folder, for every command: what one trains, the others take.
run=$SCRATCH/again
expect "train by words" 0 run 1 train "$SCRATCH/small.yaml" "$val" "run.dir=$run" \
    train.max_steps=2 checkpoint.resume=none train.eval_every=0.05
best=$(readlink -f "$run/checkpoints/best")
picture=$(find "$SCRATCH/data/val/circle" -name '*.jpg' | head -n 1)
mv "$run" "$run.moved" # what is in config.yaml as run.dir counts no more
run=$run.moved best=$run/checkpoints/${best##*/}
expect "train RUN" 0 run 1 train "$run/" train.max_steps=3
expect_text "train RUN" 1 "resumed from $run/checkpoints/step-00000002.safetensors"
[[ ! -e $SCRATCH/again ]] || broken "train RUN trains in the folder of its config.yaml"
ln -sfn step-00000002.safetensors "$run/checkpoints/best"
best=$run/checkpoints/step-00000002.safetensors
# The last step of an epoch takes images of the next one too.
train whole 1 "$val" train.epochs=1 train.batch_per_rank=7
expect "eval of a whole epoch" 0 run 1 eval "$SCRATCH/whole"
said=$(grep -o "epoch 1 step [0-9]* eval" "$SCRATCH/whole/log.txt")
expect_text "eval of a whole epoch" 1 "$said"
cp -rL "$run" "$SCRATCH/copied" # to where there are no links
expect "predict by a copied RUN" 0 run 1 predict "$SCRATCH/copied" "$picture"
expect_text "predict by a copied RUN" 1 "using $SCRATCH/copied/checkpoints/best"
for n in "${ranks[@]}"; do
    expect "eval RUN on $n" 0 run "$n" eval "$run"
    expect_text "eval RUN on $n" 1 "evaluating $best"
    expect_text "eval RUN on $n" 1 "epoch 1 step 2 eval on "
    result=$(grep -o "loss.*" "$out")
    expect "eval CHECKPOINT on $n" 0 run "$n" eval "$best"
    expect_text "eval CHECKPOINT on $n" 1 "$result"
    expect "eval CONFIG on $n" 0 run "$n" eval "$SCRATCH/small.yaml" "run.dir=$run" "$val"
    expect_text "eval CONFIG on $n" 1 "evaluating $best"
    expect_text "eval CONFIG on $n" 1 "$result"
    expect "eval CONFIG of a run on $n" 0 run "$n" eval "$SCRATCH/small.yaml" --checkpoint "$run" \
        "run.dir=$SCRATCH/evals" "$val"
    expect_text "eval CONFIG of a run on $n" 1 "$result"
done
[[ $(events again.moved eval) == $((3 + 3 * ${#ranks[@]})) ]] ||
    broken "evaluations of a run are not in its folder: $(events again.moved eval) of them"
expect "predict RUN" 0 run 1 predict "$run" "$picture"
expect_text "predict RUN" 1 "using $best"
grep -v "^using " "$out" > "$SCRATCH/by_run"
expect "predict CHECKPOINT" 0 run 1 predict "$best" "$picture"
cmp "$out" "$SCRATCH/by_run" || broken "predict RUN is not by its best checkpoint"
# Links that go round are left out.
mkdir -p "$SCRATCH/round/deep"
cp "$picture" "$SCRATCH/round/deep/a.jpg"
ln -s . "$SCRATCH/round/one"
ln -s ../../round "$SCRATCH/round/deep/two"
for folder in "$SCRATCH/round" "$SCRATCH/round/"; do
    expect "predict a folder" 0 run 1 predict "$run" "$folder" --top 1 --csv
    expect_text "predict a folder" 1 "a.jpg,1,"
    expect_text "predict a folder" 2 "a link to a folder that contains it; skipped"
done
expect "export RUN" 0 run 1 export "$run" "$SCRATCH/run.safetensors"
expect_text "export RUN" 1 "from $best at step 2"
grep -q "^$SCRATCH/run.safetensors: " "$out" || broken_run "export RUN: does not say the file"
expect_error "export RUN onto itself" 64 "belongs to the run (checkpoints/*)" 1 \
    export "$run" "$best"
expect "inspect checkpoint RUN" 0 run 1 inspect checkpoint "$run"
expect_text "inspect checkpoint RUN" 1 "$best"
expect "inspect memory RUN" 0 run 1 inspect memory "$run"
expect "inspect memory CHECKPOINT" 0 run 1 inspect memory "$best"
expect "bench step RUN" 0 run 1 bench step "$run" --steps 1 --warmup 1
expect "scale RUN" 0 run 1 scale "$run" --print mpirun scale.ranks=1 "scale.dir=$SCRATCH/scale"
expect_text "scale RUN" some " train $run --set run.dir="

# Last words: what a run has come to, and commands that work as they are pasted.
train words 1 "$val" train.max_steps=2 train.eval_every=0.05
cp -r "$SCRATCH/words" "$SCRATCH/its own"
expect "last words" 0 run 1 train "$SCRATCH/its own" train.max_steps=3 optimizer.lr=1e-9
expect_text "last words" 1 "epoch 1 step 3 eval on "
grep -qE '^best top-1 [0-9.]+ % in epoch 1 \(step [123]\), trained for [0-9]+ s$' "$out" ||
    broken_run "last words: no best top-1"
top1=$(grep -oE 'best top-1 [0-9.]+' "$out" | cut -d' ' -f3)
eval_command=$(sed -n 's/^evaluate: *//p' "$out") export_command=$(sed -n 's/^export: *//p' "$out")
expect "pasted evaluation" 0 bash -c "$eval_command"
expect_text "pasted evaluation" 1 "top-1 $top1 %"
expect "pasted export" 0 bash -c "$export_command"
[[ -s "$SCRATCH/its own/best.safetensors" ]] || broken "the pasted export has written nothing"
mkdir "$SCRATCH/five"
cp -r "$SCRATCH"/data/val/{circle,star,ring,square,cross} "$SCRATCH/five"
pushd "$SCRATCH" > /dev/null || exit 1 # a folder with the name of an option
expect "five classes" 0 run 1 train "$SCRATCH/small.yaml" run.dir=-few train.max_steps=1 \
    "data.train=$SCRATCH/five" "data.val=$SCRATCH/five"
expect_text "five classes" 0 "top-5"
expect_text "five classes" 1 "step 1 eval on "
eval_command=$(sed -n 's/^evaluate: *//p' "$out") export_command=$(sed -n 's/^export: *//p' "$out")
expect "pasted evaluation of -few" 0 bash -c "$eval_command"
expect "pasted export of -few" 0 bash -c "$export_command"
popd > /dev/null || exit 1
expect "top of five classes" 0 run 1 top "$SCRATCH/-few" --once
expect_text "top of five classes" 0 "top-5"
expect_text "top of five classes" 1 "evaluation  top-1"

rm "$run/checkpoints/best"
expect "eval RUN without a best" 0 run 1 eval "$run"
expect_text "eval RUN without a best" 1 "evaluating $run/checkpoints/step-00000003.safetensors"
rm "$run/checkpoints/latest"
expect_error "eval RUN without any" 65 "$run: the run has no checkpoint" 1 eval "$run"
expect_error "predict DATA" 64 "$SCRATCH/data: not a run folder" 1 predict "$SCRATCH/data" x
exit "$failed"
