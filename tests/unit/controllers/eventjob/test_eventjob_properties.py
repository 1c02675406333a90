"""Every event has exactly one completed Job, or is parked, or waits, under any interleaving, kill and lost Job."""

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

from tests.unit.controllers.eventjob.event_cluster import EventCluster
from tests.unit.controllers.eventjob.manifests import event_job
from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.keda.scaledjob.claims_cluster import Poll
from tests.unit.tables import cases
from workers.controllers.claims import binding, claim_outcomes
from workers.controllers.eventjob import decide, jobs
from workers.decision.claims import ClaimSettlement
from workers.decision.plan import Plan


class Deliveries(RuleBasedStateMachine):
    @initialize(total=st.integers(1, 4), retries=st.integers(0, 2), pushed=st.integers(0, 6))
    def begin(self, total, retries, pushed):
        self.cluster = EventCluster(event_job(concurrency={"total": total}, retry={"limit": retries}))
        self.cluster.push("work", pushed)
        self.polls: list[Poll] = []
        self.plan: Plan | None = None
        self.killed = False

    @precondition(lambda self: len(self.cluster.pushed) < 15)
    @rule(number=st.integers(1, 3))
    def events_are_pushed(self, number):
        self.cluster.push("work", number)

    @rule(data=st.data())
    def a_poll_goes_on(self, data):
        """Two polls overlap if the first has lost its lease without noticing."""
        if len(self.polls) < 2 and data.draw(st.booleans()):
            self.polls.append(self.cluster.begin())
        elif self.polls:
            poll = data.draw(st.sampled_from(self.polls))
            if poll.done:
                self.cluster.store(poll)
                self.polls.remove(poll)
            else:
                self.cluster.measure(poll)

    @rule()
    def a_whole_poll_is_made(self):
        self.cluster.poll()

    @rule()
    def a_decision_goes_on(self):
        """A decision is made on one observation and carried out later."""
        if self.plan is None:
            self._rested()
            self.plan = decide(self.cluster.snapshot(), NOW)
        else:
            self.cluster.act(self.plan)
            self.plan = None

    @rule()
    def a_whole_decision_is_made(self):
        self._rested()
        self.plan = None
        self.cluster.decide()

    @rule(writes=st.integers(0, 5))
    def a_decision_is_killed_half_way(self, writes):
        self._rested()
        self.plan = None
        self.killed = not self.cluster.act(decide(self.cluster.snapshot(), NOW), writes)

    @rule(rounds=st.integers(1, 6), jobs_end=st.booleans())
    def a_while_passes(self, rounds, jobs_end):
        """All polls but a stalled one go on."""
        self._rested()
        self.plan = None
        for _ in range(rounds):
            self._round(jobs_end=jobs_end)

    def _rested(self):
        """The key of a killed worker comes back after its lease; the watch has caught up by then."""
        if self.killed:
            self.cluster.see_all()
        self.killed = False

    @rule()
    def next_attempts_become_due(self):
        self.cluster.deliveries.wake()

    @rule()
    def parked_events_are_replayed(self):
        self.cluster.deliveries.replay()

    @precondition(lambda self: self.cluster.alive())
    @rule(data=st.data(), how=st.sampled_from(["Complete", "Complete", "Failed"]))
    def a_job_ends(self, data, how):
        self.cluster.end(data.draw(st.sampled_from(self.cluster.alive())), how)

    @precondition(lambda self: self.cluster.jobs)
    @rule(data=st.data())
    def a_user_deletes_a_job(self, data):
        self.cluster.remove(data.draw(st.sampled_from(sorted(self.cluster.jobs))))

    @precondition(lambda self: self.cluster.unobserved)
    @rule(data=st.data())
    def the_store_catches_up_with_a_job(self, data):
        self.cluster.see(data.draw(st.sampled_from(sorted(self.cluster.unobserved))))

    @rule(total=st.integers(1, 4), suspend=st.booleans())
    def the_user_changes_the_spec(self, total, suspend):
        self._specify(concurrency={"total": total}, suspend=suspend)

    def _specify(self, **spec):
        owner = self.cluster.owner
        metadata = {**owner["metadata"], "generation": owner["metadata"]["generation"] + 1}
        self.cluster.owner = {**owner, "metadata": metadata, "spec": {**owner["spec"], **spec}}

    @invariant()
    def every_event_is_accounted_for(self):
        if hasattr(self, "cluster"):
            self.cluster.check()

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        self._settle()
        self._specify(suspend=False)
        for _ in range(4 * len(cluster.pushed) + 20):
            self._round()
        assert not cluster.deliveries.waiting()
        assert not cluster.deliveries.held
        for event in cluster.pushed:
            parked = sum(event == each for each, _ in cluster.deliveries.parked)
            assert cluster.completed[event] + parked == 1
        unsettled = [name for name, job in cluster.jobs.items() if binding.is_bound(job)]
        assert not unsettled, "a Job waits for its claim for ever"
        self._delete()

    def _delete(self):
        cluster = self.cluster
        cluster.push("work", 3)
        for _ in range(4):
            self._round(jobs_end=False)
        assert cluster.alive()
        metadata = {**cluster.owner["metadata"], "deletionTimestamp": at(0)}
        metadata["generation"] += 1
        cluster.owner = {**cluster.owner, "metadata": metadata}
        for _ in range(15):
            self._round(jobs_end=False)
            assert cluster.owner is not None or cluster.deliveries.closed, "its deliveries stay in the broker"
        assert cluster.owner is None
        assert not any(binding.is_bound(job) for job in cluster.jobs.values())

    def _settle(self):
        if self.plan is not None:
            self.cluster.act(self.plan)
            self.plan = None
        for poll in self.polls:
            if not poll.done:
                self.cluster.measure(poll)
            self.cluster.store(poll)
        self.polls = []

    def _round(self, *, jobs_end=True):
        cluster = self.cluster
        cluster.see_all()
        cluster.deliveries.wake()
        if cluster.owner is not None:
            cluster.poll()
        cluster.decide()
        for name in cluster.alive() if jobs_end else ():
            cluster.end(name, "Complete")


_SETTINGS = settings(max_examples=50, stateful_step_count=40, deadline=None)


def test_every_event_has_exactly_one_completed_job_under_any_interleaving():
    run_state_machine_as_test(Deliveries, settings=_SETTINGS)


_carry, _with_job = binding.carry, claim_outcomes._with_job
_name = jobs.name


def _jobs_may_go_before_their_claim_is_settled(*given):
    bound = _carry(*given)
    return {**bound, "metadata": {**bound["metadata"], "finalizers": []}}


def _jobs_that_are_gone_have_done_their_event(claim, entry, verdict, rules):
    return _with_job(claim, entry, verdict, rules) if entry.body else ClaimSettlement(claim.id, "done")


def _names_forget_the_attempt(metadata, claim):
    return _name(metadata, type(claim)(claim.id.split("-")[0]))


@cases(
    ("Jobs may go before their claim is settled", binding, "carry", _jobs_may_go_before_their_claim_is_settled),
    (
        "Jobs that are gone have done their event",
        claim_outcomes,
        "_with_job",
        _jobs_that_are_gone_have_done_their_event,
    ),
    ("names forget the attempt", jobs, "name", _names_forget_the_attempt),
    ("no Job is ever let go", claim_outcomes, "_is_settled", lambda *_: False),
    ("an object goes before its deliveries", claim_outcomes.ObservedClaims, "is_closed", property(lambda _: True)),
)
def test_a_broken_rule_is_detected(place, name, mutant, monkeypatch):
    monkeypatch.setattr(place, name, mutant)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Deliveries,
            settings=settings(
                _SETTINGS, max_examples=500, phases=[Phase.generate], print_blob=False, report_multiple_bugs=False
            ),
        )
