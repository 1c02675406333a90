"""Removing a finished Job after ttlSecondsAfterFinished."""

from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.reconcile.plan import NOTHING, ComeBack, CountMetric, Delete, Plan
from workers.reconcile.snapshot import Snapshot


def decide(snapshot: Snapshot, job: Object, spec: BatchJobSpec, how: str, now: datetime) -> Plan:
    """Delete a Job whose time is up, or come back when it is. how: the condition that says it finished."""
    ended = (conditions.find(job, how) or {}).get("lastTransitionTime")
    if spec.ttl is None or not ended or job["metadata"].get("deletionTimestamp"):
        return NOTHING
    expiry = times.parse(ended) + timedelta(seconds=spec.ttl)
    if now < expiry:
        return Plan((ComeBack(expiry),), "finished, kept until its time is up")
    late = CountMetric("job_deletion_delay", (now - expiry).total_seconds())
    return Plan((Delete(snapshot.ref, job["metadata"]["uid"], "Foreground"), late), "its time after finishing is up")
