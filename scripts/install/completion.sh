#!/usr/bin/env bash
# completion.sh PROGRAM bash|zsh - prints the completion of that shell: commands, options, config
# keys and the words they take, all read from what PROGRAM says of itself; elsewhere files.
set -euo pipefail
convoy=$1 shell=$2

# usage_of COMMAND... - the usage line of its help, as one line
usage_of()
{
    "$convoy" "$@" --help | awk '/^$/ { past = 1 } !past { printf "%s ", $0 }'
}

# options_in USAGE - its options, and --help
options_in()
{
    { grep -oE -- '--[a-z][a-z-]*' <<< "$1" || true; echo --help; } | sort -u | paste -sd ' '
}

# case_of NAME WORDS - a line of a table
case_of()
{
    echo "    '$1') echo '$2' ;;"
}

# Commands and subjects, with whether they take config keys.
commands()
{
    local name rest usage word words all=''
    local -A known=()
    while read -r name rest; do
        usage=$(usage_of "$name") words='' all+="$name "
        if [[ $rest == *\|* ]]; then
            for word in $(grep -oE '[a-z]+(\|[a-z]+)+' <<< "$rest" | tr '|' ' '); do
                words+="$word "
                known["$name $word"]=$(usage_of "$name" "$word")
            done
        fi
        case_of "$name" "$words$(options_in "$usage")"
        [[ $usage != *key=value* ]] || takes_keys+=("$name")
        for word in $words; do
            usage=${known["$name $word"]}
            [[ $usage == "usage: convoy $name $word "* ]] || continue
            case_of "$name $word" "$(options_in "$usage")"
            [[ $usage != *key=value* ]] || takes_keys+=("$name $word")
        done
    done < <("$convoy" --help | sed -n 's/^  convoy \([a-z].*\)/\1/p')
    case_of '' "$all--help --version"
}

# KEY WORDS lines: what a key may be, empty for numbers and texts
keys()
{
    "$convoy" inspect config | awk '
        function flush() {
            if (key == "") return
            words = ""
            if (match(text, /one of [a-z0-9_, ]+ \(/)) words = substr(text, RSTART + 7, RLENGTH - 9)
            if (text ~ /: true or false \(/) words = "true false"
            gsub(/,/, "", words)
            print key, words
            text = ""
        }
        /^[a-z_]+[.]/ { flush(); key = $1; next }
        { sub(/^ +/, ""); text = text " " $0 }
        END { flush() }'
}

networks=$("$convoy" inspect model --help | sed '1,/^NAME is one of/d' | awk '{ print $1 }' |
    paste -sd ' ')
takes_keys=()
[[ $shell == zsh ]] && echo '#compdef convoy'
echo "# Made by scripts/install/completion.sh from $("$convoy" --version | sed -n 1p)."
echo '_convoy_words()'
echo '{'
echo "    case \$1 in"
commands > "${table:=$(mktemp)}"
trap 'rm -f "$table"' EXIT
cat "$table"
echo '    esac'
echo '}'
echo "_convoy_takes_keys='|$(IFS='|'; echo "${takes_keys[*]}")|'"
echo "_convoy_keys='$(keys | awk '{ print $1 "=" }' | paste -sd ' ')'"
echo '_convoy_values()'
echo '{'
echo "    case \$1 in"
case_of model.name "$networks"
keys | while read -r key words; do
    [[ -z $words ]] || case_of "$key" "$words"
done
echo '    esac'
echo '}'
cat "$(dirname "$0")/completion.$shell"
