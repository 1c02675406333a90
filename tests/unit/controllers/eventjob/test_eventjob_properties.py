"""Every event has exactly one completed Job, or is parked, or waits, under any interleaving, kill and lost Job."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.support.tables import cases
from tests.unit.controllers.eventjob.event_cluster import EventCluster
from tests.unit.controllers.eventjob.manifests import event_job
from tests.unit.controllers.factories import at
from tests.unit.controllers.keda.scaledjob.claims_machine import ClaimsMachine, assert_fails
from workers.controllers.claims import binding, claim_outcomes
from workers.controllers.eventjob import jobs
from workers.decision.claims import ClaimSettlement


class Deliveries(ClaimsMachine):
    cluster: EventCluster

    @initialize(total=st.integers(1, 4), retries=st.integers(0, 2), pushed=st.integers(0, 6))
    def begin(self, total, retries, pushed):
        self.cluster = EventCluster(event_job(concurrency={"total": total}, retry={"limit": retries}))
        self.cluster.push("work", pushed)

    @precondition(lambda self: len(self.cluster.pushed) < 15)
    @rule(number=st.integers(1, 3))
    def events_are_pushed(self, number):
        self.cluster.push("work", number)

    @rule()
    def next_attempts_become_due(self):
        self.cluster.deliveries.wake()

    @rule()
    def parked_events_are_replayed(self):
        self.cluster.deliveries.replay()

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

    def _round(self, *, jobs_end=True):
        self.cluster.deliveries.wake()
        super()._round(jobs_end=jobs_end)


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
    assert_fails(Deliveries, _SETTINGS, 500)
