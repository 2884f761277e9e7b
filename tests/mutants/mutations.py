"""The mutants of one C++ source: one operator, constant or branch is changed."""
import bisect
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Mutant:
    begin: int
    end: int
    line: int
    column: int
    old: str
    new: str
    text: str  # the line before

    def apply(self, source):
        return source[:self.begin] + self.new + source[self.end:]


SWAPS = {
    "<=": "<", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", " < ": " <= ", " > ": " >= ",
    " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " % ": " * ", "+=": "-=", "-=": "+=",
    "true": "false", "false": "true", "std::min": "std::max", "std::max": "std::min",
    "break;": ";", "continue;": ";",
}
TOKEN = re.compile("|".join(
    [r"\bstd::m(?:in|ax)\b(?=\()", r"<=>", r"<<", r">>", r"->", r"<=|>=|==|!=|&&(?= )|\|\||\+=|-=", r"(?<=[\w)\]]) [<>+\-*/%] (?=[\w(\-!])",
     r"\btrue\b|\bfalse\b", r"\b(?:break|continue);", r"(?<![\w.'])\d+(?![\w.'x])", r"\bif \("]))
# Text that is no code of the program: comments, literals, directives, and what only the compiler or the debugger reads.
SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|R\"\((?:.|\n)*?\)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'|^[ \t]*#[^\n]*|"
                     r"\b(?:static_)?assert\([^;]*;|\btemplate <[^>]*>|\bstd::array<[^>]*>|\boperator(?:<=>|[^\s(]+)", re.M | re.S)


def matching(source, opening):
    depth = 0
    for place in range(opening, len(source)):
        if source[place] == "(":
            depth += 1
        elif source[place] == ")":
            depth -= 1
            if depth == 0:
                return place
    return -1


def mutants_of(source):
    code = SKIPPED.sub(lambda match: "".join("\n" if c == "\n" else "\0" for c in match.group()), source)
    starts = [0] + [match.end() for match in re.finditer("\n", source)]
    found = []

    def add(begin, end, new):
        line = bisect.bisect_right(starts, begin)
        text = source[starts[line - 1]:].split("\n", 1)[0]
        found.append(Mutant(begin, end, line, begin - starts[line - 1] + 1, source[begin:end], new, text))

    for match in TOKEN.finditer(code):
        token = match.group()
        if token == "if (":
            opening = match.end() - 1
            closing = matching(code, opening)
            inside = source[opening + 1:closing]
            # A condition with a declaration has no negation.
            if closing > 0 and ";" not in inside and not re.match(r"(?:const )?(?:auto|[A-Z]\w*)[ *&]+\w+ = ", inside):
                add(opening + 1, closing, "!(" + inside + ")")
        elif token.isdigit():
            add(match.start(), match.end(), str(int(token) + 1))
        elif token in SWAPS:
            add(match.start(), match.end(), SWAPS[token])
    return found
