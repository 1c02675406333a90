"""A simulated cluster with one CronJob or ScheduledJob, a lagging watch and dying workers."""

from collections import Counter
from datetime import datetime, timedelta

from tests.unit.controllers.lagging_cluster import Carrying, LaggingCluster, Stopped
from tests.unit.controllers.plans import with_references
from workers.api import times
from workers.api.kinds import JOB, VC_CRON_JOB, VC_JOB, Kind, Object, Ref, controller_of
from workers.api.merge_patch import diff
from workers.controllers.batch.cronjob import decide, ending
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Patch,
    PatchStatus,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot

#: The slot annotation of a Job, by its kind.
SLOT = {
    JOB: "batch.kubernetes.io/cronjob-scheduled-timestamp",
    VC_JOB: "volcano.sh/cronjob-scheduled-timestamp",
}
#: Age at which tombstones are dropped.
TOMBSTONE = timedelta(minutes=10)
PODS = {"template": {"spec": {"containers": [{"name": "main", "image": "report"}]}}}
TEMPLATE = {JOB: {"spec": PODS}, VC_JOB: {"spec": {"tasks": [{"name": "work", "replicas": 1, **PODS}]}}}


class Cluster(LaggingCluster):
    """A cluster with one object called ``report`` and its Jobs.

    made: number of created Jobs by slot. created: instant and slot of every created Job.
    """

    BACKOFF = timedelta(seconds=30)

    def __init__(self, kind: Kind, now: datetime, **spec: object) -> None:
        child = VC_JOB if kind == VC_CRON_JOB else JOB
        whole = {"concurrencyPolicy": "Allow", "jobTemplate": TEMPLATE[child], **spec}
        super().__init__(Ref(kind, "default", "report"), child, now, whole)
        self.reconciles = 0
        self.created: list[tuple[datetime, datetime]] = []

    @property
    def made(self) -> Counter[datetime]:
        return Counter(slot for _, slot in self.created)

    def unfinished(self) -> list[str]:
        return [name for name, job in self.jobs.items() if not ending.finished(job)]

    def older(self, age: timedelta) -> list[str]:
        """Returns the unfinished Jobs that are older than this."""
        oldest = times.render(self.now - age)
        return [name for name in self.unfinished() if self.jobs[name]["metadata"]["creationTimestamp"] < oldest]

    def known(self) -> list[str]:
        """Returns the Jobs that the store shows."""
        return [name for name in self.jobs if name not in self.unseen]

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

    def reconcile(self, *, dies_after: int | None = None, landed: bool = True, backwards: bool = False) -> None:
        """Decides once and carries the plan out.

        dies_after: writes before the worker dies. landed: the store shows the last of them. backwards: of steps that
        are carried out side by side, the last are the fastest.
        """
        self.marked, self.back = False, None
        self.reconciles += 1
        try:
            _Plan(self, dies_after, landed, backwards).carry_out(decide(self._snapshot(), self.now).steps)
        except Stopped:
            self.back = self.now + self.BACKOFF

    def _snapshot(self) -> Snapshot:
        oldest = (self.now - TOMBSTONE).timestamp() * 1e6
        self.mirror = {name: each for name, each in self.mirror.items() if not each.gone or each.seen > oldest}
        children = {self.child.id: tuple(self.mirror.values())}
        return Snapshot(self.ref, self.shown, children, at=int(self.now.timestamp() * 1e6))


class _Plan(Carrying):
    """backwards: of steps that are carried out side by side, the last are the fastest."""

    def __init__(self, cluster: Cluster, left: int | None, landed: bool, backwards: bool) -> None:
        super().__init__(cluster, left, landed=landed)
        self.cluster = cluster
        self.backwards = backwards

    def carry_out(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Together(steps=parts, then=then):
                    for part in reversed(parts) if self.backwards else parts:
                        self.write(part)
                    self._record(then)
                case ComeBack(at=at):
                    self.come_back(at)
                case CountMetric():
                    pass
                case RecordEvent():
                    self._record(step)
                case _:
                    self.write(step)

    def _record(self, record: RecordEvent | None) -> None:
        if record:
            self.cluster.told[record.reason] += 1

    def do(self, step: Step) -> None:
        match step:
            case Create(body=body):
                self._create(body)
            case Delete(ref=ref, uid=uid):
                if ref.name in self.cluster.jobs and self.cluster.jobs[ref.name]["metadata"]["uid"] == uid:
                    del self.cluster.jobs[ref.name]
                self.land(ref.name)
            case PatchStatus(status=status, made=made):
                status = with_references(status, [self.cluster.jobs.get(ref.name) for ref in made])
                if diff(self.cluster.shown.get("status") or {}, status):
                    self.change({**self.cluster.body, "status": status})
            case Patch(ref=ref, body=patch):
                assert ref.kind is self.cluster.ref.kind
                metadata = self.cluster.body["metadata"]
                annotations = {**metadata.get("annotations", {}), **patch["metadata"]["annotations"]}
                kept = {key: value for key, value in annotations.items() if value is not None}
                self.change({**self.cluster.body, "metadata": {**metadata, "annotations": kept}})
            case _:
                raise AssertionError(step)

    def _create(self, body: Object) -> None:
        cluster, name = self.cluster, body["metadata"]["name"]
        if name in cluster.jobs:
            assert controller_of(cluster.jobs[name]) == controller_of(body)
        else:
            slot = times.parse(body["metadata"]["annotations"][SLOT[cluster.child]])
            cluster.created.append((cluster.now, slot))
            job = cluster._born(body)
            cluster.jobs[name] = {**job, "status": {"startTime": job["metadata"]["creationTimestamp"]}}
        self.land(name)
