# words.awk - words outside their one home, in code without its comments and strings.
# -v words=FILE: rows "WORD HOMES WHY..."; arguments: C files.
BEGIN {
    while ((getline < words) > 0) {
        if (/^#/ || NF == 0) continue
        pattern[++rows] = "(^|[^A-Za-z0-9_.>])" $1
        home[rows] = $2
        $1 = $2 = ""
        sub(/^ +/, "")
        why[rows] = $0
    }
}
FNR == 1 { in_comment = 0 }
{
    take($0)
    if (CODE == "") next
    for (i = 1; i <= rows; i++)
        if (CODE ~ pattern[i] && FILENAME !~ home[i]) print FILENAME ":" FNR ": " why[i] ": " $0
}
