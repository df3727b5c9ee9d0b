
# Words are taken from the line itself, since bash cuts them at "=".
_convoy()
{
    local line=${COMP_LINE:0:COMP_POINT} words command current
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    current=${words[-1]#--set=} command=
    if ((${#words[@]} > 2)); then
        command=${words[1]}
        [[ ${#words[@]} -gt 3 && -n $(_convoy_words "$command ${words[2]}") ]] &&
            command+=" ${words[2]}"
    fi
    case $current in
    *.*=*)
        mapfile -t COMPREPLY < <(compgen -W "$(_convoy_values "${current%%=*}")" -- "${current#*=}")
        ;;
    *)
        mapfile -t COMPREPLY < <(compgen -W \
            "$(_convoy_candidates "$command" "$current" "${words[-2]}")" -- "$current")
        [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
        ;;
    esac
}

# Commands, options and keys of COMMAND for WORD behind PREVIOUS; the many keys once they are wanted.
_convoy_candidates()
{
    local choices
    choices=$(_convoy_choices "$1 $3")
    [[ -z $choices ]] || { echo "$choices" && return; }
    [[ $3 == --set ]] || _convoy_words "$1"
    [[ $_convoy_takes_keys != *"|$1|"* || ($2 == '' && $3 != --set) ]] || echo "$_convoy_keys"
}

complete -o bashdefault -o default -F _convoy convoy
