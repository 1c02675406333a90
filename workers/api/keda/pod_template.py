"""The shape of a pod template, in the parts that are copied into Jobs or read for their environment.

The API server checks the template of a Deployment; that of a ScaledJob it stores as it is.
"""

from collections.abc import Callable, Iterator
from typing import Any

from workers.api.kinds import Object
from workers.api.model import Found

_OBJECT = "must be an object"
_TEXT = 'must be a text; numbers and true or false need quotes: "5"'
_REQUIRED = "is required and must be a text"

_Path = tuple[str | int, ...]


def problems(template: Object) -> Iterator[Found]:
    """Yields what is malformed. Null is none, as everywhere in a manifest."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if not isinstance(metadata, dict):
        yield ("metadata",), _OBJECT
    else:
        for field in ("labels", "annotations"):
            yield from _texts(metadata.get(field), ("metadata", field))
    if not isinstance(spec, dict):
        yield ("spec",), _OBJECT
        return
    for field in ("initContainers", "containers"):
        yield from _each(spec.get(field), ("spec", field), environment_problems)


def environment_problems(container: Object, path: _Path = ()) -> Iterator[Found]:
    """Yields what is malformed in the environment of a container. path: the container's."""
    yield from _each(container.get("env"), (*path, "env"), _variable)
    yield from _each(container.get("envFrom"), (*path, "envFrom"), _source)


def _source(source: Object, path: _Path) -> Iterator[Found]:
    if not isinstance(source.get("prefix"), str | None):
        yield (*path, "prefix"), _TEXT
    for field in ("configMapRef", "secretRef"):
        yield from _reference(source.get(field), (*path, field))


def _variable(variable: Object, path: _Path) -> Iterator[Found]:
    if not isinstance(variable.get("name"), str):
        yield (*path, "name"), _REQUIRED
    if not isinstance(variable.get("value"), str | None):
        yield (*path, "value"), _TEXT
    source = variable.get("valueFrom") or {}
    if not isinstance(source, dict):
        yield (*path, "valueFrom"), _OBJECT
        return
    for field in ("configMapKeyRef", "secretKeyRef"):
        yield from _reference(source.get(field), (*path, "valueFrom", field), keyed=True)


def _reference(reference: Any, path: _Path, *, keyed: bool = False) -> Iterator[Found]:
    """Yields what is malformed in a reference to a ConfigMap or Secret. keyed: it names one entry."""
    if reference is None:
        return
    if not isinstance(reference, dict):
        yield path, _OBJECT
        return
    if not isinstance(reference.get("name"), str | None):
        yield (*path, "name"), _TEXT
    if keyed and not isinstance(reference.get("key"), str):
        yield (*path, "key"), _REQUIRED


def _each(value: Any, path: _Path, check: Callable[[Object, _Path], Iterator[Found]]) -> Iterator[Found]:
    """Yields what is malformed in a list of objects."""
    if not isinstance(value, list | None):
        yield path, "must be a list"
        return
    for index, element in enumerate(value or ()):
        if isinstance(element, dict):
            yield from check(element, (*path, index))
        else:
            yield (*path, index), _OBJECT


def _texts(value: Any, path: _Path) -> Iterator[Found]:
    if not isinstance(value, dict | None):
        yield path, _OBJECT
        return
    for key, text in (value or {}).items():
        if not isinstance(text, str | None):
            yield (*path, key), _TEXT
