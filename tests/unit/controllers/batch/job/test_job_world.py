"""A Job in a world driven at random: pods end and are deleted at any time, the mirror lags, plans die half-way."""

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.controllers.batch.job import status_rules
from tests.unit.controllers.factories import NOW, job, job_snapshot
from workers.api import times
from workers.api.kinds import POD, Object, Ref
from workers.controllers import conditions
from workers.controllers.batch.job import decide
from workers.controllers.batch.job.indexes import index_of
from workers.controllers.batch.job.pods import TRACKING, is_deleting, is_finished, is_tracked, phase_of
from workers.reconcile.plan import (
    ComeBack,
    Create,
    Delete,
    Patch,
    PatchStatus,
    Plan,
    Step,
    Together,
    Unfinalize,
)
from workers.reconcile.snapshot import CachedObject


class CutShortError(Exception):
    """The plan ends here: the API server refused a step, or the process died."""


class World:
    """The API server with one Job and its pods, the kubelet, and the mirror. Seconds since the beginning.

    most: the largest parallelism so far. budget: how many effects the plan still has before its process dies; None: it
    lives. recorded: what was written down of each uid.
    """

    def __init__(self, **spec: object) -> None:
        self.job = job(**spec)
        self.most = spec["parallelism"]
        self.second = self.versions = self.failures = 0
        self.pods: dict[str, Object] = {}
        self.mirror: dict[str, CachedObject] = {}
        self.behind: set[str] = set()
        self.back: float | None = None
        self.budget: int | None = None
        self.recorded: dict[str, str] = {}
        self.ended: dict[str, tuple[str, int | None]] = {}
        self.made: dict[str, int | None] = {}

    @property
    def now(self):
        return NOW + timedelta(seconds=self.second)

    @property
    def status(self) -> Object:
        return self.job.get("status", {})

    @property
    def over(self) -> str | None:
        return conditions.finished(self.job)

    @property
    def indexed(self) -> bool:
        return self.job["spec"].get("completionMode") == "Indexed"

    def change(self, **spec: object) -> None:
        self.job = {**self.job, "spec": {**self.job["spec"], **spec}}
        self.most = max(self.most, self.job["spec"]["parallelism"])

    # The controller

    def see(self, name: str) -> None:
        self.mirror[name] = CachedObject(Ref(POD, "default", name), self.pods.get(name), self.second)
        self.behind.discard(name)

    def catch_up(self) -> None:
        for name in list(self.behind):
            self.see(name)

    def decide(self) -> Plan:
        return decide(job_snapshot(self.job, *self.mirror.values(), failures=self.failures), self.now)

    def carry_out(self, plan: Plan, budget: int | None = None, *, seen: bool = True) -> None:
        """All of the plan, or so many effects of it, of the last of which the mirror does not learn unless `seen`."""
        self.back, self.budget, self._seen = None, budget, seen
        try:
            for step in plan.steps:
                self._step(step)
        except CutShortError:
            self.failures += 1
        else:
            self.failures = 0

    def _step(self, step: Step) -> None:
        match step:
            case Together(steps=steps):
                for each in steps:
                    self._step(each)
            case ComeBack(at=at):
                self.back = (at - NOW).total_seconds()
            case PatchStatus(status=status):
                self._spend()
                self._write(status)
            case Create(body=body):
                name = body["metadata"]["name"]
                known = self._spend()
                if name not in self.pods:
                    self._make(name, body)
                self._through(name, known)
            case Delete(ref=ref, uid=uid):
                known = self._spend()
                if ref.name in self.pods and self.pods[ref.name]["metadata"]["uid"] == uid:
                    self.delete(ref.name)
                self._through(ref.name, known)
            case Patch(ref=ref, body=body, resource_version=version):
                known = self._spend()
                if ref.name not in self.pods or self.pods[ref.name]["metadata"]["resourceVersion"] != version:
                    raise CutShortError
                assert not is_finished(self.pods[ref.name]), "only pods at work are patched"
                self._finalizers(ref.name, body["metadata"]["finalizers"])
                self._through(ref.name, known)
            case Unfinalize(ref=ref, uid=uid, finalizer=finalizer):
                known = self._spend()
                if ref.name in self.pods and self.pods[ref.name]["metadata"]["uid"] == uid:
                    held = self.pods[ref.name]["metadata"]["finalizers"]
                    self._finalizers(ref.name, [name for name in held if name != finalizer])
                self._through(ref.name, known)

    def _spend(self) -> bool:
        """Whether the mirror will know of the next effect."""
        if self.budget is None:
            return True
        if self.budget == 0:
            raise CutShortError
        self.budget -= 1
        return self.budget > 0 or self._seen

    def _through(self, name: str, known: bool) -> None:
        if known:
            self.see(name)
        else:
            self.behind.add(name)

    def _write(self, status: Object) -> None:
        status_rules.check(self.status, status, self.job["spec"])
        self._account(self.status, status)
        self.job = {**self.job, "status": status}

    def _account(self, old: Object, new: Object) -> None:
        """Every uid is written down once, and every counter rises by what was written down."""
        for kind in ("succeeded", "failed"):
            was, is_ = _uncounted(old, kind), _uncounted(new, kind)
            for uid in is_ - was:
                assert uid not in self.recorded, "no pod is written down twice"
                self.recorded[uid] = kind
            if kind == "failed" or not self.indexed:
                gained = new.get(kind, 0) - old.get(kind, 0)
                assert gained == len(was - is_), f"{kind} counts what was written down"

    # The API server and the kubelet

    def _make(self, name: str, body: Object) -> None:
        metadata = {**body["metadata"], "uid": f"uid-{name}-{self.versions}"}
        metadata["creationTimestamp"] = times.render(self.now)
        self.made[metadata["uid"]] = index_of(body)
        self.put(name, {**body, "metadata": metadata, "status": {"phase": "Running"}})

    def _finalizers(self, name: str, finalizers: list[str]) -> None:
        pod = self.pods[name]
        if is_tracked(pod) and TRACKING not in finalizers:
            self._released(pod)
        self.put(name, {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}})
        self.collect(name)

    def _released(self, pod: Object) -> None:
        """A finished pod may lose its finalizer only when its end is written down."""
        uid, index = pod["metadata"]["uid"], index_of(pod)
        if not is_finished(pod) or uid in self.recorded or self.over:
            return
        stopped = conditions.holds(self.job, "SuccessCriteriaMet") and is_deleting(pod)
        seen = self.mirror[pod["metadata"]["name"]].body
        done = _parsed(self.status.get("completedIndexes")) | _parsed(self.status.get("failedIndexes"))
        assert stopped or (phase_of(pod) == "Succeeded" and index in done) or not is_finished(seen)

    def put(self, name: str, pod: Object) -> None:
        self.versions += 1
        self.pods[name] = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.versions)}}
        self.behind.add(name)

    def collect(self, name: str) -> None:
        pod = self.pods[name]
        if is_finished(pod) and is_deleting(pod) and not pod["metadata"]["finalizers"]:
            del self.pods[name]

    def delete(self, name: str) -> None:
        """It stays until its kubelet has ended it and its finalizers are gone."""
        pod = self.pods[name]
        if not is_deleting(pod):
            self.put(name, {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": times.render(self.now)}})
            self.collect(name)

    def end(self, name: str, phase: str) -> None:
        pod = self.pods[name]
        finished = {"state": {"terminated": {"finishedAt": times.render(self.now)}}}
        self.put(name, {**pod, "status": {"phase": phase, "containerStatuses": [finished]}})
        self.ended[pod["metadata"]["uid"]] = (phase, index_of(pod))
        self.collect(name)

    def working(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not is_finished(pod)]

    def active(self) -> list[str]:
        return [name for name in self.working() if not is_deleting(self.pods[name])]

    def kept(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not is_deleting(pod)]

    def successes(self) -> set[int | None]:
        return {index for phase, index in self.ended.values() if phase == "Succeeded"}


def _uncounted(status: Object, kind: str) -> set[str]:
    return set((status.get("uncountedTerminatedPods") or {}).get(kind, ()))


def _parsed(text: str | None) -> set[int]:
    return status_rules.parsed(text)


class JobInAWorld(RuleBasedStateMachine):
    world: World

    @rule(seconds=st.sampled_from([1, 5, 20]))
    def time_passes(self, seconds):
        self.world.second += seconds

    @rule()
    def a_decision_is_carried_out(self):
        self.world.carry_out(self.world.decide())

    @rule(budget=st.integers(0, 6), seen=st.booleans())
    def a_decision_dies_half_way(self, budget, seen):
        self.world.carry_out(self.world.decide(), budget, seen=seen)

    @precondition(lambda self: self.world.working())
    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]))
    def a_pod_ends(self, data, phase):
        self.world.end(data.draw(st.sampled_from(self.world.working())), phase)

    @precondition(lambda self: self.world.kept())
    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data):
        self.world.delete(data.draw(st.sampled_from(self.world.kept())))

    @precondition(lambda self: self.world.behind)
    @rule(data=st.data())
    def the_mirror_catches_up_with_a_pod(self, data):
        self.world.see(data.draw(st.sampled_from(sorted(self.world.behind))))

    @precondition(lambda self: not self.world.over)
    @rule(suspend=st.booleans())
    def the_job_is_suspended_or_resumed(self, suspend):
        self.world.change(suspend=suspend)

    @precondition(lambda self: not self.world.over)
    @rule(parallelism=st.integers(0, 4))
    def the_job_may_run_more_pods_or_fewer(self, parallelism):
        self.world.change(parallelism=parallelism)

    @invariant()
    def no_more_pods_run_than_may(self):
        """Also when a plan was cut short and the mirror does not know of what it made."""
        if hasattr(self, "world"):
            assert len(self.world.active()) <= self.world.most

    @invariant()
    def what_is_completed_has_succeeded(self):
        if hasattr(self, "world") and self.world.indexed:
            assert _parsed(self.world.status.get("completedIndexes")) <= self.world.successes()

    def teardown(self):
        if hasattr(self, "world"):
            self._comes_to_rest()
            self._ended_as_it_should()

    def _comes_to_rest(self):
        world = self.world
        world.change(suspend=False, parallelism=2)
        for _ in range(60):
            world.catch_up()
            plan = world.decide()
            if world.over and not plan.steps:
                break
            world.carry_out(plan)
            for name in world.working():
                world.end(name, "Failed" if is_deleting(world.pods[name]) else "Succeeded")
            world.second = int(max(world.second + 1, world.back or 0))
        assert world.over
        assert [name for name, pod in world.pods.items() if is_tracked(pod)] == []
        assert world.working() == []

    def _ended_as_it_should(self):
        world, spec, status = self.world, self.world.job["spec"], self.world.status
        counted = [uid for uid, kind in world.recorded.items() if kind == "failed"]
        assert status.get("failed", 0) == len(counted)
        if world.indexed:
            completed, failed = _parsed(status.get("completedIndexes")), _parsed(status.get("failedIndexes"))
            assert status.get("succeeded", 0) == len(completed)
            if world.over == "Complete":
                assert completed == set(range(spec["completions"]))
            elif "backoffLimitPerIndex" in spec:
                assert completed | failed == set(range(spec["completions"]))
        elif world.over == "Complete":
            assert status.get("succeeded", 0) >= (spec.get("completions") or 0)
        if world.over == "Failed" and "backoffLimitPerIndex" not in spec:
            assert len(counted) > spec["backoffLimit"]


class PlainJob(JobInAWorld):
    @initialize(
        completions=st.integers(0, 6),
        parallelism=st.integers(1, 4),
        limit=st.integers(0, 3),
        policy=st.sampled_from(["TerminatingOrFailed", "Failed"]),
    )
    def begin(self, completions, parallelism, limit, policy):
        self.world = World(
            completions=completions, parallelism=parallelism, backoffLimit=limit, podReplacementPolicy=policy
        )


class WorkQueue(JobInAWorld):
    @initialize(parallelism=st.integers(1, 4), limit=st.integers(0, 3))
    def begin(self, parallelism, limit):
        self.world = World(parallelism=parallelism, backoffLimit=limit)


class IndexedJob(JobInAWorld):
    @initialize(
        completions=st.integers(0, 5),
        parallelism=st.integers(1, 4),
        limit=st.integers(0, 4),
        policy=st.sampled_from(["TerminatingOrFailed", "Failed"]),
    )
    def begin(self, completions, parallelism, limit, policy):
        self.world = World(
            completionMode="Indexed",
            completions=completions,
            parallelism=parallelism,
            backoffLimit=limit,
            podReplacementPolicy=policy,
        )


class JobThatRetriesEachIndex(JobInAWorld):
    @initialize(
        completions=st.integers(1, 5),
        parallelism=st.integers(1, 4),
        limit=st.integers(0, 2),
        policy=st.sampled_from(["TerminatingOrFailed", "Failed"]),
    )
    def begin(self, completions, parallelism, limit, policy):
        self.world = World(
            completionMode="Indexed",
            completions=completions,
            parallelism=parallelism,
            backoffLimitPerIndex=limit,
            podReplacementPolicy=policy,
        )


@pytest.mark.parametrize("machine", [PlainJob, WorkQueue, IndexedJob, JobThatRetriesEachIndex])
def test_a_job_keeps_the_rules_and_comes_to_its_end(machine):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=150, stateful_step_count=40, derandomize=True, deadline=None)
    )
