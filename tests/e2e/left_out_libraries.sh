#!/usr/bin/env bash
# left_out_libraries.sh - a build without libspng and hwloc: only the files that use them differ, so
# those are compiled here and linked with the rest of the build; then what such a program says.
source tests/e2e/lib/common.sh
[[ -f Makefile ]] || { echo "no Makefile here"; exit 77; }

# ---- the build ----
cuda=auto
"$CONVOY" --version > "$out" && grep -qx 'backend cuda: not built' "$out" && cuda=0
make --no-print-directory -nB V=1 "CUDA=$cuda" PNG=0 HWLOC=0 all > "$SCRATCH/make" 2> "$out" ||
    { echo "make says nothing of how it builds"; exit 77; }
for text in "convoy without libspng: PNG files are refused" \
    "convoy without hwloc: ranks are not bound to CPUs"
do
    grep -qxF "$text" "$SCRATCH/make" || broken "make does not say: $text"
done
! grep -E 'lspng|lhwloc|spng[.]h|hwloc[.]h|place_plan' "$SCRATCH/make" ||
    broken "make asks for what is left out"
objects=()
uses='CONVOY_NO_(PNG|HWLOC)|(place/topology|doctor/doctor)[.]h'
mapfile -t files < <(grep -rlE "$uses" data trainer --include='*.c' | grep -v '/place_plan[.]c$')
for file in "${files[@]}"; do
    objects+=("$SCRATCH/$(basename "$file" .c).o")
    compile=$(grep -F -- " -c $file -o " "$SCRATCH/make" | sed 's/ -MMD -MP / /; s/ -o .*//')
    bash -c "$compile -o ${objects[-1]}" > "$out" 2>&1 || broken_run "$file cannot be compiled"
done
built=$(grep -oE -- '-o [^ ]*/no-png/no-hwloc/convoy ' "$SCRATCH/make" | cut -d ' ' -f 2)
link=$(grep -F -- " -o $built " "$SCRATCH/make" | sed "s|${built%/*}/|$tools/|g")
own=$SCRATCH/convoy
bash -c "$(sed -E "s|[^ ]*/main[.]o|${objects[*]} &|; s| -o [^ ]+| -o $own|" <<< "$link")" \
    > "$out" 2>&1 || { broken_run "cannot be linked"; exit 1; }
readelf -d "$own" > "$out"
! grep -E 'libspng|libhwloc' "$out" || broken "the program needs what is left out"

# Headers that are not there are noticed without being told.
cat > "$SCRATCH/cc" << END
#!/bin/sh
case " \$* " in *" -E "*) grep -q spng.h && exit 1 ;; esac
exec ${CC:-gcc} "\$@"
END
chmod +x "$SCRATCH/cc"
make --no-print-directory -nB V=1 CUDA=0 "CC=$SCRATCH/cc" all 2>&1 |
    grep -E '^convoy |base/str[.]c' > "$out"
expect_text "no spng.h" 1 "convoy without libspng"
expect_text "no spng.h" 0 "convoy without hwloc"
expect_text "no spng.h" some "-DCONVOY_NO_PNG"

# ---- what it says ----
make_data "$SCRATCH/data" 2 1
make_config
CONVOY=$own
expect "version" 0 run 1 --version
expect_text "version" 1 ", no libspng: PNG files are refused"
expect_text "version" 1 "no hwloc: ranks are not bound to CPUs"
run 1 doctor > "$out" 2>&1
grep -qE '^warn +placement +no hwloc: ranks are not bound' "$out" || broken_run "doctor: no warning"
expect_text "doctor" 1 ", no libspng: PNG files are refused"
expect_error "doctor --topology" 78 "x.xml: this convoy was built without hwloc" 1 doctor \
    --topology x.xml
train small 1 train.max_steps=1
grep -qF "device.bind: no hwloc: ranks are not bound" "$SCRATCH/small/log.txt" ||
    broken "log.txt does not say that ranks are not bound"
expect "preview" 78 run 1 preview "$SCRATCH/small.yaml" --set "run.dir=$SCRATCH/small" \
    --out "$SCRATCH/preview.html"
expect_text "preview" some "PNG: this convoy was built without libspng"
"$tools"/make_image png "$SCRATCH/data/train/star/0001.png" || broken "no PNG"
expect "a PNG" 65 run 1 inspect dataset "$SCRATCH/data/train"
expect_text "a PNG" 1 "0001.png: PNG: this convoy was built without libspng"
expect_text "a PNG" 1 "unreadable 1"
exit "$failed"
