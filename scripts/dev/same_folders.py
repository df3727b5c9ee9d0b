#!/usr/bin/env python3
"""same_folders.py OLD NEW WORDS - what differs between folders that two convoy programs have left.

For same_runs.sh. Checkpoints are compared bit for bit, the rest as text without times and rates.
WORDS is renamed_words.txt, applied to OLD's text; what names a word that only NEW has is left out
of NEW's. Where something differs it prints the first lines of a diff and ends with 1.
"""
import difflib
import hashlib
import json
import os
import re
import struct
import sys

SHOWN_LINES = 20
EXACT = ("help.txt", "networks.txt", "keys.txt")  # have no times
THREADED = ("log.txt", ".log", ".jsonl")  # lines of threads and ranks, in any order
# Keys of metrics.jsonl that tell times, rates and what threads happened to do.
TIMES = re.compile(r"^(time|ready_batches|readers|cache_hits)$|seconds$|_(ms|per_s|percent)$")
NOISE = [
    (r"(?ms)^-{60,}\n.*?^-{60,}\n", ""),  # what mpirun says about a rank that has failed
    # progress lines come by time; more of mpirun
    (r"(?m)^.* images/s, .* left.*\n|^\[[^]\n]*:\d+\] .*\n", ""),
    (r"(?m)^\d{4}-\d\d-\d\dT[\d:]+Z ", ""),
    (r"[\d.]+(/[\d.]+)?(?= ?(s|ms|images/s|MB/s|batches ready|readers|bytes above)\b)", "N"),
    (r"(?m)^((info )?(evaluate|export): +)\S+", r"\1convoy"),  # by the path of the program
    (r"(?m)^(info )?spent .*\n", ""),
    (r"\S+\.index\b", "INDEX"),  # by the path of the run's folder
    (r"(?m)^.*\d+ threads read ahead.*\n", ""),  # by how slow storage was
    # records of time alone; how many there are depends on it
    (r'(?m)^\{"event": ?"spent".*"part": ?"(checkpoint|wait)".*\n', ""),
    (r"(time_\w+_s +)[\d.]+", r"\1N"),  # log.format: epoch
    (r"((data|comm) wait|epoch time:) [\d.]+", r"\1 N"),
    (r"(?m)^((?:info )? +\d+ +[\d.]+) +[\d.]+(?= )", r"\1 N"),  # log.format: table
]


def read_words(path):
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and line[0] != "#"]
    return {old: new for old, new in rows if old}, [new for old, new in rows if not old]


def whole(word):
    return r"(?<!\w)" * word[0].isalnum() + re.escape(word) + r"(?!\w)" * word[-1].isalnum()


def translator(words):
    """A function that puts new words for old ones, all at once, the longest first."""
    if not words:
        return lambda text: text
    pattern = re.compile("|".join(whole(word) for word in sorted(words, key=len, reverse=True)))
    return lambda text: pattern.sub(lambda match: words[match[0]], text)


def config_lines(text):
    """section.key: value, sorted, as a key may have moved."""
    section, lines = "", []
    for line in text.splitlines():
        if line.startswith("  "):
            lines.append(f"{section}.{line.strip()}")
        else:
            section = line.rstrip(":")
    return sorted(lines)


def checkpoint_lines(path, data):
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    meta = header.pop("__metadata__", {})
    meta.pop("header_crc32c", None)  # of the text that is compared here
    meta.pop("convoy", None)  # which of the two wrote it
    meta.pop("spent", None)  # seconds of both
    if path.endswith("end.safetensors"):  # where the run was stopped, which time decides
        meta.pop("ema_images", None)
        meta.pop("lookahead_images", None)
    lines = [f"config {line}" for line in config_lines(meta.pop("config", ""))]
    lines += [f"metadata {key} {value}" for key, value in meta.items()]
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        bits = hashlib.sha256(body[begin:end]).hexdigest()[:16]
        lines.append(f"{name} {tensor['dtype']} {tensor['shape']} at {begin}: {bits}")
    return lines


def record(line):
    """A line of text; a record of metrics.jsonl without its times."""
    if not line.startswith('{"event"'):
        return line
    fields = json.loads(line).items()
    return json.dumps({key: value for key, value in fields if not TIMES.search(key)})


def names_any(text, words):
    return any(re.search(whole(word), text) for word in words)


def is_alias_warning(line, words):
    if "warning" not in line or "settings differ from" in line:
        return False
    return names_any(line, words)


COMMIT = r"(\d\.\d+\.\d+)\+[0-9a-f]{7,40}(\.dirty)?"


def text_lines(path, text):
    text = re.sub(COMMIT, r"\1", text)
    text = re.sub(r"(?m)^(available|largest batch per rank) .*\n", "", text)  # by free memory
    if path.endswith(EXACT):
        return text.splitlines()
    for pattern, put in NOISE:
        text = re.sub(pattern, put, text)
    lines = [record(line) for line in text.splitlines()]
    return sorted(lines) if path.endswith(THREADED) else lines


def file_text(path, translate, counts_in):
    """A file as text to compare: translate changes words, counts says which lines do."""
    counts = counts_in(path)
    if os.path.islink(path):
        return "-> " + os.readlink(path)
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".safetensors"):
        text = translate("\n".join(checkpoint_lines(path, data)))
        return "\n".join(sorted(line for line in text.splitlines() if counts(line)))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        # with the byte before it, which in ONNX tells how long it is
        return hashlib.sha256(re.sub(b"(?s)." + COMMIT.encode(), rb"\1", data)).hexdigest()
    if path.endswith(".yaml"):
        text = translate("\n".join(config_lines(text)))
        return "\n".join(sorted(line for line in text.splitlines() if counts(line)))
    return "\n".join(line for line in text_lines(path, translate(text)) if counts(line))


def folder(root):
    found = [os.path.join(where, name) for where, _, names in os.walk(root) for name in names]
    return {os.path.relpath(path, root): path for path in found}


def entries(text, added):
    """Lines with the indented ones below them, each as its words, but for what is new."""
    found = re.split(r"\n(?=\S)", text)
    return [" ".join(entry.split()) for entry in found if not names_any(entry, added)]


def same(old, new, renamed, added):
    if old == new:
        return True
    if not renamed:
        return False
    # A word of another length wraps text in another way, and a key may have moved.
    before, after = entries(old, []), entries(new, added)
    return sorted(before) == sorted(after) or " ".join(before) == " ".join(after)


def main():
    old_root, new_root, words_path = sys.argv[1:]
    words, added = read_words(words_path)
    translate = translator(words)

    def translate_titles(text):  # same_runs.sh's own lines, which say what was asked in OLD's words
        text = re.sub(r" \(once `([^`]+)`\)", lambda m: "" if m[1] in words else m[0], text)
        return re.sub(r"(?m)^== .*", lambda match: translate(match[0]), text)

    def counts_in(path):  # entries() leaves out what is new in help, where it has several lines
        new = [] if path.endswith(EXACT) else added
        return lambda line: not is_alias_warning(line, words) and not names_any(line, new)

    old, new = folder(old_root), folder(new_root)
    lines = [] if old and new else ["nothing to compare"]
    for name in sorted({*old, *new}):
        if name not in old or name not in new:
            lines.append(f"{name}: only {'OLD' if name in old else 'NEW'} has it")
            continue
        left = file_text(old[name], translate, lambda path: lambda line: True)
        right = file_text(new[name], translate_titles, counts_in)
        if not same(left, right, words, added):
            lines.append(f"{name}:")
            diff = difflib.unified_diff(left.splitlines(), right.splitlines(), n=0, lineterm="")
            lines += [*diff][2:]
    for line in lines[:SHOWN_LINES]:
        print(line[:300])
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
