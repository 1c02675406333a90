"""EventJobs, their claims and their Jobs for tests of decisions."""

from typing import Any

import orjson

from tests.unit.controllers.factories import UID, condition, micros
from workers.api import job_annotations
from workers.api.kinds import EVENT_JOB, JOB, Object, Ref
from workers.controllers.claims import binding
from workers.controllers.eventjob import jobs
from workers.controllers.eventjob.decide import FINALIZER
from workers.decision.claims import DELIVERIES, ClaimedItem, ClaimLedger
from workers.decision.snapshot import CachedObject, Reading, Snapshot, TriggerSample

COUNTS = {
    "waiting": 2,
    "delayed": 0,
    "running": 1,
    "retrying": 0,
    "parked": 0,
    "done": 7,
    "filtered": 0,
    "duplicates": 0,
}


def event_job(*, metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    """An EventJob of generation 1, its finalizer already there."""
    return {
        "apiVersion": EVENT_JOB.api_version,
        "kind": EVENT_JOB.kind,
        "metadata": {
            "name": "orders",
            "namespace": "default",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "7",
            "finalizers": [FINALIZER],
            **(metadata or {}),
        },
        "spec": {
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}},
            **spec,
        },
        **({"status": status} if status is not None else {}),
    }


def event_text(id: str, **more: str) -> str:
    return orjson.dumps({"specversion": "1.0", "id": id, "source": "/shop", "type": "order.placed", **more}).decode()


def claim(id: str, **more: Any) -> ClaimedItem:
    text = event_text(id)
    return ClaimedItem(id, **{"size": len(text), "item": text, "encoding": "json", **more})


def job_of(
    held: ClaimedItem, *ended: str, deleted: bool = False, gone: bool = False, bound: bool = True, seen: float = -10.0
) -> CachedObject:
    """The Job of a claim. deleted: it is on its way out. bound: its claim is not settled."""
    name = jobs.name({"name": "orders", "uid": UID}, held)
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "9",
        "annotations": {job_annotations.CLAIM: held.id, job_annotations.CLAIM_ATTEMPT: str(held.attempt)},
        "finalizers": [binding.FINALIZER] if bound else [],
        **({"deletionTimestamp": "2026-03-01T12:00:00Z"} if deleted else {}),
    }
    conditions = [condition(each, reason="BackoffLimitExceeded", message="too many") for each in ended]
    body = {"metadata": metadata, "status": {"conditions": conditions}}
    return CachedObject(Ref(JOB, "default", name), None if gone else body, micros(seen))


def ledger(*claims: ClaimedItem, limit: int | None = 10, counts: Any = COUNTS, order: int = 5) -> ClaimLedger:
    return ClaimLedger(DELIVERIES, limit, claims, order, counts, micros(-60))


def reading_of(
    found: ClaimLedger | None, *, generation: int = 1, uid: str = UID, problem: str | None = None
) -> Reading:
    sample = TriggerSample("events", "events", 2.0, 1.0, True, claimable=True)
    return Reading(36, micros(-1), generation, (sample,), problem, uid, found)


def snapshot(
    body: Object | None,
    found: ClaimLedger | None = None,
    *children: CachedObject,
    reading: Reading | None = None,
    **more: Any,
) -> Snapshot:
    given = reading or (reading_of(found) if found else None)
    return Snapshot(Ref(EVENT_JOB, "default", "orders"), body, {JOB.id: children}, reading=given, at=micros(0), **more)
