"""How a trigger's texts become typed parameters: KEDA's lookup and its notation, and errors that name the place."""

from datetime import timedelta
from typing import Any, Self

import pytest
from pydantic import SecretStr, model_validator

from penstock.parameters import ParameterError, Parameters, SettingsError, Source, Trigger, parameter
from tests.support.tables import cases


class Everything(Parameters):
    """One parameter of every type."""

    count: int = parameter(7)
    share: float = parameter(0.5)
    wanted: bool = parameter(False)
    places: tuple[str, ...] = parameter(())
    wait: timedelta = parameter(timedelta(0))
    limit: int | None = parameter(None, ge=1)
    queue_name: str = parameter("none", also=("queue",))
    token: SecretStr | None = parameter(None, sources=(Source.METADATA, Source.ENVIRONMENT, Source.AUTHENTICATION))
    fixed: str = parameter("here", sources=(Source.METADATA,))


class Either(Parameters):
    """One of two parameters is required."""

    url: str | None = parameter(None)
    host: str | None = parameter(None)

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.url is None and self.host is None:
            raise ParameterError("host", "is required, or url")
        if self.host == "nowhere":
            raise ParameterError("host", "must be somewhere")
        return self


class Strict(Parameters):
    """One required parameter."""

    path: str = parameter()


def parse(metadata: dict[str, str], **more: Any) -> Everything:
    return Everything.parse(Trigger(2, "everything", metadata=metadata, **more))


@cases(
    ("whole number", "count", "5", 5),
    ("negative whole number", "count", "-5", -5),
    ("trimmed", "count", " 5 ", 5),
    ("blank means absent", "count", "  ", 7),
    ("largest whole number", "count", "9223372036854775807", 2**63 - 1),
    ("number without a point", "share", "1", 1.0),
    ("number with exponent", "share", "-2.5e-3", -0.0025),
    *[(f"{text} is true", "wanted", text, True) for text in ("1", "t", "T", "true", "TRUE", "True")],
    *[(f"{text} is false", "wanted", text, False) for text in ("0", "f", "F", "false", "FALSE")],
    ("list", "places", "a, b ,c", ("a", "b", "c")),
    ("Go duration", "wait", "1m30s", timedelta(seconds=90)),
    ("Go duration with a fraction", "wait", "1.5h", timedelta(minutes=90)),
    ("milliseconds", "wait", "1500", timedelta(seconds=1.5)),
    ("optional whole number", "limit", "3", 3),
)
def test_texts_are_read_by_kedas_rules(field: str, text: str, value: object) -> None:
    assert getattr(parse({field: text}), field) == value


@cases(
    *[
        (f"count {text}", "count", text, "must be a whole number such as 5")
        for text in ("five", "5.0", "+5", "05", "1e3", "9223372036854775808", "5 6", "٣")
    ],
    *[
        (f"share {text}", "share", text, "must be a number such as")
        for text in ("half", "+1", ".5", "1.", "NaN", "Infinity", "1e999", "0x10")
    ],
    *[(f"wanted {text}", "wanted", text, "must be true or false") for text in ("yes", "TrUe", "on")],
    *[(f"wait {text}", "wait", text, "must be a duration") for text in ("-1s", "-5", "1 minute", "s", "1m30", "9e9h")],
    ("wait too long", "wait", "99999999999h", "less than a million years"),
    ("outside its bounds", "limit", "0", "greater than or equal to 1"),
)
def test_a_malformed_text_is_an_error_naming_trigger_and_parameter(field: str, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=r"trigger 2 \(everything\)") as caught:
        parse({field: text})
    assert (caught.value.index, caught.value.type, caught.value.field) == (2, "everything", field)
    assert complaint in str(caught.value)


@cases(
    ("metadata first", {"queueName": "m"}, {}, {"queueName": "a"}, "m"),
    ("blank metadata falls through", {"queueName": " "}, {}, {"queueName": "a"}, "a"),
    ("authentication second", {"queueNameFromEnv": "Q"}, {"Q": "e"}, {"queueName": "a"}, "a"),
    ("environment last", {"queueNameFromEnv": "Q"}, {"Q": "e"}, {}, "e"),
    ("an empty variable falls through", {"queueNameFromEnv": "Q"}, {"Q": ""}, {}, "none"),
    ("a missing variable falls through", {"queueNameFromEnv": "Q"}, {}, {}, "none"),
    ("another spelling", {"queue": "m"}, {}, {}, "m"),
)
def test_a_parameter_is_looked_up_in_its_declared_order(
    metadata: dict[str, str], environment: dict[str, str], authentication: dict[str, str], value: str
) -> None:
    assert parse(metadata, environment=environment, authentication=authentication).queue_name == value


def test_the_declared_order_can_put_the_environment_before_authentication() -> None:
    found = parse({"tokenFromEnv": "T"}, environment={"T": "e"}, authentication={"token": "a"})
    assert found.token == SecretStr("e")


@cases(
    ("misspelled", {"cuont": "5"}, "did you mean count?"),
    ("nothing like it", {"zzz": "5"}, "known are count, countFromEnv"),
    ("not allowed from the environment", {"fixedFromEnv": "F"}, "fixed cannot come from the environment"),
)
def test_an_unknown_key_is_an_error_that_helps(metadata: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match="is not a parameter of this type") as caught:
        parse(metadata)
    assert complaint in str(caught.value)


def test_all_wrong_parameters_are_named_at_once_and_nothing_that_may_only_follow_from_them() -> None:
    with pytest.raises(SettingsError) as caught:
        parse({"cuont": "5", "share": "half", "limit": "0"}, authentication={"sasl": "plain"})
    assert caught.value.field == "cuont"
    told = str(caught.value).removeprefix("trigger 2 (everything): ").split("; ")
    assert [text.partition(": ")[0] for text in told] == ["cuont", "did you mean count?", "sasl", "share", "limit"]
    with pytest.raises(SettingsError, match=r"\(either\): huost: is not a parameter[^;]*; did you mean host\?$"):
        Either.parse(Trigger(0, "either", metadata={"huost": "here"}))


def test_an_error_names_ten_problems_at_most() -> None:
    with pytest.raises(SettingsError, match=r"; and 3 more$"):
        parse({f"x{number}": "" for number in range(13)})


def test_a_required_parameter_is_missed() -> None:
    with pytest.raises(SettingsError, match=r"trigger 0 \(strict\): path: is required$"):
        Strict.parse(Trigger(0, "strict", metadata={"path": " "}))


def test_a_required_parameter_from_a_variable_that_is_not_set_names_both() -> None:
    with pytest.raises(SettingsError, match="pathFromEnv names the variable WHERE, which the container does not set"):
        Strict.parse(Trigger(0, "strict", metadata={"pathFromEnv": "WHERE"}))


@cases(
    ("nothing is said", {}, "host: is required, or url"),
    (
        "the variable is not set",
        {"urlFromEnv": "URL"},
        "host: is required, or url, and urlFromEnv names the variable URL, which the container does not set",
    ),
    ("of no account", {"host": "nowhere", "urlFromEnv": "URL"}, "host: must be somewhere"),
)
def test_one_of_several_that_was_meant_to_come_from_a_variable_names_it(
    metadata: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        Either.parse(Trigger(0, "either", metadata=metadata))
    assert str(caught.value) == f"trigger 0 (either): {complaint}"


@cases(
    ("from the environment", {"countFromEnv": "C"}, {"environment": {"C": "hunter2"}}),
    ("from authentication", {}, {"authentication": {"count": "hunter2"}}),
)
def test_a_text_that_may_be_secret_is_never_quoted(metadata: dict[str, str], more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(metadata, **more)
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__!r} {Trigger(0, 'x', **more)!r}"


def test_a_secret_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(parse({"token": "hunter2"}))
