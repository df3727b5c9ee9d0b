#!/usr/bin/env bash
# Hydra 1.3.8 (OmegaConf 2.3.1): the same word means something else in the YAML file and on the
# command line, where it is read by another grammar.
#
# `resume: no` in the file is false; resume=no on the line is the text "no", which Python takes for
# true. NaN and inf are texts in the file and numbers on the line; .nan and 0x10, and 1:30 (90, in
# sixtieths), the reverse; 010 is the number 8 in the file and a text on the line. 1e-3 is a number
# in both. A third reader, PyYAML's safe_load, takes 1e-3 for a text.
source "$(dirname "$0")/common.sh"
packages hydra-core==1.3.8 omegaconf==2.3.1 PyYAML==6.0.4

cat > "$STATED" << 'END'
no: file False, line 'no', safe_load False
off: file False, line 'off', safe_load False
yes: file True, line 'yes', safe_load True
010: file 8, line '010', safe_load 8
0x10: file 16, line '0x10', safe_load 16
0b11: file 3, line '0b11', safe_load 3
1:30: file 90, line '1:30', safe_load 90
NaN: file 'NaN', line nan, safe_load 'NaN'
.nan: file nan, line '.nan', safe_load nan
inf: file 'inf', line inf, safe_load 'inf'
1e-3: file 0.001, line 0.001, safe_load '1e-3'
1_000: file 1000, line 1000, safe_load 1000
END
cat > app.py << 'END'
import hydra


@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    for key in config:
        print("%r" % config[key])


main()
END
words=(no off yes 010 0x10 0b11 1:30 NaN .nan inf 1e-3 1_000)
for i in "${!words[@]}"; do echo "k$i: ${words[i]}"; done > config.yaml
line=()
for i in "${!words[@]}"; do line+=("k$i=${words[i]}"); done
quiet=(hydra.run.dir=. hydra.output_subdir=null)
"$bin/python" app.py "${quiet[@]}" > in_file
"$bin/python" app.py "${quiet[@]}" "${line[@]}" > on_line
"$bin/python" -c 'import yaml
for value in yaml.safe_load(open("config.yaml")).values(): print(repr(value))' > safe_load
printf '%s\n' "${words[@]}" |
    paste -d '|' - in_file on_line safe_load |
    awk -F'|' '{ printf "%s: file %s, line %s, safe_load %s\n", $1, $2, $3, $4 }' > "$SEEN"
compare
