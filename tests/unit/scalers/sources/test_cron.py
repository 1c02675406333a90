"""The `cron` trigger: when its window is open, and what it refuses."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.parameters import SettingsError, Trigger
from scalers.sources.cron import CronScaler

BERLIN = {"timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "30 17 * * 1-5", "desiredReplicas": "3"}


def cron(**metadata: str) -> CronScaler:
    return CronScaler.parse(Trigger(0, "cron", metadata={**BERLIN, **metadata}))


@pytest.mark.parametrize(
    ("metadata", "at", "is_open"),
    [
        pytest.param({}, "2026-03-02 07:59:59", False, id="Monday, before the start"),
        pytest.param({}, "2026-03-02 08:00", True, id="Monday, at the start"),
        pytest.param({}, "2026-03-02 17:29:59", True, id="Monday, just before the end"),
        pytest.param({}, "2026-03-02 17:30", False, id="Monday, at the end"),
        pytest.param({}, "2026-03-07 12:00", False, id="Saturday"),
        pytest.param({"start": "0 22 * * *", "end": "0 6 * * *"}, "2026-03-03 01:00", True, id="over midnight"),
        pytest.param({"start": "0 22 * * *", "end": "0 6 * * *"}, "2026-03-03 21:00", False, id="by day"),
        pytest.param(
            {"start": "30 2 * * *", "end": "0 5 * * *"}, "2026-03-29 04:00", False, id="a start in the spring gap"
        ),
        pytest.param(
            {"start": "30 2 * * *", "end": "0 5 * * *"}, "2026-03-28 12:00", False, id="the day before such a start"
        ),
        pytest.param({"start": "0 1 1 1 *", "end": "0 1 1 7 *"}, "2026-05-01 00:00", True, id="half a year"),
        pytest.param({"start": "0 8 ? * MON-FRI"}, "2026-03-02 09:00", True, id="a question mark and names"),
        pytest.param({"start": "TZ=UTC 0 8 * * 1-5"}, "2026-03-02 08:30", False, id="a zone in the start"),
        pytest.param({"end": "CRON_TZ=America/New_York 30 17 * * *"}, "2026-03-02 23:00", True, id="a zone in the end"),
        pytest.param(
            {"start": "0 8 * * *", "end": "00 08 * * *"}, "2026-03-02 09:00", False, id="one tick, spelled twice"
        ),
    ],
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


@pytest.mark.parametrize(
    ("metadata", "at", "ours", "kedas"),
    [
        pytest.param({}, "2026-03-02 12:00", True, True, id="an ordinary day"),
        pytest.param(GAP, "2026-03-28 12:00", False, True, id="the day before a start that the clock change skips"),
        pytest.param(
            {"start": "0 8 * * *", "end": "00 08 * * *"}, "2026-03-02 09:00", False, True, id="one tick twice"
        ),
        pytest.param({"start": "0 0 30 2 *"}, "2026-03-02 12:00", None, True, id="a start that never comes"),
        pytest.param({"end": "0 0 30 2 *"}, "2026-03-02 12:00", None, False, id="an end that never comes"),
    ],
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
