# calls.awk - who needs whose functions and tables, from what `nm -A -P` says of the objects of the
# product, named as their sources are: uses that rooms.txt does not allow, and circles, first of
# rooms, then of files. With rooms.awk.
{
    file = $1
    sub(/[.]o:$/, "", file)
    if (file !~ /[.]cu$/) file = file ".c"
}
$3 ~ /^[TDRBC]$/ { home[$2] = file; type[$2] = $3 }
$3 == "U" { user[++count] = file; name[count] = $2 }

function add_edge(a, b, why)
{
    if (a == b || (a, b) in tie) return
    tie[a, b] = why
    edges[a] = edges[a] " " b
}

# Tarjan: a circle is a set of nodes that reach each other.
function visit(v,   i, n, next_node, w, member)
{
    order[v] = low[v] = ++visited
    stack[++top] = v
    on_stack[v] = 1
    n = split(edges[v], next_node, " ")
    for (i = 1; i <= n; i++) {
        w = next_node[i]
        if (!(w in order)) {
            visit(w)
            if (low[w] < low[v]) low[v] = low[w]
        } else if (on_stack[w] && order[w] < low[v]) low[v] = order[w]
    }
    if (low[v] != order[v]) return
    n = 0
    do {
        w = stack[top--]
        on_stack[w] = 0
        member[++n] = w
    } while (w != v)
    if (n > 1) say_circle(member, n)
}

function say_circle(member, n,   i, j, shown, text)
{
    shown = 0
    for (i = 1; i <= n; i++) for (j = 1; j <= n; j++)
        if ((member[i], member[j]) in tie && ++shown <= 24)
            text = text "\n    " member[i] " -> " member[j] " (" tie[member[i], member[j]] ")"
    if (shown > 24) text = text "\n    ..."
    print "circle of " n " " kind ":" text
}

function find_circles(what,   v)
{
    kind = what
    for (v in edges) if (!(v in order)) visit(v)
    split("", edges)
    split("", tie)
    split("", order)
}

END {
    for (i = 1; i <= count; i++) {
        if (!(name[i] in home) || home[name[i]] == user[i]) continue
        a = room_of(user[i])
        b = room_of(home[name[i]])
        if (is_list(user[i], b) && type[name[i]] ~ /[DR]/ && name[i] ~ list_names[user[i], b]) {
            name[i] = ""
            continue
        }
        if (!may_use(a, b)) {
            what = user[i] ": " a " may not use " b ":"
            wrong[what] = wrong[what] " " name[i]
        }
        add_edge(a, b, user[i] ": " name[i])
    }
    for (what in wrong) print what wrong[what]
    find_circles("rooms")
    for (i = 1; i <= count; i++)
        if (name[i] in home) add_edge(user[i], home[name[i]], name[i])
    find_circles("files")
}
