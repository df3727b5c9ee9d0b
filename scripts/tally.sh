# shellcheck shell=bash
# tally.sh - counting tests: every program and script of tests ends with the one line
#
#   N passed, N failed, N skipped
#
# and says of each skip, on a line of its own, why: "skip NAME: WHY". Sourced; sets passed, failed
# and skipped to 0.
passed=0 failed=0 skipped=0 tally_number=0
tally_folder='' # see tally_begin

# tally_begin - a folder for what is said meanwhile, and an end to what runs when the script ends.
tally_begin() {
    [[ -z $tally_folder ]] || return 0
    tally_folder=$(mktemp -d) || exit 74
    trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$tally_folder"' EXIT
    trap 'exit 130' INT TERM
}

# tally_counts STATUS - from what a command has said: "PASSED FAILED SKIPPED WRONG". One without a
# closing line is one test by its status. One that counts nothing at all has failed: it did not even
# say what it left out. WRONG is empty, or says what is to be counted as a failure beyond its own.
tally_counts() {
    awk -v status="$1" '
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { said = 1; p = $1; f = $3; s = $5 }
        /^skip [^:]+: ./ { reasons++ }
        END {
            if (!said) p = status == 0
            if (said && p + f + s == 0) wrong = "counted nothing"
            else if (s + 0 != reasons + 0)
                wrong = "says " reasons + 0 " times why, of " s + 0 " skipped"
            if (status != 0 && f == 0)
                wrong = "ended with status " status (wrong ? ", " wrong : "")
            if (wrong) f++
            print p + 0, f + 0, s + 0, wrong
        }'
}

# tally_run TITLE COMMAND... - adds up what the command counts; its closing line is shown as
# "TITLE: N passed, N failed, N skipped". False if a test of it has failed.
tally_run() {
    local title=$1 log status p f s wrong
    shift
    tally_begin
    log=$tally_folder/log
    "$@" 2>&1 | tee "$log" | sed -u -E \
        "s/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped\$/${title//\//\\/}: &/"
    status=${PIPESTATUS[0]}
    read -r p f s wrong < <(tally_counts "$status" < "$log")
    [[ -z $wrong ]] || echo "$title: $wrong"
    sed -nE 's/^skip [^:]+: //p' "$log" >> "$tally_folder/reasons"
    ((passed += p, failed += f, skipped += s, f == 0))
}

# tally_each AT_A_TIME FUNCTION ITEM... - the function with each item is one test, so many at a
# time; what it says is shown when it ends. Its status: 0, passed; 77, skipped; any other, failed.
# A line "skip NAME: WHY" counts whatever the status.
tally_each() {
    local most=$1 function=$2 item said
    local -A running=() items=() # by process: the file of what it says; its item
    shift 2
    tally_begin
    for item; do
        while ((${#running[@]} >= most)); do tally_next; done
        ((tally_number += 1))
        said=$tally_folder/said-$tally_number
        "$function" "$item" > "$said" 2>&1 &
        running[$!]=$said
        items[$!]=$item
    done
    while ((${#running[@]} > 0)); do tally_next; done
}

# tally_next - waits for one of those of tally_each.
tally_next() {
    local process status
    wait -n -p process "${!running[@]}"
    status=$?
    cat "${running[$process]}"
    case $status in 0) ((passed += 1)) ;; 77) ;; *) ((failed += 1)) ;; esac
    ((status == 0)) || [[ -s ${running[$process]} ]] ||
        echo "FAIL ${items[$process]}: status $status, without a word"
    ((skipped += $(grep -c '^skip ' "${running[$process]}")))
    unset "running[$process]"
}

# tally_skip NAME WHY
tally_skip() {
    echo "skip $1: $2"
    ((skipped += 1))
}

# tally_end - why tests were skipped, where others have counted them; then the closing line. False
# if one has failed or there was none.
tally_end() {
    if [[ -n $tally_folder && -s $tally_folder/reasons ]]; then
        echo "skipped:"
        sort "$tally_folder/reasons" | uniq -c | sort -k 1,1nr -k 2
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0 && passed + skipped > 0))
}
