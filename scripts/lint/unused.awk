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
    for (i = 1; i < ARGC; i++) if (is_left_out(ARGV[i])) partial = 1
}

# The reference is there for tests.
function is_test(file)
{
    return file ~ /^(tests|kernels\/ref)\//
}

function is_left_out(file,   folder)
{
    if (is_test(file)) return 0
    if (file !~ /h$/) return !(file in built) && file !~ /_absent[.]c$/
    folder = file
    sub(/\/[^\/]*$/, "", folder)
    return !(folder in built)
}

FNR == 1 {
    in_comment = 0
    test = is_test(FILENAME)
    left_out = is_left_out(FILENAME)
    # What is built may need more where all is built.
    if (partial && !test && FILENAME ~ /[.]cu?$/) left_out = 1
}
{
    take($0)
    n = split(CODE, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++) {
        if (!(word[i] in suspect)) continue
        if (left_out && FILENAME != home[word[i]]) needed[word[i]] = 1
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
    for (name in excepted)
        if (!partial && !(name in used)) print exceptions ": " name ": nothing needs it"
}
