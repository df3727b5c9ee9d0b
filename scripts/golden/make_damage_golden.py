#!/usr/bin/env python3
"""Golden verdicts for tests/unit/data/decode/test_damage.c: which damaged JPEG files Pillow loads.

Run by hand with any Pillow, never by build or tests:

    python3 scripts/golden/make_damage_golden.py tests/golden/damaged          # writes verdicts.txt
    python3 scripts/golden/make_damage_golden.py tests/golden/damaged --check  # compares Pillows

verdicts.txt has a line per damage: "file at removed inserted verdict": from byte number at on so
many bytes are replaced by those that are inserted, in hexadecimal, - for none; good: Pillow loads
the file, bad: it raises an error. The files are those of tests/golden/images, and some kinds more
that lie beside verdicts.txt, made from them with jpegtran of libjpeg-turbo:

    arithmetic.jpg              420.jpg      -arithmetic
    arithmetic_progressive.jpg  422.jpg      -arithmetic -progressive
    arithmetic_restarts.jpg     444.jpg      -arithmetic -restart 2B
    progressive_restarts.jpg    444.jpg      -progressive -restart 1
    restarts_420.jpg            420_odd.jpg  -restart 3B
    scans.jpg                   420.jpg      -scans FILE, with the lines "0;" and "1 2;"

Pillow 9.4 on libjpeg-turbo 2.1.5 and 13.0 on 3.2.0 agree on all of them. They do not where a file
ends within a second frame header, so there is no such damage here.
"""
import glob
import io
import os
import random
import sys

import PIL
from PIL import Image

FRAMES = set(range(0xc0, 0xd0)) - {0xc4, 0xc8, 0xcc}
MARKERS = [0x01, 0x02, 0x5a, 0xbf, 0xc0, 0xc4, 0xc8, 0xcc, 0xd0, 0xd3, 0xd7, 0xd8, 0xd9, 0xda,
           0xdb, 0xdc, 0xdd, 0xe0, 0xe1, 0xee, 0xf0, 0xfe]


def scan_of(data):
    """The bytes between the first scan header and the end marker."""
    at = 2
    while data[at + 1] != 0xda:
        at += 2 + (data[at + 2] << 8 | data[at + 3])
    return at + 2 + (data[at + 2] << 8 | data[at + 3]), data.rindex(b"\xff\xd9")


def restarts_of(data, begin, end):
    return [at for at in range(begin, end - 1)
            if data[at] == 0xff and 0xd0 <= data[at + 1] <= 0xd7]


def damages(data, rng):
    """(at, removed, inserted) for one file."""
    begin, end = scan_of(data)

    def somewhere():
        return rng.randrange(begin, end - 2)

    for _ in range(3):
        yield somewhere(), 1, b"\xff"
    for code in rng.sample(MARKERS, 5):
        yield somewhere(), 2, bytes([0xff, code])
    yield end - rng.randrange(1, 4), 1, b"\xff"
    yield somewhere(), 0, b"\xff\xd9"
    yield somewhere(), 0, b"\xff\xfe\x00\x08"  # a comment that hides some of the scan
    yield somewhere(), 0, b"\xff\xe2\xf0\x00"  # a segment that is longer than the file
    for _ in range(2):
        at = somewhere()
        yield at, min(16, end - at), rng.randbytes(16)
    at = somewhere()
    yield at, 1, bytes([data[at] ^ 1 << rng.randrange(8)])
    yield (begin + end) // 2, len(data), b""
    yield end - rng.randrange(0, 3), len(data), b""
    yield end, 2, bytes(rng.randrange(255) for _ in range(20))
    yield end, 2, b"\xff\xd3"
    yield end, 2, b""
    yield end, 0, rng.choice((b"\xff\xfe\x00\x04ab", bytes(5), b"\xff\xff\xff", b"\xff\xd3"))
    yield len(data), 0, rng.choice((bytes(9), b"\xff\xda\x00\x03", b"\xff\xd8\xff\xe0",
                                    b"\xff\x02"))
    restarts = restarts_of(data, begin, end)
    for at in rng.sample(restarts, min(3, len(restarts))):
        yield at + 1, 1, bytes([0xd0 + rng.randrange(8)])
        yield at, 2, b""
        yield at, 2, bytes([0xff, rng.choice(MARKERS)])


def ends_in_frame(data):
    return any(data[at] == 0xff and data[at + 1] in FRAMES
               for at in range(len(data) - 20, len(data) - 1))


def verdict(data):
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
    except (OSError, SyntaxError):
        return "bad"
    return "good"


def damaged(data, at, removed, inserted):
    return data[:at] + inserted + data[at + removed:]


def find(folder, name):
    for place in (folder, os.path.join(folder, "..", "images")):
        path = os.path.join(place, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                return file.read()
    raise FileNotFoundError(name)


def write(folder):
    rng = random.Random(1)
    paths = glob.glob(os.path.join(folder, "*.jpg"))
    paths += glob.glob(os.path.join(folder, "..", "images", "*.jpg"))
    with open(os.path.join(folder, "verdicts.txt"), "w", encoding="ascii") as out:
        print(f"# Pillow {PIL.__version__}; made by scripts/golden/make_damage_golden.py", file=out)
        for name in sorted(map(os.path.basename, paths)):
            data = find(folder, name)
            for at, removed, inserted in damages(data, rng):
                result = damaged(data, at, removed, inserted)
                if not ends_in_frame(result):
                    print(name, at, removed, inserted.hex() or "-", verdict(result), file=out)


def check(folder):
    differ = lines = 0
    with open(os.path.join(folder, "verdicts.txt"), encoding="ascii") as file:
        for line in file:
            if line.startswith("#"):
                continue
            name, at, removed, inserted, want = line.split()
            inserted = b"" if inserted == "-" else bytes.fromhex(inserted)
            got = verdict(damaged(find(folder, name), int(at), int(removed), inserted))
            lines += 1
            if got != want:
                differ += 1
                print(f"Pillow {PIL.__version__} says {got}: {line.strip()}")
    print(f"Pillow {PIL.__version__}: {differ} of {lines} differ")
    sys.exit(1 if differ else 0)


def main():
    if sys.argv[2:] == ["--check"]:
        check(sys.argv[1])
    else:
        write(sys.argv[1])


if __name__ == "__main__":
    main()
