#!/usr/bin/env bash
# coming_from.sh - docs/coming-from.md row by row: each word of another program, typed as an option
# or as a key, is answered with a key or command of its row.
source tests/e2e/lib/common.sh

words=0
broken()
{
    echo "$1"
    failed=1
}

while IFS='|' read -r _ theirs ours _; do
    [[ $theirs == *'`'* ]] || continue
    while read -r word; do
        [[ -n $word ]] || continue
        words=$((words + 1))
        if [[ $word == -* ]]; then set -- "$word" 1; else set -- "$word=1"; fi
        said=$("$CONVOY" train configs/demo.yaml "$@" 2>&1) && broken "$word was taken"
        answers=0
        while read -r answer; do
            if [[ $said == *"; use $answer"* || $said == *"(did you mean ${answer%=}?)" ]]; then
                answers=$((answers + 1))
            fi
        done < <(grep -o '`[^`]*`' <<< "$ours" | tr -d '`' | sed 's/=.*/=/')
        if [[ $ours == *"not needed"* && $said == *"; leave it out ("* ]]; then
            answers=$((answers + 1))
        fi
        if ((answers != 1)); then
            broken "$word: expected one of $ours, got: $said"
        fi
    done < <(grep -o '`[^`]*`' <<< "$theirs" | tr -d '`')
done < <(grep '^| `' docs/coming-from.md)
((words >= 120)) || broken "only $words words were found in docs/coming-from.md"
exit "$failed"
