#!/usr/bin/env python3
"""Paragraphs classified by their article: from learnt weights, from scratch, and by transformers.

    scripts/bench/compare_text_finetune.py DATA RUN --bpe FILE [--convoy ./convoy] [--classes 20]
        [--labels 0] [--tokens 64] [--epochs 10] [--lr 1e-3] [--dropout 0] [--seeds 3]
        [--threads 1]

DATA is a folder that fairseq-preprocess wrote of wikitext, RUN a run of roberta_tiny that Convoy
learnt masked words on it with (compare_mlm.py --run keeps one), FILE the byte-pair code of
tokenizers. The task is made of the longest articles of the training set: every fourth paragraph is
for validation, and of the others --labels of each article (0: all) are for training. From RUN's
weights and one new head Convoy and transformers' RobertaForSequenceClassification make the same
updates on the batches of `convoy inspect dataset --batch`; Convoy also trains from scratch. Prints
how far the losses of the first updates are apart without dropout, and top-1 of the last weights.

Needs torch, transformers, safetensors, tokenizers, numpy; tested with torch 2.15.0 and
transformers 5.24.0.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import RobertaConfig, RobertaForSequenceClassification

HERE = os.path.dirname(os.path.abspath(__file__))
RECIPE = os.path.join(HERE, "../../configs/recipes/roberta-finetune.yaml")
HEADER, EOS, FIRST_WORD = b"MMIDIDX\0\0", 2, 4
BATCH, WARM_UP, SHORTEST, COMPARED = 16, 0.06, 10, 20
ELEMENTS = {4: numpy.dtype("<i4"), 8: numpy.dtype("<u2")}


def read_lines(path):
    """Token ids of each line of a set, without </s>."""
    with open(path + ".idx", "rb") as f:
        index = f.read()
    if not index.startswith(HEADER):
        sys.exit(path + ".idx: not of --dataset-impl mmap")
    element = ELEMENTS[index[17]]
    count = int.from_bytes(index[18:26], "little")
    sizes = numpy.frombuffer(index, "<i4", count, 26)
    offsets = numpy.frombuffer(index, "<i8", count, 26 + 4 * count)
    tokens = numpy.fromfile(path + ".bin", element)
    return [tokens[o // element.itemsize:][:n - 1] for n, o in zip(sizes, offsets)]


def write_lines(path, lines):
    element = ELEMENTS[4]
    lines = [numpy.append(line, EOS).astype(element) for line in lines]
    sizes = numpy.array([len(line) for line in lines])
    offsets = (numpy.cumsum(sizes) - sizes) * element.itemsize
    numpy.concatenate(lines).tofile(path + ".bin")
    with open(path + ".idx", "wb") as f:
        f.write(HEADER + (1).to_bytes(8, "little") + bytes([4]) + len(lines).to_bytes(8, "little"))
        f.write(sizes.astype("<i4").tobytes() + offsets.astype("<i8").tobytes())


def longest_articles(data, bpe, classes):
    """Paragraphs of those with the most of them. A heading of an article is " = Name = "."""
    with open(os.path.join(data, "dict.txt"), encoding="utf-8") as f:
        words = [line.split()[0] for line in f]
    articles = []
    for line in read_lines(os.path.join(data, "train")):
        text = bpe.decode([int(words[i - FIRST_WORD]) for i in line]).strip()
        if re.fullmatch(r"= [^=].*[^=] =", text):
            articles.append([])
        elif articles and len(line) > SHORTEST and not text.startswith("= ="):
            articles[-1].append(line)
    return sorted(articles, key=len, reverse=True)[:classes]


def make_task(options, out):
    articles = longest_articles(options.data, Tokenizer.from_file(options.bpe), options.classes)
    for part in "input0", "label":
        os.makedirs(os.path.join(out, part))
    shutil.copy(os.path.join(options.data, "dict.txt"), os.path.join(out, "input0"))
    with open(os.path.join(out, "label", "dict.txt"), "w", encoding="utf-8") as f:
        for i, article in enumerate(articles):
            f.write("article%02d %d\n" % (i, len(article)))
    for name, chosen in ("train", (1, 2, 3)), ("valid", (0,)):
        kept = [[line for k, line in enumerate(article) if k % 4 in chosen] for article in articles]
        most = options.labels if name == "train" and options.labels else None
        pairs = [(line, [FIRST_WORD + i]) for i, lines in enumerate(kept) for line in lines[:most]]
        write_lines(os.path.join(out, "input0", name), [line for line, _ in pairs])
        write_lines(os.path.join(out, "label", name), [label for _, label in pairs])
        print(name, len(pairs), "paragraphs")


def keys_of(options, task, seed):
    return ["model.name=roberta_tiny", "model.dropout=%g" % options.dropout,
            "model.attention_dropout=%g" % options.dropout, "data.dir=" + task,
            "data.tokens=%d" % options.tokens,
            "train.seed=%d" % seed, "train.epochs=%d" % options.epochs,
            "train.batch_per_rank=%d" % BATCH, "train.precision=fp32", "train.eval_every=0",
            "device.backend=cpu", "device.threads=%d" % options.threads, "log.every=1",
            "optimizer.lr=%g" % options.lr,
            "schedule.warmup_epochs=%g" % (WARM_UP * options.epochs)]


def train_convoy(options, keys, init, out):
    """Its records."""
    more = ["model.init=" + init] if init else []
    subprocess.run([options.convoy, "train", RECIPE, *keys, *more, "run.dir=" + out], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def top1_of(records):
    return 100 * [r["top1"] for r in records if r["event"] == "eval"][-1]


def batch_of(options, keys, task, step, role):
    """ids, mask [N,S] and labels [N] of a step; None behind the last."""
    path = os.path.join(os.path.dirname(task), "batch.safetensors")
    done = subprocess.run([options.convoy, "inspect", "dataset", task, *keys, "model.head=classify",
                           "--role", role,
                           "--batch", str(step), "--out", path], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return None
    batch = load_file(path)
    starts, labels = batch["starts"].tolist(), batch["labels"].long()
    ids = torch.full((len(labels), options.tokens), 1)
    for n in range(len(labels)):
        ids[n, :starts[n + 1] - starts[n]] = batch["ids"][starts[n]:starts[n + 1]]
    return ids, (ids != 1).long(), labels


def make_model(options, weights, seed):
    torch.manual_seed(seed)
    words, hidden = weights["roberta.embeddings.word_embeddings.weight"].shape
    places = len(weights["roberta.embeddings.position_embeddings.weight"])
    model = RobertaForSequenceClassification(RobertaConfig(
        vocab_size=words, hidden_size=hidden, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=4 * hidden, max_position_embeddings=places, type_vocab_size=1,
        layer_norm_eps=1e-5, hidden_dropout_prob=options.dropout, classifier_dropout=0.0,
        attention_probs_dropout_prob=options.dropout, num_labels=options.classes)).train()
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert all(key.startswith("classifier.") for key in missing), missing
    model.roberta.embeddings.token_type_embeddings.weight.requires_grad_(False)
    return model


def train_torch(options, keys, task, model, steps):
    """Top-1 of the last weights, and the largest difference of the first losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0, betas=(0.9, 0.98), eps=1e-6,
                                  weight_decay=0.1)
    apart = 0
    for step in steps:
        ids, mask, labels = batch_of(options, keys, task, step["step"] - 1, "train")
        optimizer.param_groups[0]["lr"] = step["lr"]
        optimizer.zero_grad()
        loss = model(ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimizer.step()
        if step["step"] <= COMPARED:
            apart = max(apart, abs(loss.item() - step["loss"]))
    model.eval()
    right = count = step = 0
    with torch.no_grad():
        while batch := batch_of(options, keys, task, step, "val"):
            ids, mask, labels = batch
            found = model(ids, attention_mask=mask).logits.argmax(1)
            right += (found == labels).sum().item()
            count += (labels >= 0).sum().item()
            step += 1
    return 100 * right / count, apart


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data")
    parser.add_argument("run")
    parser.add_argument("--bpe", required=True)
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = {"convoy from RUN": [], "convoy from scratch": [], "transformers from RUN": []}
    with tempfile.TemporaryDirectory() as folder:
        task, export = os.path.join(folder, "task"), os.path.join(folder, "run.safetensors")
        make_task(options, task)
        subprocess.run([options.convoy, "export", options.run, export], check=True,
                       stdout=subprocess.DEVNULL)
        weights = load_file(export)
        for seed in range(1, options.seeds + 1):
            keys = keys_of(options, task, seed)
            model = make_model(options, weights, seed)
            first = os.path.join(folder, "first.safetensors")
            save_file({k: v.clone().contiguous() for k, v in model.state_dict().items()}, first)
            records = train_convoy(options, keys, first, os.path.join(folder, "a%d" % seed))
            scratch = train_convoy(options, keys, "", os.path.join(folder, "b%d" % seed))
            steps = [r for r in records if r["event"] == "step"]
            peer, apart = train_torch(options, keys, task, model, steps)
            print("seed %d  first losses apart by at most %.1e" % (seed, apart))
            found = (top1_of(records), top1_of(scratch), peer)
            for (name, values), top1 in zip(results.items(), found):
                values.append(top1)
                print("seed %d  %-21s %.2f %%" % (seed, name, top1), flush=True)
    for name, values in results.items():
        print("%-21s mean %.2f %%" % (name, statistics.mean(values)))
    own, scratch, peer = (statistics.mean(values) for values in results.values())
    return 0 if own >= scratch + 5 and own >= peer - 1 else 1


if __name__ == "__main__":
    sys.exit(main())
