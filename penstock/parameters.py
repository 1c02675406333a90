"""Parameters of a trigger: the sources of their text, and its conversion to a typed value, by KEDA's rules.

A scaler declares its parameters as fields (see `penstock.scaler`). The text of parameter ``p`` is looked for in the
trigger's metadata (``metadata[p]``), in the target container's environment (the variable that ``metadata[pFromEnv]``
names) and in what authenticationRef supplies, in the order that the parameter declares. The first text that is not
blank wins; blank means absent.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from penstock import _wording
from penstock.errors import UserError
from penstock.extras import MissingLibrary

#: The suffix of a parameter's name whose text is the name of an environment variable.
FROM_ENV = "FromEnv"


class SettingsError(UserError):
    """A trigger's settings are wrong.

    index: the trigger's place in the spec. type: its type. field: the wrong parameter, or the first of several; the
    message names all.
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
    """Raises ParameterError for the first of these parameters, by name, that is missing; for a scaler's validators.

    instead: the parameter that replaces them all.
    """
    for name, value in parameters.items():
        if value is None:
            raise ParameterError(name, f"is required, or {instead}")


class Source(Enum):
    """A source of a parameter's text."""

    METADATA = "metadata"
    ENVIRONMENT = "environment"
    AUTHENTICATION = "authentication"
    #: The namespace of the trigger's object; no manifest can set it.
    NAMESPACE = "namespace"
    #: The name of that object.
    OWNER = "owner"
    #: The URL of Penstock's own broker, and the first part of its keys there; no manifest can set them.
    BROKER = "broker"
    PREFIX = "prefix"
    #: The names in PENSTOCK_KEDA_QUIRKS, separated by commas.
    QUIRKS = "quirks"


#: Sources that Penstock fills itself; a trigger has them as attributes of that name.
_KNOWN = frozenset({Source.NAMESPACE, Source.OWNER, Source.BROKER, Source.PREFIX, Source.QUIRKS})

#: Parameters that KEDA once read of every trigger and ignores now; manifests still have them.
_RETIRED = frozenset({"metricName"})

#: Texts of an authentication that change how a server is trusted: a type that does not know them must not ignore them.
_TRUST = frozenset(
    {
        *("tls", "enableTLS", "unsafeSsl", "sslmode", "sasl", "ca", "cert", "key", "keyPassword"),
        *("caCert", "clientCert", "clientKey", "tlsClientCert", "tlsClientKey"),
    }
)

#: The name in PENSTOCK_KEDA_QUIRKS under which options about TLS that have no effect are ignored.
IGNORED_TRUST = "ignored-trust"

#: A wrong parameter, and what is wrong with it.
Problem = tuple[str, str]

#: Most problems that the error of one trigger names.
_PROBLEMS = 10

#: The order of a parameter that declares none.
ANYWHERE = (Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT)


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger of an object as text, with the sources of its parameters.

    namespace, owner, kind: the object's namespace, name and kind. environment: variables of the target container.
    absent: names of its variables whose optional ConfigMap or Secret does not exist. authentication: texts that
    authenticationRef supplies. broker, prefix: Penstock's own. quirks: the names in PENSTOCK_KEDA_QUIRKS, separated by
    commas. Fields that may hold secrets are in no repr.
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
    kind: str = ""
    broker: str = field(default="", repr=False)
    prefix: str = ""
    quirks: str = ""

    def error(self, field: str, message: str) -> SettingsError:
        """Returns the error of one of this trigger's parameters."""
        return SettingsError(self.index, self.type, field, message)

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Raises SettingsError naming all of these problems of its parameters, if there are any."""
        found = list(dict.fromkeys(problems))
        if found:
            [(field, first), *others] = found[:_PROBLEMS]
            more = [f"; and {len(found) - _PROBLEMS} more"] if len(found) > _PROBLEMS else []
            raise self.error(field, "".join([first, *(f"; {name}: {message}" for name, message in others), *more]))


def parameter(
    default: Any = ...,
    *,
    name: str | None = None,
    also: Sequence[str] = (),
    sources: Sequence[Source] = ANYWHERE,
    **constraints: Any,
) -> Any:
    """Declares a parameter of a scaler.

    default: its value when no source has it; without one it is required. name: its spelling in a trigger; without
    one the field's name in camel case. also: further spellings. sources: searched in this order. constraints: as
    for pydantic's Field (``ge=1``, ``description=…``).
    """
    origin = {"name": name, "also": tuple(also), "sources": tuple(sources)}
    return Field(default, json_schema_extra={"origin": origin}, **constraints)  # type: ignore[dict-item]


@dataclass(frozen=True, slots=True)
class Origin:
    """The spellings of one parameter, and the sources of its text in the order of the search."""

    names: tuple[str, ...]
    sources: tuple[Source, ...]

    @classmethod
    def of(cls, field_name: str, info: FieldInfo) -> "Origin":
        """Returns the origin that a field declares."""
        extra: Any = info.json_schema_extra or {}
        declared = extra.get("origin", {})
        first = declared.get("name") or to_camel(field_name)
        return cls((first, *declared.get("also", ())), declared.get("sources", ANYWHERE))

    @property
    def given(self) -> bool:
        """Returns whether a manifest can set it, and not Penstock alone."""
        return not _KNOWN.issuperset(self.sources)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Returns every metadata key of this parameter."""
        keys = self.names if Source.METADATA in self.sources else ()
        return (*keys, *(name + FROM_ENV for name in self.names)) if Source.ENVIRONMENT in self.sources else keys

    def look_up(self, trigger: Trigger) -> tuple[str, Source] | None:
        """Returns the first text that is not blank, with its source."""
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
        """Returns the FromEnv key and its variable if no source has the parameter since the container lacks that."""
        used = self.variable(trigger) if Source.ENVIRONMENT in self.sources else None
        if not used or used[1] in trigger.environment or used[1] in trigger.absent or self.look_up(trigger):
            return None
        return used

    def variable(self, trigger: Trigger) -> tuple[str, str] | None:
        """Returns the FromEnv key of this parameter that the trigger uses, and the variable it names."""
        for name in self.names:
            if variable := trigger.metadata.get(name + FROM_ENV, "").strip():
                return name + FROM_ENV, variable
        return None


class Parameters(BaseModel):
    """Typed parameters of one type of trigger. Instances are frozen; a secret is a `SecretStr`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    #: KEDA's parameters of this type, in metadata or an authentication, that are refused as not supported.
    unsupported: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def parse(cls, trigger: Trigger) -> Self:
        """Returns the parameters of this trigger.

        Raises SettingsError naming the trigger and every parameter whose text does not fit or that is required and has
        none, and every metadata key that is no parameter.
        """
        origins = {field_name: Origin.of(field_name, info) for field_name, info in cls.model_fields.items()}
        foreign = sorted(cls.unsupported.intersection({*trigger.metadata, *trigger.authentication}))
        problems = [(name, "is KEDA's and not supported here") for name in foreign]
        problems += _unknown(trigger, origins.values(), cls.unsupported)
        problems += _unhonoured(trigger, origins.values())
        values, wrong = _read(cls.model_fields, trigger, origins)
        problems += wrong.values()
        try:
            parsed = cls.model_validate(values)
        except ValidationError as error:
            trigger.refuse([*problems, *_translated(trigger, origins, error, wrong, alone=not problems)])
        except MissingLibrary as error:
            trigger.refuse([*problems, ("type", str(error))])
        trigger.refuse(problems)
        return parsed


def refuse_unset(parameters: type[Parameters], trigger: Trigger) -> None:
    """Raises SettingsError for parameters that are to come from variables which the target container does not set.

    `Parameters.parse` takes them for absent: a password that is named and not set would be no password.
    """
    unset = (Origin.of(name, info).nowhere(trigger) for name, info in parameters.model_fields.items())
    trigger.refuse(
        (used[0], f"names the variable {used[1]}, which the container does not set, or only once it runs")
        for used in unset
        if used
    )


def _read(
    fields: Mapping[str, FieldInfo], trigger: Trigger, origins: Mapping[str, Origin]
) -> tuple[dict[str, Any], dict[str, Problem]]:
    """Returns the values of fields that have a text, and the problems of those whose text does not fit or lacks."""
    values: dict[str, Any] = {}
    wrong: dict[str, Problem] = {}
    for field_name, origin in origins.items():
        found, info = origin.look_up(trigger), fields[field_name]
        if found is None:
            if info.is_required():
                wrong[field_name] = origin.names[0], f"is required{_unset(trigger, (origin,))}"
            continue
        try:
            values[field_name] = _parser(info.annotation)(found[0])
        except ValueError as error:
            # A text from elsewhere than the metadata may be a secret that stands in the wrong place.
            quote = found[1] is Source.METADATA and info.annotation is not SecretStr
            wrong[field_name] = origin.names[0], f"{error}, not {found[0]!r}" if quote else str(error)
    return values, wrong


def _unhonoured(trigger: Trigger, origins: Collection[Origin]) -> Iterable[Problem]:
    """Yields the texts of the authentication about TLS or the login that the type does not know.

    A type that takes nothing from authentications has no server to log in to.
    """
    known = {name for origin in origins if Source.AUTHENTICATION in origin.sources for name in origin.names}
    if not known or IGNORED_TRUST in trigger.quirks.split(","):
        return
    for name in sorted(_TRUST.intersection(trigger.authentication) - known):
        if trigger.authentication[name].strip() not in ("", "disable", "none", "false"):
            yield name, "of the authentication is not honoured by this type"


def _unknown(trigger: Trigger, origins: Iterable[Origin], unsupported: Set[str]) -> Iterable[Problem]:
    accepted = {key for origin in origins for key in origin.accepted}
    for key in () if "unknown-parameters" in trigger.quirks.split(",") else trigger.metadata:
        if key not in accepted | _RETIRED | unsupported:
            yield key, f"is not a parameter of this type; {_hint(key, accepted)}"


def _hint(key: str, accepted: Set[str]) -> str:
    if (stem := key.removesuffix(FROM_ENV)) in accepted:
        return f"{stem} cannot come from the environment"
    if close := get_close_matches(key, sorted(accepted), n=1):
        return f"did you mean {close[0]}?"
    return f"known are {', '.join(sorted(accepted))}"


def _unset(trigger: Trigger, origins: Iterable[Origin]) -> str:
    """Returns the second half of a complaint about a required parameter: the unset variable that was to supply it."""
    named = (origin.variable(trigger) for origin in origins if origin.look_up(trigger) is None)
    said = next((used for used in named if used), None)
    return f", and {said[0]} names the variable {said[1]}, which the container does not set" if said else ""


def _translated(
    trigger: Trigger, origins: Mapping[str, Origin], error: ValidationError, wrong: Collection[str], *, alone: bool
) -> Iterable[Problem]:
    """Yields pydantic's complaints in our words; they never quote the input, which may be secret.

    wrong: fields that have a problem already. alone: nothing else is wrong; otherwise a complaint about several fields
    together may only follow from it, and is left out.
    """
    for each in error.errors(include_input=False, include_url=False):
        cause = each.get("ctx", {}).get("error")
        name = str(each["loc"][0]) if each["loc"] else ""
        if name in wrong or not (name or alone):
            continue
        if isinstance(cause, ParameterError):
            missing = _unset(trigger, origins.values()) if str(cause).startswith("is required") else ""
            yield cause.field, f"{cause}{missing}"
            continue
        origin = origins.get(name)
        message = _wording.message(each)
        yield origin.names[0] if origin else "metadata", message[:1].lower() + message[1:]


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)", text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError("must be a whole number such as 5")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) or math.isinf(float(text)):
        raise ValueError("must be a number such as 5 or 0.5")
    return float(text)


#: KEDA's (Go's ParseBool) spellings of the two truth values; no other is accepted.
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
    """Reads Go's notation (``1m30s``), or a whole number of milliseconds."""
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
    """Returns the parser of texts for this annotation; pydantic converts for all others."""
    return _PARSERS.get(base_type(annotation), str)


def base_type(annotation: Any) -> Any:
    """Returns the type without ``| None``; a union of several types as it is."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    [first, *others] = [one for one in get_args(annotation) if one is not NoneType]
    return annotation if others else first
