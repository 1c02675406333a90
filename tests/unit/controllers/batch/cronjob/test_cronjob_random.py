"""A month driven at random: edits, suspension, wrong clocks, dying workers, a lagging watch; no run is doubled.

Of a ScheduledJob with catchUp All and concurrencyPolicy Allow, none is lost either.
"""

from datetime import UTC, datetime, timedelta

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

from scheduler import cron
from tests.support.tables import cases
from tests.unit.controllers.batch.cronjob.cronjob_cluster import Cluster
from tests.unit.controllers.batch.cronjob.cronjobs import OBSERVED
from workers.api import times
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, VC_CRON_JOB, Kind, Object

MONTH = timedelta(days=31)
HOUR = timedelta(hours=1)
NOON = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)
#: As long before the decision that finds it an edit may have been made.
EDIT_LAG = timedelta(seconds=2)
#: No Job is at work for longer while time passes.
LONGEST = timedelta(hours=3)
#: Months in which clocks are changed in some of the zones.
BEGINS = [datetime(2024, month, 1, 11, 20, tzinfo=UTC) for month in (3, 4, 10, 11)]
ZONES = [None, "America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "America/Santiago"]
SCHEDULES = ["0 * * * *", "0 */6 * * *", "30 1,2 * * *", "15 0,3,23 * * *", "*/20 2 * * 0,5", "45 12 1-7 * 1", "@daily"]


class Month(RuleBasedStateMachine):
    """One object of either kind.

    expected: the slots that had to have a Job by now. ahead: the latest moment that any clock has shown. died: a plan
    was cut short. blind: a decision may have known less than there was.
    """

    kind: Kind
    policies: tuple[str, ...]

    @initialize(data=st.data(), begin=st.sampled_from(BEGINS))
    def begin(self, data, begin):
        policy = data.draw(st.sampled_from(self.policies))
        self.cluster = Cluster(self.kind, begin, **self.spec(), **self.timing(data), concurrencyPolicy=policy)
        self.until = begin + MONTH
        self.ahead = begin
        self.expected: set[datetime] = set()
        self.died = self.blind = False
        self.settle()

    def spec(self) -> Object:
        return {}

    def timing(self, data: st.DataObject) -> Object:
        return {"schedule": data.draw(st.sampled_from(SCHEDULES)), "timeZone": data.draw(st.sampled_from(ZONES))}

    @property
    def calm(self) -> bool:
        """True if the store is up to date and no plan was cut short."""
        return not self.cluster.lagging and not self.died

    def settle(self) -> None:
        """All that is to be done now is done, and of what was due nothing is missing."""
        cluster, before = self.cluster, cursor(self.cluster.body)
        if not cluster.lagging:
            cluster.catch_up()
        if is_edited(cluster.body):
            # Slots before the edit were never due.
            before = max(before, cluster.now - EDIT_LAG)
        cluster.settle()
        self.ahead = max(self.ahead, cluster.now)
        # A store that lags may hide that the plan of a dead worker is not resumed yet.
        if not cluster.lagging:
            self.died = False
            self.check(before)

    def check(self, before: datetime) -> None:
        """before: how far slots were handled before all was done that was to be done now."""

    # Time

    @precondition(lambda self: self.cluster.now < self.until)
    @rule(
        length=st.sampled_from(
            [timedelta(minutes=1), timedelta(minutes=40), HOUR, timedelta(hours=20), timedelta(days=6)]
        )
    )
    def time_passes(self, length):
        """Whenever the key comes back, it is seen to. A watch does not lag for long."""
        cluster, until = self.cluster, self.cluster.now + length
        cluster.catch_up()
        self.settle()
        while cluster.back is not None and cluster.back <= until:
            cluster.now = max(cluster.now, cluster.back)
            for name in cluster.older(LONGEST):
                cluster.end(name, "Complete")
            self.settle()
        cluster.now = until

    @precondition(lambda self: self.calm and self.cluster.now < self.until)
    @rule(length=st.sampled_from([timedelta(minutes=15), timedelta(hours=5), timedelta(days=2)]))
    def workers_are_away(self, length):
        self.cluster.now += length

    # Another worker takes the key of a dead one within seconds, so deleted Jobs need not be remembered for an hour.
    @precondition(lambda self: not self.died)
    @rule()
    def the_clock_is_an_hour_fast(self):
        self.cluster.now += HOUR

    @precondition(lambda self: not self.died and self.cluster.now >= self.ahead - HOUR)
    @rule()
    def the_clock_is_set_back_by_an_hour(self):
        self.ahead = max(self.ahead, self.cluster.now)
        self.cluster.now -= HOUR
        self.cluster.marked = True

    # The author

    @rule(data=st.data())
    def the_schedule_is_edited(self, data):
        self.cluster.edit(**self.timing(data))

    @rule(suspend=st.booleans())
    def it_is_suspended_or_resumed(self, suspend):
        self.cluster.edit(suspend=suspend)

    # The cluster

    @precondition(lambda self: self.cluster.unfinished())
    @rule(data=st.data(), how=st.sampled_from(["Complete", "Failed"]))
    def a_job_ends(self, data, how):
        self.cluster.end(data.draw(st.sampled_from(self.cluster.unfinished())), how)

    @precondition(lambda self: self.cluster.unfinished())
    @rule(how=st.sampled_from(["Complete", "Failed"]))
    def all_jobs_end(self, how):
        for name in self.cluster.unfinished():
            self.cluster.end(name, how)

    @precondition(lambda self: self.cluster.known())
    @rule(data=st.data())
    def a_job_is_deleted(self, data):
        self.cluster.remove(data.draw(st.sampled_from(self.cluster.known())))

    @rule()
    def the_watch_falls_behind(self):
        self.cluster.lagging = self.blind = True

    @rule()
    def the_watch_catches_up(self):
        self.cluster.catch_up()

    # The workers

    @rule()
    def all_is_done(self):
        self.settle()

    @rule(writes=st.integers(0, 5), landed=st.booleans(), backwards=st.booleans())
    def a_worker_dies(self, writes, landed, backwards):
        self.blind = self.blind or not landed
        self.cluster.reconcile(dies_after=writes, landed=landed, backwards=backwards)
        self.ahead = max(self.ahead, self.cluster.now)
        self.died = True

    # What holds

    @invariant()
    def no_slot_has_two_jobs(self):
        if hasattr(self, "cluster"):
            twice = [slot for slot, times_made in self.cluster.made.items() if times_made > 1]
            assert not twice

    @invariant()
    def runs_that_must_not_overlap_do_not(self):
        if hasattr(self, "cluster") and not self.blind and self.cluster.body["spec"]["concurrencyPolicy"] != "Allow":
            assert len(self.cluster.unfinished()) <= 1

    @invariant()
    def nothing_runs_before_its_time(self):
        if hasattr(self, "cluster"):
            assert all(slot <= moment for moment, slot in self.cluster.created)

    def teardown(self):
        if hasattr(self, "cluster"):
            self.cluster.catch_up()
            self.settle()
            self.cluster.edit(suspend=False)
            self.cluster.now = max(self.cluster.now, self.ahead)
            self.settle()
            self.cluster.settle()
            self.no_slot_has_two_jobs()


def cursor(body: Object) -> datetime:
    """Returns the cursor in the status."""
    status, annotations = body.get("status") or {}, body["metadata"].get("annotations", {})
    edited = status.get("scheduleEditTime") or annotations.get(OBSERVED, "").partition(" since ")[2]
    return max(anchor(body), times.parse(edited)) if edited else anchor(body)


def anchor(body: Object) -> datetime:
    """Returns the last slot that was handled, or the moment of the creation."""
    status, metadata = body.get("status") or {}, body["metadata"]
    missed = status.get("lastMissedTime") or metadata.get("annotations", {}).get("penstock.dev/last-missed-time")
    known = [each for each in (status.get("lastScheduleTime"), missed) if each]
    return times.parse(max(known, default=metadata["creationTimestamp"]))


def is_edited(body: Object) -> bool:
    """True if no decision has recorded the object's present schedule, and one has recorded another."""
    annotation = body["metadata"].get("annotations", {}).get(OBSERVED, "").partition(" since ")[0]
    recorded = (body.get("status") or {}).get("observedSchedule") or annotation
    spec = body["spec"]
    return bool(recorded) and recorded != spec["schedule"] + (f" ({zone})" if (zone := spec.get("timeZone")) else "")


def passed(body: Object, since: datetime, until: datetime) -> list[datetime]:
    """The slots of this object's schedule in between."""
    schedule = cron.parse(body["spec"]["schedule"], zone=body["spec"].get("timeZone"))
    return list(schedule.slots(since, until))


class Everything(Month):
    """A ScheduledJob that makes up for all it missed."""

    kind = SCHEDULED_JOB
    policies = ("Allow",)

    def spec(self) -> Object:
        return {"catchUp": {"policy": "All", "limit": 1000}}

    def check(self, before: datetime) -> None:
        body, due = self.cluster.body, []
        if not body["spec"].get("suspend"):
            due = passed(body, before, self.cluster.now)
        self.expected.update(due)
        assert self.expected <= set(self.cluster.made)
        assert cursor(body) == (due[-1] if due else before)


class Newest(Month):
    """A CronJob: of what was missed, only the newest runs."""

    kind = CRON_JOB
    policies = ("Allow", "Forbid", "Replace")

    def check(self, before: datetime) -> None:
        cluster = self.cluster
        waits = cluster.body["spec"]["concurrencyPolicy"] == "Forbid" and cluster.unfinished()
        if cluster.body["spec"].get("suspend") or waits:
            return
        due = passed(cluster.body, before, cluster.now)
        self.expected.update(due[-1:])
        assert self.expected <= set(cluster.made)
        # It may be the slot of a Job, too, that a worker that died had made for another schedule.
        assert not due or due[-1] <= cursor(cluster.body) in {due[-1], *cluster.made}


class Volcano(Newest):
    """A CronJob of Volcano: its Jobs are of another kind, and end in another way."""

    kind = VC_CRON_JOB


def test_every_due_time_has_exactly_one_job():
    _run(Everything)


def test_no_due_time_has_two_jobs_and_the_newest_has_one():
    _run(Newest)


def test_no_due_time_has_two_jobs_of_volcano():
    _run(Volcano)


def _run(machine: type[Month]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=100, stateful_step_count=30))


@pytest.mark.parametrize("kind", [CRON_JOB, SCHEDULED_JOB, VC_CRON_JOB], ids=str)
def test_a_run_whose_job_was_deleted_before_the_status_reported_it_does_not_come_twice(kind):
    cluster = Cluster(kind, NOON - timedelta(minutes=5), schedule="0 12 * * *")
    cluster.settle()
    cluster.now = NOON
    cluster.reconcile(dies_after=1)
    cluster.remove(*cluster.jobs)
    cluster.settle()
    assert cluster.status["lastScheduleTime"] == times.render(NOON)
    assert len(cluster.created) == 1


@pytest.mark.parametrize("kind", [CRON_JOB, SCHEDULED_JOB, VC_CRON_JOB], ids=str)
@cases(
    ("the schedule is another for a while", {"schedule": "@yearly"}, {"schedule": "0 12 * * *"}),
    ("no run starts for a while", {"suspend": True}, {"suspend": None}),
    ("the schedule cannot be read for a while", {"schedule": "0 12 * *"}, {"schedule": "0 12 * * *"}),
)
def test_a_run_whose_job_was_all_there_was_of_it_does_not_come_twice(there, back, kind):
    """The worker died before the status listed it, and by the time the slot is due once more the Job is forgotten."""
    cluster = Cluster(kind, NOON - timedelta(minutes=5), schedule="0 12 * * *")
    cluster.settle()
    cluster.now = NOON
    cluster.reconcile(dies_after=1)
    assert (cluster.status.get("lastScheduleTime"), len(cluster.created)) == (None, 1)
    cluster.edit(**there)
    cluster.settle()
    for name in list(cluster.jobs):
        cluster.remove(name)
    cluster.settle()
    cluster.now += timedelta(hours=1)
    cluster.edit(**back)
    cluster.settle()
    assert len(cluster.created) == 1


def test_of_runs_that_are_made_up_for_side_by_side_the_newest_does_not_stand_for_all():
    spec = {"schedule": "0 * * * *", "catchUp": {"policy": "All"}}
    cluster = Cluster(SCHEDULED_JOB, NOON - timedelta(minutes=5), **spec)
    cluster.settle()
    cluster.now = NOON + 2 * HOUR
    cluster.reconcile(dies_after=1, backwards=True)
    assert list(cluster.made) == [NOON + 2 * HOUR]
    cluster.reconcile(dies_after=1)
    cluster.now += cluster.BACKOFF
    cluster.settle()
    assert sorted(cluster.made) == [NOON, NOON + HOUR, NOON + 2 * HOUR]
