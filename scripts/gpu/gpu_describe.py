#!/usr/bin/env python3
"""Writes this machine's GPU as cuDNN describes it (the form of configs/gpus/*.json), and says where
the description of the same name, or else the nearest, differs.

python3 scripts/gpu/gpu_describe.py OUT.json [--from FILE]      FILE instead of the GPU: a rehearsal
"""
import argparse
import ctypes
import glob
import json
import os
import sys

# cudnn_graph.h
DEVICEPROP_DESCRIPTOR, DEVICE_ID, JSON_REPRESENTATION, INT32, CHAR = 38, 2700, 2702, 23, 24
SAME_FOR_NOBODY = {"pciDeviceId", "cudaDeviceId", "driverVer", "deviceName"}


def describe(text):
    """The JSON of device 0, or of what text describes."""
    cudnn = ctypes.CDLL("libcudnn_graph.so.9")
    cudnn.cudnnGetErrorString.restype = ctypes.c_char_p

    def call(name, *arguments):
        status = getattr(cudnn, name)(*arguments)
        if status:
            sys.exit(f"{name}: {cudnn.cudnnGetErrorString(status).decode()}")

    descriptor, device, length = ctypes.c_void_p(), ctypes.c_int32(0), ctypes.c_int64()
    call("cudnnBackendCreateDescriptor", DEVICEPROP_DESCRIPTOR, ctypes.byref(descriptor))
    kind, of_type, count, value = ((JSON_REPRESENTATION, CHAR, len(text), text) if text
                                   else (DEVICE_ID, INT32, 1, ctypes.byref(device)))
    call("cudnnBackendSetAttribute", descriptor, kind, of_type, ctypes.c_int64(count), value)
    call("cudnnBackendFinalize", descriptor)
    read = (descriptor, JSON_REPRESENTATION, CHAR)
    call("cudnnBackendGetAttribute", *read, ctypes.c_int64(0), ctypes.byref(length), None)
    buffer = ctypes.create_string_buffer(length.value + 1)
    call("cudnnBackendGetAttribute", *read, length, ctypes.byref(length), buffer)
    return json.loads(buffer.value)


def differences(found, described):
    keys = (set(found) | set(described)) - SAME_FOR_NOBODY
    return [f"{key}: {found.get(key)} here, {described.get(key)} there" for key in sorted(keys)
            if found.get(key) != described.get(key)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("out")
    parser.add_argument("--from", dest="source")
    args = parser.parse_args()
    text = b""
    if args.source:
        with open(args.source, "rb") as file:
            text = file.read()
    found = describe(text)
    with open(args.out, "w") as file:
        json.dump(found, file, indent=2)
        file.write("\n")
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "configs", "gpus")
    nearest = None
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path) as file:
            described = json.load(file)
        off = differences(found, described)
        distance = (described.get("deviceName") not in found["deviceName"], len(off))
        if nearest is None or distance < nearest[0]:
            nearest = distance, os.path.basename(path), off
    print(f"{found['deviceName']}: {nearest[1]} {'differs' if nearest[2] else 'is the same'}")
    for line in nearest[2]:
        print(f"  {line}")


if __name__ == "__main__":
    main()
