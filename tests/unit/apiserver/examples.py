"""Small valid objects of built-in kinds, and the way of a body through schema and strategy."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from deploy.local.apiserver import strategies
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.schema import schema
from workers.api.kinds import Kind, Object

NOW = datetime(2026, 1, 10, 12, 0, 0, tzinfo=UTC)
CONTAINER = {"name": "c", "image": "x"}
NON_NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"


def refusals(table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrizes a test over (refusal, body): a key is the line of `field: message` that its body is refused by."""
    return pytest.mark.parametrize(("refusal", "body"), table.items(), ids=table)


def unsupported(value: str, *supported: str) -> str:
    """The message for a value that is none of the supported ones."""
    return f'Unsupported value: "{value}": supported values: {json.dumps(supported)[1:-1]}'


def template(*, container: Object | None = None, labels: Object | None = None, **spec: Any) -> Object:
    """A pod template with one container."""
    body: Object = {"spec": {"restartPolicy": "Never", "containers": [{**CONTAINER, **(container or {})}], **spec}}
    return {"metadata": {"labels": labels}, **body} if labels is not None else body


def job(
    *, metadata: Object | None = None, pod: Object | None = None, container: Object | None = None, **spec: Any
) -> Object:
    """A Job; keywords are fields of its spec."""
    return {
        "metadata": {"name": "j", "namespace": "default", "uid": "u", **(metadata or {})},
        "spec": {"template": template(container=container, **(pod or {})), **spec},
    }


def created(kind: Kind, body: Object) -> Object:
    """The body as it would be stored."""
    reading = schema.builtin(kind)
    decoded, _ = reading.decode(body, strict="Strict")
    return strategies.strategy(kind).prepare_create(reading.default(decoded), NOW)


def refused(kind: Kind, body: Object) -> list[str]:
    """Everything that is wrong with a body to be created, as lines of `field: message`."""
    return [": ".join(each) for each in problems(kind, body)]


def problems(kind: Kind, body: Object) -> list[tuple[str, str]]:
    """Field and message of everything that is wrong with a body to be created."""
    return spelled(strategies.strategy(kind).validate_create(created(kind, body)))


def changed(kind: Kind, old: Object, new: Object) -> tuple[Object, list[tuple[str, str]]]:
    """The new version of a stored object as it would be stored, and what is wrong with it."""
    rules = strategies.strategy(kind)
    prepared = rules.prepare_update(schema.builtin(kind).default(new), old)
    return prepared, spelled(rules.validate_update(prepared, old))


def spelled(errors: list[FieldError]) -> list[tuple[str, str]]:
    """Errors as pairs of field and message."""
    return [(error.field, error.message) for error in errors]
