"""Which tests reach which lines; for scripts/dev/mutants.py.

The programs of a tree built with COVER_FLAGS note which basic blocks they enter
(tests/cover/cover.c); objdump says of which lines a block is.
"""

import concurrent.futures
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading

LIMIT_S = 600  # for a test, however busy the machine is
NONZERO = re.compile(rb"[^\0]")


def blocks(tree, program):
    """{offset of the note in the program's file: lines}, a line as "file:number"."""
    listing = subprocess.run(["objdump", "-dl", "--no-show-raw-insn", program], cwd=tree.root,
                             stdout=subprocess.PIPE, text=True, check=True).stdout
    symbols = subprocess.run(["nm", program], cwd=tree.root, stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    start = int(re.search(r"^(\w+) \w __executable_start$", symbols, re.MULTILINE).group(1), 16)
    found, line, waiting, block, called = {}, None, set(), None, False
    prefix = "/cover/"  # what COVER_FLAGS put for the tree's folder
    for text in listing.split("\n"):
        if text.startswith(prefix):
            line = text[len(prefix):].split(" ")[0]
        elif text.startswith("/"):
            line = None
        elif text.endswith(">:"):
            line, waiting, block, called = None, set(), None, False
        elif text.startswith("  "):
            address, _, instruction = text.partition(":\t")
            if called:  # the note is named by where the call returns to
                block = found.setdefault(int(address, 16) - start, set())
                block |= waiting
                waiting, called = set(), False
            if line:
                (waiting if block is None else block).add(line)
            if "__sanitizer_cov_trace_pc>" in instruction:
                called = True
            elif instruction.startswith(("j", "ret")):
                block = None  # what follows is the next block's, whose call may come later
    return found


def reached(folder, known):
    """{program: {file: [lines]}} from the notes in a folder."""
    result = {}
    for program in sorted(os.listdir(folder)):
        if program not in known:
            continue
        with open(os.path.join(folder, program), "rb") as f:
            notes = f.read()
        lines = {}
        for note in NONZERO.finditer(notes):
            for line in known[program].get(note.start(), ()):
                path, number = line.rsplit(":", 1)
                if not path.startswith("tests/"):
                    lines.setdefault(path, set()).add(int(number))
        result[program] = {path: sorted(numbers) for path, numbers in lines.items()}
    return result


def test_words(names, tree, limit_s):
    """The command that runs a test, or several unit tests."""
    kind, _, rest = names[0].partition(":")
    if kind == "ops":
        return ["build/ops", "--backend=cpu", "--op==" + rest], {}
    if kind == "e2e":
        return ["scripts/e2e.sh", "tests/e2e/%s.sh" % rest], {"E2E_LIMIT_S": str(int(limit_s))}
    listed = tree.path("build/list%d" % threading.get_ident())
    with open(listed, "w") as f:
        f.write("".join(name[len("unit:"):] + "\n" for name in names))
    return ["build/unit", "--tests=" + listed, "--jobs=1",
            "--timeout=%d" % max(1, int(limit_s))], {}


def all_tests(tree):
    def lines(*words):
        done = subprocess.run(words, cwd=tree.root, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.split("\n")
    names = ["unit:" + line for line in lines("build/unit", "--list") if line]
    cases = [line for line in lines("build/ops", "--list") if " | " in line]
    names += ["ops:" + op for op in dict.fromkeys(case.split(" ")[0] for case in cases)]
    return names + ["e2e:" + name[:-3] for name in sorted(os.listdir(tree.path("tests/e2e")))
                    if name.endswith(".sh")]


def file_of(name):
    kind, _, rest = name.partition(":")
    pattern = "tests/unit/**/test_%s.c" % rest.split(".")[0]
    return {"unit": (glob.glob(pattern, recursive=True) or [pattern])[0], "ops": "tests/ops/main.c",
            "e2e": "tests/e2e/%s.sh" % rest}[kind]


def digest(root, files):
    total = hashlib.sha256()
    for name in sorted(files):
        with open(os.path.join(root, name), "rb") as f:
            total.update(name.encode() + b"\0" + f.read() + b"\0")
    return total.hexdigest()[:16]


def update(tree, plain, path, product, known, say):
    """The map, kept in the file `path`: runs the tests that are new, or that changed or reach a
    file that did. One that fails is tried in the tree without notes, and is broken if it fails
    there, too. `known`: blocks() by program."""
    tests = {}
    if os.path.exists(path):
        with open(path) as f:
            tests = json.load(f)
    names = all_tests(tree)
    digests = {name: digest(tree.root, [name]) for name in {*product, *map(file_of, names)}}
    coded = {line.rsplit(":", 1)[0] for found in known.values()
             for lines in found.values() for line in lines}
    tables = {name for name in product if name not in coded or name.endswith(".h")}

    def stamp_of(name, reached):
        files = tables.union({file_of(name)}, *reached.values()).intersection(digests)
        return hashlib.sha256("".join(name + digests[name] for name in sorted(files)).encode()) \
            .hexdigest()[:16]

    tests = {name: tests[name] for name in names if name in tests
             and tests[name]["stamp"] == stamp_of(name, tests[name]["reached"])}
    missing = [name for name in names if name not in tests or tests[name]["broken"]]
    say("map: %d tests to run, %d known" % (len(missing), len(tests)))

    def run_one(name):
        folder = tree.path("build/reached", re.sub(r"\W", "_", name))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        words, env = test_words([name], tree, LIMIT_S)
        result = tree.run(words, LIMIT_S, dict(env, COVER_FOLDER=folder))
        broken = None
        if result.fault:
            words, env = test_words([name], plain, LIMIT_S)
            broken = plain.run(words, LIMIT_S, env).fault
        lines = reached(folder, known)
        shutil.rmtree(folder)
        return {"stamp": stamp_of(name, lines), "seconds": round(result.seconds, 2),
                "broken": broken, "skipped": result.skipped, "reached": lines}

    def save():
        with open(path + ".new", "w") as f:
            json.dump(tests, f)
        os.replace(path + ".new", path)

    # Unit tests and operations take one processor each, whole runs all of them.
    whole = [name for name in missing if name.startswith("e2e:")]
    n = 0
    for names, jobs in ((missing[:len(missing) - len(whole)], os.cpu_count() or 1), (whole, 1)):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, entry in zip(names, pool.map(run_one, names)):
                n += 1
                tests[name] = entry
                if entry["broken"]:
                    say("  %s: %s" % (name, entry["broken"]))
                if n % 100 == 0 or name.startswith("e2e:"):
                    say("  %d of %d: %s, %.1f s" % (n, len(missing), name, entry["seconds"]))
                    save()
    save()
    return tests
