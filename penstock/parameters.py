"""Parameters of a trigger: where their text comes from, and how it becomes a typed value, by KEDA's rules.

A scaler declares its parameters as fields (see `penstock.scaler`). The text of parameter ``p`` is looked for in the
trigger's metadata (``metadata[p]``), in the target container's environment (the variable that ``metadata[pFromEnv]``
names) and in what authenticationRef supplies, in the order that the parameter declares. The first text that is not
blank wins; blank means absent.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from penstock.errors import UserError
from penstock.extras import MissingLibrary

#: What KEDA appends to a parameter's name to say that an environment variable holds it.
FROM_ENV = "FromEnv"


class SettingsError(UserError):
    """A trigger's settings are wrong.

    index: the trigger's place in the spec. type: its type. field: the offending parameter, or what stands for it
    when several are wrong together.
    """

    def __init__(self, index: int, type: str, field: str, message: str) -> None:
        super().__init__(f"trigger {index} ({type or 'no type'}): {field}: {message}")
        self.index = index
        self.type = type
        self.field = field


class ParameterError(ValueError):
    """Raised by a scaler's own validators to say which parameter is wrong, when it is not the validated field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def require(parameters: Mapping[str, str | SecretStr | None], instead: str) -> None:
    """For a scaler's own validators: raises ParameterError for the first of these, by its name, that is missing.

    instead: the parameter that replaces them all.
    """
    for name, value in parameters.items():
        if value is None:
            raise ParameterError(name, f"is required, or {instead}")


class Source(Enum):
    """Where a parameter may come from."""

    METADATA = "metadata"
    ENVIRONMENT = "environment"
    AUTHENTICATION = "authentication"
    #: The namespace of the object whose trigger it is; nothing that a manifest says.
    NAMESPACE = "namespace"
    #: The name of that object.
    OWNER = "owner"
    #: The URL of Penstock's own broker, and the first part of its keys there; nothing that a manifest says.
    BROKER = "broker"
    PREFIX = "prefix"


#: What Penstock knows by itself; a trigger has it under the source's name.
_KNOWN = frozenset({Source.NAMESPACE, Source.OWNER, Source.BROKER, Source.PREFIX})

#: What KEDA read of every trigger once and ignores now; manifests still have it.
_RETIRED = frozenset({"metricName"})

#: The order of a parameter that declares none.
ANYWHERE = (Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT)


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger of an object as text, with what its parameters may be looked up in.

    namespace, owner: the object's namespace and name. environment: variables of the target container. absent: names of
    variables that it has only if what they refer to is there, which it is not.
    authentication: what authenticationRef supplies. broker, prefix: Penstock's own. lenient: metadata that are no
    parameter are ignored, as KEDA does, rather than refused. What may hold secrets is kept out of the repr.
    """

    index: int
    type: str
    name: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    absent: Set[str] = frozenset()
    authentication: Mapping[str, str] = field(default_factory=dict, repr=False)
    namespace: str = ""
    owner: str = ""
    broker: str = field(default="", repr=False)
    prefix: str = ""
    lenient: bool = False

    def error(self, field: str, message: str) -> SettingsError:
        """What is wrong with one of this trigger's parameters."""
        return SettingsError(self.index, self.type, field, message)


def parameter(
    default: Any = ...,
    *,
    name: str | None = None,
    also: Sequence[str] = (),
    sources: Sequence[Source] = ANYWHERE,
    **constraints: Any,
) -> Any:
    """Declare a parameter of a scaler.

    default: its value when no source has it; without one it is required. name: how a trigger spells it; without
    one the field's name in camel case. also: further spellings. sources: where to look, in order. constraints: as
    for pydantic's Field (``ge=1``, ``description=…``).
    """
    origin = {"name": name, "also": tuple(also), "sources": tuple(sources)}
    return Field(default, json_schema_extra={"origin": origin}, **constraints)  # type: ignore[dict-item]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the text of one parameter comes from. names: how a trigger spells it. sources: where to look, in order."""

    names: tuple[str, ...]
    sources: tuple[Source, ...]

    @classmethod
    def of(cls, field_name: str, info: FieldInfo) -> "Origin":
        """The origin that a field declares."""
        extra: Any = info.json_schema_extra or {}
        declared = extra.get("origin", {})
        first = declared.get("name") or to_camel(field_name)
        return cls((first, *declared.get("also", ())), declared.get("sources", ANYWHERE))

    @property
    def given(self) -> bool:
        """Whether a trigger can say it, rather than Penstock alone."""
        return not _KNOWN.issuperset(self.sources)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Every metadata key that speaks of this parameter."""
        keys = self.names if Source.METADATA in self.sources else ()
        return (*keys, *(name + FROM_ENV for name in self.names)) if Source.ENVIRONMENT in self.sources else keys

    def look_up(self, trigger: Trigger) -> tuple[str, Source] | None:
        """The first text that is not blank, and where it was."""
        for source in self.sources:
            for name in self.names:
                if source is Source.METADATA:
                    text = trigger.metadata.get(name, "")
                elif source is Source.AUTHENTICATION:
                    text = trigger.authentication.get(name, "")
                elif source in _KNOWN:
                    text = getattr(trigger, source.value)
                else:
                    text = trigger.environment.get(trigger.metadata.get(name + FROM_ENV, "").strip(), "")
                if text.strip():
                    return text.strip(), source
        return None

    def nowhere(self, trigger: Trigger) -> tuple[str, str] | None:
        """The FromEnv key and its variable if nothing supplies this parameter because no container has the variable."""
        used = self.variable(trigger) if Source.ENVIRONMENT in self.sources else None
        if not used or used[1] in trigger.environment or used[1] in trigger.absent or self.look_up(trigger):
            return None
        return used

    def variable(self, trigger: Trigger) -> tuple[str, str] | None:
        """The FromEnv key of this parameter that the trigger uses, and the variable it names."""
        for name in self.names:
            if variable := trigger.metadata.get(name + FROM_ENV, "").strip():
                return name + FROM_ENV, variable
        return None


class Parameters(BaseModel):
    """Typed parameters of one type of trigger. Instances are frozen; a secret is a `SecretStr`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def parse(cls, trigger: Trigger) -> Self:
        """The parameters that this trigger spells out.

        Raises SettingsError naming the trigger and the parameter for a text that does not fit, a required
        parameter without a text, and a metadata key that is no parameter.
        """
        origins = {field_name: Origin.of(field_name, info) for field_name, info in cls.model_fields.items()}
        _refuse_unknown(trigger, origins.values())
        values: dict[str, Any] = {}
        for field_name, origin in origins.items():
            found = origin.look_up(trigger)
            if found is None:
                if cls.model_fields[field_name].is_required():
                    raise trigger.error(origin.names[0], _missing(trigger, origin))
                continue
            annotation = cls.model_fields[field_name].annotation
            try:
                values[field_name] = _parser(annotation)(found[0])
            except ValueError as error:
                # A text from elsewhere than the metadata may be a secret that stands in the wrong place.
                quote = found[1] is Source.METADATA and annotation is not SecretStr
                raise trigger.error(origin.names[0], f"{error}, not {found[0]!r}" if quote else str(error)) from None
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _translated(trigger, origins, error) from None
        except MissingLibrary as error:
            raise trigger.error("type", str(error)) from None


def refuse_unset(parameters: type[Parameters], trigger: Trigger) -> None:
    """Raises SettingsError for a parameter that is to come from a variable which the target container does not set.

    What `Parameters.parse` takes for absent: a password that is asked for and not there would be no password.
    """
    for name, info in parameters.model_fields.items():
        if used := Origin.of(name, info).nowhere(trigger):
            raise trigger.error(
                used[0], f"names the variable {used[1]}, which the container does not set, or only once it runs"
            )


def _refuse_unknown(trigger: Trigger, origins: Iterable[Origin]) -> None:
    accepted = {key for origin in origins for key in origin.accepted}
    for key in () if trigger.lenient else trigger.metadata:
        if key not in accepted and key not in _RETIRED:
            raise trigger.error(key, f"is not a parameter of this type; {_hint(key, accepted)}")


def _hint(key: str, accepted: Set[str]) -> str:
    if (stem := key.removesuffix(FROM_ENV)) in accepted:
        return f"{stem} cannot come from the environment"
    if close := get_close_matches(key, sorted(accepted), n=1):
        return f"did you mean {close[0]}?"
    return f"known are {', '.join(sorted(accepted))}"


def _missing(trigger: Trigger, origin: Origin) -> str:
    return f"is required{_unset(trigger, (origin,))}"


def _unset(trigger: Trigger, origins: Iterable[Origin]) -> str:
    """What else is to be said of something that is required: which variable was meant to supply it, or its like."""
    named = (origin.variable(trigger) for origin in origins if origin.look_up(trigger) is None)
    said = next((used for used in named if used), None)
    return f", and {said[0]} names the variable {said[1]}, which the container does not set" if said else ""


def _translated(trigger: Trigger, origins: Mapping[str, Origin], error: ValidationError) -> SettingsError:
    """pydantic's first complaint in our words; it never quotes the input, which may be secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ParameterError):
        missing = _unset(trigger, origins.values()) if str(cause).startswith("is required") else ""
        return trigger.error(cause.field, f"{cause}{missing}")
    origin = origins.get(str(first["loc"][0])) if first["loc"] else None
    message = first["msg"].removeprefix("Value error, ")
    return trigger.error(origin.names[0] if origin else "metadata", message[:1].lower() + message[1:])


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)", text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError("must be a whole number such as 5")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) or math.isinf(float(text)):
        raise ValueError("must be a number such as 5 or 0.5")
    return float(text)


#: How KEDA (Go's ParseBool) spells the two truth values; nothing else is accepted.
TRUTHS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _truth(text: str) -> bool:
    if text not in TRUTHS:
        raise ValueError("must be true or false")
    return TRUTHS[text]


def _items(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _pairs(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("must be pairs such as a=1,b=2")
    return {name.strip(): value.strip() for name, _, value in pairs}


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(?P<count>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|µs|μs|ms|s|m|h)"


def _duration(text: str) -> timedelta:
    """Go's notation (``1m30s``), or a whole number of milliseconds."""
    if re.fullmatch(r"[0-9]+", text):
        seconds = int(text) / 1000
    elif re.fullmatch(rf"\+?({_PART.replace('?P<count>', '?:').replace('?P<unit>', '?:')})+", text):
        seconds = sum(float(part["count"]) * _UNITS[part["unit"]] for part in re.finditer(_PART, text))
    else:
        raise ValueError("must be a duration such as 1m30s, or a whole number of milliseconds")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("must be a duration of less than a million years") from None


_PARSERS: Mapping[Any, Callable[[str], Any]] = {
    int: _integer,
    float: _number,
    bool: _truth,
    tuple[str, ...]: _items,
    dict[str, str]: _pairs,
    timedelta: _duration,
}


def _parser(annotation: Any) -> Callable[[str], Any]:
    """How a text becomes a value of this annotation; other annotations are left to pydantic."""
    return _PARSERS.get(base_type(annotation), str)


def base_type(annotation: Any) -> Any:
    """The type without ``| None``; a union of several types as it is."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    [first, *others] = [one for one in get_args(annotation) if one is not NoneType]
    return annotation if others else first
