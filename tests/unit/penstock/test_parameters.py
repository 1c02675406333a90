"""How a trigger's texts become typed parameters: KEDA's lookup and its notation, and errors that name the place."""

from datetime import timedelta
from typing import Any, Self

import pytest
from pydantic import SecretStr, model_validator

from penstock.parameters import ParameterError, Parameters, SettingsError, Source, Trigger, parameter


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


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        pytest.param("count", "5", 5, id="whole number"),
        pytest.param("count", "-5", -5, id="negative whole number"),
        pytest.param("count", " 5 ", 5, id="trimmed"),
        pytest.param("count", "  ", 7, id="blank means absent"),
        pytest.param("count", "9223372036854775807", 2**63 - 1, id="largest whole number"),
        pytest.param("share", "1", 1.0, id="number without a point"),
        pytest.param("share", "-2.5e-3", -0.0025, id="number with exponent"),
        *[pytest.param("wanted", text, True, id=f"{text} is true") for text in ("1", "t", "T", "true", "TRUE", "True")],
        *[pytest.param("wanted", text, False, id=f"{text} is false") for text in ("0", "f", "F", "false", "FALSE")],
        pytest.param("places", "a, b ,c", ("a", "b", "c"), id="list"),
        pytest.param("wait", "1m30s", timedelta(seconds=90), id="Go duration"),
        pytest.param("wait", "1.5h", timedelta(minutes=90), id="Go duration with a fraction"),
        pytest.param("wait", "1500", timedelta(seconds=1.5), id="milliseconds"),
        pytest.param("limit", "3", 3, id="optional whole number"),
    ],
)
def test_texts_are_read_by_kedas_rules(field: str, text: str, value: object) -> None:
    assert getattr(parse({field: text}), field) == value


@pytest.mark.parametrize(
    ("field", "text", "complaint"),
    [
        *[
            pytest.param("count", text, "must be a whole number such as 5", id=f"count {text}")
            for text in ("five", "5.0", "+5", "05", "1e3", "9223372036854775808", "5 6", "٣")
        ],
        *[
            pytest.param("share", text, "must be a number such as", id=f"share {text}")
            for text in ("half", "+1", ".5", "1.", "NaN", "Infinity", "1e999", "0x10")
        ],
        *[pytest.param("wanted", text, "must be true or false", id=f"wanted {text}") for text in ("yes", "TrUe", "on")],
        *[
            pytest.param("wait", text, "must be a duration", id=f"wait {text}")
            for text in ("-1s", "-5", "1 minute", "s", "1m30", "9e9h")
        ],
        pytest.param("wait", "99999999999h", "less than a million years", id="wait too long"),
        pytest.param("limit", "0", "greater than or equal to 1", id="outside its bounds"),
    ],
)
def test_a_malformed_text_is_an_error_naming_trigger_and_parameter(field: str, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=r"trigger 2 \(everything\)") as caught:
        parse({field: text})
    assert (caught.value.index, caught.value.type, caught.value.field) == (2, "everything", field)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "environment", "authentication", "value"),
    [
        pytest.param({"queueName": "m"}, {}, {"queueName": "a"}, "m", id="metadata first"),
        pytest.param({"queueName": " "}, {}, {"queueName": "a"}, "a", id="blank metadata falls through"),
        pytest.param({"queueNameFromEnv": "Q"}, {"Q": "e"}, {"queueName": "a"}, "a", id="authentication second"),
        pytest.param({"queueNameFromEnv": "Q"}, {"Q": "e"}, {}, "e", id="environment last"),
        pytest.param({"queueNameFromEnv": "Q"}, {"Q": ""}, {}, "none", id="an empty variable falls through"),
        pytest.param({"queueNameFromEnv": "Q"}, {}, {}, "none", id="a missing variable falls through"),
        pytest.param({"queue": "m"}, {}, {}, "m", id="another spelling"),
    ],
)
def test_a_parameter_is_looked_up_in_its_declared_order(
    metadata: dict[str, str], environment: dict[str, str], authentication: dict[str, str], value: str
) -> None:
    assert parse(metadata, environment=environment, authentication=authentication).queue_name == value


def test_the_declared_order_can_put_the_environment_before_authentication() -> None:
    found = parse({"tokenFromEnv": "T"}, environment={"T": "e"}, authentication={"token": "a"})
    assert found.token == SecretStr("e")


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        pytest.param({"cuont": "5"}, "did you mean count?", id="misspelled"),
        pytest.param({"zzz": "5"}, "known are count, countFromEnv", id="nothing like it"),
        pytest.param(
            {"fixedFromEnv": "F"}, "fixed cannot come from the environment", id="not allowed from the environment"
        ),
    ],
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


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        pytest.param({}, "host: is required, or url", id="nothing is said"),
        pytest.param(
            {"urlFromEnv": "URL"},
            "host: is required, or url, and urlFromEnv names the variable URL, which the container does not set",
            id="the variable is not set",
        ),
        pytest.param({"host": "nowhere", "urlFromEnv": "URL"}, "host: must be somewhere", id="of no account"),
    ],
)
def test_one_of_several_that_was_meant_to_come_from_a_variable_names_it(
    metadata: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        Either.parse(Trigger(0, "either", metadata=metadata))
    assert str(caught.value) == f"trigger 0 (either): {complaint}"


@pytest.mark.parametrize(
    ("metadata", "more"),
    [
        pytest.param({"countFromEnv": "C"}, {"environment": {"C": "hunter2"}}, id="from the environment"),
        pytest.param({}, {"authentication": {"count": "hunter2"}}, id="from authentication"),
    ],
)
def test_a_text_that_may_be_secret_is_never_quoted(metadata: dict[str, str], more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(metadata, **more)
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__!r} {Trigger(0, 'x', **more)!r}"


def test_a_secret_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(parse({"token": "hunter2"}))
