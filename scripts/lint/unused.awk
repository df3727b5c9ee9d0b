# unused.awk - public functions and tables of the product that no other file of it needs.
#
# Standard input: `nm -A -P` of the objects of the product, named as their sources lie in
# the tree. Arguments: C files; what the build at hand has left out (CUDA, MPI) counts by its words.
# -v exceptions=FILE: rows "NAME REASON...".
BEGIN {
    while ((getline < exceptions) > 0) {
        if (/^#/ || NF == 0) continue
        excepted[$1] = 1
        if (NF < 2) print exceptions ": " $1 ": without a reason"
    }
    while ((getline < "-") > 0) {
        file = $1
        sub(/:$/, "", file)
            sub(/[.]o$/, "", file)
        if (file !~ /[.]cu$/) file = file ".c"
        built[file] = 1
        folder = file
        sub(/\/[^\/]*$/, "", folder)
        built[folder] = 1
        if ($3 == "U") needed[$2] = 1
        if ($3 ~ /^[TDRBC]$/ && $2 !~ /^_Z/ && $2 != "main") home[$2] = file
    }
    for (name in home) if (!(name in needed)) suspect[name] = 1
}

FNR == 1 {
    in_comment = 0
    folder = FILENAME
    sub(/\/[^\/]*$/, "", folder)
    test = FILENAME ~ /^tests\//
    if (test) left_out = 0
    else if (FILENAME ~ /h$/) left_out = !(folder in built)
    else left_out = !(FILENAME in built) && FILENAME !~ /_absent[.]c$/
}
{
    take($0)
    n = split(CODE, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++) {
        if (!(word[i] in suspect)) continue
        if (left_out) needed[word[i]] = 1
        if (FILENAME == home[word[i]]) {
            uses[word[i]]++
            if (/^[A-Za-z]/ && !/;$/) line[word[i]] = FNR # its definition
        } else if (test) tested[word[i]] = 1
    }
}
END {
    for (name in suspect) {
        if (name in needed) continue
        if (name in excepted) { used[name] = 1; continue }
        what = home[name] ":" line[name] + 0 ": " name " is used by "
        if (uses[name] < 2) print what "nobody" (name in tested ? " but tests" : "")
        else if (!(name in tested)) print what "its own file alone: make it static"
    }
    for (name in excepted) if (!(name in used)) print exceptions ": " name ": nothing needs it"
}
