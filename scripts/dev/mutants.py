#!/usr/bin/env python3
"""Do the tests notice faults? Puts one at a time into the product, runs the tests that reach it.

    scripts/dev/mutants.py [--count 200] [--seed 14] [--only TEXT] [--survivors] [--keep]
    scripts/dev/mutants.py --table        the survivors, then the sums

The draw. Sites are found in all C files of base, data, models, kernels/cpu and trainer that this
machine's build compiles, and in their headers (scripts/dev/mutation/sites.py). Each of the five
operators gets the same number of faults; within one, sites are taken in the order of a hash of the
seed and of what the site is. A site is passed over, and the next of its operator taken, only if

  - the compiler refuses the mutant, with the warnings of the build as errors, as CI has them, or it
    does not link;
  - it compiles to the same object code as no fault at all (trivial compiler equivalence);
  - the preprocessor leaves the line out here (a word that is no C compiles there as well).

The tests. A copy of the tree, built with coverage, runs every test once and notes which lines it
reaches; tests that take longer than a minute there are left out, by name, and so are those that
fail here without a fault. A mutant runs tests that reach its line, as many as fit into 45 s by what
they took unmutated: unit tests and operations for up to 25 s, then whole runs. The nearest are
taken first: those of the test file named like the mutant's, then of every other test file its
nearest ones, a second's worth, then another second's. The nearer of two tests is named more like
the file, or has more of all lines that it reaches in that file. A line without code (a row of a
table) stands for its file, if that has none for its folder. A mutant is dead when a test fails or
crashes, when a unit test takes ten seconds more than four times what it took, or when the tests
have not ended after 60 s, and the same test fails once more with the fault and passes without; all
others are survivors, also those that no test reaches.

All of it lies in build/mutants: copies of the tree, map.json, results.json. A test is mapped again
when it, a header or a file that it reaches has changed. What has a result for the tree as it is
does not run again; with --keep results of earlier states stand too, and --survivors runs again what
has survived before and nothing else. Tests run in namespaces of their own
(scripts/dev/mutation/sandbox.py), because a mutant may kill or remove anything.
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
from tree import COVER_FLAGS, PLAIN_FLAGS, Tree, Trouble  # noqa: E402

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

    def __init__(self, tests, patience):
        self.patience = patience
        self.left_out = sorted("%s (%s)" % (name, why) for name, why in
                               ((name, self.why_not(entry)) for name, entry in tests.items())
                               if why)
        self.tests = {name: entry for name, entry in tests.items()
                      if not entry["skipped"] and not self.why_not(entry)}
        self.by_file = {}  # file -> [(test, program, lines)]
        self.reach = {}    # test -> lines that it reaches, by file and under None all of them
        for name, entry in self.tests.items():
            reach = self.reach[name] = {None: 0}
            for program, files in entry["reached"].items():
                for path, lines in files.items():
                    self.by_file.setdefault(path, []).append((name, program, frozenset(lines)))
                    reach[path] = reach.get(path, 0) + len(lines)
                    reach[None] += len(lines)

    def why_not(self, entry):
        if entry["broken"]:
            return entry["broken"]
        return "%.0f s" % entry["seconds"] if entry["seconds"] > LIMIT_S * self.patience else None

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
        """The tests that run, in their order."""
        path = site.source.path
        stem = re.sub(r"_(avx2|avx512|mpi|run)$", "", os.path.basename(path)[:-2])
        words = set(stem.split("_")) - {"source", "checks", "cmd", "config"} or {stem}

        def distance(name):
            family = name.split(":")[1].split(".")[0]
            like = 0 if family == stem else 1 if words & set(family.split("_")) else 2
            reach = self.reach[name]
            return (like, -reach.get(path, 0) / reach[None], self.tests[name]["seconds"])

        spent, turn = {}, {}
        for name in sorted(found, key=distance):
            family = name.split(".")[0]  # an operation, a whole run is one of its own
            spent[family] = spent.get(family, 0) + self.tests[name]["seconds"]
            turn[name] = -1 if distance(name)[0] == 0 else int(spent[family])
        # In each turn all unit tests are one process.
        order = sorted(found, key=lambda name: (turn[name], not name.startswith("unit:"),
                                                distance(name)))
        whole = sorted((name for name in order if name.startswith("e2e:")), key=distance)
        quick, spent = self.afford([name for name in order if not name.startswith("e2e:")],
                                   UNIT_S if whole else SPENT_S)
        return quick + self.afford(whole, SPENT_S - spent / self.patience)[0]

    def afford(self, names, seconds):
        taken, spent = [], 0.0
        for name in names:
            cost = self.tests[name]["seconds"]
            if spent + cost <= seconds * self.patience or not taken:
                taken.append(name)
                spent += cost
        return taken, spent

    def next_run(self, chosen, left_s):
        """Takes from the tests `chosen` what runs next in one process, drops what has no time."""
        names, spent = [], 0.0
        while chosen:
            name, cost = chosen[0], self.tests[chosen[0]]["seconds"]
            fits = spent + cost <= left_s
            if names and not (fits and name.startswith("unit:") and names[0].startswith("unit:")):
                break
            chosen.pop(0)
            if fits:
                names.append(name)
                spent += cost
        return names


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
                                              and not name.startswith("scripts/dev/mut")])
        covered = Tree(os.path.join(self.work, "cover"), self.work)
        self.tree = Tree(os.path.join(self.work, "tree"), self.work)
        for tree, flags in ((covered, COVER_FLAGS), (self.tree, PLAIN_FLAGS)):
            say("building %s" % tree.root)
            tree.sync(self.root, files)
            tree.build(flags)
        product = [name for name in files if name.endswith((".c", ".h"))
                   and not name.startswith("tests/")]
        known = {name: cover.blocks(covered, program)
                 for name, (program, _) in covered.links.items()}
        path = os.path.join(self.work, "map.json")
        tests = read_json(path) if self.options.old_map else \
            cover.update(covered, self.tree, path, product, known, say)
        if not any(test["reached"] for test in tests.values()):
            raise Trouble("no test reaches a line: the covered programs note nothing")
        self.map = Map(tests, self.options.patience)
        self.coded = {}
        for line in set().union(*(lines for name in ("unit", "ops", "convoy")
                                  for lines in known[name].values())):
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
        if not made or self.tree.is_same(made):
            whole, at = site.source.text, site.start
            text = "%s %s %s" % (whole[:at], NOT_C, whole[at:])
            here = self.tree.compile(site.source.path, text, limit=1) is None
            return {"verdict": "passed over", "why": "same code" if here else "not compiled here"}
        found = self.map.reaching(site, self.coded)
        if not found:
            return {"verdict": "survived", "why": "not reached", "tests": 0}
        try:
            return self.test(self.map.choose(site, found), found, made)
        finally:
            self.tree.restore()

    def test(self, chosen, found, made):
        start, left = time.monotonic(), LIMIT_S * self.options.patience
        tests, flaky, linked = 0, [], set()
        while True:
            names = self.map.next_run(chosen, left)
            if not names:
                return {"verdict": "survived", "why": "tests pass" if tests else "no time",
                        "tests": tests, "flaky": flaky,
                        "seconds": round(time.monotonic() - start, 1)}
            programs = set().union(*(found[name] for name in names)) - linked
            if not self.tree.link(programs, made):
                return {"verdict": "passed over", "why": "does not link"}
            linked |= programs
            tests += len(names)
            limit = left
            run = self.run(names, limit)
            left -= run.seconds
            if run.fault is None:
                continue
            failed = "unit:%s" % run.test
            again, behind = ([failed], names[names.index(failed) + 1:]) if failed in names else \
                (names, [])
            if self.run(again, limit).fault is not None:
                self.tree.restore()
                linked = set()
                if self.run(again, limit).fault is None:
                    return {"verdict": "dead", "by": again[0] if len(again) == 1 else "unit",
                            "how": run.fault, "tests": tests,
                            "seconds": round(time.monotonic() - start, 1)}
            flaky += again  # it fails now and then, or without the fault, too
            chosen[:0] = behind

    def run(self, names, limit_s):
        known = [self.map.tests[name]["seconds"] for name in names]
        # One unit test that hangs is not waited for until the end.
        alone_s = min(limit_s, 10 * self.options.patience + 4 * max(known))
        unit = names[0].startswith("unit:")
        words, env = cover.test_words(names, self.tree, alone_s if unit else limit_s)
        return self.tree.run(words, limit_s, env)

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
        say("tests left out: %s" % (", ".join(self.map.left_out) or "none"))
        dead = sum(r["verdict"] == "dead" for _, r in counted)
        say("%d of %d dead, %.1f %%" % (dead, len(counted), 100 * dead / max(1, len(counted))))
        return dead >= 0.8 * len(counted)

    def table(self, chosen):
        """The survivors, a line each."""
        for site, r in chosen:
            if r["verdict"] == "survived":
                name = site.function[2] if site.function else ""
                say("%s:%d %s | %s | %s" % (site.source.path, site.line, name, site.fault,
                                            r["why"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--only", default="", help="draw in files whose path begins so")
    parser.add_argument("--survivors", action="store_true", help="run survivors again, no others")
    parser.add_argument("--keep", action="store_true", help="results of earlier states stand")
    parser.add_argument("--table", action="store_true",
                        help="list survivors, then the sums; run nothing")
    parser.add_argument("--old-map", action="store_true", help="take map.json as it is")
    parser.add_argument("--patience", type=float, default=1,
                        help="times all of these seconds, on a busy machine")
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
