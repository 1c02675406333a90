"""The formats of texts in custom resources."""

from typing import Any

import pytest

from deploy.local.apiserver.schema import formats, structural
from tests.support.tables import for_each
from tests.unit.apiserver.text_formats import EXAMPLES


@for_each(*EXAMPLES)
def test_a_text_is_refused_that_does_not_have_the_format_of_its_field(form: str, text: str, fits: bool) -> None:
    problems = structural.validator({"properties": {"f": {"type": "string", "format": form}}})({"f": text})
    assert [problem.field for problem in problems] == ([] if fits else ["f"])
    if not fits:
        assert f"f in body must be of type {form}: " in problems[0].message


@for_each("date-time", "datetime", "dateti-me")
def test_hyphens_of_a_format_do_not_count(form: str) -> None:
    has_form = formats.of(form)
    assert has_form is not None
    assert (has_form("2020-01-01T00:00:00Z"), has_form("x")) == (True, False)


@for_each(None, 1, "unknown", "")
def test_an_unknown_format_restricts_nothing(form: Any) -> None:
    assert formats.of(form) is None


@pytest.mark.parametrize("text", ["1", " ", "a", ".", '" ', "1 ", "%41", "()"])
def test_a_text_as_long_as_a_body_may_be_is_judged_at_once(text: str) -> None:
    # Where the work grew with the square of the length, this took hours.
    for form in dict.fromkeys(form for form, _, _ in EXAMPLES):
        if (has_form := formats.of(form)) is not None:
            assert not has_form(text * 30_000 + "!"), form
