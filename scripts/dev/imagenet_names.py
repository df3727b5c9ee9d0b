#!/usr/bin/env python3
"""imagenet_names.py SYNSETS WORDNET > configs/names/imagenet1k.txt - names of ImageNet's classes.

SYNSETS lists the 1,000 synsets of ILSVRC2012 in the order of their labels, one id per line (timm's
data/_info/imagenet_synsets.txt). WORDNET is the folder of WordNet 3.0's database, which Debian's
wordnet-base puts into /usr/share/wordnet. A name is the first lemma of its synset; where two
synsets share it, NAMES has the other one's.
"""
import sys

NAMES = {"n02012849": "crane (bird)", "n03710721": "tank suit"}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    licence, lemmas = [], {}
    with open(sys.argv[2] + "/data.noun", encoding="utf-8") as database:
        for line in database:
            if line.startswith("  "):  # "  1 This software and database ..."
                licence.append(line[2:].split(" ", 1)[1].strip())
            else:
                fields = line.split(" ")
                lemmas["n" + fields[0]] = fields[4].replace("_", " ")
    with open(sys.argv[1], encoding="utf-8") as synsets:
        ids = synsets.read().split()
    names = [NAMES.get(synset, lemmas[synset]) for synset in ids]
    if len(set(names)) != 1000:
        sys.exit(f"{len(set(names))} different names, not 1000")
    print("# Names of the 1,000 classes of ILSVRC2012 in the order of their labels: synset and")
    print("# first lemma of WordNet 3.0, by scripts/dev/imagenet_names.py. WordNet's licence:")
    print("#")
    for line in licence:
        print(f"# {line}".rstrip())
    for synset, name in zip(ids, names):
        print(f"{synset}\t{name}")


main()
