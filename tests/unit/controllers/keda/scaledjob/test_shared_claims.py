"""Objects that claim under a shared limit: never more Jobs than it allows, and every item gets its Job."""

from dataclasses import dataclass, replace
from typing import Any

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

from tests.support.caps import SharedCap
from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, entry
from tests.unit.controllers.keda.scaledjob.claims_cluster import ClaimsCluster, Poll, work
from tests.unit.controllers.keda.scaledjob.claims_machine import assert_fails
from workers.api.kinds import SCALE_POLICY
from workers.controllers.keda.scaledjob import claiming, decide, policy
from workers.decision.plan import Plan
from workers.decision.snapshot import Snapshot

NAMES = ("a", "b")
#: An object that does not claim: it creates the Jobs it was granted at any later time.
PLAIN = "plain"


@dataclass
class Covered(ClaimsCluster):
    """One object that claims, under the limit."""

    name: str = ""
    cap: SharedCap | None = None
    pending: Poll | None = None
    plan: Plan | None = None
    killed: bool = False

    def snapshot(self) -> Snapshot:
        metadata = {"name": "quota", "uid": "quota", "generation": 1}
        body = {"metadata": metadata, "spec": {"maxJobs": self.cap.limit}}
        return replace(super().snapshot(), cluster_wide={SCALE_POLICY.id: (entry(SCALE_POLICY, "quota", body),)})

    def planned(self) -> Plan:
        """Returns the plan with the limit's answer."""
        if self.killed:
            # The key of a killed worker comes back after its lease; the watch has caught up by then.
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
        self.clusters = {name: Covered(work(maximum, retries, "gradual"), name=name, cap=self.cap) for name in NAMES}
        self.plain = self.granted = 0
        self.most = limit
        for cluster in self.clusters.values():
            cluster.push("work", 4)
            self._round(cluster)

    @rule(data=st.data(), number=st.integers(1, 4))
    def items_are_pushed(self, data: Any, number: int) -> None:
        cluster = self._one(data)
        if len(cluster.pushed) < 20:
            cluster.push("work", number)

    @rule(data=st.data())
    def a_poll_goes_on(self, data: Any) -> None:
        cluster = self._one(data)
        if cluster.pending is None:
            cluster.pending = cluster.begin()
        elif cluster.pending.done:
            cluster.store(cluster.pending)
            cluster.pending = None
        else:
            cluster.measure(cluster.pending)

    @rule(data=st.data())
    def a_whole_poll_is_made(self, data: Any) -> None:
        self._one(data).poll()

    @rule(data=st.data())
    def a_decision_goes_on(self, data: Any) -> None:
        """A decision is made on one observation and allowance, and carried out later."""
        cluster = self._one(data)
        if cluster.plan is None:
            cluster.plan = cluster.planned()
        else:
            cluster.act(cluster.plan)
            cluster.plan = None

    @rule(data=st.data(), writes=st.integers(0, 4))
    def a_decision_is_killed_half_way(self, data: Any, writes: int) -> None:
        cluster = self._one(data)
        cluster.killed = not cluster.act(cluster.plan or cluster.planned(), writes)
        cluster.plan = None

    @rule(names=st.permutations(NAMES), rounds=st.integers(1, 3))
    def a_while_passes(self, names: list[str], rounds: int) -> None:
        """No Job ends meanwhile."""
        for _ in range(rounds):
            for name in names:
                self.clusters[name].pending = None
                self._round(self.clusters[name], jobs_end=False)

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
        # Earlier decisions counted the Job that has ended.
        self.plain, self.granted = self.plain - 1, self.granted - 1

    @rule(data=st.data(), how=st.sampled_from(["Complete", "Complete", "Failed"]))
    def a_job_ends(self, data: Any, how: str) -> None:
        cluster = self._one(data)
        if alive := cluster.alive():
            cluster.end(data.draw(st.sampled_from(alive)), how)

    @rule(data=st.data())
    def a_user_deletes_a_job(self, data: Any) -> None:
        cluster = self._one(data)
        if cluster.jobs:
            cluster.remove(data.draw(st.sampled_from(sorted(cluster.jobs))))

    @rule(data=st.data())
    def the_store_catches_up(self, data: Any) -> None:
        self._one(data).see_all()

    @rule()
    def the_broker_is_emptied(self) -> None:
        """Lease holders have stopped before a new lease is given."""
        self.granted = self.plain
        for cluster in self.clusters.values():
            cluster.plan = cluster.pending = None
            cluster.flush()
        self.cap.count(self._alive())

    @rule(limit=st.integers(0, 5))
    def the_policy_changes(self, limit: int) -> None:
        """The changed limit has a ledger of its own, filled from the observed Jobs."""
        self.the_broker_is_emptied()
        self.cap.limit = limit
        self.most = max(limit, sum(self._alive().values()))

    @rule(data=st.data(), maximum=st.integers(1, 6))
    def the_object_may_have_another_number(self, data: Any, maximum: int) -> None:
        cluster = self._one(data)
        cluster.owner = {**cluster.owner, "spec": {**cluster.owner["spec"], "maxReplicaCount": maximum}}

    @invariant()
    def there_are_never_more_jobs_than_the_limit(self) -> None:
        if hasattr(self, "clusters"):
            alive = self._alive()
            assert sum(alive.values()) <= self.most, f"of {self.cap.limit}: {alive}"
            # Jobs above a lowered limit go on, and no Job replaces them.
            self.most = max(self.cap.limit, min(self.most, sum(alive.values())))

    @invariant()
    def every_item_is_accounted_for(self) -> None:
        for cluster in getattr(self, "clusters", {}).values():
            cluster.check()

    def teardown(self) -> None:
        if not hasattr(self, "clusters"):
            return
        self.cap.limit = self.most = max(1, self.cap.limit)
        self.plain = self.granted = 0
        self.cap.ask(PLAIN, alive=0, wanted=0)
        for cluster in self.clusters.values():
            for name in cluster.alive():
                cluster.end(name, "Complete")
            cluster.plan = cluster.pending = None
            cluster.owner["spec"]["maxReplicaCount"] = 2
        for _ in range(8 * sum(len(cluster.pushed) for cluster in self.clusters.values()) + 20):
            for cluster in self.clusters.values():
                self._round(cluster)
                self.there_are_never_more_jobs_than_the_limit()
        for cluster in self.clusters.values():
            ledger = cluster.lists["work"]
            assert not ledger.items, "items that were never claimed"
            assert not ledger.held, "a claim without a Job"

    def _one(self, data: Any) -> Covered:
        return self.clusters[data.draw(st.sampled_from(NAMES))]

    def _alive(self) -> dict[str, int]:
        return {PLAIN: self.plain} | {name: len(cluster.alive()) for name, cluster in self.clusters.items()}

    def _round(self, cluster: Covered, *, jobs_end: bool = True) -> None:
        cluster.see_all()
        cluster.poll()
        cluster.decide()
        for name in cluster.alive() if jobs_end else ():
            cluster.end(name, "Complete")


_SETTINGS = settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_there_are_never_more_jobs_than_the_limit_under_any_interleaving() -> None:
    run_state_machine_as_test(Sharing, settings=_SETTINGS)


@cases(
    ("every claim gets its Job, and the answer is ignored", claiming, "_allowed", lambda maximum, _: maximum),
    ("unfinished Jobs do not count", policy, "unfinished", lambda _: 0),
    ("claims are not reserved", claiming, "_more_wanted", lambda _: 0),
)
def test_a_broken_rule_is_detected(place: Any, name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, name, mutant)
    assert_fails(Sharing, _SETTINGS, 1000)
