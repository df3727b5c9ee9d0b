#!/usr/bin/env bash
# compile_commands.sh - makes of the commands on standard input, as make -nB V=1 prints them, what
# clangd reads: how each C file is compiled.
# https://clang.llvm.org/docs/JSONCompilationDatabase.html
awk -v folder="$PWD" '
    BEGIN { print "[" }
    match($0, / -c [^ ]+[.]c -o /) {
        file = substr($0, RSTART + 4, RLENGTH - 8)
        gsub(/\\/, "\\\\")
        gsub(/"/, "\\\"")
        printf "%s  { \"directory\": \"%s\", \"file\": \"%s\", ", comma, folder, file
        printf "\"command\": \"%s\" }", $0
        comma = ",\n"
    }
    END { print "\n]" }'
