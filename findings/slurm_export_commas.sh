#!/usr/bin/env bash
# Slurm 22.05.8, sbatch --export=ALL,NCCL_SOCKET_IFNAME=^lo,docker: the job gets "^lo". Nothing is
# said of the rest.
#
# Commas part the names in --export; "docker" is taken for a variable to pass on, and does not
# exist. Quotes inside do not help: they become part of the value, '^lo,docker' with its quotes. The
# variable set in the environment of sbatch arrives whole.
source "$(dirname "$0")/common.sh"
source "$here/slurm.sh"

cat > "$STATED" << 'END'
as --export=ALL,A=B,C: ^lo
in single quotes: '^lo,docker'
in double quotes: "^lo,docker"
with a backslash: ^lo\
from the environment: ^lo,docker
END
# shellcheck disable=SC2016 # the job's words
show='#!/bin/bash
echo "$NCCL_SOCKET_IFNAME"'
{
    echo "as --export=ALL,A=B,C: $(submit --export=ALL,NCCL_SOCKET_IFNAME=^lo,docker <<< "$show")"
    echo "in single quotes: $(submit "--export=ALL,NCCL_SOCKET_IFNAME='^lo,docker'" <<< "$show")"
    echo "in double quotes: $(submit '--export=ALL,NCCL_SOCKET_IFNAME="^lo,docker"' <<< "$show")"
    echo "with a backslash: $(submit '--export=ALL,NCCL_SOCKET_IFNAME=^lo\,docker' <<< "$show")"
    echo "from the environment: $(NCCL_SOCKET_IFNAME=^lo,docker submit <<< "$show")"
} > "$SEEN"
compare
