# man.awk - a manual page: of one command, from what convoy --tables prints, or of config keys, from
# what convoy inspect config prints. So it cannot say what the program does not.
#
# Variables: name ("convoy train"), about (one line), section, version, date; more: what stands at
# the end, in roff.

function plain(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text ~ /^[.']/ ? "\\&" text : text
}

# A heading where lines of this kind begin; between them separator.
function begin(kind, title, separator)
{
    if (last == kind) {
        if (separator != "") print separator
        return
    }
    if (verbatim) print ".fi"
    verbatim = 0
    print ".SH " title
    last = kind
}

function tagged(words, text)
{
    print ".TP\n\\fB" plain(words) "\\fR"
    if (text != "") print plain(text)
}

function as_it_is(kind, title)
{
    begin(kind, title)
    if (!verbatim) print ".nf"
    verbatim = 1
    print plain($2)
}

BEGIN {
    FS = "\t"
    page = name
    gsub(/ /, "-", page)
    printf ".TH %s %s \"%s\" \"convoy %s\" \"Convoy\"\n", toupper(page), section, date, version
    print ".SH NAME\n" plain(page) " \\- " plain(about)
    if (section == 5) begin("keys", "DESCRIPTION")
}

# "section.key = default", and text below it
section == 5 && /^[a-z_]+[.][a-z_0-9]+ = / {
    key_section = substr($0, 1, index($0, ".") - 1)
    begin(key_section, toupper(key_section))
    tagged($0)
    next
}
section == 5 {
    sub(/^ +/, "")
    if ($0 != "") print plain($0)
    next
}

$1 == "command" { wanted = $2 == name }
!wanted { next }
$1 == "usage" {
    begin($1, "SYNOPSIS")
    print "\\fB" plain($2) "\\fR"
}
$1 == "about" {
    begin($1, "DESCRIPTION", ".PP")
    print plain($2)
}
$1 == "child" {
    begin($1, "COMMANDS")
    tagged($2, $3)
}
$1 == "argument" || $1 == "option" {
    begin("option", "OPTIONS")
    tagged($2, $3)
}
$1 == "example" { as_it_is($1, "EXAMPLES") }
$1 == "more" { as_it_is($1, "TABLE") }

END {
    if (verbatim) print ".fi"
    print more
}
