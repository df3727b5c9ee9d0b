"""Where a fault can be put into C, by five operators; used by scripts/dev/mutants.py.

A line of text is cut into tokens, no more: what the compiler refuses is not a fault. Strings,
comments and lines of the preprocessor are left as they are.
"""

import bisect
import hashlib
import re
import zlib

OPERATORS = ("compare", "off by one", "swapped arguments", "dropped statement", "wrong constant")

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|(?:(?<=\n)|\A)[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<op>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL)
KEYWORDS = set("""auto break case char const continue default do double else enum extern float for
    goto if inline int long register return short signed sizeof static struct switch typedef union
    unsigned void volatile while bool _Noreturn _Static_assert _Alignof true false NULL""".split())
COMPARE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
BEFORE_VALUE = set("= [ ( , < <= > >= == != += -= + - return".split())
AFTER_VALUE = set("; ) ] ,".split())
ASSIGN = set("= += -= *= /= %= &= |= ^= <<= >>=".split())
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)\Z")
FLOAT = re.compile(r"([0-9]*\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)([fFlL]?)\Z")
CONSTANT = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+\Z")


class Site:
    """A fault that could be: file[start:end] becomes text."""

    def __init__(self, source, operator, start, end, text):
        self.source, self.operator, self.start, self.end = source, operator, start, end
        self.text = text
        self.line = source.line_at(start)
        self.last_line = source.line_at(end)
        self.function = source.function_at(start)  # None in a table
        self.fault = "%s -> %s" % tuple(
            " ".join(part.split()) or "nothing" for part in (source.text[start:end], text))

    def mutated(self):
        whole = self.source.text
        return whole[:self.start] + self.text + whole[self.end:]


class Source:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.tokens = [(m.lastgroup, m.group(), m.start(), m.end())
                       for m in TOKEN.finditer(text) if m.lastgroup != "skip"]
        self.lines = [0] + [m.end() for m in re.finditer("\n", text)]
        self.partner = self.match_brackets()
        self.functions = self.find_functions()  # (first character, last, name)
        self.starts = [f[0] for f in self.functions]
        self.families = {}
        for kind, name, _, _ in self.tokens:
            if kind == "name" and CONSTANT.match(name):
                self.families.setdefault(name.split("_")[0], set()).add(name)

    def line_at(self, at):
        return bisect.bisect_right(self.lines, at)

    def function_at(self, at):
        i = bisect.bisect_right(self.starts, at) - 1
        return self.functions[i] if i >= 0 and at < self.functions[i][1] else None

    def match_brackets(self):
        partner, open_ones = {}, []
        for i, (kind, text, _, _) in enumerate(self.tokens):
            if kind != "op":
                continue
            if text in "([{":
                open_ones.append(i)
            elif text in ")]}" and open_ones:
                partner[i] = open_ones.pop()
                partner[partner[i]] = i
        return partner

    def find_functions(self):
        found, i = [], 0
        while i < len(self.tokens):
            if self.tokens[i][1] != "{" or i not in self.partner:
                i += 1
                continue
            end = self.partner[i]
            if self.tokens[i - 1][1] == ")":
                name = self.tokens[self.partner[i - 1] - 1]
                found.append((self.tokens[i][2], self.tokens[end][3], name[1]))
            i = end + 1
        return found

    def sites(self):
        for i, (kind, text, start, end) in enumerate(self.tokens):
            if i == 0 or i + 1 == len(self.tokens):
                continue
            inside = self.function_at(start) is not None
            before, after = self.tokens[i - 1][1], self.tokens[i + 1][1]
            yield from self.wrong_constants(kind, text, start, end, before, after)
            if not inside:
                continue
            if kind == "op" and text in COMPARE:
                yield Site(self, "compare", start, end, COMPARE[text])
            if (kind == "name" and text not in KEYWORDS or kind == "number") and \
                    before in BEFORE_VALUE and after in AFTER_VALUE:
                for change in (" + 1", " - 1"):
                    yield Site(self, "off by one", start, end, text + change)
            if kind == "name" and text not in KEYWORDS and after == "(":
                yield from self.swaps(i + 1)
            yield from self.drops(i)

    def swaps(self, opening):
        closing = self.partner.get(opening)
        if closing is None:
            return
        parts, first, i = [], opening + 1, opening + 1
        while i <= closing:
            if i == closing or self.tokens[i][1] == ",":
                if i > first:
                    parts.append((self.tokens[first][2], self.tokens[i - 1][3]))
                first = i + 1
            i = self.partner[i] + 1 if self.tokens[i][1] in ("(", "[", "{") and i in self.partner \
                else i + 1
        for (a, b), (c, d) in zip(parts, parts[1:]):
            one, other = self.text[a:b], self.text[c:d]
            if one != other:
                yield Site(self, "swapped arguments", a, d, other + self.text[b:c] + one)

    def drops(self, i):
        kind, text, start, _ = self.tokens[i]
        before, after = self.tokens[i - 1][1], self.tokens[i + 1][1]
        if not (before in (";", "{", "}", "else") or before == ")" and self.heads_statement(i - 1)):
            return
        leaves = text in ("return", "break", "continue", "goto")
        acts = kind == "name" and text not in KEYWORDS and \
            (after in ASSIGN or after in ("(", "[", ".", "->", "++", "--"))
        if not (leaves or acts or text in ("++", "--", "*")):
            return
        end = i
        while end < len(self.tokens) and self.tokens[end][1] != ";":
            end = self.partner.get(end, end) + 1 if self.tokens[end][1] in ("(", "[", "{") \
                else end + 1
            if end < len(self.tokens) and self.tokens[end][1] in (")", "}"):
                return  # the head of a for, or a table
        if end < len(self.tokens):
            yield Site(self, "dropped statement", start, self.tokens[end][3], "{}")

    def heads_statement(self, closing):
        opening = self.partner.get(closing, 0)
        return opening > 0 and self.tokens[opening - 1][1] in ("if", "for", "while", "switch")

    def wrong_constants(self, kind, text, start, end, before, after):
        if kind == "number":
            for other in other_numbers(text):
                yield Site(self, "wrong constant", start, end, other)
        elif text in ("true", "false"):
            yield Site(self, "wrong constant", start, end, "false" if text == "true" else "true")
        elif kind == "name" and CONSTANT.match(text) and after != "(" and \
                not (before in ("{", ",") and after in ("=", ",", "}") and
                     self.function_at(start) is None and self.in_enum(start)):
            others = sorted(self.families[text.split("_")[0]] - {text})
            if others:  # one, or families of many would fill the draw
                pick = zlib.crc32(self.text[max(0, start - 80):end].encode()) % len(others)
                yield Site(self, "wrong constant", start, end, others[pick])

    def in_enum(self, at):
        """Whether what lies at `at` is the name of a constant where that is defined."""
        head = self.text.rfind("enum", 0, at)
        return head >= 0 and "}" not in self.text[head:at] and ";" not in self.text[head:at]


def other_numbers(text):
    whole, real = INTEGER.match(text), FLOAT.match(text)
    if whole:
        value = int(whole.group(1), 16 if whole.group(1)[:2] in ("0x", "0X") else
                    8 if whole.group(1)[0] == "0" and whole.group(1).isdigit() else 10)
        return [str(other) + whole.group(2)
                for other in {0: (1,), 1: (0, 2)}.get(value, (0, 2 * value))]
    if real:
        value = float(real.group(1))
        others = (1.0,) if value == 0 else (0.0, 2 * value)
        return [repr(other) + real.group(2) for other in others]
    return []


def key_of(seed, site, nth):
    """Where a site stands in the draw. Of its own function and line alone, so that a change
    elsewhere leaves the other faults drawn as they were."""
    source = site.source
    line = source.text[source.lines[site.line - 1]:].split("\n", 1)[0].strip()
    name = site.function[2] if site.function else ""
    words = (str(seed), source.path, name, line, site.operator, site.fault, str(nth))
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def draw(sources, seed):
    """All sites by operator, each list in the order in which it is drawn."""
    drawn, seen = {operator: [] for operator in OPERATORS}, {}
    for source in sources:
        for site in source.sites():
            same = key_of(seed, site, 0)
            seen[same] = seen.get(same, -1) + 1
            site.key = key_of(seed, site, seen[same])
            drawn[site.operator].append(site)
    for sites in drawn.values():
        sites.sort(key=lambda site: site.key)
    return drawn
