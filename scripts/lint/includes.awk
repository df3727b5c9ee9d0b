# includes.awk - includes that rooms.txt does not allow, and headers that nobody includes. With
# rooms.awk; arguments: the C files of the product.
BEGIN { printf "%s", wrong_rooms }
FNR == 1 {
    room = room_of(FILENAME)
    watched = (house_of(room)) in known
    header[FILENAME] = FILENAME ~ /h$/
    if (watched && !(room in known)) print FILENAME ":1: " room " has no row in " rooms
}
watched && /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    included[part[2]] = 1
    above = room_of(part[2])
    if (!may_use(room, above) && !is_list(FILENAME, above))
        print FILENAME ":" FNR ": " room " may not use " above ": \"" part[2] "\""
}
END {
    for (file in header)
        if (header[file] && !(file in included)) print file ": included by nobody"
}
