"""Generates docs/triggers.md from the scalers: ``python -m scalers.triggers_reference > docs/triggers.md``."""

import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from penstock.parameters import Origin, base_type
from penstock.scaler import Scaler
from scalers.sources.tls import ProtectedCertificates
from scalers.trigger_types import ScalerRegistry
from scalers.triggers.keda_types import TYPES as KEDA_TYPES

INTRODUCTION = """# Triggers

<!-- Made by `python -m scalers.triggers_reference`; a test keeps it in step with the scalers. -->

A trigger is one source of work of a ScaledJob: a `type`, its parameters, and where the secret ones come from.

```yaml
triggers:
  - type: redis
    metadata: # every value is a string: numbers and true or false need quotes
      address: redis.example:6379
      listName: work
      listLength: "5"
      usernameFromEnv: REDIS_USER # a variable of the Jobs' container
    authenticationRef:
      name: redis-login # see docs/authentication.md
```

A parameter is looked up in the sources of its table's last column, in that order: the trigger's `metadata`; the
`environment` of the Jobs' container, in the variable that `<parameter>FromEnv` of the metadata names; and the texts
that the [authentication](authentication.md) supplies. The first text that is not blank counts. A parameter that is
wrong, missing or unknown is named in the object's `Ready` condition, and nothing of the object is measured; so is one
whose variable the container does not set (KEDA measures without it: [`unset-variables`](beyond-keda.md)).

An object may have 1,000 triggers (`PENSTOCK_MAX_TRIGGERS`). With more its condition says so and it is not measured:
parsing and storing them would delay other objects. Triggers of one server are measured together, across all objects.

A source that does not answer makes the value *unknown*, never zero: no Job is created for it, and the condition names
the reason.

A push to a list or stream on a single server (`redis`, `redis-streams`, `push`, `celery`) polls the object at once if
the server sends keyspace notifications (`CONFIG SET notify-keyspace-events Klszhtg`); so do a changed key of `etcd` and
a push of an `external-push` scaler. Anything else is measured at the next poll.

A type of your own: [add-a-scaler.md](add-a-scaler.md)."""

MISSING = """## Not supported yet

KEDA's other types are refused by name:"""

#: Columns of the page's text.
WIDTH = 118

_KINDS: dict[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    timedelta: "duration, or milliseconds",
    tuple[str, ...]: "list: `a,b`",
    dict[str, str]: "pairs: `a=1,b=2`",
    SecretStr: "secret text",
}


def render() -> str:
    """Returns the whole page as Markdown."""
    registry = ScalerRegistry()
    known = registry.known()
    sections = (f"## {type_}\n\n{_section(registry.find(type_))}" for type_ in known)
    rest = ", ".join(f"`{type_}`" for type_ in sorted(KEDA_TYPES - set(known)))
    missing = textwrap.fill(rest, WIDTH, break_on_hyphens=False)
    return "\n\n".join((INTRODUCTION, *sections, MISSING, missing)) + "\n"


def _section(scaler: type[Scaler]) -> str:
    lines = [f"{(scaler.__doc__ or '').splitlines()[0]}\n", *_table(scaler)]
    if scaler.unsupported:
        names = ", ".join(f"`{name}`" for name in sorted(scaler.unsupported))
        lines += [
            "",
            textwrap.fill(f"Of KEDA's parameters not supported here: {names}.", WIDTH, break_on_hyphens=False),
        ]
    return "\n".join(lines)


def _table(scaler: type[Scaler]) -> Iterator[str]:
    yield "| parameter | value | default | meaning | from |"
    yield "|---|---|---|---|---|"
    # Required parameters come first, and those of TLS, which many types share, last.
    fields = sorted(
        scaler.model_fields.items(),
        key=lambda field: (not field[1].is_required(), field[0] in ProtectedCertificates.model_fields),
    )
    for name, info in fields:
        origin = Origin.of(name, info)
        if not origin.given:
            continue
        spelled = ", ".join(f"`{each}`" for each in origin.names)
        sources = ", ".join(source.value for source in origin.sources)
        yield f"| {spelled} | {_kind(info)} | {_default(info)} | {info.description or ''} | {sources} |"


def _kind(info: FieldInfo) -> str:
    base = base_type(info.annotation)
    if get_origin(base) is Literal:
        return ", ".join(f"`{text}`" for text in get_args(base))
    return _KINDS.get(base, "text")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value: Any = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, (tuple, dict)) and value:
        return f"`{','.join(map(str, value))}`"
    return "" if value in (None, "", (), {}) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.stdout.write(render())
