"""A simulated cluster with one Volcano Job: it carries plans out, admits the gang, and runs the pods."""

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

from deploy.local.apiserver.patch.patches import merge_patch
from tests.unit.controllers.factories import NOW, UID
from workers.api import times
from workers.api.kinds import COMMAND, POD, POD_GROUP, QUEUE, SECRET, VC_JOB, Kind, Object, Ref, ref_of
from workers.api.merge_patch import diff
from workers.controllers.volcano.job import decide
from workers.controllers.volcano.job.decide import glances, relatives
from workers.controllers.volcano.job.names import Site
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Discard,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import CachedObject, Snapshot

SITE = Site()


class CutShortError(Exception):
    """The plan ends here: the API server refused a step, or the process died."""


class RefusedError(CutShortError):
    """The API server refused a step."""


class VcJobCluster:
    """The API server with one job, a store that is never stale, gang admission and the kubelet; actions return self.

    objects: all but the job, by address. admitting: whether gangs are admitted at once. stubborn: whether deleted pods
    stay until `reap`. budget: how many single effects the next plan gets before its process dies; None: it lives.
    refused: by name, why an object may not be created, or a Secret deleted.
    phases: those the status had, in order. events: reason and message, in order. commands: how often each was obeyed.
    measured: what was counted for Prometheus.
    """

    def __init__(self, job: Object, *, admitting: bool = True, stubborn: bool = False, queue: bool = True) -> None:
        self.job: Object | None = job
        self.admitting, self.stubborn = admitting, stubborn
        self.objects: dict[Ref, Object] = {}
        self.phases: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.types: dict[str, str] = {}
        self.writes: list[str] = []
        self.measured: list[CountMetric] = []
        self.budget: int | None = None
        self.failures, self.error = 0, None
        self.second = 0.0
        self.back: float | None = None
        self.refused: dict[str, str] = {}
        self._versions = itertools.count(100)
        if queue:
            self.put(Ref(QUEUE, "", "default"), {"metadata": {"name": "default"}, "status": {"state": "Open"}})

    @property
    def now(self):
        return NOW + timedelta(seconds=self.second)

    @property
    def status(self) -> Object:
        return (self.job or {}).get("status", {})

    @property
    def state(self) -> Object:
        return self.status.get("state", {})

    @property
    def phase(self) -> str:
        return self.state.get("phase", "")

    @property
    def pods(self) -> dict[str, Object]:
        return {ref.name: body for ref, body in self.objects.items() if ref.kind == POD}

    @property
    def group(self) -> Object | None:
        return next((body for ref, body in self.objects.items() if ref.kind == POD_GROUP), None)

    def alive(self) -> list[str]:
        """Pods that are not being deleted."""
        return sorted(name for name, pod in self.pods.items() if not pod["metadata"].get("deletionTimestamp"))

    def kinds(self) -> set[str]:
        """The kinds of objects there are, the queue left aside."""
        return {ref.kind.kind for ref in self.objects if ref.kind != QUEUE}

    # The controller

    def snapshot(self) -> Snapshot:
        children: dict[str, list[CachedObject]] = {}
        tied: list[CachedObject] = []
        for ref, body in self.objects.items():
            if ref.kind == COMMAND:
                tied.append(CachedObject(ref, body, 0))
            elif any(owner["uid"] == UID for owner in body["metadata"].get("ownerReferences", ())):
                children.setdefault(ref.kind.id, []).append(CachedObject(ref, body, 0))
        job = self.job
        return Snapshot(
            Ref(VC_JOB, "default", "train"),
            job,
            children={kind: tuple(entries) for kind, entries in children.items() if kind != SECRET.id},
            referrers={COMMAND.id: tuple(tied)},
            relatives={ref: self.objects.get(ref) for ref in (*relatives(job), *glances(job))} if job else {},
            failures=self.failures,
            last_error=self.error,
        )

    def plan(self) -> Plan:
        return decide(self.snapshot(), self.now, SITE)

    def sync(self) -> bool:
        """One decision, carried out; whether it changed anything."""
        before = (self.job, dict(self.objects))
        self.back = None
        try:
            for step in self.plan().steps:
                self._do(step)
        except CutShortError as error:
            self.failures, self.error, self.back = self.failures + 1, str(error), self.second + 1
        else:
            self.failures, self.error = 0, None
        self.budget = None
        return before != (self.job, self.objects)

    def settle(self, rounds: int = 100) -> Self:
        """Decisions until nothing more comes of them at this moment; gangs are admitted meanwhile."""
        for _ in range(rounds):
            changed = self.sync() | self.admit()
            if not changed and (self.back is None or self.back > self.second):
                return self
        raise AssertionError(f"does not come to rest: {self.status}, {self.plan()}")

    def start(self) -> Self:
        """Settles, runs all waiting pods, and settles again."""
        return self.settle().run().settle()

    def wait(self, seconds: float) -> Self:
        self.second += seconds
        return self.settle()

    # Users

    def command(self, action: str, name: str = "", **more: Any) -> Self:
        name = name or f"train-{action.lower()}-{next(self._versions)}"
        target = {"apiVersion": VC_JOB.api_version, "kind": "Job", "name": "train", "uid": UID, **more}
        metadata = {"name": name, "namespace": "default", "creationTimestamp": times.render(self.now)}
        self.put(Ref(COMMAND, "default", name), {"metadata": metadata, "action": action, "target": target})
        return self

    def edit(self, **spec: Any) -> Self:
        assert self.job
        metadata = {**self.job["metadata"], "generation": self.job["metadata"]["generation"] + 1}
        self.job = {**self.job, "metadata": metadata, "spec": {**self.job["spec"], **spec}}
        return self

    def delete(self, name: str) -> Self:
        """Deletes a pod, as a user does."""
        self._delete(Ref(POD, "default", name))
        return self

    # The scheduler and the kubelet

    def admit(self) -> bool:
        """Admit a gang that waits; whether there was one."""
        group = self.group
        if not self.admitting or group is None or group.get("status", {}).get("phase") not in (None, "Pending"):
            return False
        self.grouped("Inqueue")
        return True

    def grouped(self, phase: str, **more: Any) -> Self:
        group = self.group
        assert group
        self.put(ref_of(POD_GROUP, group), {**group, "status": {"phase": phase, **more}})
        return self

    def set(self, name: str, phase: str, code: int = 0, *, restarts: int = 0, **status: Any) -> Self:
        """Sets a pod's phase. code: of its container's end. restarts: how often the container was started again."""
        container: Object = {"name": "main", "ready": phase == "Running", "restartCount": restarts}
        ended = {"terminated": {"exitCode": code, "finishedAt": times.render(self.now)}}
        if phase in ("Succeeded", "Failed"):
            container["state"] = ended
        elif restarts:
            container["lastState"] = ended
        pod = self.pods[name]
        # A round has let it go: no pod has a phase but Pending behind a gate.
        spec = {field: value for field, value in pod["spec"].items() if field != "schedulingGates"}
        body = {**pod, "spec": spec} if phase != "Pending" else pod
        self.put(ref_of(POD, pod), {**body, "status": {"phase": phase, "containerStatuses": [container], **status}})
        return self

    def run(self, *names: str) -> Self:
        """All pods that wait run, or these."""
        for name in names or self.alive():
            if self.pods[name]["status"]["phase"] == "Pending":
                self.set(name, "Running")
        return self

    def end(self, phase: str = "Succeeded", code: int = 0) -> Self:
        for name in self.alive():
            if self.pods[name]["status"]["phase"] == "Running":
                self.set(name, phase, code)
        return self

    def reap(self) -> Self:
        """Pods that are being deleted go."""
        for name, pod in self.pods.items():
            if pod["metadata"].get("deletionTimestamp"):
                del self.objects[Ref(POD, "default", name)]
        return self

    # The API server

    def put(self, ref: Ref, body: Object) -> Self:
        metadata = {"uid": f"uid-{next(self._versions)}", **body["metadata"]}
        self.objects[ref] = {**body, "metadata": {**metadata, "resourceVersion": str(next(self._versions))}}
        return self

    def _do(self, step: Step) -> None:
        match step:
            case Together(steps=steps, vital=vital, otherwise=otherwise):
                try:
                    for each in steps:
                        self._do(each)
                except RefusedError as error:
                    if otherwise:
                        self._do(replace(otherwise, message=otherwise.message.replace("{error}", str(error))))
                    if vital:
                        raise
            case RecordEvent(type=type_, reason=reason, message=message):
                self.events.append((reason, message))
                self.types[reason] = type_
            case CountMetric():
                self.measured.append(step)
            case ComeBack(at=at):
                self.back = (at - NOW).total_seconds()
            case _:
                self._spend(step)
                self._write(step)

    def _spend(self, step: Step) -> None:
        if self.budget == 0:
            raise CutShortError("killed")
        self.budget = None if self.budget is None else self.budget - 1
        self.writes.append(type(step).__name__)

    def _write(self, step: Step) -> None:
        assert self.job
        match step:
            case PatchStatus(status=status):
                assert diff(self.status, status), "a status that changes nothing is not written"
                self.job = {**self.job, "status": status}
                if not self.phases or self.phases[-1] != self.phase:
                    self.phases.append(self.phase)
            case Create(kind=kind, body=body):
                self._create(kind, body)
            case Delete(ref=ref, uid=uid):
                if ref.kind == VC_JOB:
                    assert uid == UID
                    self.job = None
                elif ref in self.objects and self.objects[ref]["metadata"]["uid"] == uid:
                    self._delete(ref)
            case Discard(ref=ref):
                if ref.name in self.refused:
                    raise RefusedError(self.refused[ref.name])
                self.objects.pop(ref, None)
            case Patch(ref=ref, body=body, resource_version=version):
                if ref.kind == VC_JOB:
                    self.job = merge_patch(self.job, body)
                    return
                if ref not in self.objects or self.objects[ref]["metadata"]["resourceVersion"] != version:
                    raise CutShortError(f"{ref} changed")
                self.put(ref, merge_patch(self.objects[ref], body))
            case _:
                raise AssertionError(f"no step of a job: {step}")

    def _create(self, kind: Kind, body: Object) -> None:
        ref = ref_of(kind, body)
        if ref.name in self.refused:
            raise RefusedError(self.refused[ref.name])
        if ref in self.objects:
            return
        metadata = {**body["metadata"], "creationTimestamp": times.render(self.now)}
        self.put(ref, {**body, "metadata": metadata, **({"status": {"phase": "Pending"}} if kind == POD else {})})

    def _delete(self, ref: Ref) -> None:
        if ref.kind != POD or not self.stubborn:
            del self.objects[ref]
            return
        pod = self.objects[ref]
        self.put(ref, {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": times.render(self.now)}})
