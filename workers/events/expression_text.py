"""The text of a CEL expression, read for the bound on the work that it can take.

`all`, `exists` and `exists_one` visit every entry of a list; `filter` copies the list at each. `map` is refused: it
lets an expression of a few characters make values of any size.
"""

import re
from dataclasses import dataclass

#: Functions that visit the entries of a list, and the loops that each counts for.
LOOPS = {"all": 1, "exists": 1, "exists_one": 1, "existsOne": 1, "filter": 2}

#: A comment, a literal of text or bytes with CEL's prefixes, a word, or one other character.
_TOKEN = re.compile(
    r"""//[^\n]*
    | (?:[rR][bB]?|[bB][rR])(?P<raw>"[^"\n]*"|'[^'\n]*')
    | [bB]?(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<other>\S)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ExpressionToken:
    """kind: word, other, or literal for a text or bytes."""

    kind: str
    text: str


def tokens(text: str) -> tuple[ExpressionToken, ...]:
    """Returns the words, literals and other characters of an expression that parses; no comments."""
    found = []
    for match in _TOKEN.finditer(text):
        if match["word"] or match["other"]:
            found.append(ExpressionToken("word" if match["word"] else "other", match[0]))
        elif not match[0].startswith("//"):
            found.append(ExpressionToken("literal", match[0]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ExpressionShape:
    """The parts of an expression that its work depends on.

    loops: nested visits of lists. additions: number of `+`. elements: number of commas, a bound of the lists that it
    spells out. operations: number of its tokens. bound: names of its own variables. called: names of its functions and
    methods. patterns: the literals of `matches`. needs_data: it may read the event's data. rescans: it may read them at
    every visit.
    """

    loops: int
    additions: int
    elements: int
    operations: int
    bound: frozenset[str]
    called: frozenset[str]
    patterns: tuple[str, ...]
    needs_data: bool
    rescans: bool
    problem: str | None


def shape(text: str) -> ExpressionShape:
    """Returns the shape of an expression that parses."""
    found = tokens(text)
    triple = any(quotes in text for quotes in ('"""', "'''"))
    nesting: list[int] = []
    deepest, rescans, bound, called = 0, False, set[str](), set[str]()
    patterns: list[str] = []
    problem = "texts in three quotes are not supported" if triple else None
    for place, token in enumerate(found):
        opens = found[place + 1].text if place + 1 < len(found) else ""
        if token.kind == "word" and opens == "(":
            called.add(token.text)
            if token.text in LOOPS:
                bound.add(found[place + 2].text if place + 2 < len(found) else "")
            if token.text == "matches":
                patterns += [each.text for each in found[place + 2 : place + 3]]
                problem = problem or _pattern_problem(found, place, sum(nesting))
        rescans = rescans or (sum(nesting) > 0 and _reads_data(found, place))
        if token.text in ("(", "[", "{") and token.kind == "other":
            before = found[place - 1] if place else None
            loops = LOOPS.get(before.text, 0) if token.text == "(" and before and before.kind == "word" else 0
            nesting.append(loops)
            deepest = max(deepest, sum(nesting))
        elif token.text in (")", "]", "}") and token.kind == "other" and nesting:
            nesting.pop()
    return ExpressionShape(
        loops=deepest,
        additions=sum(token == ExpressionToken("other", "+") for token in found),
        elements=sum(token == ExpressionToken("other", ",") for token in found),
        operations=len(found),
        bound=frozenset(bound),
        called=frozenset(called),
        patterns=tuple(patterns),
        needs_data=any(_reads_data(found, place) for place in range(len(found))),
        rescans=rescans,
        problem=problem,
    )


def _pattern_problem(found: tuple[ExpressionToken, ...], place: int, loops: int) -> str | None:
    """Returns the problem of the call of `matches` at this place: a pattern is compiled at every evaluation."""
    if loops:
        return "matches may not stand in all, exists, exists_one or filter"
    rest = found[place + 2 : place + 4]
    literal = [token.kind for token in rest] == ["literal", "other"] and rest[1].text == ")"
    if not literal or not (place and found[place - 1].text == "."):
        return "matches must be called as a method with its pattern spelled out: event.type.matches('^order')"
    return None if len(rest[0].text) <= 256 else "the pattern of matches is longer than 256 characters"


def _reads_data(found: tuple[ExpressionToken, ...], place: int) -> bool:
    """Returns True for the word `event` at this place, unless it is `event.<name>`, and the name is not data."""
    if found[place] != ExpressionToken("word", "event"):
        return False
    after = found[place + 1 : place + 3]
    return [each.kind for each in after] != ["other", "word"] or after[0].text != "." or after[1].text == "data"
