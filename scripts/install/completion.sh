#!/usr/bin/env bash
# completion.sh PROGRAM bash|zsh - prints the completion of that shell: commands, options, config
# keys and the words they take, all from what PROGRAM --tables and its inspect config print;
# elsewhere files.
set -euo pipefail
convoy=$1 shell=$2

tables=$("$convoy" --tables)

# case_of NAME WORDS - a line of a table
case_of()
{
    echo "    '$1') echo '$2' ;;"
}

# "COMMAND<tab>WORDS" lines: its commands and options. With keys: only COMMANDs that take config
# keys. With choices: "COMMAND OPTION<tab>WORDS", where an option takes one of several words.
commands()
{
    awk -F '\t' -v what="${1-}" '
        function flush() {
            if (seen && what == "") print name "\t" words "--help" (name == "" ? " --version" : "")
            if (keys && what == "keys") print name
        }
        $1 == "command" { flush(); seen = 1; name = substr($2, 8); words = "" }
        $1 == "usage" { keys = /\[key=value\]/ }
        $1 == "child" { words = words $2 " " }
        $1 == "option" {
            count = split($2, part, ", ")
            for (i = 1; i <= count; i++) {
                sub(/ .*/, "", part[i])
                words = words part[i] " "
                if ($4 != "" && what == "choices") print name " " part[i] "\t" $4
            }
        }
        END { flush() }' <<< "$tables"
}

# KEY WORDS lines: what a key may be, empty for numbers and texts
keys()
{
    "$convoy" inspect config | awk '
        function flush() {
            if (key == "") return
            words = ""
            if (match(text, /one of [a-z0-9_]+(, [a-z0-9_]+)* \(/))
                words = substr(text, RSTART + 7, RLENGTH - 9)
            if (text ~ /: true or false \(/) words = "true false"
            gsub(/,/, "", words)
            print key, words
            text = ""
        }
        /^[a-z_]+[.]/ { flush(); key = $1; next }
        { sub(/^ +/, ""); text = text " " $0 }
        END { flush() }'
}

networks=$(awk -F '\t' '$1 == "command" { wanted = $2 == "convoy inspect model" }
    wanted && $1 == "more" && $2 ~ /^  / { split($2, word, " "); print word[1] }' <<< "$tables" |
    paste -sd ' ')
[[ $shell == zsh ]] && echo '#compdef convoy'
echo "# Made by scripts/install/completion.sh from $("$convoy" --version | sed -n 1p)."
for what in words choices; do
    echo "_convoy_$what()"
    echo '{'
    echo "    case \$1 in"
    commands "${what#words}" | while IFS=$'\t' read -r name words; do
        [[ $words ]] || words=$name name='' # of convoy itself: read skips an empty field
        case_of "$name" "$words"
    done
    echo '    esac'
    echo '}'
done
echo "_convoy_takes_keys='|$(commands keys | paste -sd '|')|'"
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
