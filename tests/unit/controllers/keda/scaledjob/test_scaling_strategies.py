"""The four strategies as KEDA has them, and what of it a reading justifies."""

from tests.support.tables import cases
from workers.api.keda.scaledjob import ScalingStrategy
from workers.controllers.keda.scaledjob import scaling_strategies
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand, JobBounds


def named(name=None, **more):
    return ScalingStrategy(strategy=name, **more)


def custom(percentage, deduction=None):
    more = {"custom_scaling_queue_length_deduction": deduction, "custom_scaling_running_job_percentage": percentage}
    return named("custom", **more)


def waiting(events, *, target=1, maximum=10, active=None):
    jobs = -(-events // target)
    return Demand(queue=events, scale=min(jobs, maximum), whole=jobs, active=events > 0 if active is None else active)


@cases(
    (
        "default: waiting less running, pending makes no difference",
        named(),
        waiting(12, maximum=20),
        (7, 3),
        (0, 20),
        5,
    ),
    ("default: capped", named(), waiting(12), (0, 0), (0, 10), 10),
    ("default: more running than waiting", named(), waiting(3), (5, 0), (0, 10), 0),
    ("default: several events per Job", named(), waiting(30, target=10), (0, 0), (0, 10), 3),
    ("default: inactive", named(), waiting(5, active=False), (0, 0), (0, 10), 0),
    ("below the minimum the minimum is filled", named(), waiting(0), (1, 0), (3, 10), 2),
    ("below the minimum the queue is ignored", named(), waiting(9), (1, 0), (3, 10), 2),
    ("idle Jobs of the minimum take no events", named(), waiting(1), (2, 0), (2, 10), 1),
    ("a minimum equal to the maximum", named(), waiting(5, maximum=0), (4, 0), (4, 0), 0),
    ("accurate: what runs has left the queue", named("accurate"), waiting(5), (4, 0), (0, 10), 5),
    ("accurate: what is pending has not", named("accurate"), waiting(5), (4, 2), (0, 10), 3),
    ("accurate: room is what the maximum leaves", named("accurate"), waiting(8), (7, 0), (0, 10), 3),
    ("accurate: full of pending Jobs", named("accurate"), waiting(12), (10, 10), (0, 10), 0),
    ("eager: as many as wait", named("eager"), waiting(4), (0, 0), (0, 10), 4),
    ("eager: and again as many", named("eager"), waiting(4), (4, 0), (0, 10), 4),
    ("eager: up to the maximum", named("eager"), waiting(4), (8, 0), (0, 10), 2),
    ("eager: pending Jobs are subtracted twice", named("eager"), waiting(9), (5, 5), (0, 10), 0),
    ("eager: nothing waits", named("eager"), waiting(0), (0, 0), (0, 10), 0),
    ("custom: the maximum is for all Jobs, not for new ones alone", custom("0.5"), waiting(20), (10, 0), (0, 10), 0),
    ("custom: up to the maximum", custom("0.5"), waiting(20), (10, 0), (0, 12), 2),
    ("custom: a share as Python alone reads it is the default", custom("1_0", 2), waiting(5), (3, 0), (0, 10), 2),
    ("custom: a deduction", custom("0", 2), waiting(5), (0, 0), (0, 10), 3),
    ("custom: the share of running Jobs is cut to a whole number", custom("0.5", 1), waiting(10), (3, 0), (0, 20), 8),
    (
        "custom: a negative deduction does not outrun the queue",
        custom("0", -2),
        waiting(0, active=True),
        (1, 0),
        (1, 9),
        0,
    ),
    ("custom: an unreadable percentage means default", custom("half"), waiting(5), (2, 0), (0, 10), 3),
    ("custom: no percentage means default", custom(None), waiting(5), (2, 0), (0, 10), 3),
    ("custom: a percentage beyond any number of Jobs", custom("1e308"), waiting(5), (3, 0), (0, 10), 0),
    ("custom: and below it", custom("-1e308"), waiting(5), (3, 0), (0, 10), 5),
    ("custom: none of it if nothing runs", custom("1e308"), waiting(5), (0, 0), (0, 10), 5),
    ("custom: a percentage that is no number means default", custom("nan"), waiting(5), (2, 0), (0, 10), 3),
)
def test_new_jobs_as_keda_counts_them(chosen, demand, jobs, bounds, expected):
    """jobs: running and pending ones. bounds: minimum, and the maximum beyond it."""
    running, pending = jobs
    seen = JobCounts(running, pending, 0, 0, pending)
    quirks = frozenset({"poll-counting"})
    assert scaling_strategies.justified(chosen, demand, seen, JobBounds(*bounds), quirks) == expected


def counts(running=0, *, pending=0, late=0, made=0, unstarted=None, failed=0, completed=0, brief=0):
    unstarted = unstarted if unstarted is not None else pending + late
    return JobCounts(running, pending, late, made, unstarted, failed, completed, brief)


BOUNDS = JobBounds(0, 10)


@cases(
    ("a first decision", named(), waiting(5), counts(), 5, False),
    ("the same reading again", named(), waiting(5), counts(5, made=5), 0, False),
    ("the same reading after a crash", named(), waiting(5), counts(3, made=3), 2, False),
    ("Jobs that it made and that ended", named(), waiting(5), counts(3, late=2, made=5), 0, True),
    ("Jobs of earlier readings that ended since", named(), waiting(5), counts(0, late=2), 3, True),
    (
        "room that finished Jobs left is filled while the reading has events for it",
        named(),
        waiting(50),
        counts(9, late=1, made=10),
        1,
        False,
    ),
    ("a reading that is used up", named(), waiting(50), counts(0, late=50, made=50), 0, True),
    ("nothing waits", named(), waiting(0), counts(0, late=3), 0, False),
    ("accurate: the same reading again", named("accurate"), waiting(5), counts(5, made=5, unstarted=5), 0, False),
    ("accurate: Jobs that started before the reading", named("accurate"), waiting(5), counts(4), 5, False),
    (
        "accurate: a Job whose start it cannot have seen",
        named("accurate"),
        waiting(5),
        counts(4, unstarted=1),
        4,
        False,
    ),
    ("accurate: a Job that ended since", named("accurate"), waiting(5), counts(0, late=1), 4, True),
    ("Jobs that failed wait for the next poll", named(), waiting(5), counts(3, late=2, made=5, failed=2), 0, False),
    ("and keep their room until then", named(), waiting(50), counts(7, late=3, made=10, failed=3), 0, False),
    (
        "those that completed leave theirs",
        named(),
        waiting(50),
        counts(6, late=4, made=10, failed=3, completed=1),
        1,
        False,
    ),
    (
        "a reading that completed Jobs used up, and failed ones",
        named(),
        waiting(50),
        counts(0, late=50, made=50, failed=2, completed=48),
        0,
        True,
    ),
    (
        "one that failed Jobs used up, whatever else was deleted",
        named(),
        waiting(5),
        counts(0, late=9, made=5, failed=5),
        0,
        False,
    ),
    ("accurate: room of failed ones", named("accurate"), waiting(50), counts(7, late=3, failed=3), 0, False),
    ("eager: failed ones ask for nothing", named("eager"), waiting(9), counts(0, late=9, made=9, failed=9), 0, False),
    ("eager: one helping per reading", named("eager"), waiting(4), counts(4, made=4, unstarted=4), 0, False),
    ("eager: a helping for the next reading", named("eager"), waiting(4), counts(4), 4, False),
    (
        "eager: the rest of a helping after a crash",
        named("eager"),
        waiting(4),
        counts(6, made=2, unstarted=2),
        2,
        False,
    ),
    ("custom: one helping per reading", custom("0"), waiting(5), counts(5, made=5, unstarted=5), 0, False),
    (
        "custom: Jobs that ended since count as running",
        custom("1"),
        waiting(5),
        counts(3, late=2, unstarted=2),
        0,
        True,
    ),
)
def test_what_a_reading_justifies(chosen, demand, seen, expected, fresh):
    assert scaling_strategies.justified(chosen, demand, seen, BOUNDS) == expected
    assert scaling_strategies.needs_reading(chosen, demand, seen, BOUNDS) is fresh


def test_the_minimum_is_filled_on_any_reading():
    seen, bounds = counts(1, late=4, made=5), JobBounds(3, 10)
    assert scaling_strategies.justified(named(), waiting(0, active=True), seen, bounds) == 2


def test_failed_jobs_of_the_minimum_are_replaced_with_the_next_poll():
    seen, bounds = counts(1, late=2, made=3, failed=1), JobBounds(3, 10)
    assert scaling_strategies.justified(named(), waiting(0, active=True), seen, bounds) == 1
    assert not scaling_strategies.needs_reading(named(), waiting(0, active=True), seen, bounds)


def test_brief_jobs_of_the_minimum_are_replaced_with_the_next_poll():
    """Jobs that end at once where nothing waits would come one after the other."""
    seen, bounds = counts(1, late=2, made=3, completed=2, brief=2), JobBounds(3, 10)
    assert scaling_strategies.justified(named(), waiting(0, active=True), seen, bounds) == 0
    assert not scaling_strategies.needs_reading(named(), waiting(0, active=True), seen, bounds)


def test_brief_jobs_of_the_minimum_keep_no_work_waiting():
    seen, bounds = counts(1, late=2, made=3, completed=2, brief=2), JobBounds(3, 10)
    assert scaling_strategies.justified(named(), waiting(5, active=True), seen, bounds) == 5
    done = counts(0, late=8, made=8, completed=8, brief=8)
    assert scaling_strategies.justified(named(), waiting(5, active=True), done, bounds) == 0
    assert scaling_strategies.needs_reading(named(), waiting(5, active=True), done, bounds)


def test_idle_jobs_of_the_minimum_are_not_counted_against_the_queue():
    assert scaling_strategies.justified(named(), waiting(1), counts(2, made=2), JobBounds(2, 10)) == 1
    assert scaling_strategies.justified(named(), waiting(1), counts(3, made=3), JobBounds(2, 10)) == 0
