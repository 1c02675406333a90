"""A Job in a world driven at random: pods end and vanish at any time, the mirror lags, plans are cut short."""

from collections.abc import Set
from datetime import timedelta

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

from tests.unit.controllers import status_rules
from tests.unit.controllers.factories import NOW, job, job_snapshot
from workers.api import times
from workers.api.kinds import POD, Object, Ref
from workers.controllers import conditions
from workers.controllers.job import decide
from workers.plan import ComeBack, Create, Delete, PatchStatus, Plan, Together
from workers.snapshot import Entry


class World:
    """The API server with one Job and its pods, and the mirror. Seconds since the beginning."""

    def __init__(self, **spec: object) -> None:
        self.job = job(**spec)
        self.second = self.versions = 0
        self.pods: dict[str, Object] = {}
        self.mirror: dict[str, Entry] = {}
        self.behind: set[str] = set()
        self.ended: dict[str, str] = {}
        self.back: float | None = None

    @property
    def now(self):
        return NOW + timedelta(seconds=self.second)

    @property
    def status(self) -> Object:
        return self.job.get("status", {})

    @property
    def over(self) -> str | None:
        return conditions.finished(self.job)

    def see(self, name: str) -> None:
        self.mirror[name] = Entry(Ref(POD, "default", name), self.pods.get(name), self.second)
        self.behind.discard(name)

    def decide(self) -> Plan:
        return decide(job_snapshot(self.job, *self.mirror.values()), self.now)

    def carry_out(self, plan: Plan, creates: int | None = None, known: Set[int] = frozenset()) -> None:
        """All of the plan, or, killed early, only so many creates, of which the mirror learns of the `known` ones."""
        self.back = None
        for step in plan.steps:
            match step:
                case Together(steps=steps):
                    for index, each in enumerate(steps):
                        if isinstance(each, Create):
                            if creates is not None and index >= creates:
                                return
                            self.create(each.body, known=creates is None or index in known)
                        elif isinstance(each, Delete):
                            if self.version(each.ref.name) not in (None, each.resource_version):
                                return
                            self.delete(each.ref.name)
                            self.see(each.ref.name)
                case PatchStatus(status=status):
                    status_rules.check(self.status, status, self.job["spec"])
                    self.job = {**self.job, "status": status}
                case ComeBack(at=at):
                    self.back = (at - NOW).total_seconds()

    def create(self, body: Object, *, known: bool) -> None:
        name = body["metadata"]["name"]
        if name not in self.pods:
            metadata = {**body["metadata"], "uid": f"uid-{name}", "creationTimestamp": times.render(self.now)}
            self.put(name, {**body, "metadata": metadata, "status": {"phase": "Running"}})
        if known:
            self.see(name)
        else:
            self.behind.add(name)

    def put(self, name: str, pod: Object) -> None:
        self.versions += 1
        self.pods[name] = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.versions)}}

    def version(self, name: str) -> str | None:
        return self.pods[name]["metadata"]["resourceVersion"] if name in self.pods else None

    def delete(self, name: str) -> None:
        """Deletion takes its time, as on a node: the pod goes when `vanish` says so."""
        if pod := self.pods.get(name):
            metadata = {**pod["metadata"], "deletionTimestamp": times.render(self.now)}
            self.put(name, {**pod, "metadata": metadata})
            self.behind.add(name)

    def vanish(self, name: str) -> None:
        del self.pods[name]
        self.behind.add(name)

    def end(self, name: str, phase: str) -> None:
        finished = {"state": {"terminated": {"finishedAt": times.render(self.now)}}}
        self.put(name, {**self.pods[name], "status": {"phase": phase, "containerStatuses": [finished]}})
        self.ended[name] = phase
        self.behind.add(name)

    def leaving(self) -> list[str]:
        return [name for name, pod in self.pods.items() if pod["metadata"].get("deletionTimestamp")]

    def active(self) -> list[str]:
        return [name for name in self.pods if name not in self.ended and name not in self.leaving()]

    def count(self, phase: str) -> int:
        return sum(each == phase for each in self.ended.values())

    def catch_up(self) -> None:
        for name in list(self.behind):
            self.see(name)


class JobInAWorld(RuleBasedStateMachine):
    @initialize(completions=st.integers(0, 6), parallelism=st.integers(1, 4), limit=st.integers(0, 3))
    def begin(self, completions, parallelism, limit):
        self.world = World(completions=completions, parallelism=parallelism, backoffLimit=limit)

    @rule(seconds=st.sampled_from([1, 5, 20]))
    def time_passes(self, seconds):
        self.world.second += seconds

    @rule()
    def a_decision_is_carried_out(self):
        self.world.carry_out(self.world.decide())

    @rule(creates=st.integers(0, 3), known=st.sets(st.integers(0, 2)))
    def a_decision_is_killed_half_way(self, creates, known):
        self.world.carry_out(self.world.decide(), creates, known)

    @precondition(lambda self: self.world.active())
    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]))
    def a_pod_ends(self, data, phase):
        self.world.end(data.draw(st.sampled_from(self.world.active())), phase)

    @precondition(lambda self: self.world.active())
    @rule(data=st.data())
    def somebody_deletes_a_pod(self, data):
        self.world.delete(data.draw(st.sampled_from(self.world.active())))

    @precondition(lambda self: self.world.leaving())
    @rule(data=st.data())
    def a_deleted_pod_is_gone(self, data):
        self.world.vanish(data.draw(st.sampled_from(self.world.leaving())))

    @precondition(lambda self: self.world.behind)
    @rule(data=st.data())
    def the_mirror_catches_up_with_a_pod(self, data):
        self.world.see(data.draw(st.sampled_from(sorted(self.world.behind))))

    @precondition(lambda self: not self.world.over)
    @rule(suspend=st.booleans())
    def the_job_is_suspended_or_resumed(self, suspend):
        self.world.job = {**self.world.job, "spec": {**self.world.job["spec"], "suspend": suspend}}

    @invariant()
    def no_more_pods_run_than_may(self):
        """Also when a plan was cut short and the mirror does not know of what it made."""
        if hasattr(self, "world"):
            assert len(self.world.active()) <= self.world.job["spec"]["parallelism"]

    @invariant()
    def counts_are_of_pods_that_were_there(self):
        if hasattr(self, "world"):
            assert self.world.status.get("succeeded", 0) <= self.world.count("Succeeded")

    def teardown(self):
        if hasattr(self, "world"):
            self._it_ends_as_it_should()

    def _it_ends_as_it_should(self):
        world = self.world
        world.job = {**world.job, "spec": {**world.job["spec"], "suspend": False}}
        for _ in range(40):
            if world.over:
                break
            world.catch_up()
            world.carry_out(world.decide())
            for name in world.active():
                world.end(name, "Succeeded")
            for name in world.leaving():
                world.vanish(name)
            world.second = int(max(world.second + 1, world.back or 0))
        failed = world.count("Failed")
        if world.over == "Complete":
            assert world.status.get("succeeded", 0) == world.count("Succeeded")
            assert world.count("Succeeded") >= world.job["spec"]["completions"]
        else:
            assert world.over == "Failed"
            assert failed > world.job["spec"]["backoffLimit"]
            assert world.status["failed"] >= failed
        world.catch_up()
        assert world.decide().steps == ()


def test_a_job_keeps_the_rules_and_comes_to_its_end():
    run_state_machine_as_test(
        JobInAWorld, settings=settings(max_examples=200, stateful_step_count=40, derandomize=True, deadline=None)
    )
