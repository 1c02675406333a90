"""Generates the sections of docs/triggers.md from the scalers: ``python -m deploy.triggers_reference``."""

import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from deploy import generated_docs
from penstock.parameters import Origin, base_type
from penstock.scaler import Scaler
from scalers.scaler_registry import ScalerRegistry
from scalers.sources.tls import ProtectedCertificates
from scalers.triggers.keda_types import TYPES as KEDA_TYPES

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
    """Returns the sections as Markdown."""
    registry = ScalerRegistry()
    known = registry.known()
    sections = (f"## {type_}\n\n{_section(registry.find(type_))}" for type_ in known)
    rest = ", ".join(f"`{type_}`" for type_ in sorted(KEDA_TYPES - set(known)))
    missing = textwrap.fill(rest, WIDTH, break_on_hyphens=False)
    return "\n\n".join((*sections, MISSING, missing)) + "\n"


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
    generated_docs.write("triggers.md", render())
