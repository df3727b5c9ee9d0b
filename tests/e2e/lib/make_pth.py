"""Writes what torch.save() would, without torch: make_pth.py WEIGHTS.safetensors FOLDER writes one
file for each way in which training programs keep weights (tests/e2e/pth.sh)."""
import argparse
import collections
import fractions
import io
import json
import pickle
import struct
import sys
import types
import zipfile


class FloatStorage:
    pass


class DTensor:
    pass


def _rebuild_tensor_v2(*arguments):
    raise AssertionError(arguments)


def pretend(module, made):
    """made as a part of a module that is not here."""
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], made.__name__, made)
    made.__module__ = module


class Storage:
    def __init__(self, key, data):
        self.key, self.data = key, data


class Tensor:
    def __init__(self, key, shape, data):
        self.storage, self.shape = Storage(key, data), tuple(shape)

    def __reduce__(self):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return _rebuild_tensor_v2, (self.storage, 0, self.shape, tuple(strides), False,
                                    collections.OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file, kept):
        super().__init__(file, protocol=2)
        self.kept = kept

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        self.kept[value.key] = value.data
        return ("storage", FloatStorage, value.key, "cpu", len(value.data) // 4)


def save(path, what, legacy=False):
    kept, text = {}, io.BytesIO()
    Pickler(text, kept).dump(what)
    if not legacy:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("archive/data.pkl", text.getvalue())
            archive.writestr("archive/byteorder", "little")
            for key, data in kept.items():
                archive.writestr("archive/data/" + key, data)
        return
    with open(path, "wb") as file:
        for head in (0x1950a86a20f9469cfc6c, 1001, {"little_endian": True}):
            pickle.dump(head, file, protocol=2)
        file.write(text.getvalue())
        pickle.dump(sorted(kept), file, protocol=2)
        for key in sorted(kept):
            file.write(struct.pack("<q", len(kept[key]) // 4) + kept[key])


def read(path):
    """Tensors of a safetensors file; integers are counters, which are left out."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<q", file.read(8))[0]))
        data = file.read()
    return {name: (entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"}


def main():
    pretend("torch", FloatStorage)
    pretend("torch._utils", _rebuild_tensor_v2)
    pretend("torch.distributed.tensor", DTensor)
    weights, folder = read(sys.argv[1]), sys.argv[2]
    keys = iter(range(1 << 20))

    def state(before="", other=False, without="-"):
        """As a state_dict; with other weights: zeros."""
        return collections.OrderedDict(
            (before + name, Tensor(str(next(keys)), shape, bytes(len(data)) if other else data))
            for name, (shape, data) in weights.items() if not name.startswith(without))

    args = argparse.Namespace(model="resnet20", lr=0.1, betas=(0.9, 0.99), resume=None)
    save(folder + "/plain.pth", state())
    save(folder + "/old.pth", state(), legacy=True)
    save(folder + "/timm.pth", {"arch": "resnet20", "state_dict": state(other=True), "args": args,
                                "state_dict_ema": state()})
    save(folder + "/reference.pth", {"model": state("_orig_mod.module."), "epoch": 1, "args": args,
                                     "model_ema": state("module.", other=True)}, legacy=True)
    save(folder + "/lightning.ckpt", {"state_dict": state("model."), "current_model_state":
                                      state("model.", other=True), "callbacks": {}})
    save(folder + "/beside.bin", {"state_dict": {**state("net._orig_mod.", other=True),
                                                 **state("ema_net.module.")}})
    save(folder + "/backbone.pt", {"model": state(without="fc.")})
    save(folder + "/third.pth", {"model": state(), "best": fractions.Fraction(1, 3)})
    save(folder + "/parts.pth", {"model": state(), "tensor": DTensor})
    with open(folder + "/timm.pth", "rb") as whole, open(folder + "/cut.pth", "wb") as cut:
        cut.write(whole.read()[:3000])


if __name__ == "__main__":
    main()
