#!/usr/bin/env bash
# mpi_plugins.sh - MPI is opened, not linked: what launched the ranks chooses Open MPI or MPICH, and
# both give the same bits; what cannot work is one line and no run; one rank needs no MPI at all.
source tests/e2e/lib/common.sh
no_grace
program=$tools/install/convoy # make e2e links it: it knows no folder of the build
if [[ ! -f $program || $program -ot $CONVOY ]]; then
    echo "$program is not of this build"
    exit 77
fi
for file in "$CONVOY" "$program" "$tools"/lib*.so; do
    ! readelf -d "$file" | grep -E 'NEEDED.*libmpi' || broken "$file is linked with MPI"
done
make_data "$SCRATCH/data" 12 1
make_config
built=$CONVOY
both=(train.max_steps=4 train.epochs=9 train.batch_mode=global train.global_batch=12
    train.batch_per_rank=3)

# own FOLDER PLUGIN... - a program, with these plugins alone, as make install puts them
own()
{
    mkdir -p "$SCRATCH/$1/bin" "$SCRATCH/$1/lib/convoy"
    cp "$program" "$SCRATCH/$1/bin"
    local plugin
    for plugin in "${@:2}"; do cp "$tools/libconvoy_mpi_$plugin.so" "$SCRATCH/$1/lib/convoy"; done
}

# says WHAT TEXT... - the last output is one error line with each of these in it; nobody trained
says()
{
    local text
    for text in "${@:2}"; do expect_one_error "$1" "$text"; done
    [[ ! -e $SCRATCH/refused/metrics.jsonl ]] || broken "$1: trained all the same"
}
settings refused "${both[@]}"
refused=("${sets[@]}")
hydra=$(command -v mpiexec.hydra)
by_mpich() { timeout --kill-after=5 120 "$hydra" -n 2 "$@"; }
by_openmpi() { timeout --kill-after=5 120 mpirun -n 2 "$@"; }

# ---- no plugin, one rank ----
own bare
bare=$SCRATCH/bare/bin/convoy
expect "no plugin" 0 "$bare" --version
expect_text "no plugin" 1 "MPI: Open MPI (not built in), MPICH (not built in)"
CONVOY=$bare train alone 1 "${both[@]}"
while IFS='|' read -r variable launcher kind package; do
    expect "$variable" 78 env "$variable" "$bare" train "${refused[@]}"
    says "$variable" "started by $launcher, which requires $kind; convoy finds here: Open MPI (" \
        "not built in), MPICH (not built in); build convoy where $package is installed"
done << 'END'
OMPI_COMM_WORLD_SIZE=2|Open MPI's mpirun|Open MPI|libopenmpi-dev
MPI_LOCALRANKID=0|mpiexec of MPICH or Intel MPI|MPICH|libmpich-dev
PALS_RANKID=0|Cray's launcher|MPICH|libmpich-dev
PMI_SIZE=2|a launcher that speaks PMI (srun --mpi=pmi2 or the like)|MPICH|libmpich-dev
PMI_RANK=0|a launcher that speaks PMI (srun --mpi=pmi2 or the like)|MPICH|libmpich-dev
PMIX_RANK=0|a launcher that speaks PMIx (srun --mpi=pmix or the like)|Open MPI|libopenmpi-dev
SLURM_STEP_NUM_TASKS=2|srun|Open MPI|libopenmpi-dev
END
# A shell that srun has started.
SLURM_STEP_NUM_TASKS=1 CONVOY=$bare train shell 1 "${both[@]}"

# One that does not fit.
own old
${CC:-gcc} -shared -fPIC -x c - -o "$SCRATCH/old/lib/convoy/libconvoy_mpi_ompi.so" << 'END'
static const int table[64];
const void *mpi_plugin_table(void);
const void *mpi_plugin_table(void) { return table; }
END
if have_mpi; then
    OMPI_COMM_WORLD_SIZE=2 expect "old plugin" 78 "$SCRATCH/old/bin/convoy" train "${refused[@]}"
    says "old plugin" "libconvoy_mpi_ompi.so: from another version of convoy"

    # ---- Open MPI ----
    expect "version" 0 "$CONVOY" --version
    train openmpi 2 "${both[@]}"
    grep -qE 'MPI: Open MPI v[0-9.]+ \(/.*/libmpi\.so\.40' "$SCRATCH/openmpi/log.txt" ||
        broken "log.txt does not say which MPI was opened"
    expect "doctor" 0 "$CONVOY" doctor
    expect_text "doctor" 1 "MPI: Open MPI (libmpi.so.40)"
    own ompi ompi
    CONVOY=$SCRATCH/ompi/bin/convoy
    expect "Open MPI alone" 0 "$CONVOY" --version
    expect_text "Open MPI alone" 1 "MPI: Open MPI (libmpi.so.40), MPICH (not built in)"
    train installed 2 "${both[@]}"
    same "installed" openmpi installed
    # MPICH's mpiexec, as it says who it is; and an srun that Open MPI cannot talk to.
    MPI_LOCALRANKID=0 PMI_RANK=0 PMI_SIZE=2 expect "mpiexec without MPICH" 78 \
        "$CONVOY" train "${refused[@]}"
    says "mpiexec without MPICH" "started by mpiexec of MPICH or Intel MPI, which requires MPICH;" \
        "here: Open MPI (libmpi.so.40), MPICH (not built in); start it with Open MPI's mpirun, or"
    PMI_RANK=0 PMI_SIZE=2 expect "no PMI" 78 "$CONVOY" train "${refused[@]}"
    says "no PMI" "as one of 2 ranks, but /" "libmpi.so.40 sees only this one"
fi

# ---- MPICH ----
CONVOY=$built
"$CONVOY" --version > "$out"
if [[ -z $hydra ]] || ! grep -q 'MPICH (lib' "$out"; then
    echo "not tested: MPICH: no mpiexec.hydra, or built without it"
    exit "$failed"
fi
for ranks in 1 2 3 4; do
    expect "all, $ranks ranks" 0 timeout --kill-after=5 120 "$hydra" -n "$ranks" \
        "$tools/make_commcheck" all
    expect_text "all, $ranks ranks" 1 "$ranks ranks by mpi"
done
settings mpich "${both[@]}"
expect "train by MPICH" 0 by_mpich "$CONVOY" train --verbose "${sets[@]}"
sound_metrics mpich
grep -qE 'MPI: MPICH Version: [0-9.]+ \(/.*/libmpi(ch)?\.so\.12' "$SCRATCH/mpich/log.txt" ||
    broken "log.txt does not say that MPICH was opened"
own mpich mpich
expect "no PMI for MPICH" 78 env PMI_RANK=0 PMI_SIZE=2 "$SCRATCH/mpich/bin/convoy" train \
    "${refused[@]}"
says "no PMI for MPICH" "as one of 2 ranks, but /" "so.12 sees only this one"
have_mpi || exit "$failed"
same "MPICH" openmpi mpich
expect "mpirun without Open MPI" 78 by_openmpi "$SCRATCH/mpich/bin/convoy" train "${refused[@]}"
says "mpirun without Open MPI" "started by Open MPI's mpirun, which requires Open MPI; convoy" \
    "(not built in), MPICH (lib" "; start it with mpiexec of MPICH or Intel MPI, or build convoy"
expect "mpiexec without MPICH's plugin" 78 by_mpich "$SCRATCH/ompi/bin/convoy" train "${refused[@]}"
says "mpiexec without MPICH's plugin" "started by mpiexec of MPICH or Intel MPI"

# ---- libraries that are not there ----
mapfile -t libraries < <(ldconfig -p | awk '$1 ~ /^libmpi(ch)?[.]so[.]/ { print $NF }')
folders=$(dirname "${libraries[@]}" | xargs realpath | sort -u)
# without FILE COMMAND... - where these files are in no folder of the system
without()
{
    # shellcheck disable=SC2016 # the inner shell's words
    unshare --mount bash -c '
        shopt -s nullglob
        for folder in $3; do
            rm -rf "$1$folder.up" "$1$folder.work"
            mkdir -p "$1$folder.up" "$1$folder.work"
            mount -t overlay -o "lowerdir=$folder,upperdir=$1$folder.up,workdir=$1$folder.work" \
                overlay "$folder" || exit 78
            for file in "$folder"/$2; do rm "$file"; done
        done
        exec "${@:4}"' without "$SCRATCH/hidden" "$1" "$folders" "${@:2}"
}
if ! without 'none*' true 2> "$out"; then
    echo "not tested: libraries that are not there: no overlay in a mount namespace"
    exit "$failed"
fi
expect "no library" 0 without 'libmpi*.so.*' "$CONVOY" --version
expect_text "no library" 1 \
    "MPI: Open MPI (not found: libmpi.so.40), MPICH (not found: libmpi.so.12, libmpich.so.12)"
settings nothing "${both[@]}"
expect "one rank without libraries" 0 without 'libmpi*.so.*' "$CONVOY" train "${sets[@]}"
same "one rank without libraries" alone nothing
opened=$(sed -n 's/.*MPI: Open MPI .*(\(.*\))$/\1/p' "$SCRATCH/openmpi/log.txt")
if grep -q 'MPI: .*/[.][.]/lib/' "$SCRATCH"/{openmpi,mpich}/log.txt; then
    echo "not tested: libraries that are not there: this mpirun or mpiexec has its own"
    exit "$failed"
fi
expect "mpirun without its library" 78 without 'libmpi.so.40*' mpirun -n 2 "$CONVOY" train \
    "${refused[@]}"
says "mpirun without its library" "Open MPI (not found: libmpi.so.40), MPICH (lib" \
    "start it with mpiexec of MPICH or Intel MPI, or add the folder of libmpi.so.40 to LD_LIBRARY"
expect "mpiexec without its library" 78 without 'libmpi*.so.12*' "$hydra" -n 2 "$CONVOY" \
    train "${refused[@]}"
says "mpiexec without its library" "Open MPI (libmpi.so.40), MPICH (not found: libmpi.so.12," \
    "start it with Open MPI's mpirun, or add the folder of libmpi.so.12 to LD_LIBRARY_PATH"

# The library beside the launcher is where no loader looks.
mkdir -p "$SCRATCH/beside"/{bin,lib}
cp "$(readlink -f "$(command -v mpirun)")" "$SCRATCH/beside/bin/mpirun"
cp "$opened" "$SCRATCH/beside/lib/libmpi.so.40"
settings by_launcher "${both[@]}"
PATH=$SCRATCH/beside/bin:$PATH expect "library beside mpirun" 0 without 'libmpi.so.40*' \
    mpirun -n 2 "$CONVOY" train "${sets[@]}"
same "library beside mpirun" openmpi by_launcher
grep -qF "$SCRATCH/beside/bin/../lib/libmpi.so.40)" "$SCRATCH/by_launcher/log.txt" ||
    broken "log.txt does not name the library beside mpirun"
exit "$failed"
