# names.awk - public functions that do not bear the name of their header: DIR/STEM.h declares STEM
# and STEM_something. _internal and _math do not count as part of a stem; a plural may be singular.
# A backend's word may stand before it. -v exceptions=FILE: rows "HEADER PATTERN REASON...".
# Arguments: headers, as clang-format leaves them.
BEGIN {
    while ((getline < exceptions) > 0) {
        if (/^#/ || NF == 0) continue
        pattern[++rows] = $2
        header[rows] = $1
        if (NF < 3) print exceptions ": " $1 " " $2 ": without a reason"
    }
    if (rows > 20) print exceptions ": " rows " exceptions, of at most 20"
}

# Takes blocks in braces out of s; depth lives from line to line.
function outside(s,   out, c)
{
    out = ""
    while (match(s, /[{}]/)) {
        if (depth == 0) out = out substr(s, 1, RSTART)
        c = substr(s, RSTART, 1)
        depth += c == "{" ? 1 : -1
        if (depth == 0) out = out ";"
        s = substr(s, RSTART + 1)
    }
    return depth == 0 ? out s : out
}

# The function that a statement declares, or nothing.
function declared(s,   name)
{
    if (s ~ /^ *typedef / || s ~ /operator/) return ""
    while (match(s, /[A-Za-z_][A-Za-z0-9_]* *[(]/)) {
        name = substr(s, RSTART, RLENGTH - 1)
        sub(/ +$/, "", name)
        if (substr(s, 1, RSTART) ~ /=/) return "" # a constant's value
        if (name ~ /^[a-z]/) return RSTART > 1 ? name : ""
        s = " " substr(s, RSTART + RLENGTH) # a macro or an attribute
    }
    return ""
}

function check(name,   i, rest)
{
    rest = name
    if (FILENAME ~ /^kernels\/ref\//) sub(/^ref_/, "", rest)
    if (begins(name, stem) || begins(rest, stem)) return
    if (FILENAME ~ /^kernels\/(cpu|cuda)\//) {
        sub(/^(cpu_|cuda_launch_|cuda_)/, "", rest)
        if (begins(rest, stem)) return
    }
    for (i = 1; i <= rows; i++)
        if (header[i] == FILENAME && name ~ pattern[i]) { used[i] = 1; return }
    print FILENAME ":" FNR ": " name "() does not bear the name " stem
}

function begins(name, word)
{
    return name == word || index(name, word "_") == 1 || name == singular(word) ||
        index(name, singular(word) "_") == 1
}

FNR == 1 {
    in_comment = depth = directive = 0
    text = ""
    stem = stem_of(FILENAME)
    sub(/_(internal|math)$/, "", stem)
}
{
    take($0)
    if (directive || CODE ~ /^[ \t]*#/) {
        directive = CODE ~ /\\$/
        next
    }
    if (CODE ~ /^extern "" *[{]/) next
    if (CODE ~ /^}$/ && depth == 0) next # its end
    text = text " " outside(CODE)
    while ((i = index(text, ";")) > 0) {
        name = declared(substr(text, 1, i - 1))
        text = substr(text, i + 1)
        if (name != "" && !((FILENAME, name) in seen)) {
            seen[FILENAME, name] = 1
            check(name)
        }
    }
}
END {
    for (i = 1; i <= rows; i++)
        if (!used[i]) print exceptions ": " header[i] " " pattern[i] ": nothing needs it"
}
