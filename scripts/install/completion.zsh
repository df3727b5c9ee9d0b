
_convoy()
{
    local command=
    local -a found
    if ((CURRENT > 2)); then
        command=${words[2]}
        [[ $CURRENT -gt 3 && -n $(_convoy_words "$command ${words[3]}") ]] &&
            command+=" ${words[3]}"
    fi
    if [[ ${words[CURRENT]} == *.*=* ]]; then
        found=(${=$(_convoy_values "${words[CURRENT]%%=*}")})
        compset -P '*='
        compadd -a found || _files
        return
    fi
    found=(${=$(_convoy_choices "$command ${words[CURRENT-1]}")})
    if ((${#found})); then
        compadd -a found
        return
    fi
    found=(${=$(_convoy_words "$command")})
    compadd -a found
    if [[ $_convoy_takes_keys == *"|$command|"* ]]; then
        found=(${=_convoy_keys})
        compadd -S '' -a found
    fi
    ((CURRENT == 2)) || _files
}

_convoy "$@"
