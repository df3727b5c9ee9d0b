# columns.awk - lines of more than 100 columns that could be broken. Tables of a page, what it
# quotes in fences, and lines without a blank to break at are left alone, as are addresses.
FNR == 1 {
    fenced = 0
    page = FILENAME ~ /[.]md$/
}
page && /^[ \t]*```/ { fenced = !fenced }
length($0) <= 100 { next }
page && (fenced || /^[ \t]*[|]/) { next }
{
    line = $0
    sub(/^[ \t]*([-*>#]|[0-9]+[.]|\/\/)?[ \t]*/, "", line)
    if (substr(line, 1, 100) ~ / / && line !~ /https?:\/\//)
        print FILENAME ":" FNR ": " length($0) " columns"
}
