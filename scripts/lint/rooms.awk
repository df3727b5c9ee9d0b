# rooms.awk - the table of rooms.txt: room_of(FILE), may_use(ROOM, ROOM), is_list(FILE, ROOM, NAME).
# -v rooms=rooms.txt; wrong_rooms holds what is wrong with the table itself, a line each.
BEGIN {
    while ((getline < rooms) > 0) {
        if ($1 == "house" || $1 == "room") {
            known[$2] = 1
            uses[$2, $2] = 1
            for (i = 3; i <= NF; i++) {
                uses[$2, $i] = 1
                if (!($i in known))
                    wrong_rooms = wrong_rooms rooms ": " $2 ": no " $i " stands above it\n"
            }
        } else if ($1 == "floor") {
            floor[$2] = 1
        } else if ($1 == "list") {
            list_names[$2, $3] = $4
        }
    }
    close(rooms)
}

# The row of a file with its header, or of its folder.
function room_of(file,   folder)
{
    folder = file
    sub(/\/[^\/]*$/, "", folder)
    sub(/[.][a-z.]*$/, ".*", file)
    return file in known ? file : folder
}

function house_of(room)
{
    sub(/\/.*/, "", room)
    return room
}

function floor_of(room)
{
    sub(/\/[^\/]*$/, "", room)
    return room
}

# In another house its own rooms do not matter.
function may_use(a, b)
{
    if (house_of(a) != house_of(b)) return (house_of(a), house_of(b)) in uses
    return (a, b) in uses || floor_of(b) in floor && (a, floor_of(b)) in uses
}

# A list is data that names the rows of a room above it; see rooms.txt.
function is_list(file, room)
{
    return (file, room) in list_names
}
