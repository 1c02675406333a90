"""Wrong settings for any type of trigger: a table made from what its class declares, and what must become of each row.

    GOOD = Trigger(3, "redis", metadata={"address": "a:1", "listName": "work"})

    @pytest.mark.parametrize(("trigger", "field", "complaint"), malformed.rows(RedisLists, GOOD))
    def test_wrong_settings_are_refused(trigger, field, complaint):
        malformed.refused(RedisLists, trigger, field, complaint)

What a class checks by itself, beyond types and bounds, needs rows of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from penstock.parameters import Origin, Parameters, SettingsError, Source, Trigger, base_type
from penstock.scaler import Scaler

#: What is no value of a type, with a part of the complaint.
WRONG: Mapping[Any, tuple[tuple[str, ...], str]] = {
    int: (("many", "1.5", "NaN", "+5", "05", "1e3", "9223372036854775808", "-9223372036854775809"), "a whole number"),
    float: (("many", "NaN", "Infinity", "-Infinity", "1e999", "0x10", ".5", "+1"), "must be a number"),
    bool: (("yes", "on", "TrUe", "2"), "must be true or false"),
    timedelta: (("soon", "-1s", "1m30", "99999999999h"), "must be a duration"),
    dict[str, str]: (("a", "=b", "a=1,,"), "must be pairs"),
    Literal: (("nonsense",), "must be "),
}

SECRET = "hunter2-and-more"


def rows(scaler: type[Parameters], good: Trigger) -> list[Any]:
    """Trigger, field and complaint for every single thing that can be wrong with a trigger that is good otherwise."""
    scaler.parse(good)
    found = [
        pytest.param(trigger, field, complaint, id=name)
        for name, trigger, field, complaint in (*_of_fields(scaler, good), *_of_keys(scaler, good))
    ]
    assert found
    return found


def refused(scaler: type[Parameters], trigger: Trigger, field: str, complaint: str) -> None:
    """The row is refused, in words that name trigger and field, and quote nothing that may be secret."""
    with pytest.raises(SettingsError) as caught:
        scaler.parse(trigger)
    assert (caught.value.index, caught.value.type, caught.value.field) == (trigger.index, trigger.type, field)
    assert complaint in str(caught.value)
    for text in trigger.authentication.values():
        assert not text or text not in str(caught.value).removeprefix(f"trigger {trigger.index} ({trigger.type})")


def tells_no_secret(scaler: type[Scaler], good: Trigger) -> None:
    """Every SecretStr of the class is hidden in the scaler's texts, or in the complaint if it cannot stand alone."""
    for name, info in scaler.model_fields.items():
        if _base(info) is SecretStr:
            trigger = _with(good, Origin.of(name, info), SECRET)
            assert SECRET not in _texts(scaler, trigger), name


def _texts(scaler: type[Scaler], trigger: Trigger) -> str:
    try:
        parsed = scaler.parse(trigger)
    except SettingsError as error:
        return str(error)
    return f"{parsed} {parsed!r} {parsed.server} {parsed.server!r}"


def _of_fields(scaler: type[Parameters], good: Trigger) -> Iterator[tuple[str, Trigger, str, str]]:
    for name, info in scaler.model_fields.items():
        origin = Origin.of(name, info)
        field = origin.names[0]
        if info.is_required() and origin.given:
            yield f"{field} missing", _without(good, origin), field, "is required"
            yield f"{field} blank", _with(good, origin, "  "), field, "is required"
        texts, complaint = WRONG.get(_base(info), ((), ""))
        for text in texts:
            yield f"{field} {text}", _with(good, origin, text), field, complaint
        for text, bound in _beyond(info):
            yield f"{field} {text}", _with(good, origin, text), field, bound


def _of_keys(scaler: type[Parameters], good: Trigger) -> Iterator[tuple[str, Trigger, str, str]]:
    for name, info in scaler.model_fields.items():
        origin = Origin.of(name, info)
        first = origin.names[0]
        if Source.ENVIRONMENT not in origin.sources:
            key = f"{first}FromEnv"
            yield f"{key}", _more(good, key), key, "is not a parameter of this type"
        if Source.METADATA not in origin.sources:
            yield f"{first} in metadata", _more(good, first), first, "is not a parameter of this type"
    yield "unknown key", _more(good, "xyzzy"), "xyzzy", "is not a parameter of this type; known are "


def _beyond(info: FieldInfo) -> Iterator[tuple[str, str]]:
    """Texts just outside the bounds of a number."""
    whole = _base(info) is int
    for bound in info.metadata:
        if isinstance(bound, Ge):
            yield f"{bound.ge - 1}" if whole else f"{float(bound.ge) - 0.001}", "greater than or equal"  # type: ignore[operator,arg-type]
        elif isinstance(bound, Gt):
            yield f"{bound.gt}", "greater than"
        elif isinstance(bound, Le):
            yield f"{bound.le + 1}" if whole else f"{float(bound.le) + 0.001}", "less than or equal"  # type: ignore[operator,arg-type]
        elif isinstance(bound, Lt):
            yield f"{bound.lt}", "less than"


def _base(info: FieldInfo) -> Any:
    """The type of a field, without ``| None``; Literal for one of several texts."""
    base = base_type(info.annotation)
    return Literal if get_origin(base) is Literal else base


def _with(good: Trigger, origin: Origin, text: str) -> Trigger:
    """The trigger with this text for one parameter, wherever that may stand."""
    bare, name = _without(good, origin), origin.names[0]
    if Source.METADATA in origin.sources:
        return replace(bare, metadata={**bare.metadata, name: text})
    return replace(bare, authentication={**bare.authentication, name: text})


def _without(good: Trigger, origin: Origin) -> Trigger:
    keys = {key for name in origin.names for key in (name, f"{name}FromEnv")}
    return replace(
        good,
        metadata={key: text for key, text in good.metadata.items() if key not in keys},
        authentication={key: text for key, text in good.authentication.items() if key not in keys},
    )


def _more(good: Trigger, key: str) -> Trigger:
    return replace(good, metadata={**good.metadata, key: "5"})
