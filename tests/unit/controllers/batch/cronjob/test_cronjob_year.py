"""A year of one CronJob in each of ten zones: it runs whenever the clocks show its time, and then only."""

import heapq
from datetime import UTC, datetime, timedelta
from itertools import count
from zoneinfo import ZoneInfo

import pytest

from tests.unit.controllers.batch.cronjob.cronjob_cluster import Cluster
from tests.unit.scheduler.cron_oracle import Plain, brute
from workers.api import times
from workers.api.kinds import CRON_JOB

BEGIN, END = datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
#: No schedule here names a minute that is no multiple of it.
STEP = timedelta(minutes=15)
TAKES = timedelta(minutes=20)
DAILY = None
ALL_MONTHS = frozenset(range(1, 13))


def daily(minutes: list[int], hours: list[int], weekdays: list[int] | None = DAILY) -> Plain:
    days = None if weekdays is None else frozenset(weekdays)
    return Plain(frozenset(minutes), frozenset(hours), None, ALL_MONTHS, days)


#: What the clocks show and Kubernetes passes over nevertheless, as docs/schedules.md tells.
PASSED_OVER = {
    # By the hour, half an hour after the change of half an hour: 02:30, 03:30, 04:00.
    "Australia/Lord_Howe": ["2024-04-07T03:00+10:30", "2024-10-06T03:00+11:00"],
    # A day that begins at 01:00 is passed over by who looks for it day by day.
    "Africa/Cairo": ["2024-04-26T23:30+03:00"],
}

YEARS = {
    "America/New_York": daily([30], [1, 2]),
    "Europe/London": daily([0, 30], [1]),
    "Australia/Sydney": daily([15], [2]),
    "America/St_Johns": daily([0, 30], [1, 2], [0]),
    "Africa/Casablanca": daily([0], [2, 3]),
    "Atlantic/Azores": daily([0], [0, 1]),
    "Antarctica/Troll": daily([0], [1, 2, 3, 4], [0]),
    "Australia/Lord_Howe": daily([0], [3]),
    "Africa/Cairo": daily([30], [0, 23], [5]),
    "America/Santiago": daily([0], [0, 23]),
}


def due(zone: str, plain: Plain) -> list[datetime]:
    """Every due time of the year, from what the clocks show."""
    passed_over = {datetime.fromisoformat(each) for each in PASSED_OVER.get(zone, ())}
    shown = list(brute(plain, ZoneInfo(zone), BEGIN, END - STEP, STEP))
    assert passed_over <= set(shown)
    return [slot for slot in shown if slot not in passed_over]


@pytest.mark.parametrize(("zone", "plain"), YEARS.items(), ids=YEARS)
def test_a_year_of_a_cronjob(zone, plain):
    expected = due(zone, plain)
    offsets = {slot.astimezone(ZoneInfo(zone)).utcoffset() for slot in expected}
    assert len(offsets) == 2, "the clocks of the zone are changed"
    cluster = Cluster(CRON_JOB, BEGIN, schedule=plain.text(), timeZone=zone, failedJobsHistoryLimit=1)
    live(cluster, END)
    assert [slot for _, slot in cluster.created] == expected
    assert all(moment == slot for moment, slot in cluster.created), "every run starts when it is due"
    assert cluster.status == {
        "lastScheduleTime": times.render(expected[-1]),
        "lastSuccessfulTime": cluster.status["lastSuccessfulTime"],
    }
    assert set(cluster.told) == {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}
    assert cluster.told["SuccessfulCreate"] == cluster.told["SawCompletedJob"] == len(expected)
    assert len(cluster.jobs) == 3 + 1
    assert cluster.reconciles <= 4 * len(expected) + 10, "it sleeps in between"


def live(cluster: Cluster, until: datetime) -> None:
    """From one moment at which something happens to the next. Every tenth Job fails."""
    ends: list[tuple[datetime, str, str]] = []
    known: set[str] = set()
    numbers = count(1)
    while cluster.now < until:
        cluster.settle()
        for name in sorted(set(cluster.unfinished()) - known):
            known.add(name)
            heapq.heappush(ends, (cluster.now + TAKES, name, "Failed" if next(numbers) % 10 == 0 else "Complete"))
        assert cluster.back is not None
        cluster.now = min(cluster.back, *(moment for moment, _, _ in ends[:1]), until)
        while ends and ends[0][0] <= cluster.now:
            _, name, how = heapq.heappop(ends)
            cluster.end(name, how)
    cluster.settle()
