"""The texts of a Job's template that an event may fill, and the Job that comes of it.

An event changes texts and nothing else: fields, lists and objects stay as the template has them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from workers.api.kinds import Object
from workers.api.penstock_dev.scheduledjob import RunTemplate
from workers.errors import UserError
from workers.events import interpreters, substitutions
from workers.events.event_scope import EventScope
from workers.events.interpreters import Word
from workers.events.substitutions import SubstitutionFailed, Syntax

_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
#: Variables that hold what an event says.
GIVEN = "PENSTOCK_EVENT"
TRACE_STATE = "TRACESTATE"
#: Bytes of all texts that events give one Job: the API server refuses objects beyond 1.5 MiB.
_TOGETHER = 500_000
_FIELD = "spec.jobTemplate"
_PLACES = "commands, arguments, variables, working directories, labels and annotations"


def problems(template: RunTemplate) -> Iterator[tuple[str, str]]:
    """Yields field and problem of every reference to the event that is malformed or stands where none may."""
    body = _body(template)
    allowed = dict(_places(body))
    for field, text in _texts(body, _FIELD):
        if substitutions.references(text):
            if field not in allowed:
                yield field, f"$(event…) may not stand here; it may in {_PLACES}"
            else:
                yield from _malformed(field, text, allowed[field])
    for field, container in _containers(body):
        yield from _code(field, container)


def filled(template: RunTemplate, scope: EventScope) -> Object:
    """Returns the template, `metadata` and `spec`, with the event's texts. Raises SubstitutionFailed.

    template: one without problems.
    """
    filling = _Filling(scope)
    body = _body(template)
    spec = body["spec"]
    pod = spec["template"].get("spec") or {}
    lists = {
        part: [filling.container(f"spec.template.spec.{part}[{index}]", each) for index, each in enumerate(pod[part])]
        for part in ("initContainers", "containers")
        if pod.get(part)
    }
    inner = {"metadata": filling.metadata("spec.template.metadata", spec["template"].get("metadata") or {})}
    return {
        "metadata": filling.metadata("metadata", body["metadata"]),
        "spec": {**spec, "template": {**spec["template"], **inner, "spec": {**pod, **lists}}},
    }


class _Filling:
    """Fills the texts of one Job. scope: its event."""

    def __init__(self, scope: EventScope) -> None:
        self._scope = scope
        self._room = _TOGETHER

    def metadata(self, field: str, metadata: Object) -> Object:
        changed = {
            name: {
                key: self._metadata_text(f"{field}.{name}[{key}]", name, text) for key, text in metadata[name].items()
            }
            for name in ("labels", "annotations")
            if isinstance(metadata.get(name), dict)
        }
        return {**metadata, **changed}

    def container(self, field: str, container: Object) -> Object:
        changed: Object = {}
        for name in ("command", "args"):
            if isinstance(container.get(name), list):
                changed[name] = [self._text(f"{field}.{name}", each, "expanded") for each in container[name]]
        if isinstance(container.get("env"), list):
            changed["env"] = [self._variable(f"{field}.env", each) for each in container["env"]]
        if isinstance(container.get("workingDir"), str):
            changed["workingDir"] = self._text(f"{field}.workingDir", container["workingDir"], "verbatim")
        return {**container, **changed}

    def _variable(self, field: str, variable: Any) -> Any:
        if not isinstance(variable, dict) or not isinstance(variable.get("value"), str):
            return variable
        return {**variable, "value": self._text(f"{field}[{variable.get('name')}]", variable["value"], "expanded")}

    def _metadata_text(self, field: str, name: str, text: Any) -> Any:
        found = self._text(field, text, "verbatim")
        if name == "labels" and found is not text and not _LABEL.fullmatch(found):
            raise SubstitutionFailed(f"{_FIELD}.{field}: {found[:70]!r} is no value of a label")
        return found

    def _text(self, field: str, text: Any, syntax: Syntax) -> Any:
        if not substitutions.references(text):
            return text
        try:
            found = substitutions.render(substitutions.parse(text, syntax), self._scope, syntax)
        except (SubstitutionFailed, UserError) as error:
            raise SubstitutionFailed(f"{_FIELD}.{field}: {error}") from None
        self._room -= len(found.encode())
        if len(found.encode()) > 2 * substitutions.LONGEST or self._room < 0:
            raise SubstitutionFailed(f"{_FIELD}.{field}: the event's texts are too long for one Job")
        return found


def _body(template: RunTemplate) -> Object:
    return {"metadata": template.metadata or {}, "spec": template.spec}


def _containers(body: Object) -> Iterator[tuple[str, Object]]:
    pod = body["spec"]["template"].get("spec")
    for part in ("initContainers", "containers"):
        listed = pod.get(part) if isinstance(pod, dict) else None
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, dict):
                yield f"{_FIELD}.spec.template.spec.{part}[{index}]", each


def _places(body: Object) -> Iterator[tuple[str, Syntax]]:
    """Yields the fields whose texts an event may fill, and how Kubernetes reads each."""
    inner = body["spec"]["template"].get("metadata")
    for field, metadata in ((f"{_FIELD}.metadata", body["metadata"]), (f"{_FIELD}.spec.template.metadata", inner)):
        for name in ("labels", "annotations"):
            texts = metadata.get(name) if isinstance(metadata, dict) else None
            for key in texts if isinstance(texts, dict) else ():
                yield f"{field}.{name}.{key}", "verbatim"
    for field, container in _containers(body):
        yield f"{field}.workingDir", "verbatim"
        for name, suffix in (("command", ""), ("args", ""), ("env", ".value")):
            listed = container.get(name)
            for index, _ in enumerate(listed if isinstance(listed, list) else ()):
                yield f"{field}.{name}[{index}]{suffix}", "expanded"


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """Yields all texts of a value with their fields; the name of an entry counts as a text of that entry's names."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for key, each in value.items():
            if substitutions.references(key):
                yield f"{field} (name)", key
            yield from _texts(each, f"{field}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(each, f"{field}[{index}]")


def _malformed(field: str, text: str, syntax: Syntax) -> Iterator[tuple[str, str]]:
    try:
        substitutions.parse(text, syntax)
    except UserError as error:
        yield field, str(error)


def _code(field: str, container: Object) -> Iterator[tuple[str, str]]:
    """Yields the problems of a container whose command line or variables would run what an event says."""
    given = dict(_given_variables(field, container))
    for name, place in given.items():
        if interpreters.loads(name):
            yield place, f"{name} says which code programs load, and an event may not"
    words: list[Word] = []
    for name in ("command", "args"):
        listed = container.get(name)
        for index, text in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(text, str):
                words.append(Word(f"{field}.{name}[{index}]", text, _is_given(text, given)))
    yield from interpreters.problems(words, starts=bool(container.get("command")))


def _given_variables(field: str, container: Object) -> Iterator[tuple[str, str]]:
    """Yields names and fields of the variables with text of the event, through other variables too."""
    known: dict[str, str] = {}
    listed = container.get("env")
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(each, dict) and isinstance(each.get("name"), str) and _gives(each, known):
            known[each["name"]] = f"{field}.env[{index}].value"
    yield from known.items()


def _gives(variable: Object, known: Mapping[str, str]) -> bool:
    value = variable.get("value")
    if isinstance(value, str):
        return _is_given(value, known)
    # An annotation or a label may hold what an event says; the Job's own always has the whole event.
    origin = variable.get("valueFrom")
    field = origin.get("fieldRef") if isinstance(origin, dict) else None
    path = field.get("fieldPath") if isinstance(field, dict) else None
    return str(path).startswith(("metadata.annotations", "metadata.labels"))


def _is_given(text: str, variables: Mapping[str, str]) -> bool:
    """Returns True if an event gives some of this text, itself or through a variable that Kubernetes expands."""
    if any(
        name in variables or name == TRACE_STATE or name.startswith(GIVEN) for name in substitutions.variables(text)
    ):
        return True
    try:
        return any(not isinstance(part, str) for part in substitutions.parse(text, "expanded"))
    except UserError:
        return True
