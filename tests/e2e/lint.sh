#!/usr/bin/env bash
# lint.sh - scripts/lint.sh finds what it is there to find: a small house without a fault passes,
# and of the faults then planted, one of each kind, it names every one.
source tests/e2e/lib/common.sh

read -ra cc <<< "${CC:-gcc}"
command -v "${cc[0]}" > /dev/null && command -v nm > /dev/null || { echo "no compiler"; exit 77; }
house=$SCRATCH/house
mkdir -p "$house"/{base,data/index,data/decode,kernels,models,tests/unit,examples}
mkdir -p "$house"/{trainer/app/log,trainer/engine/train,configs,docs,findings,scripts,.ci}
cp -r scripts/lint scripts/lint.sh scripts/tally.sh "$house/scripts"
cp .clang-format "$house"
cd "$house" || exit 1
# The tables of exceptions are those of the real house.
for table in names unused plain_excuses; do : > scripts/lint/$table.txt; done
echo 'stdio.h C' > scripts/lint/foreign.txt

# file NAME: its content from standard input
file()
{
    cat > "$1"
}

# lint - compiles every .c and lints with the objects; the output stays in $out
lint()
{
    local source built=()
    while read -r source; do
        mkdir -p "build/obj/$(dirname "$source")"
        "${cc[@]}" -O0 -I. -c "$source" -o "build/obj/${source%.c}.o" ||
            broken "$source does not compile"
        built+=("${source%.c}.o")
    done < <(find base data trainer -name '*.c')
    BUILT="${built[*]}" CPPFLAGS=-I. scripts/lint.sh > "$out" 2>&1
}

# found TEXT - lint has said so
found()
{
    grep -qF -- "$1" "$out" || broken "lint does not say: $1"
}

file base/count.h << 'END'
/* count.h - how often; see count.c and `docs/config.md`. */
#ifndef CONVOY_BASE_COUNT_H
#define CONVOY_BASE_COUNT_H
typedef enum CountKind { COUNT_UP, COUNT_DOWN } CountKind;
/* One further than count_last(), by COUNT_ kind. */
int count_next(CountKind kind);
int count_last(void);
#endif
END
file base/count.c << 'END'
/* count.c - see count.h. */
#include "base/count.h"

static int last;

int count_next(CountKind kind)
{
    switch (kind) {
    case COUNT_UP:
        return last++;
    case COUNT_DOWN:
        return last--;
    }
    return 0;
}

int count_last(void)
{
    return last;
}
END
file trainer/app/main.c << 'END'
/* main.c - counts. */
#include "base/count.h"

int main(void)
{
    return count_next(COUNT_UP) + count_last();
}
END
file docs/config.md << 'END'
| `data.train` | empty |
END
file README.md << 'END'
# A house

`./convoy` has `data.train`, `count_next()` and [a page](docs/config.md).
END
lint
expect_text "a house without a fault" some ", 0 failed, "
[[ $(tail -n 1 "$out") == *", 0 failed, "* ]] || cat "$out"
BUILT='' CPPFLAGS=-I. scripts/lint.sh > "$out" 2>&1
found "skip lint: not built, or not since the last change: calls between rooms not checked"

# ---- what users rely on ----
mkdir -p trainer/engine/files data/index
echo '    ERR_USAGE = -1, /* command line -> exit 64 */' > base/status.h
echo '#define INDEX_VERSION 2u' > data/index/index.h
echo 'static const char format_number[] = "1";' > trainer/engine/files/checkpoint.c
cat > docs/running.md << 'END'
| `event` | fields |
|---|---|
| `step` | `loss` `lr` (1/s) |
END
printf '| `data.train` | empty | text |\n| `data.size` | `32` | text |\n' > docs/config.md
printf '# Changes\n\n## Next\n\n- `data.size` is gone.\n\n## 0.1\n\n`data.train`\n' > CHANGELOG.md
scripts/lint/interfaces.sh --list > scripts/lint/interfaces.txt
expect "interfaces as they were" 0 scripts/lint/interfaces.sh
[[ ! -s $out ]] || broken_run "interfaces as they were: findings"
sed -i '/data.size/d; s/empty/`x`/' docs/config.md
sed -i 's/`lr`/`rate`/; s/`step`/`move`/' docs/running.md
sed -i 's/64/65/' base/status.h
sed -i 's/"1"/"2"/' trainer/engine/files/checkpoint.c
expect "interfaces that changed" 0 scripts/lint/interfaces.sh
for name in data.train step move step.lr move.rate ERR_USAGE checkpoint_format; do
    found "\`$name\` is "
done
! grep data.size "$out" || broken_run "interfaces: what CHANGELOG.md tells is asked for"
rm -r trainer/engine/files data/index/index.h base/status.h CHANGELOG.md docs/running.md \
    scripts/lint/interfaces.txt
echo '| `data.train` | empty |' > docs/config.md

# ---- floors ----
file data/decode/image.h << 'END'
int image_size(void);
int image_pair(void);
END
file data/decode/image.c << 'END'
#include "data/decode/image.h"
int image_half(void);

int image_size(void)
{
    return 1;
}

int image_pair(void)
{
    return 2 * image_half();
}
END
file data/decode/half.c << 'END'
#include "data/decode/image.h"
int image_half(void);

int image_half(void)
{
    return image_pair() / 2;
}
END
file data/index/scan.c << 'END'
#include "data/decode/image.h"
END
file data/index/slip.c << 'END'
int image_size(void);
int slip(void);

int slip(void)
{
    return image_size();
}
END
file base/up.c << 'END'
#include "trainer/yaml.h"
END
file trainer/top.h << 'END'
#include "kernels/cpu/lanes.h"
#include <yaml.h>
END
mkdir trainer/attic kernels/cpu
file trainer/attic/box.c << 'END'
#include "base/count.h"
END
file kernels/cpu/lanes.h << 'END'
size_t lanes_count(void);
END
for i in {1..41}; do : > "models/$i.txt"; done
: > trainer/yaml.h

# ---- names, what nobody needs, words with one home ----
file base/odd.h << 'END'
/* As count_gone() of gone.c has it: see COUNT_SIDEWAYS. */
int even_number(int of, /* a comment */
                int n);
int odd_inside(void);
int odd_tested(void);
int odd_left(void);
END
file base/odd.c << 'END'
#include "base/count.h"
#include "base/odd.h"
#include <stdlib.h>

int even_number(int of, int n)
{
    if (of > n) exit(odd_inside());
    return n;
}

int odd_inside(void)
{
    return 3;
}

int odd_tested(void)
{
    return 5; // TODO
}

int odd_left(void)
{
    return 6;
}
END
file kernels/left_out.c << 'END'
/* Not built here: what it needs is needed. */
#include "base/odd.h"
int left_out(void)
{
    return odd_left();
}
END
# The engine knows nothing of the application, and nobody but the list chooses by kind of step.
file trainer/app/log/said.h << 'END'
int said_twice(void);
END
file trainer/app/log/said.c << 'END'
#include "trainer/app/log/said.h"

int said_twice(void)
{
    return 2;
}
END
file trainer/engine/train/up.c << 'END'
#include "trainer/app/log/said.h"
END
file trainer/engine/train/slip.c << 'END'
int said_twice(void);
int up_slip(int kind);

int up_slip(int kind)
{
    switch (kind) {
    case STEP_UPDATE:
        return said_twice();
    }
    return 0;
}
END
sed -i '1i enum { STEP_UPDATE };' trainer/engine/train/slip.c
printf '%s\n' 'const char *const slip_text = "one line "' '    "a rank";' \
    >> trainer/engine/train/slip.c
echo '. there is no' > scripts/lint/plain_excuses.txt
file tests/unit/test_odd.c << 'END'
int main(void)
{
    return odd_tested();
}
END
long="$(printf 'word %.0s' {1..30})end"
echo "$long" >> README.md
echo 'See `data.gone`, `gone_word`, docs/gone.md and GONE_NAME.' >> README.md
for name in scripts/a.sh scripts/a.py configs/a.yaml Makefile .ci/run; do
    echo "# $long" > $name
done
mkdir docs/inner
printf 'a\tb \n`inner_word`\n' > docs/inner/blank.md
echo "none_such.c ours" > scripts/lint/foreign.txt
echo "base/odd.h ^nothing" > scripts/lint/names.txt

lint
found 'data/index/scan.c:1: data/index may not use data/decode: "data/decode/image.h"'
found 'data/index/slip.c: data/index may not use data/decode: image_size'
found 'base/up.c:1: base may not use trainer: "trainer/yaml.h"'
found 'trainer/engine/train/up.c:1: trainer/engine/train may not use trainer/app/log: '
found 'trainer/engine/train/slip.c: trainer/engine/train may not use trainer/app/log: said_twice'
found 'trainer/engine/train/slip.c:8: a step is a list'
found 'trainer/engine/train/slip.c:13: "line a rank" -> one X per Y'
found 'plain_excuses.txt: . there is no: excuses nothing'
found 'trainer/attic/box.c:1: trainer/attic has no row in scripts/lint/rooms.txt'
found 'trainer/top.h: included by nobody'
found 'trainer/top.h:1: may not include "kernels/cpu/lanes.h"'
found 'trainer/top.h:2: <yaml.h> belongs to'
found 'circle of 2 files:'
found 'data/decode/half.c -> data/decode/image.c (image_pair)'
found 'models: 41 files, of at most 40'
found 'kernels/cpu/lanes.h:1:1: error'
found 'base/odd.h:3: even_number() does not bear the name odd'
found 'names.txt: base/odd.h ^nothing: without a reason'
found 'names.txt: base/odd.h ^nothing: nothing needs it'
found 'base/odd.c:5: even_number is used by nobody'
found 'base/odd.c:11: odd_inside is used by its own file alone: make it static'
found 'base/odd.c:16: odd_tested is used by nobody but tests'
found 'base/odd.h:1: there is no function count_gone()'
found 'base/odd.h:1: there is no file gone.c'
found 'base/odd.h:1: there is no name COUNT_SIDEWAYS'
found 'README.md:5: there is no key data.gone'
found 'README.md:5: there is no word gone_word'
found 'README.md:5: there is no file docs/gone.md'
found 'README.md:5: there is no name GONE_NAME'
found 'foreign.txt: none_such.c: nothing needs it'
found "base/odd.c:7: only main.c ends the program:     if (of > n) exit(odd_inside());"
found 'base/odd.c:18: unfinished work is an issue'
for name in README.md:4 scripts/a.sh:1 scripts/a.py:1 configs/a.yaml:1 Makefile:1 .ci/run:1; do
    found "$name: 15"
done
! grep -F odd_left "$out" || broken "a build that leaves out kernels/ makes odd_left() useless"
found 'docs/inner/blank.md:1: tab'
found 'docs/inner/blank.md:1: trailing blank'
found 'docs/inner/blank.md:2: there is no word inner_word'
exit "$failed"
