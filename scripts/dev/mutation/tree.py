"""A copy of the tree, whose programs are built with a fault in one file; for
scripts/dev/mutants.py."""

import filecmp
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

import sandbox

# Tests and the reference, into which no fault is put, are as fast as ever: what a test takes here
# is about what it takes without notes.
COVER_FLAGS = ["WARNINGS=-w", "PLAIN_FLAGS=", "CPU_FLAGS=-fno-math-errno",
               "DATA_FLAGS=-ffp-contract=off",
               "LDFLAGS=$(if $(filter %.so,$@),,-no-pie build/cover.o)",
               "CFLAGS=$(if $(filter %.so,$@),,-fno-pie -fdebug-prefix-map=$(CURDIR)=/cover "
               "$(if $(filter tests/% kernels/ref/%,$<),-O2,-O1 -fsanitize-coverage=trace-pc))"]
PLAIN_FLAGS = ["CFLAGS=-g0"]  # objects with the same code are the same files
# Objects that no archive holds: what a program wants of them its command names.
PROGRAMS_OWN = re.compile(
    r"trainer/app/main|tests/(test_main|(unit|ops|sweep)/|tools/make_)|fuzz_main")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


class Trouble(Exception):
    pass


class Run:
    """How a test ended: in words, None if it passed; `test`: which one did not."""

    def __init__(self, fault, test, seconds, skipped):
        self.fault, self.test, self.seconds, self.skipped = fault, test, seconds, skipped


class Tree:
    def __init__(self, root, work):
        self.root, self.work = root, work
        self.mutant = os.path.join(root, "build/mutant")

    def path(self, *names):
        return os.path.join(self.root, *names)

    def sync(self, source, files):
        """Makes this a copy of those files of the folder `source`, with their times."""
        os.makedirs(self.path("build"), exist_ok=True)
        wanted = set(files)
        for folder, folders, names in os.walk(self.root):
            if folder == self.root and "build" in folders:
                folders.remove("build")
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.root) not in wanted | {"convoy"}:
                    os.remove(path)
        for name in files:
            here, there = self.path(name), os.path.join(source, name)
            if os.path.exists(here) and os.stat(here).st_mtime == os.stat(there).st_mtime:
                continue
            os.makedirs(os.path.dirname(here), exist_ok=True)
            shutil.copy2(there, here, follow_symlinks=False)

    def build(self, flags):
        """Programs and tools; notes by which commands they come about."""
        if flags is COVER_FLAGS:
            self.shell("gcc -std=c17 -O2 -D_GNU_SOURCE -fno-pie -c tests/cover/cover.c "
                       "-o build/cover.o")
        for kept in glob.glob(self.path("build/kept/*")):  # a run was ended amidst a mutant
            name = os.path.basename(kept)
            self.put(kept, self.path(name if name == "convoy" else "build/" + name))
        done = subprocess.run(["make", "-j%d" % os.cpu_count(), "build", *flags],
                              cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Trouble("%s does not build:\n%s" % (self.root, done.stdout[-2000:]))
        said = subprocess.run(["make", "-nB", "V=1", "build", *flags], cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        self.compiles, self.links, self.objects = {}, {}, {}
        for line in said.replace("\\\n", " ").split("\n"):
            compiled = re.search(r" -c (\S+\.c) -o (\S+)\s*$", line)
            linked = re.search(r" -o (\S+) ", line)
            if compiled:
                self.compiles[compiled.group(1)] = line
                self.objects[compiled.group(1)] = compiled.group(2)
            elif linked and "libengine.a" in line:
                self.links[os.path.basename(linked.group(1))] = (linked.group(1), line)
        for path, _ in self.links.values():  # the unmutated program, to come back to
            self.put(self.path(path), self.kept(path), fresh=True)

    def kept(self, program):
        return os.path.join(self.root, "build/kept", os.path.basename(program))

    @staticmethod
    def put(source, target, fresh=False):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if fresh or not os.path.exists(target) or not os.path.samefile(source, target):
            if os.path.exists(target):
                os.remove(target)
            os.link(source, target)

    def shell(self, line):
        env = dict(os.environ, CCACHE_DISABLE="1", LC_ALL="C")
        return subprocess.run(["bash", "-c", line], cwd=self.root, env=env, **QUIET).returncode == 0

    # ---- a fault ----

    def dependents(self, path):
        """The C files that have to be compiled when `path` changes."""
        if path.endswith(".c"):
            return [path]
        users = []
        for source, made in self.objects.items():
            try:
                with open(self.path(made[:-2] + ".d")) as f:
                    if path in f.read().split("\n\n")[0].replace("\\\n", " ").split():
                        users.append(source)
            except FileNotFoundError:
                pass
        return users

    def compile(self, path, text, limit=None):
        """Compiles what depends on `path` as if it read `text`, with warnings as errors; returns
        {object: mutated object}, or None if the compiler refuses it."""
        shutil.rmtree(self.mutant, ignore_errors=True)
        times = os.stat(self.path(path))
        with open(self.path(path)) as f:
            original = f.read()
        made = {}
        try:
            with open(self.path(path), "w") as f:
                f.write(text)
            for source in self.dependents(path)[:limit]:
                out = os.path.join(self.mutant, source[:-2] + ".o")
                os.makedirs(os.path.dirname(out), exist_ok=True)
                line = self.compiles[source].rsplit(" -o ", 1)[0]
                if not self.shell("%s -Werror -o %s" % (line, shlex.quote(out))):
                    return None
                made[self.objects[source]] = out
        finally:
            with open(self.path(path), "w") as f:
                f.write(original)
            os.utime(self.path(path), ns=(times.st_atime_ns, times.st_mtime_ns))
        return made

    def is_same(self, made):
        """Whether the mutated objects are those that there were."""
        return made != {} and all(filecmp.cmp(self.path(kept), mutated, shallow=False)
                                  for kept, mutated in made.items())

    def link(self, programs, made):
        """Puts programs with the mutated objects in their places; they are found before the
        library's. False if they do not link."""
        for name in programs:
            program, line = self.links[name]
            words = line.split()
            added = [out for made_of, out in made.items() if made_of not in words]
            # The main program's objects are named, the library's are taken from it.
            words = [made.get(word, word) for word in words]
            at = next(i for i, word in enumerate(words) if word.endswith(".a"))
            words[at:at] = [out for out in added if not PROGRAMS_OWN.search(out) and
                            (name != "convoy" or "/tests/" not in out)]
            os.remove(self.path(program))
            if not self.shell(" ".join(words)):
                return False
        return True

    def restore(self):
        for path, _ in self.links.values():
            self.put(self.kept(path), self.path(path))

    # ---- tests ----

    def run(self, words, limit_s, environment=()):
        """Runs a test program in the sandbox until it ends or reports its first failure."""
        env = dict(os.environ, **dict(environment))
        # Process ids are small and the same each time there, and so are the names of the folders
        # of whole runs; a failed one leaves its own.
        for folder in glob.glob(self.path("build/e2e-*")) if words[0].endswith("e2e.sh") else ():
            shutil.rmtree(folder, ignore_errors=True)
        start = time.monotonic()
        process = subprocess.Popen(sandbox.command(self.work, words), cwd=self.root, env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        late = []
        timer = threading.Timer(max(limit_s, 0.1), lambda: (late.append(1), process.kill()))
        timer.start()
        fault, test, skipped = None, None, False
        for line in process.stdout:
            line = line.decode(errors="replace")
            skipped = skipped or line.startswith("0 passed, 0 failed, ")
            if line.startswith("FAIL"):
                fault, test = " ".join(line[4:].split())[:160], line.split()[1].rstrip(":")
                process.kill()
                break
        process.stdout.close()
        timer.cancel()
        status = process.wait()
        if not fault and late:
            fault = "took longer than %.0f s" % limit_s
        elif not fault and status != 0 and not skipped:
            fault = "ended by signal %s" % signal.Signals(-status).name if status < 0 else \
                "status %d" % status
        return Run(fault, test, time.monotonic() - start, skipped)
