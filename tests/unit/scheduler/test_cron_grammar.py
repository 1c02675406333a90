"""The text of a schedule: every rule of the grammar, and the words in which a wrong text is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cron import CronError, durations, parse
from scheduler.cron.fields import read
from tests.support.tables import cases

MINUTES = range(60)


# In the minute field, unless the row says otherwise: what the text names.
@cases(
    ("star", "*", MINUTES),
    ("question mark", "?", MINUTES),
    ("number", "7", [7]),
    ("sign and leading zeros", "+007", [7]),
    ("range", "5-8", range(5, 9)),
    ("range of one", "5-5", [5]),
    ("list", "1,2,50-51", [1, 2, 50, 51]),
    ("twice the same", "1,1-2", [1, 2]),
    ("empty items are skipped", ",1,,3,", [1, 3]),
    ("nothing but empty items", ",", []),
    ("step of a star", "*/20", [0, 20, 40]),
    ("step of a question mark", "?/20", [0, 20, 40]),
    ("step of a range", "10-20/5", [10, 15, 20]),
    ("step of a number counts to the end", "50/4", [50, 54, 58]),
    ("step beyond the span", "*/61", [0]),
    ("step with a sign", "*/+30", [0, 30]),
    ("what follows a star's hyphen is ignored", "*-5", MINUTES),
    ("even if it is nonsense", "*-x-y", MINUTES),
    ("and with a step", "?-5/30", [0, 30]),
)
def test_items(text, values):
    assert read("0", text, "0", "*", "*", "*").minute == sum(1 << value for value in values)


@cases(
    ("months", "*", "jan,MAR-May,Dec", "month", [1, 3, 4, 5, 12]),
    ("weekdays", "mon-WED,sAt", "*", "weekday", [1, 2, 3, 6]),
    ("a name with a step", "mon/2", "*", "weekday", [1, 3, 5]),
)
def test_names(weekday, month, field, values):
    found = getattr(read("0", "0", "0", "*", month, weekday), field)
    assert getattr(found, "bits", found) == sum(1 << value for value in values)


@cases(
    ("star", "*", True),
    ("question mark", "?", True),
    ("step of one", "*/1", True),
    ("step of two", "*/2", False),
    ("in a list", "1,*", True),
    ("in a list of steps", "*/2,*/3", False),
    ("every day by number", "1-31", False),
    ("star with a hyphen", "*-3", True),
)
def test_the_star_is_remembered_unless_it_is_stepped(text, star):
    assert read("0", "0", "0", text, "*", "*").day.star is star


INTEGER = 'failed to parse int from {0}: strconv.Atoi: parsing "{0}": invalid syntax'


@cases(
    ("empty", "", "empty spec string"),
    ("blank", "  ", "expected exactly 5 fields, found 0: []"),
    ("four fields", "* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    ("six fields", "0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]"),
    ("seven fields", "0 * * * * * 2020", "expected exactly 5 fields, found 7: [0 * * * * * 2020]"),
    ("no number", "x * * * *", INTEGER.format("x")),
    ("digits of other scripts", "٣ * * * *", INTEGER.format("٣")),
    ("underscores", "1_0 * * * *", INTEGER.format("1_0")),
    ("negative start", "-5 * * * *", INTEGER.format("")),
    ("negative step", "*/-5 * * * *", "negative number (-5) not allowed: -5"),
    ("no word can hold it", "9999999999999999999 * * * *", "value out of range"),
    ("the first that no word can hold", "9223372036854775808 * * * *", "value out of range"),
    ("the last that one can", "9223372036854775807 * * * *", "above maximum"),
    ("nor read it", "1" * 5000 + " * * * *", "value out of range"),
    ("hyphens", "1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ("slashes", "1/2/3 * * * *", "too many slashes: 1/2/3"),
    ("minute 60", "60 * * * *", "end of range (60) above maximum (59): 60"),
    ("hour 24", "0 24 * * *", "end of range (24) above maximum (23): 24"),
    ("day 0", "0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("day 32", "0 0 32 * *", "end of range (32) above maximum (31): 32"),
    ("month 0", "0 0 * 0 *", "beginning of range (0) below minimum (1): 0"),
    ("month 13", "0 0 * 13 *", "end of range (13) above maximum (12): 13"),
    ("weekday 7", "0 0 * * 7", "end of range (7) above maximum (6): 7"),
    ("no wrapping around", "0 0 * * fri-mon", "beginning of range (5) beyond end of range (1): fri-mon"),
    ("step 0", "*/0 * * * *", "step of range should be a positive number: */0"),
    ("names are of three letters", "0 0 * january *", INTEGER.format("january")),
    ("weekdays are no months", "0 0 * mon *", INTEGER.format("mon")),
    ("last day", "0 0 L * *", INTEGER.format("L")),
    ("nearest weekday", "0 0 15W * *", INTEGER.format("15W")),
    ("nth weekday", "0 0 * * 5#2", INTEGER.format("5#2")),
    ("hash", "H * * * *", INTEGER.format("H")),
    ("random", "R * * * *", INTEGER.format("R")),
    ("reboot", "@reboot", "unrecognized descriptor: @reboot"),
    ("macro in capitals", "@Daily", "unrecognized descriptor: @Daily"),
    ("blank behind a macro", "@daily ", "unrecognized descriptor: @daily "),
    ("blank before a macro", " @daily", "expected exactly 5 fields, found 1: [@daily]"),
    ("every what", "@every", "unrecognized descriptor: @every"),
    ("two blanks", "@every  1h", 'failed to parse duration @every  1h: time: invalid duration " 1h"'),
    ("days", "@every 1d", 'failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"'),
    ("no unit", "@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
    ("no duration", "@every ", 'failed to parse duration @every : time: invalid duration ""'),
    ("only a sign", "@every -", 'time: invalid duration "-"'),
    ("only a point", "@every .s", 'time: invalid duration ".s"'),
    ("exponent", "@every 1e3s", 'time: unknown unit "e" in duration "1e3s"'),
    ("capitals", "@every 1H", 'time: unknown unit "H" in duration "1H"'),
    ("three hundred years", "@every 2628000h", 'time: invalid duration "2628000h"'),
    ("no word can hold the duration", f"@every {'9' * 5000}h", "time: invalid duration"),
    ("nothing behind the zone", "TZ=UTC", "invalid schedule format"),
    ("only a blank behind the zone", "TZ=UTC ", "expected exactly 5 fields, found 0: []"),
    ("unknown zone", "TZ=Mars/Olympus 0 0 * * *", "provided bad location Mars/Olympus: unknown time zone Mars/Olympus"),
    ("zone ends at a blank", "CRON_TZ=UTC\t0 0 * * *", "provided bad location UTC\t0: "),
    ("prefix in small letters", "tz=UTC 0 0 * * *", "expected exactly 5 fields, found 6"),
    ("prefix behind a blank", " TZ=UTC 0 0 * * *", "expected exactly 5 fields, found 6"),
)
def test_what_is_refused_and_in_which_words(text, message):
    with pytest.raises(CronError) as caught:
        parse(text)
    assert message in str(caught.value)


SAME = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    " 0\t0 *\n* * ": "0 0 * * *",
    "0\u00a00\u2003* * *": "0 0 * * *",
    "TZ=UTC 0 5 * * *": "0 5 * * *",
    "CRON_TZ=UTC  @daily  ": "@daily",
    "TZ= 0 5 * * *": "0 5 * * *",
    "TZ=Local 0 5 * * *": "0 5 * * *",
}


@pytest.mark.parametrize(("text", "other"), SAME.items())
def test_texts_that_mean_the_same(text, other):
    one: Any = parse(text)
    another: Any = parse(other)
    assert one.fields == another.fields
    assert one.zone is another.zone
    assert parse(text).text == text


def test_only_five_words_parted_by_what_go_calls_white_space():
    with pytest.raises(CronError, match="found 1"):
        parse("0\x1c0\x1c*\x1c*\x1c*")


INTERVALS = {
    "90s": 90,
    "1h30m": 5400,
    "1.5h": 5400,
    ".5h": 1800,
    "1.h": 3600,
    "+1m": 60,
    "2h45m30.9s": 9930,
    "1m1m": 120,
    "1500ms": 1,
    "2000001us": 2,
    "3000000µs": 3,
    "3000000μs": 3,
    "4000000000ns": 4,
    "0": 1,
    "+0": 1,
    "0s": 1,
    "999ms": 1,
    "-5m": 1,
    f"0.{'9' * 30}m": 59,
    f"{'0' * 5000}7s": 7,
    "2562047h": 2562047 * 3600,
}


@pytest.mark.parametrize(("text", "seconds"), INTERVALS.items(), ids=lambda value: str(value)[:20])
def test_intervals_are_of_whole_seconds_and_of_one_at_least(text, seconds):
    assert parse(f"@every {text}").interval == timedelta(seconds=seconds)
    assert parse(f"@every {text}", zone="Asia/Tokyo").interval == timedelta(seconds=seconds)


def test_fields_have_no_interval():
    assert parse("* * * * *").interval is None


def test_with_a_zone_the_white_space_around_a_macro_does_not_matter():
    zoned: Any = parse(" @daily ", zone="UTC")
    plain: Any = parse("@daily")
    assert zoned.fields == plain.fields
    with pytest.raises(CronError, match="found 0"):
        parse("", zone="UTC")


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@cases(
    ("every ten seconds", "*/10 * * * * *", NOON, timedelta(seconds=10)),
    ("within the same minute", "30 0 12 * * *", NOON, timedelta(seconds=30)),
    ("names and steps", "5-59/50 * * * mar sun", NOON, timedelta(seconds=5)),
    ("the next minute", "5 * * * * *", NOON + timedelta(seconds=5), timedelta(seconds=60)),
    ("the next day", "1 0 12 * * *", NOON + timedelta(seconds=1), timedelta(days=1)),
    ("five fields mean second 0", "* * * * *", NOON, timedelta(seconds=60)),
    ("macros", "@hourly", NOON, timedelta(hours=1)),
    ("intervals", "@every 7s", NOON, timedelta(seconds=7)),
)
def test_six_fields_have_the_seconds_first(text, after, distance):
    assert parse(text, seconds=True).next(after) == after + distance


def test_six_fields_are_refused_in_words_of_their_own():
    with pytest.raises(CronError, match=r"^expected 5 to 6 fields, found 7: "):
        parse("* * * * * * *", seconds=True)
    with pytest.raises(CronError, match="end of range \\(60\\) above maximum \\(59\\): 60"):
        parse("60 * * * * *", seconds=True)


def test_the_same_text_is_read_once():
    assert parse("1 2 3 4 *", zone="Asia/Tokyo") is parse("1 2 3 4 *", zone="Asia/Tokyo")


WORDS = ("@", "@daily", "@every ", "h", "1.5", "TZ=", "CRON_TZ=", "UTC", "Europe/Paris", "..", "/etc", "µs", "\0", "L")
PIECES = st.sampled_from([*"*?/-,#+ \t05", "59", "60", "9" * 30, "jan", "FRI", *WORDS])
TEXTS = st.text() | st.lists(PIECES, max_size=14).map("".join) | st.lists(PIECES, min_size=5, max_size=6).map(" ".join)


@given(TEXTS, st.none() | st.sampled_from(["UTC", "Asia/Tokyo"]) | st.text(max_size=8), st.booleans())
def test_any_text_is_a_schedule_or_a_cron_error(text, zone, seconds):
    try:
        schedule = parse(text, zone=zone, seconds=seconds)
    except CronError:
        return
    slot = schedule.next(NOON)
    assert slot is None or slot > NOON


@cases(
    ("cut to microseconds", "1999ns", 1),
    ("below one", "0.9us", 0),
    ("negative", "-1ms", -1000),
    ("long", "1h30m", 5_400_000_000),
)
def test_a_duration_has_whole_microseconds(text, micros):
    assert durations.duration(text) == timedelta(microseconds=micros)
