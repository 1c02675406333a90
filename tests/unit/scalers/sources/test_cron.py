"""The `cron` trigger: when its window is open, and what it refuses."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.parameters import SettingsError, Trigger
from scalers.sources.cron import CronScaler
from tests.support.tables import cases

BERLIN = {"timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "30 17 * * 1-5", "desiredReplicas": "3"}


def cron(**metadata: str) -> CronScaler:
    return CronScaler.parse(Trigger(0, "cron", metadata={**BERLIN, **metadata}))


@cases(
    ("Monday, before the start", {}, "2026-03-02 07:59:59", False),
    ("Monday, at the start", {}, "2026-03-02 08:00", True),
    ("Monday, just before the end", {}, "2026-03-02 17:29:59", True),
    ("Monday, at the end", {}, "2026-03-02 17:30", False),
    ("Saturday", {}, "2026-03-07 12:00", False),
    ("over midnight", {"start": "0 22 * * *", "end": "0 6 * * *"}, "2026-03-03 01:00", True),
    ("by day", {"start": "0 22 * * *", "end": "0 6 * * *"}, "2026-03-03 21:00", False),
    ("a start in the spring gap", {"start": "30 2 * * *", "end": "0 5 * * *"}, "2026-03-29 03:29", False),
    ("it comes an hour later", {"start": "30 2 * * *", "end": "0 5 * * *"}, "2026-03-29 03:30", True),
    ("its end is as ever", {"start": "30 2 * * *", "end": "0 5 * * *"}, "2026-03-29 05:00", False),
    ("an end in the spring gap", {"start": "0 1 * * *", "end": "30 2 * * *"}, "2026-03-29 03:29", True),
    ("that end comes an hour later", {"start": "0 1 * * *", "end": "30 2 * * *"}, "2026-03-29 03:30", False),
    ("it lasts for the rest of the day", {"start": "0 1 * * *", "end": "30 2 * * *"}, "2026-03-29 23:00", False),
    ("both in the spring gap", {"start": "10 2 * * *", "end": "50 2 * * *"}, "2026-03-29 03:30", True),
    ("both in the spring gap, after it", {"start": "10 2 * * *", "end": "50 2 * * *"}, "2026-03-29 03:50", False),
    ("a zone of its own in the gap", {"start": "CRON_TZ=America/New_York 30 2 8 3 *"}, "2026-03-08 08:30", True),
    ("a tick that the autumn shows twice", {"start": "30 2 * * *", "end": "0 8 * * *"}, "2026-10-25 02:29", False),
    ("once a year", {"start": "30 2 29 3 *", "end": "0 0 1 12 *"}, "2026-07-01 00:00", True),
    ("the day before such a start", {"start": "30 2 * * *", "end": "0 5 * * *"}, "2026-03-28 12:00", False),
    ("half a year", {"start": "0 1 1 1 *", "end": "0 1 1 7 *"}, "2026-05-01 00:00", True),
    ("a question mark and names", {"start": "0 8 ? * MON-FRI"}, "2026-03-02 09:00", True),
    ("a zone in the start", {"start": "TZ=UTC 0 8 * * 1-5"}, "2026-03-02 08:30", False),
    ("a zone in the end", {"end": "CRON_TZ=America/New_York 30 17 * * *"}, "2026-03-02 23:00", True),
    ("one tick, spelled twice", {"start": "0 8 * * *", "end": "00 08 * * *"}, "2026-03-02 09:00", False),
)
def test_the_window(metadata: dict[str, str], at: str, is_open: bool) -> None:
    now = datetime.fromisoformat(at).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert cron(**metadata).is_open(now) is is_open


def test_names_and_numbers() -> None:
    trigger = cron(start="*/5 8,9 * * ?")
    assert trigger.metric == "cron-Europe/Berlin-xSl58Cm9xxQm-3017xx1-5"
    assert trigger.target == 1


async def test_it_measures_replicas() -> None:
    assert await cron(start="* * * * *", end="0 0 29 2 *").measure() == 3.0
    assert await cron(start="0 0 29 2 *", end="* * * * *").measure() == 0.0


GAP = {"start": "30 2 * * *", "end": "0 5 * * *"}


@cases(
    ("an ordinary day", {}, "2026-03-02 12:00", True, True),
    ("the day before a start that the clock change skips", GAP, "2026-03-28 12:00", False, True),
    ("one tick twice", {"start": "0 8 * * *", "end": "00 08 * * *"}, "2026-03-02 09:00", False, True),
    ("a start that never comes", {"start": "0 0 30 2 *"}, "2026-03-02 12:00", None, True),
    ("an end that never comes", {"end": "0 0 30 2 *"}, "2026-03-02 12:00", None, False),
)
def test_kedas_window(metadata: dict[str, str], at: str, ours: bool | None, kedas: bool) -> None:
    """ours: None for a trigger that is refused."""
    now = datetime.fromisoformat(at).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    trigger = Trigger(0, "cron", metadata={**BERLIN, **metadata})
    if ours is None:
        with pytest.raises(SettingsError, match="never fires"):
            CronScaler.parse(trigger)
    else:
        assert CronScaler.parse(trigger).is_open(now) is ours
    assert CronScaler.parse(replace(trigger, quirks="cron-next-ticks")).is_open(now) is kedas
