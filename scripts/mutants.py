#!/usr/bin/env python3
"""Do the tests notice faults? Puts one at a time into the product, runs the tests that reach it.

    scripts/mutants.py [--count 200] [--seed 14] [--only TEXT] [--survivors] [--keep]
    scripts/mutants.py --table        the survivors as rows of docs/mutants.md

The draw. Sites are found in all C files of base, data, models, kernels/cpu and trainer that this
machine's build compiles, and in their headers (scripts/mutation/sites.py). Each of the five
operators gets the same number of faults; within one, sites are taken in the order of a hash of the
seed and of what the site is. A site is passed over, and the next of its operator taken, only if

  - the compiler refuses the mutant, with the warnings of the build as errors, as CI has them, or it
    does not link;
  - the preprocessor leaves the line out here (a word that is no C compiles there as well).

The tests. A copy of the tree, built with coverage, runs every test once and notes which lines it
reaches; tests that take longer than a minute there are left out, by name. A mutant runs those that
reach its line: unit tests and operations first, whole runs after them, those named like its file
before others, then cheap ones before dear ones, as many as fit into 45 s by what they took
unmutated. A line without code (a row of a table) stands for its file, if that has none for its
folder. A mutant is dead when a test fails or crashes, when a unit test takes ten seconds more than
four times what it took, or when the tests have not ended after 60 s, and the same test passes
without the fault; all others are survivors, also those that no test reaches.

All of it lies in build/mutants: copies of the tree, map.json, results.json. What has a result for
the tree as it is does not run again; with --keep results of earlier states stand too, and
--survivors runs again what has survived before and nothing else. Tests run in namespaces of their
own (scripts/mutation/sandbox.py), because a mutant may kill or remove anything.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutation"))
import cover  # noqa: E402
import sites  # noqa: E402
from tree import COVER_FLAGS, Tree  # noqa: E402

ROOMS = ("base/", "data/", "models/", "kernels/cpu/", "trainer/")
LIMIT_S = 60  # for all tests of a mutant
SPENT_S = 45  # what they may take unmutated: unit tests and operations the first part
UNIT_S = 25
NOT_C = "@@"


def say(text):
    print(text, flush=True)


def read_json(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def write_json(path, value):
    with open(path + ".new", "w") as f:
        json.dump(value, f, indent=1)
    os.replace(path + ".new", path)


class Map:
    """Which tests reach a site, and through which programs."""

    def __init__(self, tests):
        self.tests = {name: entry for name, entry in tests.items()
                      if not entry["skipped"] and entry["seconds"] <= LIMIT_S}
        self.by_file = {}  # file -> [(test, program, lines)]
        for name, entry in self.tests.items():
            for program, files in entry["reached"].items():
                for path, lines in files.items():
                    self.by_file.setdefault(path, []).append((name, program, frozenset(lines)))
        self.code = {path: sorted(set().union(*(row[2] for row in rows)))
                     for path, rows in self.by_file.items()}

    def lines_for(self, site, coded):
        """The lines that stand for a site: its own, else those of code around it in its function;
        None, for any of the file, if there are none."""
        own = set(range(site.line, site.last_line + 1)) & coded
        if own or not site.function:
            return own or None
        first, last = (site.source.line_at(at) for at in site.function[:2])
        near = [n for n in coded if first <= n <= last]
        if not near:  # inlined everywhere, and nothing left of its own lines
            return None
        before, after = ([n for n in near if n < site.line], [n for n in near if n > site.line])
        return {n for n in (max(before, default=0), min(after, default=0)) if n}

    def reaching(self, site, coded):
        """{test: programs}"""
        path, found = site.source.path, {}
        lines = self.lines_for(site, coded.get(path, set()))
        rows = self.by_file.get(path, [])
        if lines is None and path not in coded:
            room = os.path.dirname(path) + "/"
            rows = [row for other in self.by_file if other.startswith(room)
                    for row in self.by_file[other]]
        for name, program, there in rows:
            if lines is None or lines & there:
                found.setdefault(name, set()).add(program)
        return found

    def choose(self, site, found):
        """[test...] in the order in which they run: ("unit:a b c", "check:add", "e2e:comm")."""
        stem = re.sub(r"_(avx2|avx512|mpi|run)$", "", os.path.basename(site.source.path)[:-2])
        words = set(stem.split("_")) - {"source", "checks", "cmd", "config"} or {stem}

        def order(name):
            own = name[len("check:"):] if name.startswith("check:") else \
                cover.file_of(name).rsplit("/", 1)[1].split(".")[0].replace("test_", "")
            like = 0 if own == stem else 1 if words & set(own.split("_")) else 2
            return (like, self.tests[name]["seconds"])
        quick = sorted((n for n in found if not n.startswith("e2e:")), key=order)
        whole = sorted((n for n in found if n.startswith("e2e:")), key=order)
        quick, spent = self.afford(quick, UNIT_S if whole else SPENT_S)
        whole, _ = self.afford(whole, SPENT_S - spent)
        batches = []
        for name in quick:
            if name.startswith("unit:") and batches and batches[-1].startswith("unit:"):
                batches[-1] += " " + name[len("unit:"):]
            else:
                batches.append(name)
        return batches + whole

    def afford(self, names, seconds):
        taken, spent = [], 0.0
        for name in names:
            cost = self.tests[name]["seconds"]
            if spent + cost <= seconds or not taken:
                taken.append(name)
                spent += cost
        return taken, spent


class Mutants:
    def __init__(self, options):
        self.options = options
        self.root = subprocess.run(["git", "rev-parse", "--show-toplevel"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()
        self.work = os.path.abspath(options.work or os.path.join(self.root, "build/mutants"))
        os.makedirs(self.work, exist_ok=True)
        self.results_path = os.path.join(self.work, "results.json")
        self.results = read_json(self.results_path)

    def prepare(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root,
                                check=True, text=True, stdout=subprocess.PIPE).stdout.split("\n")
        files = [name for name in listed if name and os.path.isfile(os.path.join(self.root, name))]
        if os.path.exists(os.path.join(self.root, "config.mk")):
            files.append("config.mk")
        self.stamp = cover.digest(self.root, [name for name in files if not name.endswith(".md")
                                              and not name.startswith("scripts/mut")])
        covered = Tree(os.path.join(self.work, "cover"), self.work)
        self.tree = Tree(os.path.join(self.work, "tree"), self.work)
        for tree, flags in ((covered, COVER_FLAGS), (self.tree, [])):
            say("building %s" % tree.root)
            tree.sync(self.root, files)
            tree.build(flags)
        product = [name for name in files if name.endswith((".c", ".h"))
                   and not name.startswith("tests/")]
        path = os.path.join(self.work, "map.json")
        tests = read_json(path) if self.options.old_map else \
            cover.update(covered, path, product, say)
        self.map = Map(tests)
        self.left_out = sorted("%s (%.0f s)" % (name, entry["seconds"])
                               for name, entry in tests.items()
                               if name not in self.map.tests and not entry["skipped"])
        self.coded = {}
        for name in ("unit", "check", "convoy"):
            for lines in cover.blocks(covered, covered.links[name][0]).values():
                for line in lines:
                    path, number = line.rsplit(":", 1)
                    self.coded.setdefault(path, set()).add(int(number))
        built = set(self.tree.compiles)
        drawn = [name for name in sorted(files) if name.startswith(ROOMS)
                 and name.startswith(self.options.only)
                 and (name in built or name.endswith(".h"))]
        sources = []
        for name in drawn:
            with open(os.path.join(self.root, name)) as f:
                sources.append(sites.Source(name, f.read()))
        self.drawn = sites.draw(sources, self.options.seed)

    # ---- one mutant ----

    def judge(self, site):
        """The site's result, or why it is passed over."""
        made = self.tree.compile(site.source.path, site.mutated())
        if made is None:
            return {"verdict": "passed over", "why": "refused by the compiler"}
        found = self.map.reaching(site, self.coded)
        if not found:
            whole, at = site.source.text, site.start
            text = "%s %s %s" % (whole[:at], NOT_C, whole[at:])
            if self.tree.compile(site.source.path, text, limit=1) is not None:
                return {"verdict": "passed over", "why": "not compiled here"}
            return {"verdict": "survived", "why": "not reached", "tests": 0}
        try:
            result = self.test(self.map.choose(site, found), found, made)
        finally:
            self.tree.restore()
        if result["verdict"] == "survived" and self.same_code(site):
            result["why"] = "same code"
        return result

    def test(self, chosen, found, made):
        start, left = time.monotonic(), LIMIT_S * self.options.patience
        tests = sum(len(name.split(" ")) for name in chosen)
        flaky, linked = [], set()
        while chosen and left > 0:
            name = chosen.pop(0)
            kind, _, rest = name.partition(":")
            ones = [kind + ":" + one for one in rest.split(" ")]
            if sum(self.map.tests[one]["seconds"] for one in ones) > left:
                break
            programs = set().union(*(found[one] for one in ones)) - linked
            if not self.tree.link(programs, made):
                return {"verdict": "passed over", "why": "does not link"}
            linked |= programs
            limit = left
            run = self.run(name, limit)
            left -= run.seconds
            if run.fault is None:
                continue
            again = "unit:" + run.test if kind == "unit" and run.test in rest.split(" ") else name
            self.tree.restore()
            linked = set()
            if self.run(again, limit).fault is None:
                return {"verdict": "dead", "by": again if len(again) < 200 else "unit",
                        "how": run.fault, "tests": tests,
                        "seconds": round(time.monotonic() - start, 1)}
            flaky.append(again)  # it fails without the fault, too
            if kind == "unit" and run.test in rest.split(" "):
                behind = rest.split(" ")[rest.split(" ").index(run.test) + 1:]
                chosen[:0] = ["unit:" + " ".join(behind)] if behind else []
        return {"verdict": "survived", "why": "tests pass", "tests": tests, "flaky": flaky,
                "seconds": round(time.monotonic() - start, 1)}

    def run(self, name, limit_s):
        kind, _, rest = name.partition(":")
        known = [self.map.tests[kind + ":" + one]["seconds"] for one in rest.split(" ")]
        # One unit test that hangs is not waited for until the end.
        alone_s = min(limit_s, 10 * self.options.patience + 4 * max(known))
        words, env = cover.test_words(name, self.tree, alone_s if kind == "unit" else limit_s)
        return self.tree.run(words, limit_s, env)

    def same_code(self, site):
        def contents(text):
            made = self.tree.compile(site.source.path, text)
            parts = {}
            for name, path in (made or {}).items():
                with open(path, "rb") as f:
                    parts[name] = f.read()
            return parts
        return contents(site.mutated()) == contents(site.source.text)

    # ---- all of them ----

    def wanted(self, site):
        known = self.results.get(site.key)
        if self.options.survivors:
            return known is not None and known["verdict"] == "survived"
        if known is None:
            return True
        return known["stamp"] != self.stamp and not self.options.keep

    def run_all(self):
        per_operator = self.options.count // len(sites.OPERATORS)
        taken = {operator: 0 for operator in sites.OPERATORS}
        queue = {operator: iter(self.drawn[operator]) for operator in sites.OPERATORS}
        chosen = []
        while queue:
            for operator in list(queue):
                site = next(queue[operator], None)
                if site is None or taken[operator] == per_operator:
                    del queue[operator]
                    continue
                self.run_one(site)
                result = self.results.get(site.key, {"verdict": "survived", "why": "not run"})
                if result["verdict"] != "passed over":
                    taken[operator] += 1
                chosen.append((site, result))
        return chosen

    def run_one(self, site):
        if not self.wanted(site):
            return
        result = self.judge(site)
        name = site.function[2] if site.function else ""
        result.update(operator=site.operator, file=site.source.path, line=site.line,
                      function=name, fault=site.fault, stamp=self.stamp)
        self.results[site.key] = result
        write_json(self.results_path, self.results)
        if result["verdict"] == "passed over":
            return
        say("%-8s %s:%d %s: %s: %s (%s)" % (
            result["verdict"], site.source.path, site.line, name, site.operator, site.fault[:90],
            "%s: %s" % (result["by"], result["how"][:80]) if "by" in result else result["why"]))

    def summary(self, chosen):
        counted = [(site, r) for site, r in chosen if r["verdict"] != "passed over"]
        over = {}
        for _, r in chosen:
            if r["verdict"] == "passed over":
                over[r["why"]] = over.get(r["why"], 0) + 1
        for operator in sites.OPERATORS:
            rows = [r for site, r in counted if site.operator == operator]
            dead = sum(r["verdict"] == "dead" for r in rows)
            say("%-18s %3d of %3d dead" % (operator, dead, len(rows)))
        say("passed over: %s" % (", ".join("%d %s" % (n, why) for why, n in sorted(over.items()))
                                 or "none"))
        say("tests left out: %s" % (", ".join(self.left_out) or "none"))
        dead = sum(r["verdict"] == "dead" for _, r in counted)
        say("%d of %d dead, %.1f %%" % (dead, len(counted), 100 * dead / max(1, len(counted))))
        return dead >= 0.8 * len(counted)

    def table(self, chosen):
        """Survivors as rows; the verdict is taken from the page, where it knows the fault."""
        known = {}
        page = os.path.join(self.root, "docs/mutants.md")
        if os.path.exists(page):
            with open(page) as f:
                for line in f:
                    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                    if len(cells) == 4:
                        known[tuple(cells[:2])] = cells[2:]
        for site, r in chosen:
            if r["verdict"] == "survived":
                where = "`%s` %s" % (site.source.path, site.function[2] if site.function else "")
                cells = (where.strip(), "`%s`" % site.fault.replace("|", "\\|"))
                say("| %s | %s | %s |" % (*cells, " | ".join(known.get(cells, [r["why"], ""]))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--only", default="", help="draw in files whose path begins so")
    parser.add_argument("--survivors", action="store_true", help="run survivors again, no others")
    parser.add_argument("--keep", action="store_true", help="results of earlier states stand")
    parser.add_argument("--table", action="store_true", help="show results; run nothing")
    parser.add_argument("--old-map", action="store_true", help="take map.json as it is")
    parser.add_argument("--patience", type=float, default=1, help="times 60 s, on a busy machine")
    parser.add_argument("--work", help="folder, instead of build/mutants")
    options = parser.parse_args()
    mutants = Mutants(options)
    mutants.prepare()
    if options.table:
        mutants.wanted = lambda site: False
    chosen = mutants.run_all()
    if options.table:
        mutants.table(chosen)
    return 0 if mutants.summary(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
