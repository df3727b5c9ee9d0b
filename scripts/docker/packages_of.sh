#!/bin/sh
# packages_of.sh PROGRAM - the Debian packages of the shared libraries that PROGRAM is linked with,
# a line each. Run where it was built.
set -eu
libraries=$(ldd "$1")
if missing=$(echo "$libraries" | grep 'not found'); then
    echo "packages_of: error: $1: $missing" >&2
    exit 78
fi
# dpkg may know as /lib/x.so what the loader calls /usr/lib/x.so, and the other way round.
for path in $(echo "$libraries" | awk '$3 ~ /^\// { print $3 }'); do
    dpkg -S "$path" 2> /dev/null || dpkg -S "/usr$path" 2> /dev/null || dpkg -S "${path#/usr}"
done | cut -d : -f 1 | sort -u
