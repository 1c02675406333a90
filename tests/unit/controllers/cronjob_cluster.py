"""One CronJob or ScheduledJob in a cluster whose watch lags and whose workers die, with time as the test has it.

The API server's side is the truth; decisions see the mirror, which learns of what a plan itself does at once, and of
everything else when the watch brings it.
"""

from collections import Counter
from datetime import datetime, timedelta
from itertools import count

from tests.unit.controllers.plans import with_references
from workers.api import times
from workers.api.kinds import JOB, VC_CRON_JOB, VC_JOB, Kind, Object, Ref, controller_of
from workers.controllers.cronjob import decide, ending
from workers.merge import diff
from workers.plan import ComeBack, Create, Delete, Measure, Patch, PatchStatus, Record, Step, Together
from workers.snapshot import Entry, Snapshot

#: The annotation that says for which slot a Job is, by the kind of the Job.
SLOT = {
    JOB: "batch.kubernetes.io/cronjob-scheduled-timestamp",
    VC_JOB: "volcano.sh/cronjob-scheduled-timestamp",
}
#: The mirror remembers a deleted Job for so long.
TOMBSTONE = timedelta(minutes=10)
#: A plan that was stopped is decided afresh so much later.
BACKOFF = timedelta(seconds=30)
#: Reconciles after which nothing is left to do at a moment.
PATIENCE = 40
PODS = {"template": {"spec": {"containers": [{"name": "main", "image": "report"}]}}}
TEMPLATE = {JOB: {"spec": PODS}, VC_JOB: {"spec": {"tasks": [{"name": "work", "replicas": 1, **PODS}]}}}


class Stopped(Exception):  # noqa: N818 - what happened, not what broke
    """A plan went no further: its worker died, or the API server refused a step."""


class Cluster:
    """The API server with one object called ``report`` and its Jobs, the mirror, and this key's place in the queue.

    made: how often a Job was made for each slot. created: when, and for which slot, every Job was made.
    """

    def __init__(self, kind: Kind, now: datetime, **spec: object) -> None:
        self.kind = kind
        self.child = VC_JOB if kind == VC_CRON_JOB else JOB
        self.now = now
        self._numbers = count(10)
        metadata = {"name": "report", "namespace": "default", "uid": "uid-report", "generation": 1}
        self.body: Object = self._newer(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {**metadata, "creationTimestamp": times.render(now)},
                "spec": {"concurrencyPolicy": "Allow", "jobTemplate": TEMPLATE[self.child], **spec},
            }
        )
        self.jobs: dict[str, Object] = {}
        self.shown = self.body
        self.mirror: dict[str, Entry] = {}
        self.unseen: set[str] = set()
        self.lagging = False
        self.marked = True
        self.back: datetime | None = None
        self.reconciles = 0
        self.created: list[tuple[datetime, datetime]] = []
        self.told: Counter[str] = Counter()

    @property
    def status(self) -> Object:
        return self.body.get("status") or {}

    @property
    def made(self) -> Counter[datetime]:
        return Counter(slot for _, slot in self.created)

    def unfinished(self) -> list[str]:
        return [name for name, job in self.jobs.items() if not ending.finished(job)]

    def older(self, age: timedelta) -> list[str]:
        """The Jobs that have been at work for longer than this."""
        oldest = times.render(self.now - age)
        return [name for name in self.unfinished() if self.jobs[name]["metadata"]["creationTimestamp"] < oldest]

    def known(self) -> list[str]:
        """The Jobs that the mirror knows, too."""
        return [name for name in self.jobs if name not in self.unseen]

    # What others do

    def edit(self, **spec: object) -> None:
        """The author changes the spec; None takes a field out."""
        new = {key: value for key, value in {**self.body["spec"], **spec}.items() if value is not None}
        metadata = {**self.body["metadata"], "generation": self.body["metadata"]["generation"] + 1}
        self.body = self._newer({**self.body, "metadata": metadata, "spec": new})
        self._watch()

    def end(self, name: str, how: str) -> None:
        """A Job ends."""
        moment = times.render(self.now)
        status = {**self.jobs[name]["status"]}
        if self.child == VC_JOB:
            status["state"] = {"phase": "Completed" if how == "Complete" else how, "lastTransitionTime": moment}
        else:
            status["conditions"] = [{"type": how, "status": "True", "lastTransitionTime": moment}]
            if how == "Complete":
                status["completionTime"] = moment
        self.jobs[name] = self._newer({**self.jobs[name], "status": status})
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
        self.mirror[name] = Entry(
            Ref(self.child, "default", name), self.jobs.get(name), int(self.now.timestamp() * 1e6)
        )

    # What the controller does

    def reconcile(self, *, dies_after: int | None = None, landed: bool = True, backwards: bool = False) -> None:
        """Decide once, and carry it out.

        dies_after: the worker dies after so many writes. landed: the mirror has learned of the last of them.
        backwards: of steps that are carried out side by side, the last are the fastest.
        """
        self.marked, self.back = False, None
        self.reconciles += 1
        try:
            _Plan(self, dies_after, landed, backwards).carry_out(decide(self._snapshot(), self.now).steps)
        except Stopped:
            self.back = self.now + BACKOFF

    def settle(self) -> None:
        """Until nothing is left to do at this moment."""
        for _ in range(PATIENCE):
            if not self.marked and (self.back is None or self.back > self.now):
                return
            self.reconcile()
        raise AssertionError("it never comes to rest")

    def _snapshot(self) -> Snapshot:
        oldest = (self.now - TOMBSTONE).timestamp() * 1e6
        self.mirror = {name: each for name, each in self.mirror.items() if not each.gone or each.seen > oldest}
        children = {self.child.id: tuple(self.mirror.values())}
        return Snapshot(Ref(self.kind, "default", "report"), self.shown, children, at=int(self.now.timestamp() * 1e6))

    def _newer(self, body: Object) -> Object:
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._numbers))}}


class _Plan:
    """A plan that is being carried out, as `workers.act` does it."""

    def __init__(self, cluster: Cluster, dies_after: int | None, landed: bool, backwards: bool) -> None:
        self.cluster = cluster
        self.left = dies_after
        self.landed = landed
        self.backwards = backwards
        self.version = cluster.shown["metadata"]["resourceVersion"]

    def carry_out(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Together(steps=parts, then=then):
                    for part in reversed(parts) if self.backwards else parts:
                        self._do(part)
                    self._record(then)
                case ComeBack(at=at):
                    self.cluster.back = min(self.cluster.back, at) if self.cluster.back else at
                case Measure():
                    pass
                case Record():
                    self._record(step)
                case _:
                    self._do(step)

    def _record(self, record: Record | None) -> None:
        if record:
            self.cluster.told[record.reason] += 1

    def _do(self, step: Step) -> None:
        """One write."""
        if self.left == 0:
            raise Stopped
        match step:
            case Create(body=body):
                self._create(body)
            case Delete(ref=ref, uid=uid):
                if ref.name in self.cluster.jobs and self.cluster.jobs[ref.name]["metadata"]["uid"] == uid:
                    del self.cluster.jobs[ref.name]
                self._land(ref.name)
            case PatchStatus(status=status, made=made):
                status = with_references(status, [self.cluster.jobs.get(ref.name) for ref in made])
                if diff(self.cluster.shown.get("status") or {}, status):
                    self._change({**self.cluster.body, "status": status})
            case Patch(ref=ref, body=patch):
                assert ref.kind is self.cluster.kind
                metadata = self.cluster.body["metadata"]
                annotations = {**metadata.get("annotations", {}), **patch["metadata"]["annotations"]}
                kept = {key: value for key, value in annotations.items() if value is not None}
                self._change({**self.cluster.body, "metadata": {**metadata, "annotations": kept}})
            case _:
                raise AssertionError(step)
        self.left = None if self.left is None else self.left - 1

    def _create(self, body: Object) -> None:
        cluster, name = self.cluster, body["metadata"]["name"]
        if name in cluster.jobs:
            assert controller_of(cluster.jobs[name]) == controller_of(body)
        else:
            slot = times.parse(body["metadata"]["annotations"][SLOT[cluster.child]])
            cluster.created.append((cluster.now, slot))
            moment = times.render(cluster.now)
            metadata = {**body["metadata"], "uid": f"uid-{next(cluster._numbers)}", "creationTimestamp": moment}
            job = {**body, "metadata": metadata, "status": {"startTime": moment}}
            cluster.jobs[name] = cluster._newer(job)
        self._land(name)

    def _change(self, body: Object) -> None:
        """Write the object, if it is still the one that is known."""
        cluster = self.cluster
        if cluster.body["metadata"]["resourceVersion"] != self.version:
            raise Stopped
        cluster.body = cluster._newer(body)
        self.version = cluster.body["metadata"]["resourceVersion"]
        if self._lands():
            cluster.shown = cluster.body

    def _land(self, name: str) -> None:
        if self._lands():
            self.cluster._see(name)
        else:
            self.cluster.unseen.add(name)

    def _lands(self) -> bool:
        return self.landed or self.left != 1
