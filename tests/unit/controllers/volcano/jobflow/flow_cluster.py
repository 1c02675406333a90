"""One JobFlow in a cluster whose watch lags and whose workers die, with time as the test has it."""

from datetime import timedelta
from typing import Any

from tests.unit.controllers.factories import NOW
from tests.unit.controllers.lagging_cluster import Carrying, LaggingCluster, Stopped
from workers.api import times
from workers.api.kinds import JOB_FLOW, VC_JOB, Object, Ref, controller_of
from workers.api.merge_patch import diff
from workers.controllers.volcano.jobflow import phases
from workers.controllers.volcano.jobflow.decide import decide
from workers.controllers.volcano.jobflow.observed import relatives, templates_ahead
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    PatchStatus,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import CachedObject, Reading, Snapshot

ENDED = ("Completed", "Failed", "Terminated")
TASK = {"name": "work", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}


def template(name: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"tasks": [TASK], **spec}}


class Cluster(LaggingCluster):
    """A cluster with one flow called ``f``, its templates and Jobs.

    made: the names of Jobs in the order in which they were made. refused: names of Jobs that the API server does not
    take; failures: how many plans in a row ended with that.
    """

    BACKOFF = timedelta(seconds=5)

    def __init__(self, *flows: Object, ttl: int | None = None, **spec: Any) -> None:
        super().__init__(Ref(JOB_FLOW, "default", "f"), VC_JOB, NOW, {"flows": list(flows), **spec})
        self.ttl = ttl
        finite = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
        names = {entry.get("template") or entry["name"] for entry in flows}
        self.templates = {name: template(name, **finite) for name in names}
        self.commands: dict[str, Object] = {}
        self.flows: dict[str, Object] = {}
        self.deleted = False
        self.reading: Reading | None = None
        self.polls = 0
        self.made: list[str] = []
        self.refused: set[str] = set()
        self.failures = 0

    @property
    def phase(self) -> str | None:
        return (self.status.get("state") or {}).get("phase")

    @property
    def ready(self) -> tuple[str, str]:
        (condition,) = self.status["flowConditions"]
        return condition["status"], condition["reason"]

    @property
    def over(self) -> bool:
        return self.phase in phases.FINAL

    def phase_of(self, name: str) -> str | None:
        return ((self.jobs[name].get("status") or {}).get("state") or {}).get("phase")

    def unfinished(self) -> list[str]:
        return [name for name in self.jobs if self.phase_of(name) not in ENDED]

    def cleanable(self) -> list[str]:
        """Returns the ended Jobs that the status lists: a Job deleted before that leaves no trace."""
        known = {entry.get("job") for entry in (self.status.get("entries") or {}).values()}
        return sorted((set(self.jobs) & known) - set(self.unfinished()))

    def entry(self, name: str) -> Object:
        return dict((self.status.get("entries") or {}).get(name) or {})

    # What others do

    def annotate(self, **annotations: str) -> None:
        metadata = {**self.body["metadata"], "annotations": annotations}
        self.body = self._newer({**self.body, "metadata": metadata})
        self._watch()

    def end(self, name: str, phase: str, **status: Any) -> None:
        """A Job gets to a phase."""
        state = {"phase": phase, "lastTransitionTime": times.render(self.now)}
        self.jobs[name] = self._newer({**self.jobs[name], "status": {"state": state, **status}})
        self._watch(name)

    def appear(self, name: str, like: Object) -> None:
        """A Job of this name is there that looks like another one at its beginning."""
        metadata = {**like["metadata"], "name": name}
        self.jobs[name] = self._born({**like, "metadata": metadata, "status": {}})
        self._watch(name)

    def obey(self) -> None:
        """Carries out and deletes the Commands, as the Job controller does."""
        for name, command in list(self.commands.items()):
            del self.commands[name]
            target = command["target"]["name"]
            if target in self.unfinished():
                self.end(target, "Terminated")

    # What the controller does

    def reconcile(self, *, dies_after: int | None = None) -> None:
        """Decide once, and carry it out. dies_after: the worker dies after so many writes."""
        self.marked, self.back = False, None
        plan = _Plan(self, dies_after)
        try:
            plan.carry_out(decide(self.snapshot(), self.now).steps)
        except Stopped:
            self.back = self.now + self.BACKOFF
        self.failures = self.failures + 1 if plan.refused else 0

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def snapshot(self) -> Snapshot:
        ours = tuple(entry for entry in self.mirror.values() if entry.gone or self._owned(entry.body))
        flows = tuple(CachedObject(Ref(JOB_FLOW, "default", name), body, 0) for name, body in self.flows.items())
        return Snapshot(
            self.ref,
            self.shown,
            {VC_JOB.id: ours, JOB_FLOW.id: flows},
            relatives={
                ref: self.templates.get(ref.name) for ref in (*templates_ahead(self.shown), *relatives(self.shown))
            },
            reading=self.reading,
            failures=self.failures,
            last_error="422" if self.failures else None,
            at=int(self.now.timestamp() * 1e6),
        )

    def _owned(self, body: Object | None) -> bool:
        return body is not None and (controller_of(body) or {}).get("uid") == "uid-f"


class _Plan(Carrying):
    def __init__(self, cluster: Cluster, left: int | None) -> None:
        super().__init__(cluster, left)
        self.cluster = cluster
        self.refused = False

    def carry_out(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Together(steps=parts, meanwhile=meanwhile):
                    for part in parts:
                        self.write(part)
                    if self.refused:
                        self.carry_out(meanwhile or ())
                        raise Stopped
                case ComeBack(at=at):
                    self.come_back(at)
                case RecordEvent(reason=reason):
                    self.cluster.told[reason] += 1
                case CountMetric(metric=metric):
                    self.cluster.told[metric] += 1
                case PollNow():
                    self.cluster.polls += 1
                case _:
                    self.write(step)

    def do(self, step: Step) -> None:
        cluster = self.cluster
        match step:
            case Create(kind=kind, body=body, taken=taken):
                name = body["metadata"]["name"]
                if kind == VC_JOB:
                    self._create(name, body, taken)
                elif kind == JOB_FLOW:
                    cluster.flows[name] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{name}"}}
                else:
                    cluster.commands[name] = body
            case Delete(ref=ref, uid=uid):
                if ref.kind == JOB_FLOW and ref.name == "f":
                    cluster.deleted = True
                elif ref.kind == JOB_FLOW:
                    del cluster.flows[ref.name]
                elif ref.name in cluster.jobs and cluster.jobs[ref.name]["metadata"]["uid"] == uid:
                    del cluster.jobs[ref.name]
                    self.land(ref.name)
            case PatchStatus(status=status):
                if diff(cluster.shown.get("status") or {}, status):
                    self.change({**cluster.body, "status": status})
            case _:
                raise AssertionError(step)

    def _create(self, name: str, body: Object, taken: RecordEvent | None) -> None:
        cluster = self.cluster
        if name in cluster.refused:
            self.refused = True
            return
        if name not in cluster.jobs:
            cluster.jobs[name] = cluster._born(body)
            cluster.made.append(name)
        elif not cluster._owned(cluster.jobs[name]):
            assert taken
            cluster.told[taken.reason] += 1
            return
        self.land(name)
