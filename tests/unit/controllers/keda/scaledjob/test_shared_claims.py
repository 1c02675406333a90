"""Objects that claim under a limit they share: never a Job more than it allows, and every item gets its Job."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.caps import SharedCap
from tests.unit.controllers.factories import NOW, entry
from tests.unit.controllers.keda.scaledjob.claim_world import Visit, World, work
from workers.api.kinds import SCALE_POLICY
from workers.controllers.keda.scaledjob import claiming, decide, policy
from workers.reconcile.plan import Plan
from workers.reconcile.snapshot import Snapshot

NAMES = ("a", "b")
#: An object that does not claim: it makes what it was granted, whenever it comes to it.
PLAIN = "plain"


@dataclass
class Covered(World):
    """One object that claims, under the limit."""

    name: str = ""
    cap: SharedCap | None = None
    visit: Visit | None = None
    plan: Plan | None = None
    killed: bool = False

    def snapshot(self) -> Snapshot:
        metadata = {"name": "quota", "uid": "quota", "generation": 1}
        body = {"metadata": metadata, "spec": {"maxJobs": self.cap.limit}}
        return replace(super().snapshot(), everywhere={SCALE_POLICY.id: (entry(SCALE_POLICY, "quota", body),)})

    def planned(self) -> Plan:
        """The decision with the limit's answer."""
        if self.killed:
            # Its key comes back when its lease is over; the watch has caught up by then.
            self.see_all()
        self.killed = False
        seen = self.snapshot()
        asked = decide(seen, NOW).reservation
        assert asked is not None
        allowance = self.cap.ask(self.name, alive=asked.alive, wanted=asked.wanted, held=asked.held)
        return decide(replace(seen, allowance=allowance), NOW)

    def decide(self) -> None:
        self.plan = None
        self.act(self.planned())


class Sharing(RuleBasedStateMachine):
    @initialize(limit=st.integers(0, 5), maximum=st.integers(1, 6), retries=st.integers(0, 1))
    def begin(self, limit: int, maximum: int, retries: int) -> None:
        self.cap = SharedCap(limit)
        self.worlds = {name: Covered(work(maximum, retries, "gradual"), name=name, cap=self.cap) for name in NAMES}
        self.plain = self.granted = 0
        self.most = limit
        for world in self.worlds.values():
            world.push("work", 4)
            self._round(world)

    @rule(data=st.data(), number=st.integers(1, 4))
    def items_are_pushed(self, data: Any, number: int) -> None:
        world = self._one(data)
        if len(world.pushed) < 20:
            world.push("work", number)

    @rule(data=st.data())
    def a_poll_goes_on(self, data: Any) -> None:
        world = self._one(data)
        if world.visit is None:
            world.visit = world.begin()
        elif world.visit.done:
            world.store(world.visit)
            world.visit = None
        else:
            world.measure(world.visit)

    @rule(data=st.data())
    def a_whole_poll_is_made(self, data: Any) -> None:
        self._one(data).poll()

    @rule(data=st.data())
    def a_decision_goes_on(self, data: Any) -> None:
        """It is made on what is observed and allowed, and carried out later."""
        world = self._one(data)
        if world.plan is None:
            world.plan = world.planned()
        else:
            world.act(world.plan)
            world.plan = None

    @rule(data=st.data(), writes=st.integers(0, 4))
    def a_decision_is_killed_half_way(self, data: Any, writes: int) -> None:
        world = self._one(data)
        world.killed = not world.act(world.plan or world.planned(), writes)
        world.plan = None

    @rule(names=st.permutations(NAMES), rounds=st.integers(1, 3))
    def a_while_passes(self, names: list[str], rounds: int) -> None:
        """No Job ends meanwhile."""
        for _ in range(rounds):
            for name in names:
                self.worlds[name].visit = None
                self._round(self.worlds[name], jobs_end=False)

    @rule(wanted=st.integers(0, 6))
    def the_plain_one_decides(self, wanted: int) -> None:
        self.granted = self.cap.ask(PLAIN, alive=self.plain, wanted=max(self.plain, wanted))

    @precondition(lambda self: self.plain < self.granted)
    @rule()
    def the_plain_one_makes_a_job(self) -> None:
        self.plain += 1

    @precondition(lambda self: self.plain)
    @rule()
    def a_job_of_the_plain_one_ends(self) -> None:
        # What was decided before goes by the Jobs that were there then.
        self.plain, self.granted = self.plain - 1, self.granted - 1

    @rule(data=st.data(), how=st.sampled_from(["Complete", "Complete", "Failed"]))
    def a_job_ends(self, data: Any, how: str) -> None:
        world = self._one(data)
        if alive := world.alive():
            world.end(data.draw(st.sampled_from(alive)), how)

    @rule(data=st.data())
    def somebody_deletes_a_job(self, data: Any) -> None:
        world = self._one(data)
        if world.jobs:
            world.remove(data.draw(st.sampled_from(sorted(world.jobs))))

    @rule(data=st.data())
    def the_mirror_catches_up(self, data: Any) -> None:
        self._one(data).see_all()

    @rule()
    def the_broker_is_emptied(self) -> None:
        """Who held a lease has stopped before anybody gets one again."""
        self.granted = self.plain
        for world in self.worlds.values():
            world.plan = world.visit = None
            world.flush()
        self.cap.count(self._alive())

    @rule(limit=st.integers(0, 5))
    def the_policy_changes(self, limit: int) -> None:
        """Another ledger, filled from what is there."""
        self.the_broker_is_emptied()
        self.cap.limit = limit
        self.most = max(limit, sum(self._alive().values()))

    @rule(data=st.data(), maximum=st.integers(1, 6))
    def the_object_may_have_another_number(self, data: Any, maximum: int) -> None:
        world = self._one(data)
        world.owner = {**world.owner, "spec": {**world.owner["spec"], "maxReplicaCount": maximum}}

    @invariant()
    def there_are_never_more_jobs_than_the_limit(self) -> None:
        if hasattr(self, "worlds"):
            alive = self._alive()
            assert sum(alive.values()) <= self.most, f"of {self.cap.limit}: {alive}"
            # Jobs that were there when the limit fell are never stopped, and none take their place.
            self.most = max(self.cap.limit, min(self.most, sum(alive.values())))

    @invariant()
    def every_item_is_accounted_for(self) -> None:
        for world in getattr(self, "worlds", {}).values():
            world.check()

    def teardown(self) -> None:
        if not hasattr(self, "worlds"):
            return
        self.cap.limit = self.most = max(1, self.cap.limit)
        self.plain = self.granted = 0
        self.cap.ask(PLAIN, alive=0, wanted=0)
        for world in self.worlds.values():
            for name in world.alive():
                world.end(name, "Complete")
            world.plan = world.visit = None
            world.owner["spec"]["maxReplicaCount"] = 2
        for _ in range(8 * sum(len(world.pushed) for world in self.worlds.values()) + 20):
            for world in self.worlds.values():
                self._round(world)
                self.there_are_never_more_jobs_than_the_limit()
        for world in self.worlds.values():
            ledger = world.lists["work"]
            assert not ledger.items, "a queue that nobody works off"
            assert not ledger.held, "a claim that nobody works on"

    def _one(self, data: Any) -> Covered:
        return self.worlds[data.draw(st.sampled_from(NAMES))]

    def _alive(self) -> dict[str, int]:
        return {PLAIN: self.plain} | {name: len(world.alive()) for name, world in self.worlds.items()}

    def _round(self, world: Covered, *, jobs_end: bool = True) -> None:
        world.see_all()
        world.poll()
        world.decide()
        for name in world.alive() if jobs_end else ():
            world.end(name, "Complete")


_SETTINGS = settings(max_examples=50, stateful_step_count=30, derandomize=True, deadline=None)


def test_whatever_is_interleaved_there_are_never_more_jobs_than_the_limit() -> None:
    run_state_machine_as_test(Sharing, settings=_SETTINGS)


_ask = SharedCap.ask


def _claims_count_like_jobs(cap: SharedCap, name: str, *, held: int, **asked: Any) -> int:
    return _ask(cap, name, **{**asked, "alive": max(asked["alive"], held)})


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        (claiming, "_allowed", lambda maximum, _: maximum),
        (claiming, "_room", lambda allowed, _: allowed),
        (policy, "unfinished", lambda _: 0),
        (claiming, "_more_wanted", lambda _: 0),
    ],
    ids=[
        "every claim gets its Job whatever was answered",
        "Jobs that are there do not count",
        "nobody's Jobs count",
        "what is claimed is not asked for",
    ],
)
def test_the_world_notices_a_broken_rule(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, mutant: Any) -> None:
    monkeypatch.setattr(place, name, mutant)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Sharing, settings=settings(_SETTINGS, max_examples=100, phases=[Phase.generate], print_blob=False)
        )
