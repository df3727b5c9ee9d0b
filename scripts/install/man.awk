# man.awk - a help text of convoy as a manual page, so that neither can say what the other does not.
#
# Variables: name ("convoy train"), about (one line), section, version, date; rows: 1 where lines
# "  convoy ..." have their text below them, as in convoy's own help; more: what stands at the end,
# in roff. Text at the margin becomes paragraphs, "  --option VALUE  text" and "key = value" become
# tagged ones, other indented lines stay as they are.

function plain(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text ~ /^[.']/ ? "\\&" text : text
}

# A paragraph begins where something stands behind an empty line; headings and tags begin one.
function begin(as_it_is)
{
    if (shown && !as_it_is) print ".fi"
    if (gap || as_it_is != shown) print ".PP"
    if (as_it_is && !shown) print ".nf"
    shown = as_it_is
    gap = 0
}

function heading(title)
{
    if (shown) print ".fi"
    print ".SH " title
    shown = gap = 0
}

function text(line)
{
    sub(/^ +/, "", line)
    print plain(line)
}

function tagged(words, line)
{
    if (shown) print ".fi"
    print ".TP\n\\fB" plain(words) "\\fR"
    text(line)
    shown = gap = 0
    tag = ""
    row = 1
}

BEGIN {
    page = name
    gsub(/ /, "-", page)
    printf ".TH %s %s \"%s\" \"convoy %s\" \"Convoy\"\n", toupper(page), section, date, version
    print ".SH NAME\n" plain(page) " \\- " plain(about)
}

NR == 1 && sub(/^usage: /, "") {
    usage = 1
    heading("SYNOPSIS")
}

usage && $0 != "" {
    sub(/^ +/, "")
    print "\\fB" plain($0) "\\fR"
    next
}

usage || NR == 1 {
    usage = 0
    heading("DESCRIPTION")
    if ($0 == "") next
}

/^$/ {
    gap = 1
    row = 0
    next
}

/^  --[a-z]/ && match(substr($0, 3), /  +/) {
    tagged(substr($0, 3, RSTART - 1), substr($0, 2 + RSTART + RLENGTH))
    next
}

/^[a-z_]+[.][a-z_0-9]+ = / {
    key_section = substr($1, 1, index($1, ".") - 1)
    if (key_section != last_section) heading(toupper(key_section))
    last_section = key_section
    tag = $0
    row = 1
    next
}

rows && /^  convoy / {
    tag = substr($0, 3)
    row = 1
    next
}

row && /^    / {
    if (tag != "") tagged(tag, $0)
    else text($0)
    next
}

{
    row = 0
    begin(/^ / ? 1 : 0)
    if (shown) print plain($0)
    else text($0)
}

END {
    if (shown) print ".fi"
    if (more != "") print more
}
