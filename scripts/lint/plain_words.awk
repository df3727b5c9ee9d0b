# plain_words.awk - see plain_words.sh. Text that goes on in the next line is one text: neighbouring
# literals of C, paragraphs of pages without what is between backticks.
BEGIN {
    unit = "(batch|channel|class|device|element|epoch|experiment|file|folder|gpu|host|image|key|" \
        "layer|line|machine|node|number|op|operation|option|page|pixel|process|rank|row|run|" \
        "sample|second|set|socket|step|thread|value|view)"
    while ((getline < words) > 0) {
        if (/^#/ || !match($0, / => /)) continue
        pattern[++rows] = name[rows] = substr($0, 1, RSTART - 1)
        instead[rows] = substr($0, RSTART + RLENGTH)
        held[rows] = sub(/^!/, "", pattern[rows])
        sub(/[{]unit[}]/, unit, pattern[rows])
        gsub(/[<>]/, "[^a-z0-9_.-]", pattern[rows])
    }
    while ((getline < excuses) > 0) {
        if (/^#/ || NF < 2) continue
        where[++excused] = $1
        row[excused] = $0
        sub(/^[^ ]+ +/, "")
        phrase[excused] = $0
    }
}

function weigh(text, line, page,   i, rest, plain)
{
    plain = " " tolower(text) " "
    gsub(/[ \t]+/, " ", plain)
    for (i = 1; !page && i <= excused; i++)
        if (file ~ where[i] && gsub(phrase[i], "...", plain)) needed[i] = 1
    for (i = 1; i <= rows; i++) {
        if (only != "" && !index(name[i], only)) continue
        rest = plain
        while (match(rest, pattern[i])) {
            count[i, page]++
            if (mode == "show" || (mode == "lint" && held[i]))
                print file ":" line ": \"" substr(rest, RSTART + 1, RLENGTH - 2) "\" -> " \
                    instead[i] (mode == "show" ? ": " text : "")
            rest = substr(rest, RSTART + RLENGTH - 1) # the end of a word may begin the next hit
        }
    }
}

function flush()
{
    if (text ~ /[a-z%] [a-z%]/) weigh(text, start, page)
    text = ""
}

FNR == 1 {
    flush()
    file = FILENAME
    page = file ~ /[.]md$/
    in_comment = fenced = 0
}
page {
    if (/^ *```/) fenced = !fenced
    if (/^ *```/ || $0 ~ /^ *$/) flush()
    else if (!fenced) {
        if (/^ *([-*|#]|[0-9]+[.]) ?/) flush()
        gsub(/`[^`]*`/, "`")
        if (text == "") start = FNR
        text = text " " $0
    }
    next
}
/^[ \t]*#[ \t]*include/ { next }
{
    gsub(/\047(\\.|[^\\\047])\047/, "0") # characters are not text
    take($0)
    gsub(/[ \t]/, "", CODE)
    if (CODE !~ /^""/) flush()
    if (TEXT == "") next
    if (text == "") start = FNR
    text = text (text == "" ? TEXT : substr(TEXT, 2))
    if (CODE !~ /""$/) flush()
}
END {
    flush()
    for (i = 1; mode == "lint" && i <= excused; i++)
        if (!needed[i]) print excuses ": " row[i] ": excuses nothing"
    if (mode != "count") exit
    printf "%8s %8s  pattern => instead (! = held)\n", "messages", "pages"
    for (i = 1; i <= rows; i++) {
        printf "%8d %8d  %s => %s\n", count[i, 0], count[i, 1], name[i], instead[i]
        sum[0] += count[i, 0]
        sum[1] += count[i, 1]
    }
    printf "%8d %8d  all\n", sum[0], sum[1]
}
