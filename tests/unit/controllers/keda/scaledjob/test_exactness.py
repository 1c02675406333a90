"""Never a Job more than the queue asks for, and none too few: whatever is interleaved, cut short or seen late.

A small world is driven at random: a queue, Jobs that take one event each at any time after they were created, a
mirror that learns of their ends late, polls that measure at any moment, and decisions that are carried out later
than they were made, on whatever reading there is, and may be killed half way.
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

from tests.unit.controllers.factories import NOW, micros, sample, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Object, Ref
from workers.controllers.keda.scaledjob import counting, creation, decide, jobs
from workers.reconcile.plan import (
    ComeBack,
    Create,
    Delete,
    Figure,
    PatchStatus,
    Plan,
    PollNow,
    Together,
)
from workers.reconcile.snapshot import CachedObject, Reading, Snapshot


@dataclass
class Job:
    """A Job as the API server has it: body None once it is deleted."""

    body: Object | None
    has_taken: bool = False
    done: bool = False


class World:
    """The queue, the API server, the mirror and the last reading. One clock, microseconds."""

    def __init__(self, maximum: int, kept: int) -> None:
        self.maximum = maximum
        self.owner = scaled_job(
            maxReplicaCount=maximum, successfulJobsHistoryLimit=kept, rollout={"strategy": "gradual"}
        )
        self.now = micros(0)
        self.pushed = self.waiting = self.created = 0
        self.jobs: dict[str, Job] = {}
        self.mirror: dict[str, CachedObject] = {}
        self.behind: set[str] = set()
        self.reading: Reading | None = None
        self.poll_wanted = True
        self.unknown_since: int | None = None

    def push(self, number: int) -> None:
        self.pushed += number
        self.waiting += number

    def see(self, name: str) -> None:
        """The mirror takes in the current version of a Job."""
        ref = Ref(JOB, "default", name)
        self.mirror[name] = CachedObject(ref, self.jobs[name].body, self.now)
        self.behind.discard(name)

    def snapshot(self) -> Snapshot:
        # A key whose holder died comes back when its lease is over. By then a watch that has not delivered what
        # was created meanwhile counts as stale, and nothing is decided. Only the same reading may come earlier.
        if self.reading and self.reading.id != self.unknown_since:
            for name in [name for name in self.behind if name not in self.mirror]:
                self.see(name)
        ref = Ref(SCALED_JOB, "default", self.owner["metadata"]["name"])
        children = {JOB.id: tuple(self.mirror.values())}
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
            self.behind.add(name)

    def delete(self, name: str) -> None:
        self.jobs[name].body = None

    def take(self, name: str) -> None:
        assert self.waiting > 0, "a Job too many: it finds nothing"
        self.waiting -= 1
        self.jobs[name].has_taken = True
        self.behind.add(name)

    def finish(self, name: str) -> None:
        job = self.jobs[name]
        job.done = True
        if job.body is not None:
            ended = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}]
            job.body = {**job.body, "status": {"conditions": ended}}
        self.behind.add(name)

    def carry_out(self, plan: Plan, creates: int | None = None, known: Set[int] = frozenset()) -> None:
        """All of the plan, or, killed early, only so many creates, of which the mirror learns of the `known` ones."""
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
                    raise AssertionError("nothing here is done by the clock")

    def idle(self) -> list[str]:
        """Jobs that have not taken an event yet."""
        return [name for name, job in self.jobs.items() if not job.has_taken]

    def busy(self) -> list[str]:
        """Jobs that work on their event."""
        return [name for name, job in self.jobs.items() if job.has_taken and not job.done]

    def removable(self) -> list[str]:
        """Finished Jobs that somebody may delete: users and clean-ups know what the mirror knows."""
        return [name for name, job in self.jobs.items() if job.done and job.body is not None and name in self.mirror]


def _creates(plan: Plan | None) -> list[Create]:
    stages = [step for step in plan.steps if isinstance(step, Together)] if plan else []
    return [each for stage in stages for each in stage.steps if isinstance(each, Create)]


class Exactness(RuleBasedStateMachine):
    @initialize(maximum=st.integers(1, 6), kept=st.sampled_from([0, 1, 100]), pushed=st.integers(0, 8))
    def begin(self, maximum, kept, pushed):
        self.world = World(maximum, kept)
        self.world.push(pushed)
        self.poll: tuple[int, int | None] | None = None
        self.polls = 100
        self.plan: Plan | None = None

    @precondition(lambda self: self.world.waiting < 10)
    @rule(number=st.integers(1, 5))
    def events_are_pushed(self, number):
        self.world.push(number)

    @rule(ticks=st.integers(1, 3))
    def time_passes(self, ticks):
        self.world.now += ticks

    @rule(ticks=st.integers(0, 2))
    def a_poll_goes_on(self, ticks):
        """It begins, measures, and is stored; anything may happen in between."""
        self.world.now += ticks
        if self.poll is None:
            self.poll = (self.world.now, None)
            self.world.poll_wanted = False
        elif self.poll[1] is None:
            self.poll = (self.poll[0], self.world.waiting)
        else:
            self._store()

    @rule()
    def a_whole_poll_is_made(self):
        self.world.now += 1
        self.poll = (self.world.now, self.world.waiting)
        self.world.poll_wanted = False
        self._store()

    def _store(self):
        started, value = self.poll
        self.polls += 1
        self.world.reading = Reading(self.polls, started, 1, (sample(value),))
        self.poll = None

    @rule()
    def a_decision_goes_on(self):
        """It is made on what is observed, and carried out later."""
        if self.plan is None:
            self.plan = decide(self.world.snapshot(), NOW)
        else:
            self.world.carry_out(self.plan)
            self.plan = None

    @precondition(lambda self: self.plan is None)
    @rule(creates=st.integers(0, 4), known=st.sets(st.integers(0, 3)))
    def a_decision_is_killed_half_way(self, creates, known):
        self.world.carry_out(decide(self.world.snapshot(), NOW), creates, known)

    @precondition(lambda self: self.world.idle())
    @rule(data=st.data())
    def a_job_takes_its_event(self, data):
        self.world.take(data.draw(st.sampled_from(self.world.idle())))

    @precondition(lambda self: self.world.busy())
    @rule(data=st.data())
    def a_job_finishes(self, data):
        self.world.finish(data.draw(st.sampled_from(self.world.busy())))

    @precondition(lambda self: self._removable())
    @rule(data=st.data())
    def a_finished_job_vanishes(self, data):
        name = data.draw(st.sampled_from(self._removable()))
        self.world.delete(name)
        self.world.behind.add(name)

    def _removable(self):
        """A name is a lock as long as its object is there.

        One hole is left, and left out here: a holder dies after a create of which the mirror has not heard yet, the
        next one plans the same name, and before it gets there that Job has run, ended and been deleted.
        """
        planned = {each.body["metadata"]["name"] for each in _creates(self.plan)}
        return [name for name in self.world.removable() if name not in planned]

    @precondition(lambda self: self.world.behind)
    @rule(data=st.data())
    def the_mirror_catches_up_with_a_job(self, data):
        self.world.see(data.draw(st.sampled_from(sorted(self.world.behind))))

    @invariant()
    def there_are_never_more_jobs_than_events(self):
        world = self.world
        assert world.created <= world.pushed

    @invariant()
    def there_are_never_more_unfinished_jobs_than_allowed(self):
        assert len(self.world.idle()) + len(self.world.busy()) <= self.world.maximum

    def teardown(self):
        if hasattr(self, "world"):
            self._everything_gets_done()

    def _everything_gets_done(self):
        """After one more poll, as a push gives, only the polls that decisions ask for are made."""
        world = self.world
        if self.plan is not None:
            world.carry_out(self.plan)
        world.poll_wanted = True
        for _ in range(3 * world.pushed + 5):
            world.now += 1
            for name in list(world.behind):
                world.see(name)
            world.now += 1
            if world.poll_wanted:
                self.poll = (world.now, world.waiting)
                world.poll_wanted = False
                self._store()
            world.carry_out(decide(world.snapshot(), NOW))
            for name in world.idle():
                world.take(name)
            for name in world.busy():
                world.finish(name)
        assert world.waiting == 0
        assert world.created == world.pushed


_SETTINGS = settings(
    max_examples=200,
    stateful_step_count=50,
    derandomize=True,
    deadline=None,
)


def test_there_is_exactly_one_job_per_event_whatever_happens_in_which_order():
    run_state_machine_as_test(Exactness, settings=_SETTINGS)


def _ended_jobs_are_forgotten(*arguments):
    counts = _count(*arguments)
    return replace(counts, late=0, unstarted=counts.unstarted - counts.late)


def _ends_are_dated_back(entries, pods, conditions, reading, names):
    return _count([replace(each, seen=each.seen - 2) for each in entries], pods, conditions, reading, names)


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


_count, _worked_out = counting.count, creation.figures


@pytest.mark.parametrize(
    ("module", "name", "mutant"),
    [
        (counting, "count", _ended_jobs_are_forgotten),
        (counting, "count", _ends_are_dated_back),
        (jobs, "free_names", _names_are_new_every_time),
        (jobs, "free_names", _names_start_over),
        (creation, "figures", _jobs_made_are_subtracted_twice),
        (creation, "figures", _the_maximum_is_ignored),
        (creation, "needs_reading", lambda *_: False),
    ],
    ids=[
        "Jobs that ended since the reading began are forgotten",
        "Jobs count as ended earlier than they were seen to",
        "every decision makes new names",
        "names start over with every decision",
        "Jobs a reading made are subtracted twice",
        "the maximum is ignored",
        "no fresh reading is asked for",
    ],
)
def test_the_world_notices_a_broken_rule(monkeypatch, module, name, mutant):
    monkeypatch.setattr(module, name, mutant)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            Exactness, settings=settings(_SETTINGS, max_examples=1000, phases=[Phase.generate], print_blob=False)
        )
