# stale.awk - names in comments and pages that do not exist: files (x.c, docs/x.md), functions
# name(), NAMES_IN_CAPITALS, and in pages `words_of_code` and `section.keys` of the config.
#
# Arguments: pass=1 FILES pass=2 FILES, the same files twice: C, scripts, build files, *.md. What
# exists are words of code, texts of code included, and the files that -v files=LIST names.
# -v foreign=FILE: rows "NAME REASON..." of what is not ours. Names that stand for any name
# (source_x.c, make_NAME.c) are left alone.
BEGIN {
    file_name = "[A-Za-z0-9_*}][A-Za-z0-9_/.-]*[.](c|h|cu|cuh|cpp|hpp|sh|py|md|mk|awk|sbatch)" \
        "($|[^A-Za-z0-9_./]|[.][^a-z])"
    while ((getline < foreign) > 0) {
        if (/^#/ || NF == 0) continue
        alien[$1] = 1
        if (NF < 2) print foreign ": " $1 ": without a reason"
    }
    while ((getline name < files) > 0) {
        sub(/^[.]\//, "", name)
        known[stem_of(name)] = 1
        if (match(name, /^[a-z_]+\//)) folder[substr(name, 1, RLENGTH)] = 1
        while (name != "") { # every way to write the end of its path
            exists[name] = 1
            if (!sub(/^[^\/]*\//, "", name)) break
        }
    }
}

# What the program and its tests say in texts exists too: files that they write, the environment.
function learn(text,   n, i, j, word, part, w)
{
    n = split(text, word, /[^A-Za-z0-9_.]+/)
    for (i = 1; i <= n; i++) {
        w = word[i]
        if (w ~ /[.]/) {
            sub(/[.]+$/, "", w)
            exists[w] = 1
            sub(/^.*[.]/, "", w)
        }
        known[w] = 1
        if (w ~ /^[A-Z][A-Z0-9_]*_/) # the family's name: LOSS_SCALE_
            while (sub(/_[^_]*$/, "", w)) known[w] = known[w "_"] = 1
        for (j = split(word[i], part, "."); j > 0; j--) known[part[j]] = 1
    }
}

function say(kind, name)
{
    if (name in alien) used[name] = 1
    else print FILENAME ":" FNR ": there is no " kind " " name
}

function examine(text, page,   rest, name, file, any)
{
    rest = text
    while (match(rest, file_name)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH - 1)
        sub(/[^A-Za-z0-9_]*$/, "", name)
        file = name
        sub(/.*[.][.]\//, "", file)
        if (!match(file, /^[a-z_]+\//) || !(substr(file, 1, RLENGTH) in folder))
            sub(/.*\//, "", file)
        any = file ~ /(^|[_\/])(x|X|NAME|FILE|STEM)[._]|^[*}]/
        if (!any && !(file in exists)) say("file", name)
    }
    rest = text
    while (match(rest, /[a-z][A-Za-z0-9_]*[(][)]/)) {
        name = substr(rest, RSTART, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
        if (!(name in known)) say("function", name "()")
    }
    rest = hashes ? "" : text # a script's comments have words for its arguments
    while (match(rest, /[A-Za-z0-9_]*[A-Z0-9]_[A-Za-z0-9_]*/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (name ~ /^[A-Z][A-Z0-9_]*$/ && !(name in known)) say("name", name)
    }
    if (!page) return
    rest = text
    while (match(rest, /`[a-z][a-z0-9]*_[a-z0-9_]+`/)) {
        name = substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
        # what Prometheus reads is put together: convoy_NAME_UNIT
        if (!(name in known) && name !~ /^convoy_/) say("word", name)
    }
    rest = text
    while (match(rest, /`[a-z]+[.][a-z0-9_]+[`=]/)) {
        name = substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
        if (name in key || name in exists) continue
        if (substr(name, 1, index(name, ".") - 1) in section) say("key", name)
    }
}

FNR == 1 {
    in_comment = 0
    page = FILENAME ~ /[.]md$/
    c = FILENAME ~ /[.](c|h|cu|cuh|cpp|hpp)$/
    hashes = !page && !c
}
pass == 1 && FILENAME == "docs/config.md" && /^[|] `[a-z]+[.]/ {
    split($0, part, "`")
    key[part[2]] = 1
    section[substr(part[2], 1, index(part[2], ".") - 1)] = 1
}
page && pass == 2 { examine($0, 1); next }
page { next }
{
    if (c) take($0)
    else if (match($0, /(^|[ \t])#( |$)/)) {
        COMMENT = substr($0, RSTART)
        CODE = substr($0, 1, RSTART - 1)
        TEXT = ""
    } else {
        CODE = $0
        COMMENT = TEXT = ""
    }
    if (pass == 1) learn(CODE " " TEXT)
    else if (COMMENT != "") examine(COMMENT, 0)
}
END { for (name in alien) if (!(name in used)) print foreign ": " name ": nothing needs it" }
