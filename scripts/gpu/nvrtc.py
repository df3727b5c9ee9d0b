#!/usr/bin/env python3
"""nvrtc.py LIBNVRTC INCLUDE LOGS ARCH... - compiles every kernel of kernels/cuda with NVRTC,
with no nvcc and no GPU.

    python3 scripts/gpu/nvrtc.py .../cuda_nvrtc/lib/libnvrtc.so.12 .../include /tmp/logs 70 75 80 90

NVRTC is the device half of the nvcc of the same version: front end, optimizer and assembler. It
knows no host code, so launchers are compiled for the device too (their launches by the device's own
runtime) and count for nothing, and stand-ins take the places of the C library's headers. What it
says of SOURCE for sm_ARCH, with the assembler's registers and spills, is in LOGS/SOURCE.ARCH.ptxas,
for scripts/dev/ptxas.sh. A warning is a failure; the last line is "N passed, N failed, 0 skipped",
one for each file and architecture.
"""
import ctypes
import glob
import multiprocessing
import os
import sys

HEADERS = {
    "stdint.h": """#pragma once
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t;
typedef unsigned uint32_t; typedef unsigned long long uint64_t;
typedef uint64_t uintptr_t;
""",
    "math.h": """#pragma once
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
""",
    "type_traits": """#pragma once
namespace std {
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
}
""",
    # NVRTC has built in what the kernels use of these.
    "stdbool.h": "",
    "stddef.h": "",
    "string.h": "",
}
# Said of every source; nvcc is silenced by -Wno-deprecated-gpu-targets.
EXPECTED_WARNING = "nvrtc: warning: Architectures prior to "


def c_strings(strings):
    return (ctypes.c_char_p * len(strings))(*[s.encode() for s in strings])


def compile_source(library, include, source, arch):
    """Whether it compiles, and what NVRTC says."""
    nvrtc = ctypes.CDLL(library)
    program = ctypes.c_void_p()
    with open(source, "rb") as f:
        text = f.read()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), len(HEADERS),
                                      c_strings(list(HEADERS.values())),
                                      c_strings(list(HEADERS)))
    if status != 0:
        return False, f"nvrtcCreateProgram: error {status}\n"
    options = [f"-arch=sm_{arch}", "-std=c++17", "-default-device", "-rdc=true", "-I.",
               f"-I{include}", "--ptxas-options=-v"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), c_strings(options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    said = log.value.decode()
    warnings = [line for line in said.splitlines() if "warning" in line
                and not line.startswith(EXPECTED_WARNING)]
    return status == 0 and not warnings, said


def check(job):
    library, include, logs, source, arch = job
    good, said = compile_source(library, include, source, arch)
    name = f"{os.path.splitext(os.path.basename(source))[0]}.{arch}"
    with open(os.path.join(logs, name + ".ptxas"), "w") as f:
        f.write(said)
    if good:
        return True
    print(f"FAIL {source} for sm_{arch}:",
          *[line for line in said.splitlines() if not line.startswith("ptxas")][:10], sep="\n  ",
          flush=True)
    return False


def main():
    if len(sys.argv) < 5:
        sys.exit("usage: nvrtc.py LIBNVRTC INCLUDE LOGS ARCH...")
    library, include, logs, *archs = sys.argv[1:]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    os.makedirs(logs, exist_ok=True)
    jobs = [(library, include, logs, source, arch) for arch in archs
            for source in sorted(glob.glob("kernels/cuda/*.cu"))]
    with multiprocessing.Pool() as pool:
        good = pool.map(check, jobs, chunksize=1)
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    sys.exit(not all(good) or not good)


if __name__ == "__main__":
    main()
