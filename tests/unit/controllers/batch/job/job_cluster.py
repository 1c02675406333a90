"""A simulated cluster with one Job: its API server carries plans out, and its kubelet runs the pods by a script."""

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from deploy.local.apiserver.patch.patches import merge_patch
from tests.unit.controllers.batch.job import status_rules
from tests.unit.controllers.factories import NOW, UID, job
from workers.api import conditions, times
from workers.api.kinds import JOB, POD, Object, Ref
from workers.controllers.batch.job import decide
from workers.controllers.batch.job.indexes import index_of
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    MarkObject,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Step,
    Together,
    Unfinalize,
)
from workers.decision.snapshot import CachedObject, Snapshot

FINALIZER = "batch.kubernetes.io/job-tracking"

#: A pod's exit code by its index (None: it has none) and how many pods of that index there were before; None: it runs.
Script = Callable[[int | None, int], int | None]


class StepFailedError(Exception):
    """The plan stops: the API server refused a step, or the process died between two of them."""


class JobCluster:
    """The API server with one Job and its pods, a store that is never behind, and the kubelet.

    steps: effects of the next plan before its process dies; None for all. released: the phase of every pod when its
    tracking finalizer was taken off, by UID. second: since the beginning.
    """

    def __init__(self, script: Script, **spec: object) -> None:
        labels = {"batch.kubernetes.io/controller-uid": UID, "batch.kubernetes.io/job-name": "crunch"}
        pod = {"containers": [{"name": "main", "image": "worker"}], "restartPolicy": "Never"}
        template = {"metadata": {"labels": labels}, "spec": pod}
        selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
        self.job = job(template=template, selector=selector, **spec)
        self.script = script
        self.pods: dict[str, Object] = {}
        self.attempts: dict[str, int] = {}
        self.released: dict[str, str] = {}
        self.events: list[tuple[str, str]] = []
        self.history: list[Object] = []
        self.steps: int | None = None
        self.second = 0.0
        self.back: datetime | None = None
        self._begun: Counter[int | None] = Counter()
        self._versions = itertools.count(100)

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.second)

    @property
    def status(self) -> Object:
        return self.job.get("status", {})

    @property
    def over(self) -> str | None:
        return conditions.finished(self.job)

    @property
    def ending(self) -> tuple[str | None, str | None]:
        """The finished condition and its reason."""
        return self.over, (conditions.find(self.job, self.over) or {}).get("reason") if self.over else None

    def of_index(self, index: int) -> list[Object]:
        """The pods of an index that are there, the first begun first."""
        return sorted(
            (pod for pod in self.pods.values() if index_of(pod) == index),
            key=lambda pod: self.attempts[pod["metadata"]["uid"]],
        )

    def held(self) -> list[str]:
        """Pods that still have the finalizer."""
        return [name for name, pod in self.pods.items() if FINALIZER in pod["metadata"].get("finalizers", ())]

    # The controller

    def plan(self) -> Plan:
        entries = tuple(CachedObject(Ref(POD, "default", name), pod, 0) for name, pod in self.pods.items())
        return decide(Snapshot(Ref(JOB, "default", "crunch"), self.job, children={POD.id: entries}), self.now)

    def sync(self) -> bool:
        """One decision, carried out; whether it changed anything."""
        before = (self.job, dict(self.pods))
        self.back, self.cut_short = None, False
        try:
            for step in self.plan().steps:
                self._do(step)
        except StepFailedError:
            self.cut_short = True
            self.back = self.now + timedelta(seconds=1)
        self.steps = None
        return before != (self.job, self.pods)

    def settle(self, rounds: int = 300) -> None:
        """Decisions and pods take turns, time goes on when nothing else does, until nothing more will happen."""
        for _ in range(rounds):
            if self.sync() | self.play():
                self.second += 1
            elif self.back is not None and not self.over:
                self.second = max(self.second + 1, (self.back - NOW).total_seconds())
            else:
                return
        raise AssertionError(f"does not come to rest: {self.status}, {self.plan().why}")

    # The kubelet

    def play(self) -> bool:
        """Pods start, end as the script says, and go once they were deleted; whether anything happened."""
        before = dict(self.pods)
        for name, pod in list(self.pods.items()):
            leaving, phase = pod["metadata"].get("deletionTimestamp"), pod["status"]["phase"]
            if phase in ("Succeeded", "Failed"):
                continue
            code = 137 if leaving else self.script(index_of(pod), self.attempts[pod["metadata"]["uid"]])
            if code is None:
                self._put(name, {**pod, "status": self._running()})
                continue
            self._put(name, {**pod, "status": self._finished(code)})
        for name in list(self.pods):
            self._collect(name)
        return before != self.pods

    def delete(self, name: str) -> None:
        """As a client deletes a pod: it stays until its kubelet and its finalizers let it go."""
        pod = self.pods[name]
        leaving = {"deletionTimestamp": times.render(self.now), "deletionGracePeriodSeconds": 0}
        self._put(name, {**pod, "metadata": {**pod["metadata"], **leaving}})
        self._collect(name)

    def _running(self) -> Object:
        return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def _finished(self, code: int) -> Object:
        terminated = {"exitCode": code, "finishedAt": times.render(self.now)}
        containers = [{"name": "main", "state": {"terminated": terminated}}]
        return {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}

    # The API server

    def _do(self, step: Step) -> None:
        match step:
            case Together(steps=steps):
                for each in steps:
                    self._do(each)
                if step.then:
                    self._do(step.then)
            case RecordEvent(reason=reason, message=message):
                self.events.append((reason, message))
            case ComeBack(at=at):
                self.back = min(filter(None, (self.back, at)))
            case MarkObject() | CountMetric():
                pass
            case _:
                self._write(step)

    def _write(self, step: Step) -> None:
        if self.steps is not None:
            if self.steps == 0:
                raise StepFailedError("killed")
            self.steps -= 1
        match step:
            case PatchStatus(status=status):
                if status != self.status:
                    self._write_status(status)
            case Create(body=body):
                self._create(body)
            case Delete(ref=ref, uid=uid, resource_version=version):
                if self._same(ref, uid):
                    self._fence(ref, version)
                    self.delete(ref.name)
            case Unfinalize(ref=ref, uid=uid, finalizer=finalizer):
                if self._same(ref, uid):
                    pod = self.pods[ref.name]
                    left = [each for each in pod["metadata"].get("finalizers", ()) if each != finalizer]
                    if FINALIZER in pod["metadata"].get("finalizers", ()):
                        self._release(pod)
                    self._patch(ref.name, {"metadata": {"finalizers": left}})
            case Patch(ref=ref, body=body, resource_version=version):
                self._fence(ref, version)
                self._patch(ref.name, body)
            case _:
                raise AssertionError(f"no step of a Job: {step}")

    def _write_status(self, status: Object) -> None:
        status_rules.check(self.status, status, self.job["spec"])
        self.job = {**self.job, "status": status}
        self.history.append(status)

    def _release(self, pod: Object) -> None:
        self.released[pod["metadata"]["uid"]] = pod["status"]["phase"]

    def _patch(self, name: str, patch: Object) -> None:
        self._put(name, merge_patch(self.pods[name], patch))
        self._collect(name)

    def _create(self, body: Object) -> None:
        name = body["metadata"]["name"]
        if name in self.pods:
            return
        index = index_of(body)
        uid = f"uid-{next(self._versions)}"
        self.attempts[uid] = self._begun[index]
        self._begun[index] += 1
        metadata = {**body["metadata"], "uid": uid, "creationTimestamp": times.render(self.now)}
        self._put(name, {**body, "metadata": metadata, "status": {"phase": "Pending"}})

    def _same(self, ref: Ref, uid: str) -> bool:
        return ref.name in self.pods and self.pods[ref.name]["metadata"]["uid"] == uid

    def _fence(self, ref: Ref, version: str | None) -> None:
        if ref.name not in self.pods:
            raise StepFailedError(f"{ref} is gone")
        if version is not None and version != self.pods[ref.name]["metadata"]["resourceVersion"]:
            raise StepFailedError(f"{ref} has changed")

    def _put(self, name: str, pod: Object) -> None:
        if {**pod, "metadata": {**pod["metadata"], "resourceVersion": None}} == self._unversioned(name):
            return
        version = str(next(self._versions))
        self.pods[name] = {**pod, "metadata": {**pod["metadata"], "resourceVersion": version}}

    def _unversioned(self, name: str) -> Object | None:
        pod = self.pods.get(name)
        return {**pod, "metadata": {**pod["metadata"], "resourceVersion": None}} if pod else None

    def _collect(self, name: str) -> None:
        pod = self.pods[name]
        done = pod["status"]["phase"] in ("Succeeded", "Failed")
        if done and pod["metadata"].get("deletionTimestamp") and not pod["metadata"].get("finalizers"):
            del self.pods[name]
