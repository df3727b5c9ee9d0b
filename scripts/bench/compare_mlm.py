#!/usr/bin/env python3
"""Ten updates of masked language modelling by Convoy, replayed by transformers.

    scripts/bench/compare_mlm.py DATA [--convoy ./convoy] [--updates 10] [--ranks 1]
        [--accumulate 1] [--break none] [--tokens 64] [--lr 5e-3] [--long] [--run DIR]

DATA is a folder that fairseq-preprocess wrote. A RobertaForMaskedLM with two layers and random
weights is saved; Convoy trains it from that file with dropout off. The batches are those that
`convoy inspect dataset --batch` writes. transformers makes the same updates with torch's AdamW and
the rates of metrics.jsonl. Compared are the losses, which must be within 1e-4 of each other, and
the logits of Convoy's exported last weights with torch's own, within 1e-3 of the largest, and the
losses on the validation set, within 3 %. After hundreds of updates rounding tells the two apart:
then only the last of these counts (--long). Convoy's run is kept in DIR; one that is there already
is taken, of the same other options.

Needs torch, transformers, safetensors; tested with torch 2.15.0 and transformers 5.24.0.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import RobertaConfig, RobertaForMaskedLM


def words_of(data):
    with open(os.path.join(data, "dict.txt")) as f:
        return 4 + sum(1 for _ in f) + 1  # specials, words, <mask>


def make_model(words, tokens):
    """Its table of one segment is part of the positions here and in fairseq: it does not learn."""
    torch.manual_seed(3)
    model = RobertaForMaskedLM(RobertaConfig(
        vocab_size=words, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=512, max_position_embeddings=tokens + 2, type_vocab_size=1,
        layer_norm_eps=1e-5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        pad_token_id=1, bos_token_id=0, eos_token_id=2)).train()
    segments = model.roberta.embeddings.token_type_embeddings.weight.requires_grad_(False)
    segments.zero_()
    return model


def padded(batch, tokens):
    """ids, mask and labels [N,S] as transformers takes them, from a batch of Convoy's."""
    starts = batch["starts"].tolist()
    count = len(starts) - 1
    ids = torch.full((count, tokens), 1)
    mask = torch.zeros((count, tokens), dtype=torch.long)
    labels = torch.full((count, tokens), -100)
    for n in range(count):
        length = starts[n + 1] - starts[n]
        ids[n, :length] = batch["ids"][starts[n]:starts[n + 1]]
        mask[n, :length] = 1
    where = batch["where"]
    for row, label in zip(batch["rows"].tolist(), batch["labels"].tolist()):
        if row >= 0:
            labels[where[row, 0], where[row, 1]] = label
    return ids.long(), mask, labels.long()


def run(words):
    print("+", " ".join(words), flush=True)
    subprocess.run(words, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--break", dest="mode", default="none")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--run")
    options = parser.parse_args()
    model = make_model(words_of(options.data), options.tokens)
    batch = 16 // options.ranks // options.accumulate
    with tempfile.TemporaryDirectory() as folder:
        first = os.path.join(folder, "first.safetensors")
        state = {k: v.clone().contiguous() for k, v in model.state_dict().items()}
        save_file(state, first)
        keys = ["data.dir=" + options.data, "data.tokens=%d" % options.tokens,
                "data.break_mode=" + options.mode,
                "train.batch_per_rank=%d" % batch, "train.accumulate=%d" % options.accumulate,
                "train.max_steps=%d" % options.updates,
                "optimizer.lr=%g" % options.lr,
                "schedule.warmup_steps=%d" % max(3, options.updates // 10),
                "schedule.decay_steps=%d" % (2 * options.updates), "model.init=" + first]
        config = os.path.join(folder, "config.yaml")
        with open(config, "w") as f:
            f.write(CONFIG)
        out = options.run or os.path.join(folder, "run")
        launch = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(options.ranks)]
        if not os.path.exists(out):
            run((launch if options.ranks > 1 else []) +
                [options.convoy, "train", config] + keys + ["run.dir=" + out])
        run([options.convoy, "export", out, os.path.join(folder, "last.safetensors")])
        seen = [key for key in keys if not key.startswith(("data.dir", "model.init"))]

        def batch_of(step, *more):
            path = os.path.join(folder, "batch.safetensors")
            done = subprocess.run([options.convoy, "inspect", "dataset", options.data] + seen +
                                  ["train.batch_per_rank=16", "train.accumulate=1", "--batch",
                                   str(step), "--out", path, *more], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
            return padded(load_file(path), options.tokens) if done.returncode == 0 else None

        batches = [batch_of(k) for k in range(options.updates)]
        validation = []
        while len(validation) == 0 or validation[-1] is not None:
            validation.append(batch_of(len(validation), "--role", "val"))
        steps = []
        with open(os.path.join(out, "metrics.jsonl")) as f:
            records = [json.loads(line) for line in f]
        steps = [r for r in records if r["event"] == "step"]
        evaluated = [r["loss"] for r in records if r["event"] == "eval"][-1]
        last = load_file(os.path.join(folder, "last.safetensors"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0, betas=(0.9, 0.98), eps=1e-6,
                                  weight_decay=0.01)
    worst = 0
    for step, (ids, mask, labels) in zip(steps, batches):
        for group in optimizer.param_groups:
            group["lr"] = step["lr"]
        optimizer.zero_grad()
        loss = model(ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        worst = max(worst, abs(loss.item() - step["loss"]))
        if step["step"] % max(1, options.updates // 20) == 0:
            print("step %2d  convoy %.6f  torch %.6f" % (step["step"], step["loss"], loss.item()))
    own = make_model(words_of(options.data), options.tokens)
    print(own.load_state_dict(last, strict=True))
    model.eval()
    total = count = 0
    with torch.no_grad():
        a = model(ids, attention_mask=mask).logits
        b = own.eval()(ids, attention_mask=mask).logits
        for ids, mask, labels in validation[:-1]:
            n = (labels >= 0).sum().item()
            total += n * model(ids, attention_mask=mask, labels=labels).loss.item() if n else 0
            count += n
    apart = ((a - b).abs().max() / a.abs().max()).item()
    print("largest difference: loss %.2e, logits of the last weights %.2e of the largest" %
          (worst, apart))
    print("validation: convoy %.4f, torch %.4f" % (evaluated, total / count))
    near = abs(evaluated - total / count) < 0.03 * evaluated and len(steps) == options.updates
    return 0 if near and (options.long or (worst < 1e-4 and apart < 1e-3)) else 1


CONFIG = """
model: {name: roberta_tiny, dropout: 0, attention_dropout: 0}
data: {format: fairseq}
train: {epochs: 1000, precision: fp32}
optimizer: {name: adamw, lr_scaling: none, betas: [0.9, 0.98], eps: 1e-6,
            weight_decay: 0.01, decay_skip: none, clip_norm: 1}
schedule: {name: poly, power: 1, min_lr: 0, warmup_lr: 0}
log: {every: 1}
"""

if __name__ == "__main__":
    sys.exit(main())
