"""Every item has exactly one completed Job, or is parked, or waits: whatever is interleaved, killed or lost."""

from itertools import count

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

from tests.support.ledgers import ListLedger
from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.keda.scaledjob.claim_world import Visit, World, item_of, work
from workers.controllers.keda.scaledjob import binding, claims, decide, names
from workers.handoff.claims import ClaimSettlement
from workers.reconcile.plan import Plan, Unfinalize

PAUSED = "autoscaling.keda.sh/paused"


class Accounting(RuleBasedStateMachine):
    @initialize(
        maximum=st.integers(1, 4),
        retries=st.integers(0, 2),
        rollout=st.sampled_from(["gradual", "immediate"]),
        pushed=st.integers(0, 6),
    )
    def begin(self, maximum, retries, rollout, pushed):
        self.world = World(work(maximum, retries, rollout))
        self.world.push("work", pushed)
        self.visits: list[Visit] = []
        self.plan: Plan | None = None
        self.killed = False

    @rule(name=st.sampled_from(["work", "other"]), number=st.integers(1, 3))
    @precondition(lambda self: len(self.world.pushed) < 15)
    def items_are_pushed(self, name, number):
        self.world.push(name, number)

    @rule(data=st.data())
    def a_poll_goes_on(self, data):
        """Two at once: the first has lost its lease and does not know it."""
        world = self.world
        if len(self.visits) < 2 and data.draw(st.booleans()):
            self.visits.append(world.begin())
        elif self.visits:
            visit = data.draw(st.sampled_from(self.visits))
            if visit.done:
                world.store(visit)
                self.visits.remove(visit)
            else:
                world.measure(visit)

    @rule()
    def a_whole_poll_is_made(self):
        self.world.poll()

    @precondition(lambda self: self.visits)
    @rule()
    def a_poller_is_killed(self):
        self.visits.pop()

    @rule()
    def a_decision_goes_on(self):
        """It is made on what is observed, and carried out later."""
        if self.plan is None:
            self._rested()
            self.plan = decide(self.world.snapshot(), NOW)
        else:
            self.world.act(self.plan)
            self.plan = None

    @rule()
    def a_whole_decision_is_made(self):
        self._rested()
        self.plan = None
        self.world.decide()

    @rule(rounds=st.integers(1, 8), jobs_end=st.booleans())
    def a_while_passes(self, rounds, jobs_end):
        """But not for a poller that stands still."""
        self._rested()
        self.plan = None
        for _ in range(rounds):
            self._round(jobs_end=jobs_end)

    @precondition(lambda self: len(self.world.pushed) < 15)
    @rule(name=st.sampled_from(["work", "other"]))
    def a_poller_stands_still_while_another_list_is_named(self, name):
        self._rested()
        self.plan = None
        visit = self.world.begin()
        self._specify(name)
        for _ in range(8):
            self._round()
        self.world.push(visit.list, 1)
        self.world.measure(visit)
        self.world.store(visit)

    @rule(writes=st.integers(0, 5))
    def a_decision_is_killed_half_way(self, writes):
        self._rested()
        self.plan = None
        self.killed = not self.world.act(decide(self.world.snapshot(), NOW), writes)

    def _rested(self):
        """The key of a holder that died comes back when its lease is over; the watch has caught up with it by then."""
        if self.killed:
            self.world.see_all()
        self.killed = False

    @precondition(lambda self: self.world.alive())
    @rule(data=st.data(), how=st.sampled_from(["Complete", "Complete", "Failed"]))
    def a_job_ends(self, data, how):
        self.world.end(data.draw(st.sampled_from(self.world.alive())), how)

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def somebody_deletes_a_job(self, data):
        self.world.remove(data.draw(st.sampled_from(sorted(self.world.jobs))))

    @precondition(lambda self: self.world.alive() and self.plan is None)
    @rule(data=st.data())
    def a_deleted_job_finishes_while_it_is_let_go(self, data):
        name = data.draw(st.sampled_from(self.world.alive()))
        self.world.remove(name)
        if name not in self.world.jobs:
            return
        self.world.see_all()
        self._rested()
        plan = decide(self.world.snapshot(), NOW)
        self.world.end(name, "Complete")
        self.world.act(plan)

    @precondition(lambda self: self.world.behind)
    @rule(data=st.data())
    def the_mirror_catches_up_with_a_job(self, data):
        self.world.see(data.draw(st.sampled_from(sorted(self.world.behind))))

    @rule()
    def the_broker_is_emptied(self):
        """Who held a lease has stopped before anybody gets one again."""
        self.plan = None
        self.visits = []
        self.world.flush()

    @rule()
    def the_user_pauses_or_goes_on(self):
        metadata = self.world.owner["metadata"]
        annotations = dict(metadata.get("annotations") or {})
        if annotations.pop(PAUSED, None) is None:
            annotations[PAUSED] = "true"
        self.world.owner = {**self.world.owner, "metadata": {**metadata, "annotations": annotations}}

    @rule(name=st.sampled_from(["work", "other"]))
    def the_user_names_a_list(self, name):
        """Also the one that is named already: another generation."""
        self._specify(name)

    def _specify(self, name):
        owner = self.world.owner
        metadata = {**owner["metadata"], "generation": owner["metadata"]["generation"] + 1}
        [trigger] = owner["spec"]["triggers"]
        trigger = {**trigger, "metadata": {**trigger["metadata"], "listName": name}}
        self.world.owner = {**owner, "metadata": metadata, "spec": {**owner["spec"], "triggers": [trigger]}}

    @invariant()
    def every_item_is_accounted_for(self):
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def there_are_never_more_claims_than_allowed(self):
        if hasattr(self, "world"):
            assert all(len(each.held) <= self.world.maximum() for each in self.world.lists.values())

    def teardown(self):
        if hasattr(self, "world"):
            self._everything_gets_done()
            self._and_nothing_stays_behind_a_deleted_object()

    def _everything_gets_done(self):
        world = self.world
        self._settle()
        if PAUSED in (world.owner["metadata"].get("annotations") or {}):
            self.the_user_pauses_or_goes_on()
        for name in ("work", "other", "work"):
            self._specify(name)
            for _ in range(6 * len(world.pushed) + 20):
                self._round()
        assert not any(ledger.items or ledger.held for ledger in world.lists.values())
        for item in world.pushed:
            parked = sum(item == each for ledger in world.lists.values() for each, _ in ledger.parked)
            assert world.completed[item] + parked == 1
        self._settle()
        unsettled = [name for name, job in world.jobs.items() if binding.is_bound(job)]
        assert not unsettled, "a Job waits for its claim for ever"
        assert len(world.jobs) <= 2, "history is cleaned up"

    def _settle(self):
        if self.plan is not None:
            self.world.act(self.plan)
            self.plan = None
        for visit in self.visits:
            if not visit.done:
                self.world.measure(visit)
            self.world.store(visit)
        self.visits = []

    def _round(self, *, jobs_end=True):
        world = self.world
        world.see_all()
        if world.owner is not None:
            # As a push, a change of the object and the interval do.
            world.poll()
        world.decide()
        for name in world.alive() if jobs_end else ():
            world.end(name, "Complete")

    def _and_nothing_stays_behind_a_deleted_object(self):
        world = self.world
        world.push("work", 5)
        for _ in range(4):
            self._round(jobs_end=False)
        assert world.alive()
        metadata = {**world.owner["metadata"], "deletionTimestamp": at(0)}
        world.owner = {**world.owner, "metadata": metadata}
        done = world.alive()[0]
        unfinished = set(world.pushed[-5:]) - {item_of(world.jobs[done])}
        world.end(done, "Complete")
        for _ in range(20):
            self._round(jobs_end=False)
            world.check()
        assert world.owner is None
        assert set(world.lists["work"].items) == unfinished
        assert not any(binding.is_bound(job) for job in world.jobs.values())


_SETTINGS = settings(max_examples=150, stateful_step_count=50, derandomize=True, deadline=None)


def test_every_item_has_exactly_one_completed_job_whatever_happens_in_which_order():
    run_state_machine_as_test(Accounting, settings=_SETTINGS)


_bind, _claimed, _with_job, _without_job = binding.bind, names.claimed, claims._with_job, claims._without_job
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


def _jobs_that_are_gone_have_done_their_item(claim, entry, verdict, retries):
    return _with_job(claim, entry, verdict, retries) if entry.body else ClaimSettlement(claim.id, "done")


def _what_has_no_job_is_returned(claim, verdict, closing):
    return _without_job(claim, verdict, True)


def _old_orders_are_obeyed(ledger, order):
    if order is not None and order.id < ledger.order:
        ledger.order = order.id - 1
    return _carry_out(ledger, order)


@pytest.mark.parametrize(
    ("place", "name", "mutant"),
    [
        (binding, "bind", _jobs_may_go_before_their_claim_is_settled),
        (claims, "_unbound", _deleted_jobs_are_let_go_as_they_are),
        (names, "claimed", _names_are_new_every_time),
        (names, "claimed", _names_forget_the_ledger),
        (claims, "_with_job", _jobs_that_are_gone_have_done_their_item),
        (claims, "_without_job", _what_has_no_job_is_returned),
        (claims, "_is_settled", lambda *_: False),
        (ListLedger, "carry_out", _old_orders_are_obeyed),
        (claims.ObservedClaims, "is_closed", property(lambda of: of.is_known and not of.claims)),
        (claims.ObservedClaims, "is_closed", property(lambda of: of.is_known and of.ledger.limit == 0)),
    ],
    ids=[
        "Jobs may go before their claim is settled",
        "deleted Jobs are let go also when they have finished meanwhile",
        "every decision makes new names",
        "names forget the ledger",
        "Jobs that are gone have done their item",
        "what has no Job yet is returned",
        "no Job is ever let go",
        "a poller without a lease is obeyed",
        "a ledger is closed while items are still taken",
        "a ledger is closed while items are claimed",
    ],
)
def test_the_world_notices_a_broken_rule(monkeypatch, place, name, mutant):
    monkeypatch.setattr(place, name, mutant)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Accounting, settings=settings(_SETTINGS, max_examples=300, phases=[Phase.generate], print_blob=False)
        )
