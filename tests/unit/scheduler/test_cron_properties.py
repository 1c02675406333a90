"""Schedules against two slower ways of working out when they fire, in zones whose clocks are changed in odd ways."""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from scheduler.cron import parse
from tests.support.tables import cases
from tests.unit.scheduler.cron_oracle import DAY, Plain, brute, procedure

#: Clocks are changed by whole hours, on the hour and away from midnight.
PLAIN_ZONES = ["UTC", "America/New_York", "Europe/London", "Asia/Kathmandu", "Australia/Sydney"]
#: At midnight, by half hours, by a day, or by something else that the search stumbles over.
ODD_ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Asuncion",
    "America/Havana",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "America/Caracas",
    "Europe/Amsterdam",
]


def some(low: int, high: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(low, high), min_size=1, max_size=4)


def often(low: int, high: int) -> st.SearchStrategy[frozenset[int]]:
    return st.just(frozenset(range(low, high + 1))) | some(low, high)


def days(low: int, high: int) -> st.SearchStrategy[frozenset[int] | None]:
    return st.none() | st.none() | some(low, high)


PLAINS = st.builds(Plain, often(0, 59), often(0, 23), days(1, 31), often(1, 12), days(0, 6))


@cache
def changes(name: str) -> list[datetime]:
    """Days, in UTC, in which the clocks of one of the zones are changed, until 2030."""
    zone, begin, end = ZoneInfo(name), 2010 if name in PLAIN_ZONES else 1965, 2030
    first = datetime(begin, 1, 1, tzinfo=UTC)
    noons = [first + number * DAY for number in range((end - begin) * 365)]
    offsets = [noon.astimezone(zone).utcoffset() for noon in noons]
    return [noon for noon, before, after in zip(noons, offsets, offsets[1:], strict=False) if before != after]


@st.composite
def moments(draw: st.DrawFn, names: list[str]) -> tuple[ZoneInfo, datetime]:
    """A zone and an instant, most often within days of a change of its clocks."""
    name = draw(st.sampled_from(names))
    around = draw(st.sampled_from(changes(name) or [datetime(2026, 3, 1, tzinfo=UTC)]))
    return ZoneInfo(name), around + timedelta(seconds=draw(st.integers(-3 * 86400, 3 * 86400)))


@settings(max_examples=150)
@given(PLAINS, moments(PLAIN_ZONES))
def test_slots_are_the_minutes_that_the_clocks_show(plain, moment):
    zone, after = moment
    schedule, until = parse(plain.text(), zone=zone.key), after + 6 * DAY
    assert list(schedule.slots(after, until)) == list(brute(plain, zone, after, until))


#: Whoever passes the midnight that Havana's spring leaves out by the hour does not notice that the day is another.
NINTH_AT_SIX = Plain(frozenset([0]), frozenset([6]), frozenset([9]), frozenset([3]), None)
#: Half an hour after half past one, Lord Howe's autumn has half past one again.
LORD_HOWE = (ZoneInfo("Australia/Lord_Howe"), datetime(2024, 4, 6, 15, 15, tzinfo=UTC))


#: Until 1972 Liberia's clocks were 44 minutes and 30 seconds behind.
MONROVIA = (ZoneInfo("Africa/Monrovia"), datetime(1971, 6, 1, 12, 44, 40, tzinfo=UTC))


#: Until 2011 the clocks of St. John's went back from a minute after midnight to the evening before.
ST_JOHNS = (ZoneInfo("America/St_Johns"), datetime(1987, 10, 25, tzinfo=UTC))
SUNDAYS = Plain(frozenset([1]), frozenset(range(24)), None, frozenset(range(1, 13)), frozenset([0]))


@settings(max_examples=600)
@given(PLAINS, moments(ODD_ZONES))
@example(Plain(frozenset([0]), frozenset([2]), None, frozenset(range(1, 13)), None), LORD_HOWE)
@example(Plain(frozenset([5]), frozenset(range(24)), None, frozenset(range(1, 13)), None), MONROVIA)
@example(NINTH_AT_SIX, (ZoneInfo("America/Havana"), datetime(2024, 3, 9, 12, tzinfo=UTC)))
def test_slots_are_those_that_the_procedure_finds(plain, moment):
    zone, after = moment
    schedule = parse(plain.text(), zone=zone.key)
    for _ in range(3):
        slot = procedure(plain, zone, after)
        if slot is None or slot > after:
            assert schedule.next(after) == slot
        else:
            assert schedule.next(after) > after, "the procedure goes back"
            break
        if slot is None:
            break
        after = slot


ALWAYS = frozenset(range(1, 13))
#: Each makes the search step over another field, around a clock change and far from one.
STEPPING = (
    Plain(frozenset([0]), frozenset([0]), None, ALWAYS, None),
    Plain(frozenset([30]), frozenset([1, 2]), None, ALWAYS, None),
    Plain(frozenset([5, 50]), frozenset([3, 23]), frozenset([1, 15, 31]), ALWAYS, None),
    Plain(frozenset([0]), frozenset([0, 12]), None, frozenset([1, 4, 10]), None),
    Plain(frozenset([59]), frozenset([23]), frozenset([29]), frozenset([2, 12]), None),
    Plain(frozenset(range(60)), frozenset([2]), frozenset([13]), ALWAYS, frozenset([5])),
)


@pytest.mark.parametrize("name", [*ODD_ZONES, "UTC"])
@pytest.mark.parametrize("plain", STEPPING, ids=Plain.text)
def test_slots_around_the_last_two_clock_changes_of_a_zone(plain, name):
    zone = ZoneInfo(name)
    found = changes(name)[-2:] or [datetime(2026, 2, 27, tzinfo=UTC)]
    for change in found:
        for hours in (-900, -30, -1, 3):
            after = change + timedelta(hours=hours, seconds=1234)
            slot = procedure(plain, zone, after)
            assert parse(plain.text(), zone=name).next(after) == slot, after


@settings(max_examples=150)
@given(PLAINS, moments(PLAIN_ZONES), st.integers(0, 6 * 86400), st.integers(1, 20))
def test_ranges_agree_with_enumerating(plain, moment, seconds, count):
    zone, after = moment
    _ranges_agree(plain, zone, after, after + timedelta(seconds=seconds), count)


@settings(max_examples=150)
@given(PLAINS, moments(ODD_ZONES), st.integers(0, 20 * 86400), st.integers(1, 20))
@example(SUNDAYS, ST_JOHNS, 86400, 20)
def test_ranges_agree_with_enumerating_however_odd_the_zone(plain, moment, seconds, count):
    zone, after = moment
    assume(len(plain.minutes) < 60)
    _ranges_agree(plain, zone, after, after + timedelta(seconds=seconds), count)


def _ranges_agree(plain, zone, after, until, count):
    schedule = parse(plain.text(), zone=zone.key)
    slots, slot = [], schedule.next(after)
    while slot is not None and slot <= until:
        slots.append(slot)
        slot = schedule.next(slot)
        assert slot is None or slot > slots[-1]
    assert list(schedule.slots(after, until)) == slots
    assert list(schedule.slots(after, until, count)) == slots[:count]
    assert schedule.newest(after, until, count) == (slots[-count:], len(slots) > count)
    assert schedule.latest(after, until) == (slots[-1] if slots else None)


@given(st.integers(1, 10**6), st.integers(0, 10**7), st.integers(-2, 1000), st.integers(0, 10**6), st.integers(1, 20))
def test_ranges_of_intervals_agree_with_counting(interval, begin, whole, rest, count):
    schedule = parse(f"@every {interval}s")
    after = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=begin, microseconds=begin % 10**6)
    until = after + timedelta(seconds=whole * interval + rest % interval)
    first = after.replace(microsecond=0)
    there = range(1, 1 + int((until - first).total_seconds()) // interval)
    slots = [first + number * timedelta(seconds=interval) for number in there]
    assert schedule.newest(after, until, count) == (slots[-count:], len(slots) > count)
    assert schedule.latest(after, until) == (slots[-1] if slots else None)
    assert list(schedule.slots(after, until, 3)) == slots[:3]


@cases(
    ("every minute", "* * * * *", "2026-03-01T12:00"),
    ("every second of one day", "* * * 1 1 *", "2026-01-01T23:59:59"),
    ("uneven hours", "30 10,11,12 * * 1-5", "2026-02-27T12:30"),
    ("one hour a day", "* 0 * * *", "2026-03-01T00:59"),
    ("leap day", "0 0 29 2 *", "2024-02-29T00:00"),
    ("interval", "@every 7m", "2026-03-01T11:53:30"),
)
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_latest_slot_is_found_however_long_ago_the_last_one_was(text, slot, zone):
    """Counting all of them would take minutes."""
    schedule = parse(text, zone=zone, seconds=True)
    after, until = datetime(1990, 1, 1, 0, 1, 30, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert schedule.latest(after, until) == datetime.fromisoformat(slot).replace(tzinfo=UTC)


def test_the_newest_slots_are_found_without_counting_a_year_of_seconds():
    after, until = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    slots, older = parse("* * * * * *", seconds=True).newest(after, until, 100)
    assert slots == [until - timedelta(seconds=number) for number in range(99, -1, -1)]
    assert older


def test_a_day_that_was_passed_over_is_not_found_by_who_looks_from_its_middle():
    """Half of the time is over on 26 April, which Cairo began an hour late."""
    schedule = parse("0 * 26 * *", zone="Africa/Cairo")
    after, until = datetime(2024, 3, 25, 12, tzinfo=UTC), datetime(2024, 5, 28, 6, tzinfo=UTC)
    slots = list(schedule.slots(after, until))
    assert {slot.month for slot in slots} == {3, 5}
    assert schedule.newest(after, until, 30) == (slots[-30:], True)


def test_until_the_end_of_time():
    end = datetime.max.replace(tzinfo=UTC)
    assert parse("@yearly").latest(datetime(9970, 1, 1, tzinfo=UTC), end) == datetime(9980, 1, 1, tzinfo=UTC)
    assert parse("@yearly").latest(end, end) is None


@cases(
    (
        "the last one on Friday noon, though the first two are an hour apart",
        "30 10,11,12 * * 1-5",
        "2026-02-26T10:30",
        "2026-02-27T16:30",
        "2026-02-27T12:30",
    ),
    ("the end of the one hour", "* 0 * * *", "2026-03-01T00:10", "2026-03-01T10:00", "2026-03-01T00:59"),
    ("exactly at the end", "0 2 * * *", "2026-03-01T02:00", "2026-03-02T02:00", "2026-03-02T02:00"),
    ("not at the beginning", "0 2 * * *", "2026-03-01T02:00", "2026-03-02T01:59:59.9", None),
    ("nothing before the beginning", "0 2 * * *", "2026-03-01T02:00", "2026-02-01T02:00", None),
    ("never", "0 0 30 2 *", "2026-03-01T02:00", "2036-03-01T02:00", None),
)
def test_latest(text, after, until, slot):
    after, until = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (after, until))
    assert parse(text).latest(after, until) == (None if slot is None else datetime.fromisoformat(slot + "+00:00"))
