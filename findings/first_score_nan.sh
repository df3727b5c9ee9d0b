#!/usr/bin/env bash
# timm 1.0.31 CheckpointSaver and Ignite 0.5.5 Checkpoint: where the first epoch's score is NaN, its
# checkpoint stays the best for ever, however good the later ones are.
#
# Accuracy NaN, 10, 20, 30, 40, 50, two to keep: timm keeps epochs 0 and 5, and model_best is epoch
# 0; Ignite keeps epochs 1 and 2 (NaN and 10) and stores none of the others. A score can be NaN once
# (no positives in a short first evaluation) in a run that is well. Nothing compares as better than
# NaN. Where NaN comes after a finite score both drop it; Lightning 2.6.6 ModelCheckpoint counts it
# as the worst in any place.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 torchvision==0.29.2 timm==1.0.31 albumentations==2.0.8 kornia==0.9.0 \
    pytorch-ignite==0.5.5 lightning==2.6.6 pillow==13.0.0 numpy==2.4.6

cat > "$STATED" << 'END'
timm, scores nan 10 20 30 40 50: kept nan and 50, best nan
Ignite, scores nan 10 20 30 40 50: kept nan and 10
Lightning, scores nan 10 20 30 40 50: kept 40 and 50, best 50
timm, scores 10 20 nan 30 40 50: kept 40 and 50, best 50
Ignite, scores 10 20 nan 30 40 50: kept 40 and 50
Lightning, scores 10 20 nan 30 40 50: kept 40 and 50, best 50
END
"$bin/python" > "$SEEN" 2> said << 'END'
import logging
import os
import re
import types
import warnings

warnings.simplefilter("ignore")
import ignite.engine
import ignite.handlers
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from timm.utils import CheckpointSaver

for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


def kept(folder, pattern):
    return sorted(m[1] for m in map(re.compile(pattern).search, os.listdir(folder)) if m)


def timm(folder, scores):
    model = torch.nn.Linear(1, 1)
    saver = CheckpointSaver(model, torch.optim.SGD(model.parameters(), lr=1.0),
                            args=types.SimpleNamespace(model="linear"), checkpoint_dir=folder,
                            recovery_dir=folder, max_history=2)
    for epoch, score in enumerate(scores):
        saver.save_checkpoint(epoch, score)
    best = torch.load(folder + "/model_best.pth.tar", weights_only=False)["epoch"]
    return [scores[int(i)] for i in kept(folder, r"checkpoint-(\d+)")], scores[best]


def ignite_(folder, scores):
    trainer = ignite.engine.Engine(lambda engine, batch: None)
    handler = ignite.handlers.Checkpoint(
        {"model": torch.nn.Linear(1, 1)}, ignite.handlers.DiskSaver(folder, require_empty=False),
        n_saved=2, score_function=lambda engine: scores[trainer.state.epoch - 1],
        score_name="score", global_step_transform=lambda engine, event: trainer.state.epoch - 1)
    trainer.add_event_handler(ignite.engine.Events.EPOCH_COMPLETED, handler)
    trainer.run([0], max_epochs=len(scores))
    return [scores[int(i)] for i in kept(folder, r"model_(\d+)_")], None


class Module(lightning.LightningModule):
    def __init__(self, scores):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.scores = scores

    def training_step(self, batch, index):
        return self.weight.sum()

    def on_train_epoch_end(self):
        self.log("score", torch.tensor(float(self.scores[self.current_epoch])))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def lightning_(folder, scores):
    saver = ModelCheckpoint(folder, filename="{epoch}", monitor="score", mode="max", save_top_k=2,
                            save_on_train_epoch_end=True)
    lightning.Trainer(accelerator="cpu", max_epochs=len(scores), logger=False, callbacks=[saver],
                      enable_progress_bar=False, enable_model_summary=False).fit(
                          Module(scores), torch.utils.data.DataLoader([0]))
    epochs = [int(i) for i in kept(folder, r"epoch=(\d+)")]
    return [scores[i] for i in epochs], saver.best_model_score.item()


nan = float("nan")
for scores in ([nan, 10, 20, 30, 40, 50], [10, 20, nan, 30, 40, 50]):
    for name, run in (("timm", timm), ("Ignite", ignite_), ("Lightning", lightning_)):
        folder = "%s-%d" % (name, scores[0] == 10)
        os.makedirs(folder)
        left, best = run(folder, scores)
        print("%s, scores %s: kept %s%s" % (
            name, " ".join("%g" % s for s in scores), " and ".join("%g" % s for s in left),
            "" if best is None else ", best %g" % best))
END
[[ -s $SEEN ]] || tail -n 3 said
compare
