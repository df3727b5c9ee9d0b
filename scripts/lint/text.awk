# text.awk - takes C apart: take(LINE) leaves in CODE what is neither comment nor text in quotes, in
# TEXT what is in quotes, in COMMENT the comments; in_comment lives from line to line. stem_of(PATH)
# is a file's name without folder and ending, singular(WORD) a word without a plural's ending.
function take(s,   quote)
{
    CODE = COMMENT = TEXT = ""
    while (s != "") {
        if (in_comment) {
            if (!match(s, /[*]\//)) { COMMENT = COMMENT s; return }
            COMMENT = COMMENT substr(s, 1, RSTART - 1) " "
            s = substr(s, RSTART + 2)
            in_comment = 0
        } else if (!match(s, /\/[*\/]|["\047]/)) {
            CODE = CODE s
            return
        } else {
            CODE = CODE substr(s, 1, RSTART - 1)
            quote = substr(s, RSTART, RLENGTH)
            s = substr(s, RSTART + RLENGTH)
            if (quote == "/*") in_comment = 1
            else if (quote == "//") { COMMENT = COMMENT s; return }
            else {
                CODE = CODE quote quote
                if (quote == "\"") match(s, /^([^"\\]|\\.)*"/)
                else match(s, /^([^\047\\]|\\.)*\047/)
                if (RLENGTH < 0) return # text goes on in the next line
                TEXT = TEXT " " substr(s, 1, RLENGTH - 1)
                s = substr(s, RLENGTH + 1)
            }
        }
    }
}

function stem_of(path)
{
    sub(/.*\//, "", path)
    sub(/[.].*/, "", path)
    return path
}

function singular(word)
{
    if (word ~ /ies$/) return substr(word, 1, length(word) - 3) "y"
    sub(/s$/, "", word)
    return word
}
