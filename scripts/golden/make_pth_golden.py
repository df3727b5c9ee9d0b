#!/usr/bin/env python3
"""Golden files for tests/unit/trainer/engine/files/test_torch_file.c: what torch.save() writes in
both formats, and checkpoints that timm, Lightning and AveragedModel write themselves. Run by hand
in an environment with torch, timm and lightning, never by build or tests:

    python3 scripts/golden/make_pth_golden.py tests/golden/pth

Element i of tensor k, counted in the order of the dictionary, is k + 1 + i / 8, which every float
type holds exactly; averaged ones are 100 larger; the test computes the same."""
import argparse
import collections
import copy
import fractions
import os
import sys
import tempfile
import warnings

import numpy
import torch
from torch import nn

warnings.filterwarnings("ignore")
LEGACY = {"_use_new_zipfile_serialization": False}


def values(number, shape, dtype=torch.float32):
    count = int(numpy.prod(shape))
    return (torch.arange(count, dtype=torch.float64) / 8 + number + 1).reshape(shape).to(dtype)


def fill(state, more=0):
    """The same values for whatever a module has, in its order."""
    for number, tensor in enumerate(state.values()):
        if tensor.is_floating_point():
            tensor.copy_(values(number + more, tuple(tensor.shape)))
    return state


def types():
    state = collections.OrderedDict()
    for number, dtype in enumerate((torch.float32, torch.float64, torch.float16, torch.bfloat16,
                                    torch.int64, torch.int32, torch.uint8)):
        state["%s.weight" % str(dtype).split(".")[1]] = values(number, (2, 3), dtype)
    state["scalar"] = values(7, ())
    state["empty"] = torch.empty(0, 4)
    state["parameter"] = nn.Parameter(values(9, (3,)))
    state["bool"] = torch.tensor([True, False, True])
    state._metadata = {"": {"version": 1}}
    return state


def views():
    """Tensors that share a storage, begin within one, or lie in it in another order."""
    whole = values(0, (24,))
    images = values(1, (2, 3, 2, 2))
    tagged = nn.Parameter(values(6, (2,)))
    tagged.note = "an attribute"
    return {"whole": whole, "images": images.contiguous(memory_format=torch.channels_last),
            "turned": whole.reshape(4, 6).t(), "row": whole[6:12], "every": whole[1::5],
            "again": whole, "tagged": tagged}


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 1)
        self.fc = nn.Linear(2, 3)


def timm_checkpoint(folder):
    from timm.utils import CheckpointSaver, ModelEmaV3
    net = Small()
    optimizer = torch.optim.AdamW(net.parameters())
    sum(p.sum() for p in net.parameters()).backward()
    optimizer.step()
    average = ModelEmaV3(net)
    fill(net.state_dict())
    fill(average.module.state_dict(), 100)
    args = argparse.Namespace(model="small", lr=0.1, betas=(0.9, 0.99), resume=None, amp=True)
    saver = CheckpointSaver(net, optimizer, args=args, model_ema=average, checkpoint_dir=folder,
                            recovery_dir=folder)
    saver.save_checkpoint(3, metric=numpy.float64(71.5))
    return os.path.join(folder, "last.pth.tar")


def reference_checkpoint(path):
    """As torchvision's references/classification/train.py; wrapped by compile and DataParallel."""
    net = nn.DataParallel(Small())
    average = torch.optim.swa_utils.AveragedModel(net.module, use_buffers=True)
    average.update_parameters(net.module)
    fill(net.state_dict())
    with torch.no_grad():
        for number, tensor in enumerate(average.module.state_dict().values()):
            tensor.copy_(values(number + 100, tuple(tensor.shape)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
    torch.save({"model": torch.compile(net).state_dict(), "optimizer": optimizer.state_dict(),
                "lr_scheduler": schedule.state_dict(), "epoch": 2,
                "args": argparse.Namespace(model="small", device=torch.device("cpu")),
                "model_ema": average.state_dict()}, path)


def lightning_checkpoint(path):
    import lightning
    from lightning.pytorch.callbacks import EMAWeightAveraging

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Small()

        def training_step(self, batch):
            return sum(p.sum() for p in self.parameters())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def on_save_checkpoint(self, checkpoint):
            averaged, trained = checkpoint["state_dict"], checkpoint["current_model_state"]
            for key in averaged:  # they may be one tensor
                averaged[key], trained[key] = averaged[key].clone(), trained[key].clone()
            fill(averaged, 100)
            fill(trained)

    trainer = lightning.Trainer(max_steps=1, accelerator="cpu", logger=False, barebones=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, callbacks=[EMAWeightAveraging()],
                                default_root_dir=os.path.dirname(path))
    module = Module()
    data = torch.utils.data.DataLoader(torch.zeros(1, 1))

    class Save(lightning.Callback):
        def on_train_end(self, trainer, pl_module):
            trainer.save_checkpoint(path)

    trainer.callbacks.insert(0, Save())
    trainer.fit(module, data)


def sharded():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    return {"model": {"weight": distribute_tensor(values(0, (2, 2)), mesh, [Shard(0)])}}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)

    def save(name, what, **how):
        torch.save(what, os.path.join(folder, name), **how)

    save("zip.pth", types())
    save("legacy.pth", types(), **LEGACY)
    save("protocol4.pth", types(), pickle_protocol=4)
    save("views.pth", views())
    save("views_legacy.pth", views(), **LEGACY)
    save("module.pth", nn.Linear(1, 1))
    save("fraction.pth", {"model": types(), "best": fractions.Fraction(1, 3)})
    save("expanded.pth", {"weight": torch.zeros(1).expand(1000, 1000)})
    save("complex.pth", {"weight": torch.zeros(2, dtype=torch.complex64)})
    save("nothing.pth", {"epoch": 1, "lr": 0.5})
    save("list.pth", [values(0, (2,))])
    save("sharded.pth", sharded())
    reference_checkpoint(os.path.join(folder, "reference.pth"))
    with tempfile.TemporaryDirectory() as scratch:
        os.replace(copy.copy(timm_checkpoint(scratch)), os.path.join(folder, "timm.pth"))
        lightning_checkpoint(os.path.join(scratch, "x.ckpt"))
        os.replace(os.path.join(scratch, "x.ckpt"), os.path.join(folder, "lightning.pth"))


if __name__ == "__main__":
    main()
