"""One JobFlow in a cluster whose watch lags and whose workers die, with time as the test has it.

The API server's side is the truth; decisions see the mirror, which learns of what a plan itself does at once, and of
everything else when the watch brings it.
"""

from collections import Counter
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from tests.unit.controllers.factories import NOW
from workers.api import times
from workers.api.kinds import JOB_FLOW, VC_JOB, Object, Ref, controller_of
from workers.controllers.volcano.flow import phases
from workers.controllers.volcano.flow.decide import decide
from workers.controllers.volcano.flow.sight import relatives
from workers.merge import diff
from workers.plan import ComeBack, Create, Delete, Measure, PatchStatus, Poll, Record, Step, Together
from workers.snapshot import Entry, Reading, Snapshot

#: A plan that was stopped is decided afresh so much later.
BACKOFF = timedelta(seconds=5)
#: Reconciles after which nothing is left to do at a moment.
PATIENCE = 60
ENDED = ("Completed", "Failed", "Terminated")
TASK = {"name": "work", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}


class Stopped(Exception):  # noqa: N818 - what happened, not what broke
    """A plan went no further: its worker died, or the API server refused a step."""


def template(name: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"tasks": [TASK], **spec}}


class Cluster:
    """The API server with one flow called ``f``, its templates and Jobs, the mirror, and this key's place in the queue.

    made: the names of Jobs in the order in which they were made. told: Events by reason. refused: names of Jobs that
    the API server does not take; failures: how many plans in a row ended with that.
    """

    def __init__(self, *flows: Object, ttl: int | None = None, **spec: Any) -> None:
        self.now = NOW
        self._numbers = count(10)
        metadata = {"name": "f", "namespace": "default", "uid": "uid-f", "generation": 1}
        self.body: Object = self._newer(
            {
                "apiVersion": JOB_FLOW.api_version,
                "kind": "JobFlow",
                "metadata": {**metadata, "creationTimestamp": times.render(self.now)},
                "spec": {"flows": list(flows), **spec},
            }
        )
        self.ttl = ttl
        finite = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
        names = {entry.get("template") or entry["name"] for entry in flows}
        self.templates = {name: template(name, **finite) for name in names}
        self.jobs: dict[str, Object] = {}
        self.commands: dict[str, Object] = {}
        self.flows: dict[str, Object] = {}
        self.deleted = False
        self.shown = self.body
        self.mirror: dict[str, Entry] = {}
        self.unseen: set[str] = set()
        self.lagging = False
        self.marked = True
        self.back: datetime | None = None
        self.reading: Reading | None = None
        self.polls = 0
        self.made: list[str] = []
        self.refused: set[str] = set()
        self.failures = 0
        self.told: Counter[str] = Counter()

    @property
    def status(self) -> Object:
        return self.body.get("status") or {}

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
        """Jobs that are over and whose being made is written down: nobody can tell of others that they ever were."""
        known = {entry.get("job") for entry in (self.status.get("entries") or {}).values()}
        return sorted((set(self.jobs) & known) - set(self.unfinished()))

    def entry(self, name: str) -> Object:
        return dict((self.status.get("entries") or {}).get(name) or {})

    # What others do

    def edit(self, **spec: object) -> None:
        """The author changes the spec; None takes a field out."""
        new = {key: value for key, value in {**self.body["spec"], **spec}.items() if value is not None}
        self.body = self._newer({**self.body, "spec": new})
        self._watch()

    def annotate(self, **annotations: str) -> None:
        metadata = {**self.body["metadata"], "annotations": annotations}
        self.body = self._newer({**self.body, "metadata": metadata})
        self._watch()

    def end(self, name: str, phase: str, **status: Any) -> None:
        """A Job gets to a phase."""
        state = {"phase": phase, "lastTransitionTime": times.render(self.now)}
        self.jobs[name] = self._newer({**self.jobs[name], "status": {"state": state, **status}})
        self._watch(name)

    def remove(self, name: str) -> None:
        """A Job is deleted."""
        del self.jobs[name]
        self._watch(name)

    def _watch(self, *names: str) -> None:
        self.unseen.update(names)
        if not self.lagging:
            self.catch_up()

    def catch_up(self) -> None:
        """The watch brings all there is."""
        self.lagging = False
        self.marked = True
        self.shown = self.body
        for name in list(self.unseen):
            self._see(name)

    def _see(self, name: str) -> None:
        self.unseen.discard(name)
        self.mirror[name] = Entry(Ref(VC_JOB, "default", name), self.jobs.get(name), int(self.now.timestamp() * 1e6))

    def obey(self) -> None:
        """Commands are consumed by whoever runs Jobs."""
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
            self.back = self.now + BACKOFF
        self.failures = self.failures + 1 if plan.refused else 0

    def settle(self) -> None:
        """Until nothing is left to do at this moment."""
        for _ in range(PATIENCE):
            if not self.marked and (self.back is None or self.back > self.now):
                return
            self.reconcile()
        raise AssertionError("it never comes to rest")

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def snapshot(self) -> Snapshot:
        ours = tuple(entry for entry in self.mirror.values() if entry.gone or self._owned(entry.body))
        flows = tuple(Entry(Ref(JOB_FLOW, "default", name), body, 0) for name, body in self.flows.items())
        return Snapshot(
            Ref(JOB_FLOW, "default", "f"),
            self.shown,
            {VC_JOB.id: ours, JOB_FLOW.id: flows},
            relatives={ref: self.templates.get(ref.name) for ref in relatives(self.shown)},
            reading=self.reading,
            failures=self.failures,
            last_error="422" if self.failures else None,
            at=int(self.now.timestamp() * 1e6),
        )

    def _owned(self, body: Object | None) -> bool:
        return body is not None and (controller_of(body) or {}).get("uid") == "uid-f"

    def _newer(self, body: Object) -> Object:
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._numbers))}}


class _Plan:
    """A plan that is being carried out, as `workers.act` does it."""

    def __init__(self, cluster: Cluster, dies_after: int | None) -> None:
        self.cluster = cluster
        self.left = dies_after
        self.refused = False
        self.version = cluster.shown["metadata"]["resourceVersion"]

    def carry_out(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Together(steps=parts):
                    for part in parts:
                        self._do(part)
                    if self.refused:
                        raise Stopped
                case ComeBack(at=at):
                    self.cluster.back = min(self.cluster.back, at) if self.cluster.back else at
                case Record(reason=reason):
                    self.cluster.told[reason] += 1
                case Measure(metric=metric):
                    self.cluster.told[metric] += 1
                case Poll():
                    self.cluster.polls += 1
                case _:
                    self._do(step)

    def _do(self, step: Step) -> None:
        """One write."""
        cluster = self.cluster
        if self.left == 0:
            raise Stopped
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
                    cluster._see(ref.name)
            case PatchStatus(status=status):
                if diff(cluster.shown.get("status") or {}, status):
                    self._change({**cluster.body, "status": status})
            case _:
                raise AssertionError(step)
        self.left = None if self.left is None else self.left - 1

    def _create(self, name: str, body: Object, taken: Record | None) -> None:
        cluster = self.cluster
        if name in cluster.refused:
            self.refused = True
            return
        if name not in cluster.jobs:
            moment = times.render(cluster.now)
            metadata = {**body["metadata"], "uid": f"uid-{next(cluster._numbers)}", "creationTimestamp": moment}
            cluster.jobs[name] = cluster._newer({**body, "metadata": metadata})
            cluster.made.append(name)
        elif not cluster._owned(cluster.jobs[name]):
            assert taken
            cluster.told[taken.reason] += 1
            return
        cluster._see(name)

    def _change(self, body: Object) -> None:
        """Write the object, if it is still the one that is known."""
        cluster = self.cluster
        if cluster.body["metadata"]["resourceVersion"] != self.version:
            raise Stopped
        cluster.body = cluster._newer(body)
        self.version = cluster.body["metadata"]["resourceVersion"]
        cluster.shown = cluster.body
