"""The slots of schedules: the day rule, the horizon, clock changes, and differences to croniter."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from scheduler.cron import CronError, parse, stepping
from scheduler.cron.fields import DayField
from tests.support.tables import cases, for_each

DAY = timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def walls(text: str, zone: str, begin: str, end: str) -> str:
    """Returns the local times of the slots from begin to end (local too), in short: day, time and offset."""
    first, last = (datetime.fromisoformat(each).replace(tzinfo=ZoneInfo(zone)) for each in (begin, end))
    slots = parse(text, zone=zone).slots(first - timedelta(seconds=1), last)
    shown = [slot.astimezone(ZoneInfo(zone)) for slot in slots]
    return " ".join(f"{each:%d/%H:%M}{_offset(each)}" for each in shown)


def _offset(wall: datetime) -> str:
    return f"{wall.utcoffset() / timedelta(hours=1):+g}"


DAYS = {
    "star and star": ("*", "*", "1 2 3 4 5 6 7 8 9 10"),
    "day of the month": ("2,9", "*", "2 9"),
    "day of the week": ("*", "5", "6"),
    "either is enough": ("2,9", "5", "2 6 9"),
    "step of one keeps the star: both": ("*/1", "5", "6"),
    "a question mark is a star: both": ("?", "5", "6"),
    "a star in a list: both": ("1,*", "5", "6"),
    "a step loses the star: either": ("*/2", "5", "1 3 5 6 7 9"),
    "every day by number is no star: either": ("1-31", "5", "1 2 3 4 5 6 7 8 9 10"),
    "every weekday by number is no star: either": ("4", "0-6", "1 2 3 4 5 6 7 8 9 10"),
    "step on the weekday, star on the day: both": ("*", "*/3", "1 4 7 8"),
    "no day, any weekday: both": (",", "*", ""),
    "any day, no weekday: both": ("*", ",", ""),
    "no day or a weekday": (",", "5", "6"),
    "a day or no weekday": ("4", ",", "4"),
    "neither": (",", ",", ""),
}


@cases(DAYS)
def test_the_day_rule(day, weekday, days):
    slots = parse(f"0 0 {day} * {weekday}").slots(utc("2026-02-28T23:00"), utc("2026-03-10T12:00"))
    assert [slot.day for slot in slots] == [int(each) for each in days.split()]


@for_each(DayField(1 << 29 | 1 << 1, False), DayField(2**32 - 2, False), DayField(2**32 - 2, True))
@for_each(DayField(1 << 0 | 1 << 4, False), DayField(127, False), DayField(127, True))
def test_days_of_every_shape_of_month(weekday, day):
    """A leap cycle of the calendar has every month there is."""
    for year in range(1999, 2027):
        for month in range(1, 13):
            assert stepping.days(day, weekday, year, month) == _days(day, weekday, year, month), (year, month)


def _days(day: DayField, weekday: DayField, year: int, month: int) -> int:
    date, bits = datetime(year, month, 1, tzinfo=UTC), 0
    while date.month == month:
        both = (day.bits >> date.day & 1, weekday.bits >> date.isoweekday() % 7 & 1)
        bits |= (min(both) if day.star or weekday.star else max(both)) << date.day
        date += DAY
    return bits


NEXT = {
    "later than a slot, by a whole minute": ("* * * * *", "2026-03-01T12:00", "2026-03-01T12:01"),
    "just before": ("* * * * *", "2026-03-01T11:59:59.999999", "2026-03-01T12:00"),
    "fractions are cut off": ("* * * * *", "2026-03-01T12:00:00.5", "2026-03-01T12:01"),
    "the next hour": ("5 * * * *", "2026-03-01T12:05", "2026-03-01T13:05"),
    "the next day": ("0 2 * * *", "2026-03-01T02:00", "2026-03-02T02:00"),
    "the next month": ("0 2 1 * *", "2026-03-01T02:00", "2026-04-01T02:00"),
    "the next year": ("0 2 1 3 *", "2026-03-01T02:00", "2027-03-01T02:00"),
    "over the year's end": ("59 23 31 12 *", "2026-12-31T23:59", "2027-12-31T23:59"),
    "months without the day are passed over": ("0 0 31 * *", "2026-03-31T00:00", "2026-05-31T00:00"),
    "leap day": ("0 0 29 2 *", "2025-01-01T00:00", "2028-02-29T00:00"),
    "leap day on a Monday by both fields": ("0 0 29 2 1", "2025-02-24T00:00", "2026-02-02T00:00"),
    "the last leap day before 2100": ("0 0 29 2 *", "2095-01-01T00:00", "2096-02-29T00:00"),
    "no leap day in 2100": ("0 0 29 2 *", "2096-02-29T00:00", None),
    "the sixth calendar year is too far": ("0 0 29 2 *", "2098-12-31T00:00", None),
    "the fifth is not": ("0 0 29 2 *", "2099-01-01T00:00", "2104-02-29T00:00"),
    "30 February": ("0 0 30 2 *", "2026-01-01T00:00", None),
    "31 November": ("0 0 31 11 *", "2026-01-01T00:00", None),
    "no minute": (", * * * *", "2026-01-01T00:00", None),
    "no hour": ("0 , * * *", "2026-01-01T00:00", None),
    "no month": ("0 0 * , *", "2026-01-01T00:00", None),
    "interval": ("@every 90s", "2026-03-01T12:00:30", "2026-03-01T12:02"),
    "interval, fractions are cut off": ("@every 90s", "2026-03-01T12:00:30.7", "2026-03-01T12:02"),
    "before the epoch": ("30 6 * * *", "1969-12-31T06:29:59.5", "1969-12-31T06:30"),
    "the beginning of time": ("0 0 1 1 *", "0001-01-01T00:00", "0002-01-01T00:00"),
    "the end of time": ("0 0 1 1 *", "9999-12-31T23:59:59", None),
    "an interval at the end of time": ("@every 1h", "9999-12-31T23:59:59", None),
}


@cases(NEXT)
def test_next(text, after, slot):
    assert parse(text).next(utc(after)) == (None if slot is None else utc(slot))


@for_each(
    ("@every 10m", 5, ["12:10", "12:20", "12:30"], False),
    ("@every 10m", 3, ["12:10", "12:20", "12:30"], False),
    ("@every 10m", 2, ["12:20", "12:30"], True),
    ("@every 10m", 1, ["12:30"], True),
    ("@every 40m", 1, [], False),
    ("*/10 * * * *", 3, ["12:10", "12:20", "12:30"], False),
    ("*/10 * * * *", 2, ["12:20", "12:30"], True),
)
def test_the_newest_slots(text, count, slots, older):
    """After noon, until half past, that included."""
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    found, more = parse(text).newest(noon, noon + timedelta(minutes=30, seconds=59), count)
    assert ([f"{slot:%H:%M}" for slot in found], more) == (slots, older)


def test_the_instant_counts_not_how_it_is_written():
    tokyo = datetime(2026, 3, 1, 21, 0, tzinfo=timezone(9 * timedelta(hours=1)))
    assert parse("5 * * * *").next(tokyo) == utc("2026-03-01T12:05")
    with pytest.raises(TypeError):
        parse("5 * * * *").next(tokyo.replace(tzinfo=None))


NEW_YORK = "America/New_York"
SPRING = {
    "30 2 * * *": "09/02:30-5 11/02:30-4",
    "0 2 * * *": "09/02:00-5 11/02:00-4",
    "30 1 * * *": "09/01:30-5 10/01:30-5 11/01:30-4",
    "*/15 2 * * *": "09/02:00-5 09/02:15-5 09/02:30-5 09/02:45-5 11/02:00-4 11/02:15-4 11/02:30-4 11/02:45-4",
    "@daily": "09/00:00-5 10/00:00-5 11/00:00-4",
}


@pytest.mark.parametrize(("text", "slots"), SPRING.items())
def test_the_hour_that_spring_leaves_out(text, slots):
    assert walls(text, NEW_YORK, "2024-03-09T00:00", "2024-03-11T12:00") == slots


AUTUMN = {
    "30 2 * * *": "03/02:30-5",
    "0 2 * * *": "03/02:00-5",
    "30 1 * * *": "03/01:30-4 03/01:30-5",
    "0 * * * *": "03/00:00-4 03/01:00-4 03/01:00-5 03/02:00-5 03/03:00-5",
    "@hourly": "03/00:00-4 03/01:00-4 03/01:00-5 03/02:00-5 03/03:00-5",
    "*/15 2 * * *": "03/02:00-5 03/02:15-5 03/02:30-5 03/02:45-5",
    "0 */2 * * *": "03/00:00-4 03/02:00-5",
    "@daily": "03/00:00-4",
    "@every 1h": "03/00:59-4 03/01:59-4 03/01:59-5 03/02:59-5",
}


@pytest.mark.parametrize(("text", "slots"), AUTUMN.items())
def test_the_hour_that_autumn_has_twice(text, slots):
    assert walls(text, NEW_YORK, "2024-11-03T00:00", "2024-11-03T03:00") == slots


ODD = {
    "spring by the hour": ("0 * * * *", NEW_YORK, "2024-03-10T01", "2024-03-10T04", "10/01:00-5 10/03:00-4 10/04:00-4"),
    "spring by two hours": (
        "0 */2 * * *",
        NEW_YORK,
        "2024-03-10T00",
        "2024-03-10T06",
        "10/00:00-5 10/04:00-4 10/06:00-4",
    ),
    "spring, elapsed": ("@every 1h", NEW_YORK, "2024-03-10T00", "2024-03-10T04:00", "10/00:59-5 10/01:59-5 10/03:59-4"),
    "half an hour in spring": (
        "0 3 * * *",
        "Australia/Lord_Howe",
        "2024-10-05T00",
        "2024-10-07T12",
        "05/03:00+10.5 07/03:00+11",
    ),
    "half an hour in autumn": (
        "0 2 * * *",
        "Australia/Lord_Howe",
        "2024-04-06T00",
        "2024-04-08T12",
        "06/02:00+11 08/02:00+10.5",
    ),
    "no midnight in the west": (
        "0 0 * * *",
        "America/Havana",
        "2024-03-09T00",
        "2024-03-11T12",
        "09/00:00-5 11/00:00-4",
    ),
    "two midnights in the west": (
        "0 0 * * *",
        "America/Havana",
        "2024-11-03T00",
        "2024-11-04T12",
        "03/00:00-4 03/00:00-5 04/00:00-5",
    ),
    "no midnight in the east": ("0 0 * * *", "Africa/Cairo", "2024-04-25T00", "2024-04-27T12", "25/00:00+2 27/00:00+3"),
    "no midnight in the far west": (
        "0 0 * * *",
        "America/Sao_Paulo",
        "2018-11-03T00",
        "2018-11-05T12",
        "03/00:00-3 05/00:00-2",
    ),
    "the day still begins, an hour late": (
        "0 1 10 * *",
        "America/Havana",
        "2024-03-01T00",
        "2024-03-31T12",
        "10/01:00-4",
    ),
    "a day without midnight, and a later one": (
        "0 6 3 4 *",
        "America/Havana",
        "1990-03-17T00",
        "1991-04-30T00",
        "03/06:00-5",
    ),
    "in the east it vanishes": ("0 6 26 * *", "Africa/Cairo", "2024-04-01T00", "2024-05-31T12", "26/06:00+3"),
    "a date that a zone left out": ("0 6 30 * *", "Pacific/Apia", "2011-12-01T00", "2012-01-31T12", "30/06:00+14"),
    "the days around it": ("0 6 * * *", "Pacific/Apia", "2011-12-29T00", "2011-12-31T12", "29/06:00-10 31/06:00+14"),
    "or by weekday, a Friday": (
        "0 6 * * 5",
        "Pacific/Apia",
        "2011-12-22T00",
        "2012-01-06T12",
        "23/06:00-10 06/06:00+14",
    ),
    "a month after a date left out": (
        "0 6 1 * *",
        "Pacific/Kiritimati",
        "1994-12-01T00",
        "1995-02-02T00",
        "01/06:00-10 01/06:00+14 01/06:00+14",
    ),
}


@cases(ODD)
def test_odd_changes_of_clocks(text, zone, begin, end, slots):
    assert walls(text, zone, begin, end) == slots


# Where croniter reads or steps differently, and why it is asked for dates only. Slots follow noon of Friday 2 January
# 2026; None for a text that is refused.
FRIDAY = utc("2026-01-02T12:00")
REFUSED = None
APART = {
    "5-5 * * * *": ("02/12:05 02/13:05", "02/12:01 02/12:02"),
    "0 22-22 * * *": ("02/22:00 03/22:00", "02/13:00 02/14:00"),
    "0 0 * * 7": (REFUSED, "04/00:00 11/00:00"),
    "0 0 * * 5-7": (REFUSED, "03/00:00 04/00:00"),
    "0 0 * * FRI-MON": (REFUSED, "03/00:00 04/00:00"),
    "30 23-2 * * *": (REFUSED, "02/23:30 03/00:30"),
    "0 0 1 nov-feb *": (REFUSED, "01/00:00 01/00:00"),
    "0 0 */1 * 5": ("09/00:00 16/00:00", "03/00:00 04/00:00"),
    "0 0 */2 * 5": ("03/00:00 05/00:00", "03/00:00 05/00:00"),
    "0 0 1,* * 1": ("05/00:00 12/00:00", "05/00:00 12/00:00"),
    "? * * * *": ("02/12:01 02/12:02", REFUSED),
    "0 ? * * *": ("02/13:00 02/14:00", REFUSED),
    "0 0 1 ? *": ("01/00:00 01/00:00", REFUSED),
    "?/5 * * * *": ("02/12:05 02/12:10", REFUSED),
    "?-5 * * * *": ("02/12:01 02/12:02", REFUSED),
    "1, * * * *": ("02/12:01 02/13:01", REFUSED),
    ",5 * * * *": ("02/12:05 02/13:05", REFUSED),
    "1,,2 * * * *": ("02/12:01 02/12:02", REFUSED),
    ", * * * *": ("", REFUSED),
    "+5 * * * *": ("02/12:05 02/13:05", REFUSED),
    "*-5 * * * *": ("02/12:01 02/12:02", REFUSED),
    "* * * * * 0": (REFUSED, "02/12:01 02/12:02"),
    "0 0 L * *": (REFUSED, "31/00:00 28/00:00"),
    "0 0 * * 5#2": (REFUSED, "09/00:00 13/00:00"),
    "0 0 * * mon#1": (REFUSED, "05/00:00 02/00:00"),
    "0 0 * * L5": (REFUSED, "30/00:00 27/00:00"),
    "0 0 15W * *": (REFUSED, "15/00:00 16/00:00"),
    "0 0 * * 5L": (REFUSED, REFUSED),
    "0 0 LW * *": (REFUSED, REFUSED),
    "0 0 * * mon/2": ("05/00:00 07/00:00", "05/00:00 07/00:00"),
    "H * * * *": (REFUSED, REFUSED),
    "@every 90s": ("02/12:01 02/12:03", REFUSED),
    "@hourly": ("02/13:00 02/14:00", "02/13:00 02/14:00"),
    "@Hourly": (REFUSED, "02/13:00 02/14:00"),
    "TZ=UTC 0 0 * * *": ("03/00:00 04/00:00", REFUSED),
    "CRON_TZ=UTC 0 0 * * *": ("03/00:00 04/00:00", REFUSED),
    "0 0 31 2 *": ("", REFUSED),
}


def _ours(text: str) -> str | None:
    try:
        schedule = parse(text)
    except CronError:
        return REFUSED
    return " ".join(f"{slot:%d/%H:%M}" for slot in schedule.slots(FRIDAY, FRIDAY + 9999 * DAY, 2))


def _croniter(text: str) -> str | None:
    try:
        slots = croniter(text, FRIDAY, ret_type=datetime)
        return " ".join(f"{next(slots):%d/%H:%M}" for _ in range(2))
    # StopIteration: nothing in fifty years.
    except (ValueError, StopIteration):
        return REFUSED


@pytest.mark.parametrize(("text", "slots"), APART.items())
def test_where_croniter_reads_texts_differently(text, slots):
    assert (_ours(text), _croniter(text)) == slots


def test_croniter_makes_up_for_what_spring_leaves_out():
    noon = datetime(2024, 3, 9, 12, tzinfo=ZoneInfo(NEW_YORK))
    assert f"{croniter('30 2 * * *', noon).get_next(datetime):%d/%H:%M}" == "10/03:00"
    assert f"{parse('30 2 * * *', zone=NEW_YORK).next(noon).astimezone(noon.tzinfo):%d/%H:%M}" == "11/02:30"


def test_croniter_looks_further_ahead():
    assert croniter("0 0 29 2 *", utc("2096-03-01T00:00")).get_next(datetime) == utc("2104-02-29T00:00")
    assert parse("0 0 29 2 *").next(utc("2096-03-01T00:00")) is None
