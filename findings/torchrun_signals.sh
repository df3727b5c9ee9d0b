#!/usr/bin/env bash
# PyTorch 2.15.0, torchrun: the exit code of a rank is lost, and USR1, which Slurm's --signal sends
# before the time limit, ends torchrun at once and leaves the ranks running.
#
# A rank that exits with 75 makes torchrun exit with 1. At TERM it passes TERM on to the ranks,
# whose codes are lost too: 1. At USR1 it dies (138 to the shell) without telling its ranks, which
# go on without it. A batch file that wants its ranks to save at USR1 has to find and tell them
# itself.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
a rank exits with 75: torchrun with 1
a rank exits with 3: torchrun with 1
TERM: ranks told 2, torchrun exits with 1, ranks still there 0
USR1: ranks told 0, torchrun exits with 138, ranks still there 2
END
cat > rank.sh << 'END'
#!/bin/bash
trap 'touch told.$RANK; exit 75' TERM USR1
echo $$ > pid.$RANK
for ((i = 0; i < 600; i++)); do [[ ! -e over ]] || exit 0; sleep 0.2; done
END
chmod +x rank.sh
# there - how many of the ranks run
there()
{
    local count=0 file
    for file in pid.*; do kill -0 "$(cat "$file")" 2> /dev/null && ((++count)); done
    echo "$count"
}
for code in 75 3; do
    "$bin/torchrun" --nproc-per-node 2 --no-python bash -c "exit $code" 2> said
    echo "a rank exits with $code: torchrun with $?"
done > "$SEEN"
for signal in TERM USR1; do
    rm -f pid.* told.*
    "$bin/torchrun" --nproc-per-node 2 --no-python ./rank.sh 2> said &
    launcher=$!
    for ((i = 0; i < 600; i++)); do [[ ! -s pid.0 || ! -s pid.1 ]] || break; sleep 0.2; done
    sleep 1
    kill -"$signal" "$launcher"
    wait "$launcher" 2> /dev/null
    code=$?
    sleep 2
    told=(told.*)
    [[ -e ${told[0]} ]] || told=()
    echo "$signal: ranks told ${#told[@]}, torchrun exits with $code, ranks still there $(there)"
done >> "$SEEN" 2> said
touch over
for ((i = 0; i < 50; i++)); do (($(there))) || break; sleep 0.2; done
compare
