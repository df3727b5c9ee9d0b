#!/usr/bin/env python3
"""Weights that PyTorch saved (.pth, .pt, .bin) as safetensors files, which convoy reads.

    python3 scripts/convert_weights.py FILE|FOLDER... [--out FOLDER]

Of a folder all such files in it. weights.pth becomes weights.safetensors beside it, or in --out.
What training scripts wrap around the weights is taken off: the entry state_dict, model, model_state
or net of a checkpoint, and "module." or "_orig_mod." before the names (DataParallel,
torch.compile).
Files are read without running what is pickled in them (weights_only). The arguments of a training
script beside the weights (argparse.Namespace, as timm and torchvision's references save them) are
read as well, from torch 2.4 on. Needs torch and safetensors (pip). Ends with 1 where a file could
not be converted; the others are."""
import argparse
import os
import pickle
import re
import sys

try:
    import torch
    from safetensors.torch import save_file
except ImportError as missing:
    sys.exit("%s: needs torch and safetensors (pip install torch safetensors): %s" % (
        os.path.basename(sys.argv[0]), missing))

ENDINGS = (".pth", ".pt", ".bin")
WRAPPERS = ("state_dict", "model", "model_state", "net")
PREFIXES = ("module.", "_orig_mod.")


def files_of(path):
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(ENDINGS))


def unwrap(saved):
    for key in WRAPPERS:
        if isinstance(saved, dict) and isinstance(saved.get(key), dict):
            saved = saved[key]
    if not isinstance(saved, dict):
        raise ValueError("holds no dictionary of tensors")
    return saved


def plain_name(name):
    for prefix in PREFIXES * 2:
        name = name.removeprefix(prefix)
    return name


def convert(path, folder, written):
    saved = unwrap(torch.load(path, map_location="cpu", weights_only=True))
    # clones: tensors that share memory cannot be saved as they are
    weights = {plain_name(k): v.clone().contiguous() for k, v in saved.items()
               if isinstance(v, torch.Tensor)}
    if not weights:
        raise ValueError("holds no tensors")
    stem = os.path.splitext(os.path.basename(path))[0]
    out = os.path.join(folder or os.path.dirname(path), stem + ".safetensors")
    if out in written:
        raise ValueError("would overwrite %s of %s" % (out, written[out]))
    save_file(weights, out)
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(out, 0o666 & ~mask)  # it is made for its owner alone
    written[out] = path
    print("%s: %d tensors from %s" % (out, len(weights), path))


def reason(error):
    """Why torch.load() did not take a file."""
    text = str(error)
    unknown = re.search(r"GLOBAL (\S+)", text)
    if "DTensor" in text or (unknown and unknown[1].startswith("torch.distributed")):
        return ("holds tensors in parts, as FSDP divides them over processes (DTensor); save whole "
                "ones in training: get_model_state_dict(model, options=StateDictOptions("
                "full_state_dict=True)) of torch.distributed.checkpoint.state_dict")
    if unknown:
        return ("holds more than tensors: %s, which only the program that saved it should load; "
                "save model.state_dict() there" % unknown[1])
    return "is damaged, or not saved by torch.save"


def main():
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals([argparse.Namespace])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="FILE|FOLDER")
    parser.add_argument("--out", metavar="FOLDER")
    options = parser.parse_args()
    failed, written = False, {}
    if options.out:
        os.makedirs(options.out, exist_ok=True)
    for given in options.paths:
        files = files_of(given)
        if not files:
            print("%s: no file that ends in %s" % (given, ", ".join(ENDINGS)), file=sys.stderr)
            failed = True
        for path in files:
            try:
                convert(path, options.out, written)
            except (pickle.UnpicklingError, EOFError, KeyError, TypeError, AttributeError,
                    UnicodeDecodeError) as error:
                print("%s: %s" % (path, reason(error)), file=sys.stderr)
                failed = True
            except (OSError, RuntimeError, ValueError) as error:
                print("%s: %s" % (path, str(error).split("\n")[0]), file=sys.stderr)
                failed = True
    sys.exit(failed)


main()
