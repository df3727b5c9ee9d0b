"""Runs a command where it can do no harm: sandbox.py FOLDER COMMAND...; for scripts/dev/mutants.py.

A mutant may kill or delete whatever it can name, so its processes live in namespaces of their own
(`command` has the words in front): they see no others, and FOLDER, an empty /tmp and an empty
/dev/shm are all that they can write to. This is their process 1: it starts the command, reaps
orphans, and ends with the command, and all of them with it.
"""

import ctypes
import os
import subprocess
import sys

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18


def command(folder, words):
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            sys.executable, os.path.abspath(__file__), folder, *words]


def mount(source, target, kind, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), target)


def confine(folder):
    at = os.getcwd()
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount(folder, folder, None, MS_BIND)
    os.chdir(folder)  # the folder may lie in /tmp: keep hold of it while that is covered
    with open("/proc/self/mounts") as mounts:
        points = [line.split()[1] for line in mounts if line.startswith("/dev/")]
    for point in points:
        if point != folder:
            mount(None, point, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
    mount("tmpfs", "/dev/shm", "tmpfs", 0)
    mount("tmpfs", "/tmp", "tmpfs", 0)
    os.chmod("/tmp", 0o1777)
    os.makedirs(folder, exist_ok=True)
    mount(".", folder, None, MS_BIND)
    os.chdir(at)
    if os.path.isdir("build"):  # the ids of processes are the same in each sandbox, and so are
        os.makedirs("build/scratch", exist_ok=True)  # the names of tests' folders
        mount("tmpfs", "build/scratch", "tmpfs", 0)


def main(folder, *words):
    confine(folder)
    child = subprocess.Popen(words)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            break
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
