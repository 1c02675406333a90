"""Patterns in Go's dialect."""

import pytest

from deploy.local.apiserver.schema import patterns
from tests.support.tables import for_each


@for_each(
    ("^a$", ["a"], ["a\n", "b"]),
    (r"^a\z", ["a"], ["a\n"]),
    (r"^\d+$", ["12"], ["١", "1\n"]),
    (r"^\w$", ["a", "_"], ["é"]),
    ("(?m)^a$", ["b\na\nc"], ["ab"]),
    ("^(?i)ab$", ["AB", "ab"], ["abc"]),
    ("^a(?i)b|c$", ["aB", "C"], ["Ab", "B"]),
    ("^(a(?i)b)c$", ["aBc"], ["aBC"]),
    ("^a(?i:b)$", ["aB"], ["AB"]),
    ("^[[:alpha:]_]+$", ["ab_"], ["1", "[", ":"]),
    ("^[[:^digit:]]$", ["a", "é"], ["1"]),
    (r"^\Qa.b\E$", ["a.b"], ["axb"]),
    (r"^\x{41}\x42$", ["AB"], ["ab"]),
    (r"^\p{L}+$", ["aé"], ["1"]),
    (r"^[\p{Lu}\PN]$", ["A", "a"], ["1"]),
    ("^(?P<n>a)(?<m>b)$", ["ab"], ["a"]),
    ("^[]a]+$", ["]a"], ["b"]),
    ("^[^]a]$", ["b"], ["]"]),
    (r"^[\]a\-z]$", ["]", "-"], ["b"]),
    ("^[a&&[b]$", ["&", "[", "b"], ["c"]),
    ("^[(?=|*+{2}$)]+$", ["(?=|*+{2}$)"], ["a"]),
    ("^a{,2}$", ["a{,2}"], ["aa"]),
    ("^a{2,}b??$", ["aa", "aaab"], ["a"]),
    (r"^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]+)*$", ["a-b.c"], ["-a"]),
)
def test_a_pattern_of_go_fits(pattern: str, fits: list[str], others: list[str]) -> None:
    found = patterns.compiled(pattern)
    assert [text for text in (*fits, *others) if found.search(text)] == fits


@for_each(
    *("(", "a**", "a++", "a?+", "a{2}+", "a{1001}", "a{2,1001}", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1"),
    *("(?P<n>a)(?P=n)", "(?>a)", "(?#a)", r"a\Z", r"\h", r"\p{Nope}", r"\p{Zz}", "[[:nope:]]", "[b-a]", "a)", "(?U)a"),
)
def test_what_go_has_no_words_for_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="error parsing regexp"):
        patterns.compiled(pattern)
