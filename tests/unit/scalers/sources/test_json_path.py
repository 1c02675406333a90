"""Paths into JSON, in the dialect that docs/json-paths.md describes."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalers.sources.http.json_path import MISSING, find, parse
from tests.support.paths import ROOT
from tests.support.tables import for_each

DOCUMENT = {
    "a": [
        {"n": "x", "v": 1, "t": ["p", "q"], "on": True},
        {"n": "y", "v": 2, "on": None},
        {"n": "x", "v": 3.5, "on": False},
    ],
    "numbers": [3, 9, 7, "9", True],
    "empty": [],
    "text": "t",
    "o": {"1": 2, "null": None, "fav.movie": 5, "a|b": 6, "#": 7, "*": 8, "": 9},
    "@timestamp": 10,
    "nested": [[1, 2], [3]],
}


@for_each(
    ("text", "t"),
    ("o.1", 2),
    ("o|1", 2),
    ("o.null", None),
    (r"o.fav\.movie", 5),
    (r"o.a\|b", 6),
    (r"o.\#", 7),
    (r"o.\*", 8),
    (r"\@timestamp", 10),
    ("o.fav*", 5),
    ("o.f?v?movie", 5),
    ("t*t", "t"),
    ("?", DOCUMENT["a"]),
    ("a.0.v", 1),
    ("a|2|v", 3.5),
    ("a.0.t.1", "q"),
    ("a.#", 3),
    ("a.0.t.#", 2),
    ("empty.#", 0),
    ("a.#.v", [1, 2, 3.5]),
    ("a.#.missing", []),
    ("a.#.t.0", ["p"]),
    ("a.#.v|1", 2),
    ("a.#.v.0", []),
    ("nested.#.#", [2, 1]),
    ("nested.#.0|#", 2),
    ('a.#(n=="y").v', 2),
    ('a.#(n="y").v', 2),
    ('a.#( n == "y" ).v', 2),
    ('a.#(n=="x").v', 1),
    ('a.#(n=="x")#.v', [1, 3.5]),
    ('a.#(n=="x")#|#', 2),
    ('a.#(n=="x")#|1.v', 3.5),
    ('a.#(n=="x")#.v|1', 3.5),
    ('a.#(n=="z")#.v', []),
    ('a.#(n=="z")#|#', 0),
    ('a.#(n!="x").v', 2),
    ("a.#(v>1)#.v", [2, 3.5]),
    ("a.#(v>=2)#.v", [2, 3.5]),
    ("a.#(v<2)#.v", [1]),
    ("a.#(v<=2)#.v", [1, 2]),
    ('a.#(n>"x").v', 2),
    ('a.#(n%"x*")#.v', [1, 3.5]),
    ('a.#(n!%"x*")#.v', [2]),
    ("a.#(on==true).v", 1),
    ("a.#(on==false).v", 3.5),
    ("a.#(on==null).v", 2),
    ("a.#(t)#.v", [1]),
    ('a.#(t.0=="p").v', 1),
    ('a.#(t.#(=="q")).v', 1),
    ("a.#(t.#>1).v", 1),
    ('a.#(n=="a)b").v', MISSING),
    ("numbers.#(>5)", 9),
    ("numbers.#(>5)#", [9, 7]),
    ("numbers.#(==9)#|#", 1),
    ('numbers.#(=="9")#|#', 1),
    ("numbers.#(==1)#|#", 0),
    ("numbers.#(!=9)#|#", 4),
    ("missing", MISSING),
    ("a.9", MISSING),
    ("a.00", MISSING),
    ("a.-1", MISSING),
    ("a.v", MISSING),
    ("text.#", MISSING),
    ("text.0", MISSING),
    ("empty.0", MISSING),
    ("o.#", MISSING),
    ('o.#(n=="x").v', MISSING),
    ('a.#(n=="z").v', MISSING),
    ("o.x*", MISSING),
)
def test_what_a_path_finds(path: str, value: Any) -> None:
    found = find(DOCUMENT, parse(path))
    assert (found, type(found)) == (value, type(value))


REFUSED = [
    ("", "must not be empty"),
    (".a", "dot"),
    ("a.", "dot"),
    ("a..b", "dot"),
    ("..0", "dot"),
    ("a.|b", "dot or a pipe"),
    ("@this", "modifiers"),
    ("a.@reverse.0", "modifiers"),
    ("[a,b]", "multipaths"),
    ("a.{b,c}", "multipaths"),
    ('!"x"', "literals"),
    ('a.#(n=="x"', "without an end"),
    ('a.#(n=="x")b', "behind a condition"),
    ("a.#(n=='x').v", "quotation marks"),
    ("a.#(n==x).v", "quotation marks"),
    ("a.#(n==[1]).v", "quotation marks"),
    ("a.#(n%5).v", "pattern"),
    ("a.#(n==~true).v", "quotation marks"),
    ("a.#(n~true).v", "operator ~"),
    ("a.#(@this==1).v", "modifiers"),
    (".".join("#" * 17), "more than 16"),
]


@pytest.mark.parametrize(("path", "problem"), REFUSED)
def test_what_is_not_supported_is_refused(path: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(path)


def test_every_path_of_the_page_is_understood() -> None:
    page = (ROOT / "docs" / "json-paths.md").read_text()
    paths = [path.replace(r"\|", "|") for path in re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)]
    assert len(paths) == 12
    for path in paths:
        parse(path)


NAMES = st.text(max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def _places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every place of a document that a path can name, and what is there."""
    children: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        children = [(name, each) for name, each in value.items() if name]
    elif isinstance(value, list):
        children = [(str(index), each) for index, each in enumerate(value)]
    found = [(path, value)] if path else []
    return found + [place for name, each in children for place in _places(each, (*path, name))]


def _escaped(name: str) -> str:
    return "".join(f"\\{letter}" for letter in name)


@given(JSON)
def test_every_place_of_a_document_is_found_by_its_escaped_path(document: Any) -> None:
    for path, value in _places(document):
        found = find(document, parse(".".join(map(_escaped, path))))
        assert found is value
        if isinstance(value, list):
            steps = ".".join(map(_escaped, path))
            assert find(document, parse(f"{steps}.#")) == len(value)
            named = [each["b"] for each in value if isinstance(each, dict) and "b" in each]
            assert find(document, parse(f"{steps}.#.b")) == named


@given(document=JSON, path=st.text('ab.#0*?{}()"=<!%~|@\\ 1', min_size=1, max_size=12))
def test_any_text_is_a_path_or_is_refused(document: Any, path: str) -> None:
    try:
        steps = parse(path)
    except ValueError:
        return
    find(document, steps)


@given(text=st.text("ab", max_size=8), pattern=st.text("ab*?", max_size=6))
def test_wildcards_fit_as_they_do_in_file_names(text: str, pattern: str) -> None:
    reference = re.compile(pattern.replace("*", ".*").replace("?", "."))
    found = find([text], parse(f'#(%"{pattern}")'))
    assert (found is not MISSING) == bool(reference.fullmatch(text))


def test_a_hostile_pattern_takes_no_time() -> None:
    assert find(["a" * 5000], parse(f'#(%"{"a*" * 20}b")')) is MISSING
