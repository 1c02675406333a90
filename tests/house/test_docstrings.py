"""Docstrings introduce parameters and fields by the names that these have."""

from pathlib import Path

from tests.house.measure import PRODUCT, Module, introduced, read, unknown_parameters
from tests.support.paths import ROOT
from tests.support.tables import cases


def test_every_introduced_name_is_a_parameter_or_a_field() -> None:
    assert list(unknown_parameters(read(ROOT, PRODUCT))) == []


@cases(
    ("after the first sentence", "Opens a file. folder: its place. name: a text.", ["folder", "name"]),
    ("several together", "Opens a file.\n\nfolder, name: relative.", ["folder", "name"]),
    ("over the end of a line", "Opens. folder: the\nplace. name: a text.", ["folder", "name"]),
    ("inside a sentence", "Returns pairs: of a name, and\ntext: whatever; empty: nothing.", []),
    ("a header line", "Examples:\n  penstock get", []),
)
def test_sentences_introduce_names(docstring: str, expected: list[str]) -> None:
    assert list(introduced(docstring)) == expected


@cases(
    ("a parameter", 'def f(a, *, b):\n    """Does. a: one. b: two."""', []),
    ("no parameter", 'def f(a):\n    """Does. b: two."""', ["b"]),
    (
        "a field",
        'class C:\n    """One. a: set. b: given. c: a property.""" \n    a: int\n    def __init__(self, b): pass\n'
        "    def c(self): pass",
        [],
    ),
    ("an attribute", 'class C:\n    """One. a: set."""\n    def run(self):\n        self.a = 1', []),
    (
        "an attribute of something else",
        'class C:\n    """One. a: set."""\n    def run(self, x):\n        x.a = 1',
        ["a"],
    ),
    ("a field of a base", 'class B:\n    a: int\nclass C(B):\n    """One. a: set. b: not."""', ["b"]),
)
def test_a_name_that_does_not_exist_is_found(text: str, expected: list[str]) -> None:
    assert [name for _, name in unknown_parameters([Module(Path("m.py"), text)])] == expected
