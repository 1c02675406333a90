"""The patterns of schemas: Go's regular expressions (RE2), spelled for Python.

Most are spelled alike. ``$`` is the end of the text alone, ``\\d`` and its like are ASCII; what would go back in the
text (references, assertions around a place, possessive repeats) does not exist.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

#: The most repeats of one piece.
MOST = 1000
#: POSIX's classes of characters, as parts of a class.
_CLASSES = {
    **{"alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F"},
    **{"digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~"},
    **{"space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f"},
}
#: Letters that mean the same after a backslash.
_SHARED = frozenset("dDwWsSbBAnrtfva0")
_TOKEN = re.compile(
    r"""
      \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\x\{(?P<code>[0-9A-Fa-f]+)\} | \\(?P<hex>x[0-9A-Fa-f]{2})
    | \\(?P<sign>[pP])(?:\{(?P<negated>\^?)(?P<category>[A-Z][a-z]?)\}|(?P<letter>[A-Z]))
    | \\(?P<escaped>.)
    | \[:(?P<without>\^?)(?P<posix>[a-z]+):\]
    | \(\?(?P<flags>[ims]*(?:-[ims]+)?)(?P<scope>[:)])
    | \(\?P?<(?P<name>\w+)>
    | (?P<special>\(\?)
    | \{(?P<least>\d+)(?:,(?P<most>\d*))?\}
    | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def compiled(text: str) -> re.Pattern[str]:
    """Returns a pattern of Go's dialect. Raises ValueError for a text that is none."""
    try:
        return re.compile("".join(_spelled(text)), re.ASCII)
    except (re.error, OverflowError) as error:
        raise ValueError(f"error parsing regexp: {error}") from None


def _spelled(text: str) -> Iterator[str]:
    """Yields the pieces of a pattern in Python's dialect."""
    lines = re.search(r"\(\?[is]*m", text) is not None
    #: The flags that were set within each open group, which last to its end.
    groups: list[list[str]] = [[]]
    inside = repeated = False
    begun = 0
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if match["code"] or match["hex"] or match["escaped"] or match["sign"]:
            yield _escape(match, inside=inside)
        elif inside:
            if match["posix"]:
                yield _class(match["posix"], without=bool(match["without"]))
            elif token == "]" and match.start() > begun:
                inside = False
                yield token
            else:
                # Signs that make a set of sets elsewhere, and whatever else looks like a token.
                yield "".join(f"\\{sign}" if sign in "[&|~" else sign for sign in token)
        elif match["quoted"] is not None:
            yield re.escape(match["quoted"])
        elif match["scope"] == ")":
            groups[-1].append(match["flags"])
            yield f"(?{match['flags']}:"
        elif match["scope"] or match["name"]:
            groups.append([])
            yield f"(?P<{match['name']}>" if match["name"] else token
        elif kind == "special" or (repeated and token == "+"):
            raise ValueError(f"error parsing regexp: invalid or unsupported Perl syntax: `{text[match.start() :][:3]}`")
        elif match["least"]:
            if max(int(match["least"]), int(match["most"] or 0)) > MOST:
                raise ValueError(f"error parsing regexp: invalid repeat count: `{token}`")
            yield token
        else:
            yield from _plain(token, groups, lines=lines)
            if token == "[":
                inside = True
                begun = match.end() + text.startswith("^", match.end())
        repeated = not inside and (bool(match["least"]) or (token in "*+?" and kind == "plain"))
    yield ")" * len(groups[0])


def _plain(token: str, groups: list[list[str]], *, lines: bool) -> Iterator[str]:
    """Yields a character that stands outside of classes. groups: changed where one begins or ends."""
    opened = "".join(f"(?{flags}:" for flags in groups[-1])
    match token:
        case "(":
            groups.append([])
            yield token
        case ")" if len(groups) > 1:
            yield ")" * len(groups.pop()) + token
        case "|":
            yield ")" * len(groups[-1]) + token + opened
        case "$" if not lines:
            yield r"\Z"
        case "{":
            yield r"\{"
        case _:
            yield token


def _escape(match: re.Match[str], *, inside: bool) -> str:
    """Returns what stands for a backslash and what follows it."""
    if code := match["code"]:
        return re.escape(chr(int(code, 16)))
    if match["sign"]:
        without = (match["sign"] == "P") != bool(match["negated"])
        found = _category(match["category"] or match["letter"], without=without)
        return found if inside else f"[{found}]"
    sign = match["escaped"]
    if sign == "z" and not inside:
        return r"\Z"
    if sign is not None and sign.isalnum() and sign not in _SHARED:
        raise ValueError(f"error parsing regexp: invalid escape sequence: `{match[0]}`")
    return match[0]


def _class(name: str, *, without: bool) -> str:
    if name not in _CLASSES:
        raise ValueError(f"error parsing regexp: invalid character class range: `[:{name}:]`")
    if not without:
        return _CLASSES[name]
    known = re.compile(f"[{_CLASSES[name]}]")
    return _ranges([code for code in range(128) if not known.match(chr(code))]) + rf"\x80-\U{sys.maxunicode:08X}"


@lru_cache(maxsize=64)
def _category(name: str, *, without: bool) -> str:
    """The characters of a general category of Unicode (or all others), as parts of a class."""
    # A walk through Unicode: a tenth of a second, once for each category.
    codes = range(sys.maxunicode + 1)
    found = [code for code in codes if unicodedata.category(chr(code)).startswith(name) is not without]
    if not found or len(found) == len(codes):
        raise ValueError(f"error parsing regexp: invalid character class range: `\\p{{{name}}}`")
    return _ranges(found)


def _ranges(codes: list[int]) -> str:
    spelled = []
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        values = [code for _, code in run]
        spelled.append(rf"\U{values[0]:08X}-\U{values[-1]:08X}")
    return "".join(spelled)
