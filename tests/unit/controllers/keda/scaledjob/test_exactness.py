"""Exactly as many Jobs as the queue asks for, under any interleaving, kill and delay.

A simulation is driven at random: a queue, Jobs that take one event each at any time after they were created, a store
that observes their ends late, polls that measure at any moment, and decisions that are carried out later than they were
made, on any reading, and may be killed half way.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from itertools import count as counter

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

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, micros, sample, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Object, Ref
from workers.controllers.keda.scaledjob import counting, decide, jobs, scaling_strategies
from workers.decision.plan import ComeBack, Create, Delete, Figure, PatchStatus, Plan, PollNow, Together
from workers.decision.snapshot import CachedObject, Reading, Snapshot


@dataclass
class Job:
    """A Job on the API server; its body is None once it is deleted."""

    body: Object | None
    has_taken: bool = False
    done: bool = False


class SimulatedQueue:
    """A queue, an API server, a store and the last reading, on one clock (microseconds)."""

    def __init__(self, maximum: int, kept: int) -> None:
        self.maximum = maximum
        self.owner = scaled_job(
            maxReplicaCount=maximum, successfulJobsHistoryLimit=kept, rollout={"strategy": "gradual"}
        )
        self.now = micros(0)
        self.pushed = self.waiting = self.created = 0
        self.jobs: dict[str, Job] = {}
        self.cache: dict[str, CachedObject] = {}
        self.unobserved: set[str] = set()
        self.reading: Reading | None = None
        self.poll_wanted = True
        self.unknown_since: int | None = None

    def push(self, number: int) -> None:
        self.pushed += number
        self.waiting += number

    def see(self, name: str) -> None:
        """The store takes in the current version of a Job."""
        ref = Ref(JOB, "default", name)
        self.cache[name] = CachedObject(ref, self.jobs[name].body, self.now)
        self.unobserved.discard(name)

    def snapshot(self) -> Snapshot:
        # The key of a killed worker comes back after its lease. By then a watch that has not delivered the creates
        # counts as stale, and nothing is decided. Only the same reading may come earlier.
        if self.reading and self.reading.id != self.unknown_since:
            for name in [name for name in self.unobserved if name not in self.cache]:
                self.see(name)
        ref = Ref(SCALED_JOB, "default", self.owner["metadata"]["name"])
        children = {JOB.id: tuple(self.cache.values())}
        return Snapshot(ref, self.owner, children, reading=self.reading, at=self.now)

    def create(self, body: Object, *, known: bool) -> None:
        name = body["metadata"]["name"]
        assert len(name) <= 63
        if name not in self.jobs:
            self.jobs[name] = Job({**body, "metadata": {**body["metadata"], "uid": f"uid-{name}"}})
            self.created += 1
        elif self.jobs[name].body is None:
            raise AssertionError(f"{name} was made a second time")
        if known:
            self.see(name)
        else:
            self.unobserved.add(name)

    def delete(self, name: str) -> None:
        self.jobs[name].body = None

    def take(self, name: str) -> None:
        assert self.waiting > 0, "a Job too many: the queue is empty"
        self.waiting -= 1
        self.jobs[name].has_taken = True
        self.unobserved.add(name)

    def finish(self, name: str) -> None:
        job = self.jobs[name]
        job.done = True
        if job.body is not None:
            ended = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}]
            job.body = {**job.body, "status": {"conditions": ended}}
        self.unobserved.add(name)

    def carry_out(self, plan: Plan, creates: int | None = None, known: Set[int] = frozenset()) -> None:
        """Carries out the plan, or only so many creates if it is killed; the store observes the `known` ones."""
        for step in plan.steps:
            match step:
                case Together(steps=steps):
                    for index, each in enumerate(steps):
                        if isinstance(each, Delete):
                            self.delete(each.ref.name)
                            self.see(each.ref.name)
                        elif isinstance(each, Create):
                            if creates is not None and index >= creates:
                                self.unknown_since = self.reading.id if self.reading else None
                                return
                            self.create(each.body, known=creates is None or index in known)
                case PollNow():
                    self.poll_wanted = True
                case PatchStatus(status=status):
                    self.owner = {**self.owner, "status": status}
                case ComeBack():
                    raise AssertionError("no step here waits for an instant")

    def idle(self) -> list[str]:
        """Returns the Jobs that have not taken an event yet."""
        return [name for name, job in self.jobs.items() if not job.has_taken]

    def busy(self) -> list[str]:
        """Returns the Jobs that work on their event."""
        return [name for name, job in self.jobs.items() if job.has_taken and not job.done]

    def removable(self) -> list[str]:
        """Returns the finished Jobs that users and clean-ups may delete: those in the store."""
        return [name for name, job in self.jobs.items() if job.done and job.body is not None and name in self.cache]


def _creates(plan: Plan | None) -> list[Create]:
    stages = [step for step in plan.steps if isinstance(step, Together)] if plan else []
    return [each for stage in stages for each in stage.steps if isinstance(each, Create)]


class Exactness(RuleBasedStateMachine):
    @initialize(maximum=st.integers(1, 6), kept=st.sampled_from([0, 1, 100]), pushed=st.integers(0, 8))
    def begin(self, maximum, kept, pushed):
        self.cluster = SimulatedQueue(maximum, kept)
        self.cluster.push(pushed)
        self.poll: tuple[int, int | None] | None = None
        self.polls = 100
        self.plan: Plan | None = None

    @precondition(lambda self: self.cluster.waiting < 10)
    @rule(number=st.integers(1, 5))
    def events_are_pushed(self, number):
        self.cluster.push(number)

    @rule(ticks=st.integers(1, 3))
    def time_passes(self, ticks):
        self.cluster.now += ticks

    @rule(ticks=st.integers(0, 2))
    def a_poll_goes_on(self, ticks):
        """A poll begins, measures, and is stored; other rules may run in between."""
        self.cluster.now += ticks
        if self.poll is None:
            self.poll = (self.cluster.now, None)
            self.cluster.poll_wanted = False
        elif self.poll[1] is None:
            self.poll = (self.poll[0], self.cluster.waiting)
        else:
            self._store()

    @rule()
    def a_whole_poll_is_made(self):
        self.cluster.now += 1
        self.poll = (self.cluster.now, self.cluster.waiting)
        self.cluster.poll_wanted = False
        self._store()

    def _store(self):
        started, value = self.poll
        self.polls += 1
        self.cluster.reading = Reading(self.polls, started, 1, (sample(value),))
        self.poll = None

    @rule()
    def a_decision_goes_on(self):
        """A decision is made on one observation and carried out later."""
        if self.plan is None:
            self.plan = decide(self.cluster.snapshot(), NOW)
        else:
            self.cluster.carry_out(self.plan)
            self.plan = None

    @precondition(lambda self: self.plan is None)
    @rule(creates=st.integers(0, 4), known=st.sets(st.integers(0, 3)))
    def a_decision_is_killed_half_way(self, creates, known):
        self.cluster.carry_out(decide(self.cluster.snapshot(), NOW), creates, known)

    @precondition(lambda self: self.cluster.idle())
    @rule(data=st.data())
    def a_job_takes_its_event(self, data):
        self.cluster.take(data.draw(st.sampled_from(self.cluster.idle())))

    @precondition(lambda self: self.cluster.busy())
    @rule(data=st.data())
    def a_job_finishes(self, data):
        self.cluster.finish(data.draw(st.sampled_from(self.cluster.busy())))

    @precondition(lambda self: self._removable())
    @rule(data=st.data())
    def a_finished_job_vanishes(self, data):
        name = data.draw(st.sampled_from(self._removable()))
        self.cluster.delete(name)
        self.cluster.unobserved.add(name)

    def _removable(self):
        """Returns the Jobs that may vanish: a name protects a Job only while its object exists.

        One gap is known and left out here: a worker is killed after a create that the store lacks, the next worker
        plans the same name, and before it creates it that Job has run, ended and been deleted.
        """
        planned = {each.body["metadata"]["name"] for each in _creates(self.plan)}
        return [name for name in self.cluster.removable() if name not in planned]

    @precondition(lambda self: self.cluster.unobserved)
    @rule(data=st.data())
    def the_store_catches_up_with_a_job(self, data):
        self.cluster.see(data.draw(st.sampled_from(sorted(self.cluster.unobserved))))

    @invariant()
    def there_are_never_more_jobs_than_events(self):
        cluster = self.cluster
        assert cluster.created <= cluster.pushed

    @invariant()
    def there_are_never_more_unfinished_jobs_than_allowed(self):
        assert len(self.cluster.idle()) + len(self.cluster.busy()) <= self.cluster.maximum

    def teardown(self):
        if hasattr(self, "cluster"):
            self._everything_gets_done()

    def _everything_gets_done(self):
        """After one more poll, as after a push, only the polls that decisions ask for are made."""
        cluster = self.cluster
        if self.plan is not None:
            cluster.carry_out(self.plan)
        cluster.poll_wanted = True
        for _ in range(3 * cluster.pushed + 5):
            cluster.now += 1
            for name in list(cluster.unobserved):
                cluster.see(name)
            cluster.now += 1
            if cluster.poll_wanted:
                self.poll = (cluster.now, cluster.waiting)
                cluster.poll_wanted = False
                self._store()
            cluster.carry_out(decide(cluster.snapshot(), NOW))
            for name in cluster.idle():
                cluster.take(name)
            for name in cluster.busy():
                cluster.finish(name)
        assert cluster.waiting == 0
        assert cluster.created == cluster.pushed


_SETTINGS = settings(max_examples=200, stateful_step_count=50, deadline=None)


def test_there_is_exactly_one_job_per_event_under_any_interleaving():
    run_state_machine_as_test(Exactness, settings=_SETTINGS)


def _ended_jobs_are_forgotten(*arguments):
    counts = _count(*arguments)
    return replace(counts, late=0, unstarted=counts.unstarted - counts.late)


def _ends_are_dated_back(entries, *arguments):
    return _count([replace(each, seen=each.seen - 2) for each in entries], *arguments)


_numbers = counter()


def _names_are_new_every_time(names, taken, number):
    return (names.name(next(_numbers)) for _ in range(number))


def _names_start_over(names, taken, number):
    return (names.name(index) for index in range(number))


def _jobs_made_are_subtracted_twice(strategy, demand, counts, bounds, *quirks):
    figures = _worked_out(strategy, demand, counts, bounds, *quirks)
    return (*figures, Figure("to create", max(0, figures[-1].value - counts.made)))


def _the_maximum_is_ignored(strategy, demand, counts, bounds, *quirks):
    return _worked_out(strategy, replace(demand, scale=demand.whole), counts, bounds, *quirks)


_count, _worked_out = counting.count, scaling_strategies.figures


@cases(
    ("Jobs that ended since the reading began are forgotten", counting, "count", _ended_jobs_are_forgotten),
    ("Jobs count as ended earlier than they were seen to", counting, "count", _ends_are_dated_back),
    ("every decision makes new names", jobs, "free_names", _names_are_new_every_time),
    ("names start over with every decision", jobs, "free_names", _names_start_over),
    ("Jobs a reading made are subtracted twice", scaling_strategies, "figures", _jobs_made_are_subtracted_twice),
    ("the maximum is ignored", scaling_strategies, "figures", _the_maximum_is_ignored),
    ("no fresh reading is asked for", scaling_strategies, "needs_reading", lambda *_: False),
)
def test_a_broken_rule_is_detected(module, name, mutant, monkeypatch):
    monkeypatch.setattr(module, name, mutant)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Exactness, settings=settings(_SETTINGS, max_examples=1000, phases=[Phase.generate], print_blob=False)
        )
