"""Any body in place of a Job, a CronJob or a pod is accepted, or refused with a reason."""

from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver import strategies
from deploy.local.apiserver.codec.field_errors import DecodeError, FieldError
from deploy.local.apiserver.schema import schema
from tests.support.tables import cases
from tests.unit.apiserver import odd
from tests.unit.apiserver.examples import NOW, created, problems
from tests.unit.apiserver.odd import ODD, mutated, places
from workers.api.kinds import CRON_JOB, JOB, POD, Kind, Object

WISH: Object = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
PODS: Object = {
    **odd.PODS,
    "affinity": {"nodeAffinity": {**odd.PODS["affinity"]["nodeAffinity"], **WISH}},
    "schedulingGates": [{"name": "example.com/quota"}],
}
META: Object = {**odd.METADATA, "namespace": "default"}
RULES: list[Object] = [
    {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 2]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
]
INDEXED: Object = {
    "completionMode": "Indexed",
    "completions": 4,
    "parallelism": 2,
    "backoffLimitPerIndex": 1,
    "maxFailedIndexes": 2,
    "activeDeadlineSeconds": 9,
    "ttlSecondsAfterFinished": 9,
    "managedBy": "example.com/us",
    "podFailurePolicy": {"rules": RULES},
    "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 1}]},
    "template": {"metadata": {"labels": {"e": "f"}}, "spec": PODS},
}
CRON: Object = {
    "schedule": "*/5 * * * *",
    "timeZone": "Europe/Berlin",
    "startingDeadlineSeconds": 100,
    "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": INDEXED},
}
MANUAL: Object = {
    "manualSelector": True,
    "selector": {"matchLabels": {"e": "f"}, "matchExpressions": [{"key": "e", "operator": "In", "values": ["f"]}]},
    "template": {"metadata": {"labels": {"e": "f"}}, "spec": PODS},
}
STATUS: Object = {
    "startTime": "2026-01-01T00:00:00Z",
    "active": 1,
    "ready": 1,
    "succeeded": 1,
    "completedIndexes": "0,2-3",
    "failedIndexes": "1",
    "conditions": [{"type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["v"]},
}


def answered(kind: Kind, body: Object) -> list[FieldError]:
    """Returns the errors of a create, of an update with the same body and of a write of its status; [] for a 400."""
    reading, rules = schema.builtin(kind), strategies.strategy(kind)
    try:
        decoded, _ = reading.decode(body, strict="Warn")
    except DecodeError:
        return []
    decoded["metadata"] = {**(decoded.get("metadata") or {}), "uid": "u"}
    filled = reading.default(decoded)
    new, old = rules.prepare_create(filled, NOW), stored(kind)
    rules.warnings(new)
    update, status = rules.prepare_update(filled, old), rules.prepare_status(filled, old)
    return [*rules.validate_create(new), *rules.validate_update(update, old), *rules.validate_status(status, old)]


def document(kind: Kind, **parts: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": META, **parts}


DOCUMENTS = {
    "job": (JOB, document(JOB, spec=INDEXED, status=STATUS)),
    "job with its own selector": (JOB, document(JOB, spec=MANUAL)),
    "cron job": (CRON_JOB, document(CRON_JOB, spec=CRON)),
    "pod": (POD, document(POD, spec=PODS)),
}


@cache
def stored(kind: Kind) -> Object:
    body = next(body for known, body in DOCUMENTS.values() if known == kind)
    return created(kind, {**body, "metadata": {**META, "uid": "u"}})


@cases(DOCUMENTS)
def test_the_document_that_is_mutated_is_right(kind: Kind, body: Object) -> None:
    assert problems(kind, {**body, "metadata": {**META, "uid": "u"}}) == []


@cases(DOCUMENTS)
def test_every_odd_value_at_every_place_is_answered(kind: Kind, body: Object) -> None:
    for path in places(body):
        for value in ODD:
            try:
                found = answered(kind, mutated(body, [(path, value)]))
            except Exception as error:
                raise AssertionError(f"{value!r} at {path}") from error
            assert all(error.field and error.message for error in found), (path, value)


@given(st.data())
def test_odd_values_at_several_places_are_answered(data: st.DataObject) -> None:
    kind, body = data.draw(st.sampled_from(list(DOCUMENTS.values())))
    change = st.tuples(st.sampled_from(list(places(body))), st.sampled_from(ODD))
    changes = data.draw(st.lists(change, min_size=2, max_size=6))
    assert all(error.field and error.message for error in answered(kind, mutated(body, changes)))
