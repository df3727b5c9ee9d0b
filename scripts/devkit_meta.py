#!/usr/bin/env python3
"""devkit_meta.py META_MAT - prints "ID WNID" for each class of ILSVRC2012,
from data/meta.mat of its development kit.

Called by prepare_imagenet.sh. The file is a MATLAB file of level 5 with one array of structs,
`synsets`; classes are the synsets without children. Nothing but Python itself is needed. Exit code
65, and one line, if the file is anything else.
"""
import struct
import sys
import zlib

MATRIX, COMPRESSED, UTF8 = 14, 15, 16
STRUCT, CHAR = 2, 4
# Element type: struct's letter.
NUMBERS = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}


class Damaged(Exception):
    pass


def elements(data, order):
    """Yields (type, bytes) of each data element; short ones have type and size in one word,
    others end on 8 bytes."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        if kind >> 16:
            kind, size, begin, at = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            begin = at + 8
            at = begin + (size if kind == COMPRESSED else -(-size // 8) * 8)
        if begin + size > len(data):
            raise Damaged("it is cut short")
        yield kind, data[begin:begin + size]


def numbers(element, order):
    kind, data = element
    if kind == UTF8:
        kind = 2
    if kind not in NUMBERS:
        raise Damaged(f"element type {kind} where numbers should be")
    return [value for value, in struct.iter_unpack(order + NUMBERS[kind], data)]


def array(data, order):
    """A char array as str, numbers as a list, structs as a list of dicts;
    None for anything else."""
    parts = elements(data, order)
    flags, dims = numbers(next(parts), order), numbers(next(parts), order)
    next(parts)  # the array's name
    kind = flags[0] & 0xFF
    if kind == CHAR:
        return "".join(map(chr, numbers(next(parts), order)))
    if 6 <= kind <= 15:
        return numbers(next(parts), order)
    if kind != STRUCT:
        return None
    width, text = numbers(next(parts), order)[0], next(parts)[1]
    names = [text[i:i + width].split(b"\0")[0].decode() for i in range(0, len(text), width)]
    values = [body for _, body in parts]
    count = 1
    for dim in dims:
        count *= dim
    if len(values) != count * len(names):
        raise Damaged("an array of structs has too few fields")
    return [{name: values[i * len(names) + j] for j, name in enumerate(names)}
            for i in range(count)]


def classes(data):
    if len(data) < 136 or data[126:128] not in (b"IM", b"MI"):
        raise Damaged("no MATLAB file of level 5")
    order = "<" if data[126:128] == b"IM" else ">"
    for kind, body in elements(data[128:], order):
        if kind == COMPRESSED:
            kind, body = next(elements(zlib.decompress(body), order))
        found = array(body, order) if kind == MATRIX else None
        if (not isinstance(found, list) or not found or not isinstance(found[0], dict)
                or "WNID" not in found[0]):
            continue
        for synset in found:
            number, children = (array(synset[key], order)[0]
                                for key in ("ILSVRC2012_ID", "num_children"))
            if children == 0:
                yield int(number), array(synset["WNID"], order)
        return
    raise Damaged("it holds no synsets")


def main():
    if len(sys.argv) != 2:
        print("usage: devkit_meta.py META_MAT", file=sys.stderr)
        return 64
    try:
        with open(sys.argv[1], "rb") as file:
            lines = [f"{number} {wnid}" for number, wnid in sorted(classes(file.read()))]
    except (OSError, Damaged, zlib.error, struct.error, StopIteration, KeyError, IndexError,
            TypeError, ValueError) as error:
        print(f"devkit_meta: error: {sys.argv[1]}: {error or type(error).__name__}",
              file=sys.stderr)
        return 65
    print("\n".join(lines))
    return 0


sys.exit(main())
