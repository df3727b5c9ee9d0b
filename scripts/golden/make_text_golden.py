#!/usr/bin/env python3
"""Golden files for tests/unit/models/test_roberta.c: logits, loss and gradients of RoBERTa and BERT
in transformers, float64; for test_roberta_curve.c losses and norms of 50 updates by AdamW.

Weights come from the formula of make_golden.py, by transformers' names, so only words and results
are stored. Run by hand in an environment with torch, torchvision and transformers 5.24.0, never by
build or tests:

    python3 scripts/golden/make_text_golden.py tests/golden

Two layers of 64 channels, four heads, four sequences of at most 32 of 200 words. Each file is text:
a line per record, "name value value ...". A gradient is that of the mean loss: its largest element,
its norm, its projection on a direction of the formula, and some of its elements.
"""
import sys

import numpy as np
import torch
import transformers
from transformers import (BertConfig, BertForPreTraining, BertForSequenceClassification,
                          RobertaConfig, RobertaForMaskedLM, RobertaForSequenceClassification)

from make_golden import mix, rounded, stream_of

WORDS, CLASSES, SEQUENCES, TOKENS = 200, 3, 4, 32
LENGTHS = [32, 21, 9, 27]
FIRST, PAD, LAST, MASK = 0, 1, 2, WORDS - 1
ELEMENTS = 40
EPS = float(np.float32(1e-5))  # the number that a float holds
SIZES = dict(vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
             intermediate_size=256, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
             attn_implementation="eager")


def roberta(**more):
    return RobertaConfig(**SIZES, max_position_embeddings=TOKENS + 2, type_vocab_size=1,
                         pad_token_id=PAD, bos_token_id=FIRST, eos_token_id=LAST,
                         layer_norm_eps=EPS, **more)


def bert(**more):
    return BertConfig(**SIZES, max_position_embeddings=TOKENS, type_vocab_size=2, pad_token_id=PAD,
                      layer_norm_eps=1e-12, **more)


@torch.no_grad()
def fill(model):
    """As make_golden.py; named_parameters() has tied tensors once, by their first name."""
    for name, p in model.named_parameters():  # of float32
        u = mix(stream_of(name), p.numel())
        v = ((2 * u - 1) * np.sqrt(3.0 / p.shape[1]) if p.dim() == 2 else
             0.5 + u if name.endswith("weight") else 0.2 * u - 0.1)
        p.copy_(torch.from_numpy(rounded(v)).reshape(p.shape))
    if hasattr(model, "roberta"):  # whose one row of segments Convoy adds to positions
        tables = model.roberta.embeddings
        row, positions = tables.token_type_embeddings.weight, tables.position_embeddings.weight
        positions.copy_(positions + row)
        row.zero_()


def draw_batch(stream):
    """Words, <s> and </s> among them; of each sequence a seventh is to be guessed."""
    u = mix(stream, 3 * SEQUENCES * TOKENS).reshape(3, SEQUENCES, TOKENS)
    ids = np.full((SEQUENCES, TOKENS), PAD)
    labels = np.full((SEQUENCES, TOKENS), -100)
    for n, length in enumerate(LENGTHS):
        ids[n, :length] = 4 + np.floor(u[0, n, :length] * (WORDS - 5))
        ids[n, 0], ids[n, length - 1] = FIRST, LAST
        for place in np.sort(np.argsort(u[1, n, :length])[:length // 7 + 1]):
            labels[n, place] = ids[n, place]
            if u[2, n, place] < 0.8:
                ids[n, place] = MASK
    return ids, labels


def line(out, name, values):
    text = " ".join(f"{v:.17g}" for v in np.asarray(values, dtype=np.float64).ravel())
    out.write(f"{name} {text}\n")


def write_gradients(out, model):
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        g = p.grad.detach().numpy().ravel()
        direction = 2 * mix(stream_of(name) + 1, g.size) - 1
        places = (np.arange(min(ELEMENTS, g.size), dtype=np.int64) * 7919 + 13) % g.size
        line(out, f"grad.{name}", np.concatenate(
            [[np.abs(g).max(), np.sqrt((g * g).sum()), (g * direction).sum()], g[places]]))


def write(path, name, model, stream, segments, classes):
    ids, labels = draw_batch(stream)
    fill(model)
    model.double().eval()
    attention = (np.arange(TOKENS)[None] < np.array(LENGTHS)[:, None]).astype(np.int64)
    halves = (np.arange(TOKENS)[None] >= np.array(LENGTHS)[:, None] // 2) * attention
    given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(attention)}
    if segments:
        given["token_type_ids"] = torch.from_numpy(halves)
    y = model(**given)
    logits = y.prediction_logits if hasattr(y, "prediction_logits") else y.logits
    rows = np.flatnonzero(labels.ravel() >= 0)
    wanted = np.array([2, 0, 1, 2]) if classes else labels.ravel()[rows]
    if not classes:
        logits = logits.reshape(-1, WORDS)[torch.from_numpy(rows)]
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(wanted))
    loss.backward()
    with open(f"{path}/{name}.txt", "w") as out:
        out.write(f"# torch {torch.__version__} transformers {transformers.__version__}\n")
        line(out, "lengths", LENGTHS)
        line(out, "ids", ids)
        line(out, "rows", rows)
        line(out, "labels", wanted)
        line(out, "logits", logits.detach().numpy())
        line(out, "loss", [loss.item()])
        write_gradients(out, model)


UPDATES, BATCH, PEAK, WARM_UP, TOTAL = 50, 8, 5e-3, 10, 60


@torch.no_grad()
def fill_first(model):
    """As a training begins."""
    for name, p in model.named_parameters():
        u = mix(stream_of(name), p.numel())
        v = ((2 * u - 1) * np.sqrt(3.0) * 0.02 if p.dim() == 2 else
             np.full(p.numel(), 1.0 if name.endswith("weight") else 0.0))
        p.copy_(torch.from_numpy(rounded(v)).reshape(p.shape))
    tables = model.roberta.embeddings
    tables.word_embeddings.weight[PAD] = tables.position_embeddings.weight[PAD] = 0
    tables.token_type_embeddings.weight.zero_()
    tables.token_type_embeddings.weight.requires_grad_(False)


def draw_update(update):
    """Text with something to learn: a word is mostly a function of the one before it. Each place
    draws five numbers."""
    u = mix(1000200 + update, 5 * BATCH * TOKENS).reshape(BATCH, TOKENS, 5)
    ids = np.full((BATCH, TOKENS), PAD)
    labels = np.full((BATCH, TOKENS), -100)
    for n in range(BATCH):
        length = 20 + int(u[n, 0, 4] * 13)
        for s in range(length):
            follows = s > 1 and u[n, s, 0] < 0.9
            ids[n, s] = 4 + (7 * labels_of(ids, labels, n, s - 1) + 3) % 60 if follows else (
                4 + int(u[n, s, 1] * 60))
            if s in (0, length - 1):
                ids[n, s] = LAST if s else FIRST
            if u[n, s, 2] < 0.15:
                labels[n, s] = ids[n, s]
                ids[n, s] = (MASK if u[n, s, 3] < 0.8 else ids[n, s] if u[n, s, 3] < 0.9 else
                             4 + int(u[n, s, 1] * 60))
    return ids, labels


def labels_of(ids, labels, n, s):
    """The word that was there before it was masked."""
    return labels[n, s] if labels[n, s] >= 0 else ids[n, s]


def write_curve(path):
    model = RobertaForMaskedLM(roberta())
    fill_first(model)
    model.double()
    losses, norms, counts = [], [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0, betas=(0.9, 0.98), eps=1e-6,
                                  weight_decay=0.01)
    for update in range(UPDATES):
        ids, labels = (torch.from_numpy(a) for a in draw_update(update))
        optimizer.param_groups[0]["lr"] = PEAK * min(
            update / WARM_UP, 1 - (update - WARM_UP) / (TOTAL - WARM_UP))
        optimizer.zero_grad()
        loss = model(ids, attention_mask=(ids != PAD).long(), labels=labels).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        losses.append(loss.item())
        counts.append((labels >= 0).sum().item())
    with open(f"{path}/roberta_curve.txt", "w") as out:
        out.write(f"# torch {torch.__version__} transformers {transformers.__version__}\n")
        line(out, "losses", losses)
        line(out, "norms", norms)
        line(out, "counts", counts)


def main():
    path = sys.argv[1]
    write_curve(path)
    write(path, "roberta_words", RobertaForMaskedLM(roberta()), 1000081, False, False)
    write(path, "roberta_classes", RobertaForSequenceClassification(
        roberta(num_labels=CLASSES, classifier_dropout=0.0)), 1000082, False, True)
    write(path, "bert_words", BertForPreTraining(bert()), 1000083, True, False)
    write(path, "bert_classes", BertForSequenceClassification(
        bert(num_labels=CLASSES, classifier_dropout=0.0)), 1000084, True, True)


if __name__ == "__main__":
    main()
