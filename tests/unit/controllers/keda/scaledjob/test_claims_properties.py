"""Every item has exactly one completed Job, or is parked, or waits, under any interleaving, kill and data loss."""

from collections import deque
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.support.ledgers import ListLedger
from tests.support.tables import cases
from tests.unit.controllers.factories import at
from tests.unit.controllers.keda.scaledjob.claims_cluster import ClaimsCluster, item_of, work
from tests.unit.controllers.keda.scaledjob.claims_machine import ClaimsMachine, assert_fails
from workers.controllers.claims import binding, claim_outcomes
from workers.decision import claim_names
from workers.decision.claims import ClaimSettlement
from workers.decision.plan import Unfinalize

PAUSED = "autoscaling.keda.sh/paused"


class Accounting(ClaimsMachine):
    @initialize(
        maximum=st.integers(1, 4),
        retries=st.integers(0, 2),
        rollout=st.sampled_from(["gradual", "immediate"]),
        pushed=st.integers(0, 6),
    )
    def begin(self, maximum, retries, rollout, pushed):
        self.cluster = ClaimsCluster(work(maximum, retries, rollout))
        self.cluster.push("work", pushed)

    @rule(name=st.sampled_from(["work", "other"]), number=st.integers(1, 3))
    @precondition(lambda self: len(self.cluster.pushed) < 15)
    def items_are_pushed(self, name, number):
        self.cluster.push(name, number)

    @precondition(lambda self: self.polls)
    @rule()
    def a_poller_is_killed(self):
        self.polls.pop()

    @precondition(lambda self: len(self.cluster.pushed) < 15)
    @rule(name=st.sampled_from(["work", "other"]))
    def a_poller_stalls_while_the_spec_names_another_list(self, name):
        self._rested()
        self.plan = None
        poll = self.cluster.begin()
        self._specify(name)
        for _ in range(8):
            self._round()
        self.cluster.push(poll.list, 1)
        self.cluster.measure(poll)
        self.cluster.store(poll)

    @precondition(lambda self: self.cluster.alive() and self.plan is None)
    @rule(data=st.data())
    def a_deleted_job_finishes_while_it_is_let_go(self, data):
        name = data.draw(st.sampled_from(self.cluster.alive()))
        self.cluster.remove(name)
        if name not in self.cluster.jobs:
            return
        self.cluster.see_all()
        self._rested()
        plan = self.cluster.planned()
        self.cluster.end(name, "Complete")
        self.cluster.act(plan)

    @rule()
    def the_broker_is_emptied(self):
        """Lease holders have stopped before a new lease is given."""
        self.plan = None
        self.polls = []
        self.cluster.flush()

    @rule()
    def the_user_pauses_or_resumes(self):
        metadata = self.cluster.owner["metadata"]
        annotations = dict(metadata.get("annotations") or {})
        if annotations.pop(PAUSED, None) is None:
            annotations[PAUSED] = "true"
        self.cluster.owner = {**self.cluster.owner, "metadata": {**metadata, "annotations": annotations}}

    @rule(name=st.sampled_from(["work", "other"]))
    def the_user_names_a_list(self, name):
        """The same list again is another generation, too."""
        self._specify(name)

    def _specify(self, name):
        owner = self.cluster.owner
        metadata = {**owner["metadata"], "generation": owner["metadata"]["generation"] + 1}
        [trigger] = owner["spec"]["triggers"]
        trigger = {**trigger, "metadata": {**trigger["metadata"], "listName": name}}
        self.cluster.owner = {**owner, "metadata": metadata, "spec": {**owner["spec"], "triggers": [trigger]}}

    @invariant()
    def every_item_is_accounted_for(self):
        if hasattr(self, "cluster"):
            self.cluster.check()

    @invariant()
    def there_are_never_more_claims_than_allowed(self):
        if hasattr(self, "cluster"):
            assert all(len(each.held) <= self.cluster.maximum() for each in self.cluster.lists.values())

    def teardown(self):
        if hasattr(self, "cluster"):
            self._everything_gets_done()
            self._and_nothing_is_left_of_a_deleted_object()

    def _everything_gets_done(self):
        cluster = self.cluster
        self._settle()
        if PAUSED in (cluster.owner["metadata"].get("annotations") or {}):
            self.the_user_pauses_or_resumes()
        for name in ("work", "other", "work"):
            self._specify(name)
            self._rounds(6 * len(cluster.pushed) + 20)
        assert not any(ledger.items or ledger.held for ledger in cluster.lists.values())
        for item in cluster.pushed:
            parked = sum(item == each for ledger in cluster.lists.values() for each, _ in ledger.parked)
            assert cluster.completed[item] + parked == 1
        self._settle()
        unsettled = [name for name, job in cluster.jobs.items() if binding.is_bound(job)]
        assert not unsettled, "a Job waits for its claim for ever"
        assert len(cluster.jobs) <= 2, "history is cleaned up"

    def _rounds(self, most):
        """Makes rounds until three in a row have changed nothing, and at most so many."""
        states = deque(maxlen=4)
        for _ in range(most):
            self._round()
            states.append(self.cluster.state())
            if len(states) == 4 and all(state == states[0] for state in states):
                return

    def _and_nothing_is_left_of_a_deleted_object(self):
        cluster = self.cluster
        cluster.push("work", 5)
        for _ in range(4):
            self._round(jobs_end=False)
        assert cluster.alive()
        metadata = {**cluster.owner["metadata"], "deletionTimestamp": at(0)}
        cluster.owner = {**cluster.owner, "metadata": metadata}
        done = cluster.alive()[0]
        unfinished = set(cluster.pushed[-5:]) - {item_of(cluster.jobs[done])}
        cluster.end(done, "Complete")
        for _ in range(20):
            self._round(jobs_end=False)
            cluster.check()
        assert cluster.owner is None
        assert set(cluster.lists["work"].items) == unfinished
        assert not any(binding.is_bound(job) for job in cluster.jobs.values())


_SETTINGS = settings(max_examples=150, stateful_step_count=50, deadline=None)


def test_every_item_has_exactly_one_completed_job_under_any_interleaving():
    run_state_machine_as_test(Accounting, settings=_SETTINGS)


def _ordered():
    """Returns a state, and its cluster, in which a ledger is open and the order to claim two items was given."""
    state = Accounting()
    state.begin(maximum=2, rollout="gradual", retries=0, pushed=2)
    while state.cluster.order is None:
        state.a_whole_poll_is_made()
        state.a_whole_decision_is_made()
    return state, state.cluster


def test_a_ledger_is_not_closed_after_an_order_to_go_on_that_a_poll_may_be_carrying_out():
    state, cluster = _ordered()
    state.the_user_names_a_list("other")
    cluster.decide()
    cluster.poll()
    state.the_user_names_a_list("work")
    cluster.decide()
    late = cluster.begin()
    state.the_user_names_a_list("other")
    cluster.decide()
    cluster.measure(late)
    cluster.check()
    state.teardown()


def test_what_an_order_returns_gets_no_job_while_a_poll_may_be_carrying_it_out():
    state, cluster = _ordered()
    late = cluster.begin()
    state.the_user_names_a_list("other")
    cluster.decide()
    cluster.measure(late)
    cluster.poll()
    cluster.decide()
    assert [each.how for each in cluster.order.settlements] == ["returned", "returned"]
    state.the_user_names_a_list("work")
    plan = cluster.planned()
    cluster.poll()
    cluster.act(plan)
    cluster.check()
    state.teardown()


_bind, _claimed, _with_job, _without_job = (
    binding.bind,
    claim_names.claimed,
    claim_outcomes._with_job,
    claim_outcomes._without_job,
)
_carry_out = ListLedger.carry_out
_numbers = count()


def _jobs_may_go_before_their_claim_is_settled(job, claim):
    bound = _bind(job, claim)
    return {**bound, "metadata": {**bound["metadata"], "finalizers": []}}


def _deleted_jobs_are_let_go_as_they_are(entry, job):
    return Unfinalize(entry.ref, job["metadata"]["uid"], binding.FINALIZER)


def _names_are_new_every_time(*_arguments):
    return f"work-{next(_numbers)}"


def _names_forget_the_ledger(owner, _ledger, id, attempt):
    return _claimed(owner, "none", id, attempt)


def _jobs_that_are_gone_have_done_their_item(claim, entry, verdict, rules):
    return _with_job(claim, entry, verdict, rules) if entry.body else ClaimSettlement(claim.id, "done")


def _what_has_no_job_is_returned(claim, verdict, rules, closing, leaves):
    return _without_job(claim, verdict, rules, True, leaves)


def _old_orders_are_obeyed(ledger, order):
    if order is not None and order.id < ledger.order:
        ledger.order = order.id - 1
    return _carry_out(ledger, order)


@cases(
    ("Jobs may go before their claim is settled", binding, "bind", _jobs_may_go_before_their_claim_is_settled),
    (
        "deleted Jobs are let go also when they have finished meanwhile",
        claim_outcomes,
        "_unbound",
        _deleted_jobs_are_let_go_as_they_are,
    ),
    ("every decision makes new names", claim_names, "claimed", _names_are_new_every_time),
    ("names forget the ledger", claim_names, "claimed", _names_forget_the_ledger),
    ("Jobs that are gone have done their item", claim_outcomes, "_with_job", _jobs_that_are_gone_have_done_their_item),
    ("what has no Job yet is returned", claim_outcomes, "_without_job", _what_has_no_job_is_returned),
    ("no Job is ever let go", claim_outcomes, "_is_settled", lambda *_: False),
    ("a poller without a lease is obeyed", ListLedger, "carry_out", _old_orders_are_obeyed),
    (
        "a ledger is closed while items are still taken",
        claim_outcomes.ObservedClaims,
        "is_closed",
        property(lambda of: of.is_known and not of.claims),
    ),
    (
        "a ledger is closed while items are claimed",
        claim_outcomes.ObservedClaims,
        "is_closed",
        property(lambda of: of.is_known and of.ledger.limit == 0),
    ),
)
def test_a_broken_rule_is_detected(place, name, mutant, monkeypatch):
    monkeypatch.setattr(place, name, mutant)
    assert_fails(Accounting, _SETTINGS, 1000)
