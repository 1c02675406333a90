"""Where a setting comes from: what is given, else its variable, else its default."""

import pytest
from pydantic import ValidationError

from tests.support.tables import for_each
from workers.settings import Settings


@for_each("PENSTOCK_PREFIX", "penstock_prefix", "Penstock_Prefix")
def test_a_variable_names_its_setting_in_any_case(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "theirs")
    found = Settings()
    assert (found.prefix, found.model_fields_set) == ("theirs", {"prefix"})


def test_what_is_given_goes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PREFIX", "theirs")
    monkeypatch.setenv("PENSTOCK_NAMESPACES", "a, b")
    found = Settings(prefix="ours")
    assert (found.prefix, found.namespaces) == ("ours", ("a", "b"))


def test_an_empty_variable_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SCHEDULER_NAMES", "")
    assert Settings().scheduler_names == ()


def test_variables_of_other_names_count_for_nothing_and_what_is_given_must_have_a_name_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_NO_SUCH_SETTING", "1")
    Settings()
    with pytest.raises(ValidationError, match="no_such_setting"):
        Settings(no_such_setting="1")
