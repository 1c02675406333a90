"""Quantities and their canonical form."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import for_each
from workers.api.quantities import canonical, parse, plain


@for_each(
    ("1", "1", "1"),
    ("0.5", "0.5", "500m"),
    ("1000m", "1", "1"),
    ("1.5Gi", "1610612736", "1536Mi"),
    ("1024Mi", "1073741824", "1Gi"),
    ("1e3", "1000", "1e3"),
    ("1000.0", "1000", "1k"),
    ("0", "0", "0"),
    ("-500m", "-0.5", "-500m"),
    ("100Ki", "102400", "100Ki"),
    ("1.0001n", "0.000000002", "2n"),
    ("12E", "12000000000000000000", "12E"),
    (".5", "0.5", "500m"),
    ("25e-1", "2.5", "2500e-3"),
    ("7" * 40, "7" * 40, "7" * 40),
)
def test_quantities_are_read_and_written(text: str, value: str, form: str) -> None:
    assert parse(text) == Fraction(value) * 10**9
    assert canonical(text) == form


@for_each("", "x", "1x", "1 Gi", "1KiB", "Gi", "--1", "1ee3", "1e999")
def test_malformed_quantities_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        parse(text)


@given(st.integers(-(10**6), 10**6), st.sampled_from(["", "m", "u", "k", "M", "Ki", "Mi", "Gi", "e3", "e-2"]))
def test_the_canonical_form_is_the_same_number_and_stays(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert parse(canonical(text)) == parse(text)
    assert canonical(canonical(text)) == canonical(text)


@for_each(("5", 5), ("-0.5", -0.5), ("+1.", 1), (".25", 0.25), ("1e3", 1000), ("2E-1", 0.2))
def test_plain_numbers_are_read(text: str, value: float) -> None:
    assert plain(text) == value


@for_each("", "x", "1_0", " 1", "1 ", "１", "1m", "nan", "inf", "0x10", ".", "1e")
def test_what_is_no_plain_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        plain(text)
