"""Claims at random: polls that overlap, decisions that come late or are killed, Jobs that end or are deleted."""

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.unit.controllers.keda.scaledjob.claims_cluster import ClaimsCluster, Poll
from workers.decision.plan import Plan


class ClaimsMachine(RuleBasedStateMachine):
    """The steps that ScaledJobs with claims and EventJobs share. A subclass begins, and says what must hold."""

    cluster: ClaimsCluster

    def __init__(self):
        super().__init__()
        self.polls: list[Poll] = []
        self.plan: Plan | None = None
        self.killed = False

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
            self.plan = self.cluster.planned()
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
        self.killed = not self.cluster.act(self.cluster.planned(), writes)

    @rule(rounds=st.integers(1, 8), jobs_end=st.booleans())
    def a_while_passes(self, rounds, jobs_end):
        """All polls but a stalled one go on."""
        self._rested()
        self.plan = None
        for _ in range(rounds):
            self._round(jobs_end=jobs_end)

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

    def _rested(self):
        """The key of a killed worker comes back after its lease; the watch has caught up by then."""
        if self.killed:
            self.cluster.see_all()
        self.killed = False

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
        if cluster.owner is not None:
            # A push, a change of the object and the interval cause polls.
            cluster.poll()
        cluster.decide()
        for name in cluster.alive() if jobs_end else ():
            cluster.end(name, "Complete")


def assert_fails(machine: type[RuleBasedStateMachine], usual: settings, examples: int) -> None:
    """The machine fails within so many examples; it takes no time to make the counterexample small."""
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine,
            settings=settings(
                usual, max_examples=examples, phases=[Phase.generate], print_blob=False, report_multiple_bugs=False
            ),
        )
