"""Warnings about objects that an API server accepts, of KEDA's kinds and EventJobs: what their controllers report."""

from collections.abc import Callable, Iterator, Mapping

from workers.api import kinds
from workers.api.keda import scaledjob, scaledobject, triggerauthentication
from workers.api.keda.scaledobject import RESOURCE_TRIGGERS
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    EVENT_JOB,
    SCALED_JOB,
    SCALED_OBJECT,
    TRIGGER_AUTHENTICATION,
    Kind,
    Object,
)
from workers.api.model import Problems
from workers.api.penstock_dev import eventjob
from workers.events import job_texts, routing

#: Returns what is wrong with a trigger type, None for one that can be measured.
UnknownType = Callable[[str], str | None]


def any_type(_type: str) -> None:
    """Judges no trigger type, for callers that do not know the scalers."""


def warnings(body: Object, unknown_type: UnknownType = any_type) -> list[str]:
    """Returns every problem that the object shows by itself, each with its field; empty for another kind.

    An API server sends them to the client that writes the object. unknown_type: judges the types of triggers, which
    this package does not know.
    """
    kind = kinds.by_manifest(str(body.get("apiVersion") or ""), str(body.get("kind") or ""))
    if kind is None or kind not in _RULES:
        return []
    types = _of_types(body, unknown_type) if kind in (SCALED_JOB, SCALED_OBJECT) else ()
    return [_plain(text) for text in (*_of_kind(kind, body), *types)]


def _of_kind(kind: Kind, body: Object) -> Iterator[str]:
    # Each rule parses first: what the model refuses is all that can be said of an object.
    try:
        yield from _RULES[kind](kind, body)
    except Problems as error:
        yield from (f"{problem.field}: {problem.message}" for problem in error.found)


def _plain(text: str) -> str:
    """Returns the text in printable ASCII, because it becomes an HTTP header and quotes the manifest."""
    return "".join(each if " " <= each <= "~" else f"\\u{ord(each):04x}" for each in text)


def _of_types(body: Object, unknown_type: UnknownType) -> Iterator[str]:
    triggers = (body.get("spec") or {}).get("triggers")
    for index, trigger in enumerate(triggers if isinstance(triggers, list) else ()):
        # The model reports a trigger without a type.
        name = trigger.get("type") if isinstance(trigger, dict) else None
        if isinstance(name, str) and name and (problem := unknown_type(name)):
            yield f"spec.triggers[{index}].type: {problem}"


def _of_scaled_job(_kind: Kind, body: Object) -> Iterator[str]:
    spec = scaledjob.parse(body).spec
    for text in spec.claim_contradictions:
        yield f"spec.scalingStrategy: {text}"
    for index, trigger in enumerate(spec.triggers):
        if trigger.type in RESOURCE_TRIGGERS:
            yield f"spec.triggers[{index}]: {trigger.type} has no effect on a ScaledJob"
    if spec.push is not None and all(trigger.type != "push" for trigger in spec.triggers):
        yield "spec.push: has no effect without a trigger of type push"


def _of_scaled_object(_kind: Kind, body: Object) -> Iterator[str]:
    spec = scaledobject.parse(body).spec
    if spec.minimum > 0 and spec.idle_replica_count is None:
        # KEDA warns of pollingInterval too, which here says how often replicas above the minimum are decided on.
        for name, value in (
            ("cooldownPeriod", spec.cooldown_period),
            ("initialCooldownPeriod", spec.initial_cooldown_period),
        ):
            if value is not None:
                yield f"spec.{name}: has no effect while minReplicaCount is above 0 without an idleReplicaCount"


def _of_event_job(_kind: Kind, body: Object) -> Iterator[str]:
    spec = eventjob.parse(body).spec
    for field, text in (*routing.problems(spec), *job_texts.problems(spec.job_template)):
        yield f"{field}: {text}"
    if not spec.push.auth and not spec.push.anonymous:
        yield "spec.push: without auth and without anonymous, pushes over HTTP are refused"


def _of_authentication(kind: Kind, body: Object) -> Iterator[str]:
    spec = triggerauthentication.parse(kind, body).spec
    yield from (f"{path}: {text}" for path, text in triggerauthentication.unsupported(spec))


_RULES: Mapping[Kind, Callable[[Kind, Object], Iterator[str]]] = {
    SCALED_JOB: _of_scaled_job,
    SCALED_OBJECT: _of_scaled_object,
    EVENT_JOB: _of_event_job,
    TRIGGER_AUTHENTICATION: _of_authentication,
    CLUSTER_TRIGGER_AUTHENTICATION: _of_authentication,
}
