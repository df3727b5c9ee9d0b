#!/usr/bin/env bash
# manifests.sh - without a network or a cluster: the YAML and JSON files below scripts/ and the
# pages that tell how to use them name commands, options, config keys and files that exist, and the
# manifests agree with themselves. (scripts/dev/check_manifests.sh compares them
# with the schemas of others.)
source tests/e2e/lib/common.sh

yaml=(scripts/*/*.yaml scripts/*/*.json)
"$tools"/make_yamlpaths "${yaml[@]}" > "$SCRATCH/values" 2> "$out" ||
    broken_run "not every YAML or JSON file can be read"
mapfile -t pages < <(printf '%s\n' README.md CONTRIBUTING.md; find docs -name '*.md' | sort)

# ---- what convoy knows: commands; "COMMAND OPTION" a line; keys ----
"$CONVOY" --tables | awk -F '\t' '$1 == "command" && $2 != "convoy" {
        sub(/^convoy /, "", $2); sub(/ .*/, "", $2); print $2
    }' | sort -u > "$SCRATCH/commands"
"$CONVOY" --tables | awk -F '\t' '$1 == "command" { split($2, word, " ") }
    $1 == "option" {
        count = split($2, name, ", ")
        for (i = 1; i <= count; i++) { sub(/ .*/, "", name[i]); print word[2] " " name[i] }
    }' | cat - <(sed 's/$/ --help/' "$SCRATCH/commands") | sort -u > "$SCRATCH/options"
"$CONVOY" inspect config | grep -oE '^ *[a-z]+[.][a-z0-9_]+' | tr -d ' ' > "$SCRATCH/new_keys"
"$CONVOY" inspect config --markdown | sed -nE 's/.*[(]once `([^`]+)`.*/\1/p' |
    sort -u - "$SCRATCH/new_keys" > "$SCRATCH/keys"
(($(wc -l < "$SCRATCH/commands") > 8 && $(wc -l < "$SCRATCH/options") > 40 &&
    $(wc -l < "$SCRATCH/keys") > 60)) ||
    broken "cannot read convoy's own help"

# check_commands - reads "PLACE convoy WORD..." lines and says which command,
# option or key of --set does not exist.
check_commands()
{
    awk -v commands="$SCRATCH/commands" -v options="$SCRATCH/options" -v keys="$SCRATCH/keys" '
        BEGIN {
            while ((getline line < commands) > 0) command[line] = 1
            while ((getline line < options) > 0) option[line] = 1
            while ((getline line < keys) > 0) key[line] = 1
        }
        {
            name = $3
            if (name !~ /^[a-z][a-z-]*$/) next # convoy --version; a sentence
            if (!(name in command)) { print $1 ": no command convoy " name; next }
            for (i = 4; i <= NF; i++) {
                if ($i == "--") {
                    name = $(++i)
                    if (!(name in command)) print $1 ": no command convoy " name
                    continue
                }
                word = $i; sub(/=.*/, "", word)
                if (word == "--set") {
                    word = $(i + 1); sub(/=.*/, "", word)
                    if ($(i + 1) ~ /=/ && !(word in key)) print $1 ": no key " word
                } else if (word ~ /^--[a-z]/ && !((name " " word) in option))
                    print $1 ": convoy " name " has no option " word
            }
        }'
}

# In manifests: a container's command, a word a line; the words of --mpirun-args are mpirun's.
awk -F= '{ place = $1; sub(/\[[0-9]+\]$/, "", place); word = substr($0, length($1) + 2) }
    $1 !~ /command\[[0-9]+\]$/ { next }
    place != last {
        if (line ~ /^[^ ]+ convoy /) print line
        last = place; sub(/ /, ":", place); line = place
    }
    { gsub(/[ \t]/, "_", word); line = line " " word }
    END { if (line ~ /^[^ ]+ convoy /) print line }' "$SCRATCH/values" > "$SCRATCH/in_manifests"
# In text of a shell, "PLACE TEXT" a line: what is in quotes may be a command or an argument of one.
commands_in_text()
{
    awk 'function show(text,   n, part, i) {
            n = split(text, part, "\n")
            for (i = 1; i <= n; i++) if (match(part[i], /(^|[ \/])convoy [a-z]/)) {
                text = substr(part[i], RSTART); sub(/^[ \/]+/, "", text); print place " " text
            }
        }
        {
            place = $1
            gsub(/ #.*|[|]+|&&|[;`>]|\\n/, "\n")
            plain = $0; gsub(/[\047"]/, "\n", plain); show(plain)
            if (plain != $0) { gsub(/\047[^\047]*\047|"[^"]*"/, "QUOTED"); show($0) }
        }'
}
grep -E 'command\[[0-9]+\]=.*convoy [a-z]' "$SCRATCH/values" | sed -E 's/ [^=]*=/ /' |
    commands_in_text >> "$SCRATCH/in_manifests"
(($(wc -l < "$SCRATCH/in_manifests") >= 6)) ||
    broken "the manifests hold only $(wc -l < "$SCRATCH/in_manifests") commands of convoy"
# In pages: in blocks of code, where a backslash ends a line that goes on.
awk '/^ *```/ { code = !code; next }
    !code { next }
    { if (kept != "") { $0 = kept " " $0; kept = "" } }
    /\\$/ { kept = substr($0, 1, length($0) - 1); next }
    { print FILENAME " " $0 }' "${pages[@]}" | commands_in_text > "$SCRATCH/in_pages"
(($(wc -l < "$SCRATCH/in_pages") >= 10)) ||
    broken "the pages hold only $(wc -l < "$SCRATCH/in_pages") commands of convoy"
cat "$SCRATCH/in_manifests" "$SCRATCH/in_pages" | check_commands > "$out"
[[ ! -s $out ]] || broken_run "what is named does not exist"
# The check can fail.
printf 'here convoy %s\n' 'trian x' 'launch --hostscript x' 'train x --set run.folder=x' \
    'launch -- evil x' | check_commands > "$out"
(($(wc -l < "$out") == 4)) || broken_run "wrong commands are not noticed"

# Keys after --set wherever they stand, and in backticks.
sections=$(cut -d . -f 1 "$SCRATCH/keys" | sort -u | paste -sd '|')
grep -hoE -- '--set [a-z]+[.][a-z0-9_]+=' "${pages[@]}" scripts/*/* |
    sed -E 's/--set (.*)=/\1/' > "$SCRATCH/named"
grep -hoE "\`($sections)[.][a-z0-9_]+[\`:]" "${pages[@]}" | tr -d '`:' |
    grep -vE '[.](bin|c|h|lock|md|sbatch|sh|txt|yaml)$' >> "$SCRATCH/named"
# section.key is config.md's word for any key.
sort -u "$SCRATCH/named" | comm -23 - "$SCRATCH/keys" | grep -vxF section.key > "$out"
[[ ! -s $out ]] || broken_run "these keys do not exist"
(($(sort -u "$SCRATCH/named" | wc -l) >= 20)) ||
    broken "the pages name only $(sort -u "$SCRATCH/named" | wc -l) keys"

# Files that pages and manifests name, with or without wildcards.
grep -hoE '(^|[^A-Za-z0-9_./-])(scripts|configs|docs|tests)/[A-Za-z0-9_./*{},-]*[A-Za-z0-9_*}]' \
    "${pages[@]}" "${yaml[@]}" scripts/docker/* | grep -oE '(scripts|configs|docs|tests)/.*' |
    sed -E 's;,(scripts|configs|docs|tests)/;\n\1/;g' | sort -u > "$SCRATCH/files"
while read -r file; do
    [[ $file == *'*'* || $file == *'{'* || -e $file ]] ||
        compgen -G "$file*" > /dev/null || echo "$file"
done < "$SCRATCH/files" > "$out"
[[ ! -s $out ]] || broken_run "these files do not exist"

# Files and folders of the product that pages name; x stands for any name.
product='(base|data|kernels|models|trainer)/[a-z0-9_./]*[a-z0-9_]'
grep -hoE "(^|[^A-Za-z0-9_./$-])$product" "${pages[@]}" | grep -oE "$product" |
    grep -vE '[/_]x[.]' | sort -u > "$SCRATCH/product"
(($(wc -l < "$SCRATCH/product") >= 40)) || broken "the pages name hardly a file of the product"
while read -r file; do
    [[ -e $file ]] || compgen -G "$file*" > /dev/null || echo "$file"
done < "$SCRATCH/product" > "$out"
[[ ! -s $out ]] || broken_run "these files of the product do not exist"

# Links between pages: file and heading exist, and README.md leads to every page. It links those of
# docs itself; those of a folder in it may be linked from CONTRIBUTING.md or the folder's README.md.
awk '/^ *```/ { code = !code } !code && /^#+ / {
        sub(/^#+ /, ""); heading = tolower($0); gsub(/[^a-z0-9 _-]/, "", heading)
        gsub(/ /, "-", heading); print FILENAME "#" heading
    }' "${pages[@]}" > "$SCRATCH/headings"
for page in "${pages[@]}"; do
    grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^..(.*).$/\1/' | grep -vE '^https?:' \
        > "$SCRATCH/targets"
    while read -r link; do
        file=$(realpath -m --relative-to=. "$(dirname "$page")/${link%%#*}")
        [[ $link != '#'* ]] || file=$page
        echo "$page $file"
        [[ -e $file ]] || echo "$page: no file $link" >&2
        [[ $link != *'#'* ]] || grep -qxF "$file#${link#*#}" "$SCRATCH/headings" ||
            echo "$page: no heading $link" >&2
    done < "$SCRATCH/targets"
done > "$SCRATCH/links" 2> "$out"
[[ ! -s $out ]] || broken_run "links that lead nowhere"
# not_linked - reads pages and says to which of them README.md does not lead
not_linked()
{
    local page index
    while read -r page; do
        for index in README.md CONTRIBUTING.md "${page%/*}/README.md"; do
            [[ $index == README.md || $page == docs/*/* ]] || continue
            [[ $index == README.md ]] || grep -qxF "README.md $index" "$SCRATCH/links" || continue
            ! grep -qxF "$index $page" "$SCRATCH/links" || continue 2
        done
        echo "$page"
    done
}
printf '%s\n' "${pages[@]:1}" | not_linked > "$out"
[[ ! -s $out ]] || broken_run "README.md does not lead to these pages"
printf '%s\n' docs/none.md docs/laboratory/none.md | not_linked > "$out"
(($(wc -l < "$out") == 2)) || broken_run "pages that nothing links are not noticed"

# Pages stay short: words of all but config.md, which is generated, and the laboratory's.
words_at_most=34500
printf '%s\n' "${pages[@]}" | grep -vE '^docs/(config[.]md$|laboratory/)' > "$SCRATCH/counted"
words=$(xargs cat < "$SCRATCH/counted" | wc -w)
((words > words_at_most / 2)) || broken "the pages hold only $words words"
((words <= words_at_most)) ||
    broken "the pages hold $words words, of at most $words_at_most: say nothing twice"

# ---- the manifests among themselves ----
# value FILE PATH - of a scalar; $(items FILE PATH) - of the items of a sequence, in order.
value()
{
    awk -v path="$1:0 $2=" 'index($0, path) == 1 { print substr($0, length(path) + 1); exit }' \
        "$SCRATCH/values"
}
items()
{
    awk -v path="$1:0 $2[" 'index($0, path) == 1 { sub(/^[^=]*=/, ""); print }' "$SCRATCH/values"
}
# equal WHAT GOT WANT
equal()
{
    [[ -n $2 && $2 == "$3" ]] || broken "$1: '$2', expected '$3'"
}
for file in scripts/k8s/train-gpu.yaml scripts/k8s/train-cpu.yaml; do
    launcher=spec.mpiReplicaSpecs.Launcher.template.spec \
        worker=spec.mpiReplicaSpecs.Worker.template.spec
    slots=$(value "$file" spec.slotsPerWorker)
    equal "$file: --slots" \
        "$(items "$file" "$launcher.containers[0].command" | grep -A1 -x -- --slots | tail -n 1)" \
        "$slots"
    equal "$file: the image of the launcher" "$(value "$file" "$launcher.containers[0].image")" \
        "$(value "$file" "$worker.containers[0].image")"
    equal "$file: where keys are mounted" "$(value "$file" spec.sshAuthMountPath)" \
        /home/mpiuser/.ssh
    drain=$(items "$file" "$worker.containers[0].lifecycle.preStop.exec.command" | xargs)
    [[ $drain =~ ^convoy\ drain\ --wait\ ([0-9]+)$ ]] || broken "$file: preStop is '$drain'"
    (($(value "$file" "$worker.terminationGracePeriodSeconds") > ${BASH_REMATCH[1]:-99999})) ||
        broken "$file: workers are killed while preStop waits"
    (($(value "$file" "$launcher.terminationGracePeriodSeconds") > 120)) ||
        broken "$file: the launcher is killed while it waits for --grace"
    for part in "$launcher" "$worker"; do
        equal "$file: the claim of $part" \
            "$(value "$file" "$part.volumes[0].persistentVolumeClaim.claimName")" convoy-data
        equal "$file: the user of $part" \
            "$(value "$file" "$part.containers[0].securityContext.runAsUser")" 1000
    done
done
gpu=scripts/k8s/train-gpu.yaml
equal "$gpu: GPUs of a worker" \
    "$(value $gpu "$worker.containers[0].resources.limits.nvidia.com/gpu")" \
    "$(value $gpu spec.slotsPerWorker)"
for resource in nvidia.com/gpu vpc.amazonaws.com/efa hugepages-2Mi cpu memory; do
    equal "$gpu: request of $resource" \
        "$(value $gpu "$worker.containers[0].resources.requests.$resource")" \
        "$(value $gpu "$worker.containers[0].resources.limits.$resource")"
done
sums=scripts/k8s/allreduce.yaml
equal "$sums: RANKS" "$(value $sums "$launcher.containers[0].env[0].value")" \
    $(($(value $sums spec.slotsPerWorker) * $(value $sums spec.mpiReplicaSpecs.Worker.replicas)))
equal "$sums: GPUs of a worker" \
    "$(value $sums "$worker.containers[0].resources.limits.nvidia.com/gpu")" \
    "$(value $sums spec.slotsPerWorker)"
for file in scripts/k8s/fsx.yaml scripts/k8s/fsx-existing.yaml; do
    grep -qF "$file:1 metadata.name=convoy-data" "$SCRATCH/values" ||
        broken "$file: makes no claim convoy-data"
done
grep -oE '^HostKey .*|^Port .*' scripts/docker/runtime.sh | xargs > "$out"
expect_text "sshd of the image and the keys of the operator" \
    1 "Port 2222 HostKey /home/mpiuser/.ssh/id_rsa"
exit "$failed"
