"""CronJobs and ScheduledJobs for decisions, and a simulated cluster that carries their plans out."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.merging import merged
from tests.unit.controllers.plans import with_references
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, VC_CRON_JOB, VC_JOB, Kind, Object, Ref, by_manifest
from workers.api.merge_patch import diff
from workers.controllers.batch.cronjob import decide
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Together,
)
from workers.decision.snapshot import CachedObject, Snapshot

#: A CronJob's annotation with the schedule of the last decision.
OBSERVED = "penstock.dev/observed-schedule"
#: A Sunday, 12:00 UTC.
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "8d3f5f2e-0000-4000-8000-000000000001"
TEMPLATE = {
    "metadata": {"labels": {"app": "report"}, "annotations": {"team": "blue"}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "report"}]}}},
}


def clock(text: str, day: int = 1) -> datetime:
    """This time of a day in March 2026, UTC: ``12:00`` or ``12:00:05``."""
    return datetime.fromisoformat(f"2026-03-{day:02}T{text}").replace(tzinfo=UTC)


def cron_job(schedule: str = "* * * * *", *, kind: Kind = CRON_JOB, created: datetime = NOON, **spec: Any) -> Object:
    """A CronJob called ``report`` as the API server stores it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": "report",
            "namespace": "default",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": times.render(created),
        },
        "spec": {"schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": TEMPLATE, **spec},
    }


def volcano_cron_job(schedule: str = "* * * * *", **spec: Any) -> Object:
    """A CronJob of Volcano called ``report``."""
    template = {**TEMPLATE, "spec": {"tasks": [{"name": "work", "replicas": 1, **TEMPLATE["spec"]}]}}
    return cron_job(schedule, kind=VC_CRON_JOB, **{"jobTemplate": template, **spec})


def scheduled_job(schedule: str = "* * * * *", *, created: datetime = NOON, **spec: Any) -> Object:
    """A ScheduledJob called ``report``."""
    return cron_job(schedule, kind=SCHEDULED_JOB, created=created, **spec)


class CronCluster:
    """The API server with one object and its Jobs, and a store that is never behind."""

    def __init__(self, body: Object) -> None:
        self.body = body
        kind = by_manifest(body["apiVersion"], body["kind"])
        assert kind
        self.kind = kind
        self.child = VC_JOB if kind == VC_CRON_JOB else JOB
        self.jobs: dict[str, Object] = {}
        self.gone: set[str] = set()
        self.foreign: set[str] = set()
        self.refusing: set[type] = set()
        self.made: list[str] = []
        self.events: list[RecordEvent] = []
        self.failures = 0
        self.back: datetime | None = None
        self.again = False
        self.versions = 1

    # The controller

    def snapshot(self) -> Snapshot:
        entries = [CachedObject(Ref(self.child, "default", name), body, 0) for name, body in self.jobs.items()]
        entries += [CachedObject(Ref(self.child, "default", name), None, 0) for name in self.gone - self.jobs.keys()]
        ref = Ref(self.kind, "default", self.body["metadata"]["name"])
        return Snapshot(ref, self.body, {self.child.id: tuple(entries)}, failures=self.failures)

    def decide(self, now: datetime) -> Plan:
        return decide(self.snapshot(), now)

    def step(self, now: datetime, *, steps: int | None = None) -> Plan:
        """Reconciles once. steps: steps of the plan before its process dies."""
        plan = self.decide(now)
        self.carry_out(plan, now, steps=steps)
        return plan

    def carry_out(self, plan: Plan, now: datetime, *, steps: int | None = None) -> None:
        """Carries a plan out, or this number of its steps."""
        self.back, self.again = None, False
        for number, step in enumerate(plan.steps):
            if (steps is not None and number >= steps) or not self._carry_out(step, now):
                break
        if self.again:
            self.back = now

    def settle(self, now: datetime) -> list[RecordEvent]:
        """Reconciles until nothing is left to do now; returns the Events recorded on the way."""
        before = len(self.events)
        for _ in range(60):
            self.step(now)
            if self.back is None or self.back > now:
                return self.events[before:]
        raise AssertionError("the decisions never settle")

    def run(self, until: datetime) -> None:
        """Reconciles at every instant the plans come back at."""
        for _ in range(2000):
            if self.back is None or self.back > until:
                return
            self.settle(self.back)
        raise AssertionError("the decisions never settle")

    def _carry_out(self, step: object, now: datetime) -> bool:
        """Carries one step out; returns False if the API server refused it and the plan ends."""
        match step:
            case Together(steps=steps, then=then, otherwise=otherwise, vital=vital):
                done = 0
                for each in steps:
                    if type(each) in self.refusing:
                        if otherwise:
                            self.events.append(otherwise)
                        return not vital
                    done += self._carry_out(each, now)
                if then and done:
                    self.events.append(RecordEvent(then.type, then.reason, then.message.replace("{done}", str(done))))
            case Create(kind=kind, body=body, taken=taken):
                assert kind == self.child == by_manifest(body["apiVersion"], body["kind"])
                return self._create(body, taken, now)
            case Delete(ref=ref):
                assert ref.kind == self.child
                self.remove(ref.name)
            case Patch(ref=ref, body=patch) if ref.kind == self.child:
                self.jobs[ref.name] = self._newer(merged(self.jobs[ref.name], patch))
            case Patch(body=patch):
                self.body = self._newer(merged(self.body, patch))
            case PatchStatus(status=status, made=made):
                status = with_references(status, [self.jobs.get(ref.name) for ref in made])
                assert merged(self.status, diff(self.status, status)) == status
                self.body = self._newer({**self.body, "status": status})
            case RecordEvent():
                self.events.append(step)
            case ComeBack(at=at):
                self.back = at
            case CountMetric():
                pass
            case _:
                raise AssertionError(step)
        return True

    def _create(self, body: Object, taken: RecordEvent | None, now: datetime) -> bool:
        name = body["metadata"]["name"]
        if name in self.foreign:
            assert taken is not None
            self.events.append(taken)
            self.again = True
            return False
        if name not in self.jobs:
            self.made.append(name)
            self.put(body, now)
        return True

    def _newer(self, body: Object) -> Object:
        self.versions += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.versions)}}

    # The cluster and its clients

    def put(self, body: Object, now: datetime) -> None:
        """A Job comes to be."""
        name = body["metadata"]["name"]
        metadata = {**body["metadata"], "uid": f"uid-{name}", "creationTimestamp": times.render(now)}
        self.jobs[name] = self._newer({**body, "metadata": metadata})
        self.jobs[name]["status"] = {} if self.child == VC_JOB else {"startTime": times.render(now)}

    def end(self, name: str, how: str = "Complete", at: datetime = NOON, **condition: str) -> None:
        """A Job ends; Volcano's by its phase."""
        if self.child == VC_JOB:
            state = {"phase": how, "lastTransitionTime": times.render(at), **condition}
            self.jobs[name] = self._newer({**self.jobs[name], "status": {"state": state}})
            return
        ended = {"type": how, "status": "True", "lastTransitionTime": times.render(at), **condition}
        status = {**self.jobs[name]["status"], "conditions": [ended]}
        if how == "Complete":
            status["completionTime"] = times.render(at)
        self.jobs[name] = self._newer({**self.jobs[name], "status": status})

    def remove(self, name: str) -> None:
        """A Job is deleted."""
        del self.jobs[name]
        self.gone.add(name)

    def edit(self, **spec: Any) -> None:
        """The author changes the spec; None takes a field out."""
        new = {key: each for key, each in {**self.body["spec"], **spec}.items() if each is not None}
        generation = self.body["metadata"]["generation"] + 1
        self.body = {**self.body, "spec": new, "metadata": {**self.body["metadata"], "generation": generation}}

    def annotate(self, **annotations: str | None) -> None:
        """A client sets annotations."""
        self.body = merged(self.body, {"metadata": {"annotations": annotations}})

    def ask(self, id: str, value: str = "") -> None:
        """A client requests a run."""
        self.annotate(**{f"penstock.dev/run.{id}": value})

    def leave(self) -> None:
        """The object is being deleted."""
        self.body = merged(self.body, {"metadata": {"deletionTimestamp": times.render(NOON)}})

    # Results

    @property
    def status(self) -> Object:
        return self.body.get("status", {})

    @property
    def annotations(self) -> Object:
        """The annotations but the one that records the schedule."""
        annotations = self.body["metadata"].get("annotations", {})
        return {key: value for key, value in annotations.items() if key != OBSERVED}

    def active(self) -> list[str]:
        return [each["name"] for each in self.status.get("active", ())]

    def ready(self) -> tuple[str, str]:
        (condition,) = self.status["conditions"]
        assert condition["type"] == "Ready"
        return condition["status"], condition["reason"]


def reasons(events: list[RecordEvent]) -> list[str]:
    return [each.reason for each in events]


def minute(text: str, day: int = 1) -> str:
    """The name of the CronJob's Job for this time."""
    return f"report-{int(clock(text, day).timestamp()) // 60}"


def second(text: str, day: int = 1) -> str:
    """The name of the ScheduledJob's Job for this time."""
    return f"report-{int(clock(text, day).timestamp())}"


def after(seconds: float, moment: datetime = NOON) -> datetime:
    return moment + timedelta(seconds=seconds)


def cron_job_cluster(
    schedule: str = "* * * * *",
    *,
    status: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> CronCluster:
    """A cluster with a CronJob in it."""
    body = cron_job(schedule, **spec)
    if status is not None:
        body["status"] = status
    if annotations:
        body["metadata"]["annotations"] = annotations
    return CronCluster(body)


def running_cron_job(**spec: Any) -> CronCluster:
    """A cluster in which the CronJob's run of 12:01 is at work."""
    cluster = cron_job_cluster(**spec)
    cluster.settle(clock("12:01"))
    assert cluster.active() == [minute("12:01")]
    return cluster


def scheduled_job_cluster(schedule: str = "* * * * *", **spec: Any) -> CronCluster:
    """A cluster with a ScheduledJob in it."""
    return CronCluster(scheduled_job(schedule, **spec))


def running_scheduled_job(schedule: str = "* * * * *", **spec: Any) -> CronCluster:
    """A cluster in which the ScheduledJob's run of 12:01 is at work."""
    cluster = scheduled_job_cluster(schedule, **spec)
    cluster.settle(clock("12:01"))
    assert cluster.active() == [second("12:01")]
    return cluster


def outcomes(cluster: CronCluster) -> list[tuple[str, str]]:
    """Returns the outcomes of a ScheduledJob's runs."""
    return [(each["job"], each["outcome"]) for each in cluster.status.get("outcomes", ())]
