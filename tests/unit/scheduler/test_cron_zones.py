"""Time zones: which names are taken, and in which words others are refused."""

import shutil
import sys
import zoneinfo
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduler.cron import ZoneError, check_zone, parse, zone
from tests.support.tables import cases, for_each

NIGHT = datetime(2026, 1, 1, tzinfo=UTC)
GOOD = ["UTC", "Etc/UTC", "Etc/GMT+5", "Etc/GMT-14", "Europe/Berlin", "America/Argentina/ComodRivadavia", "EST5EDT"]


@pytest.mark.parametrize("name", GOOD)
def test_names_that_are_taken(name):
    assert check_zone(name) is None
    assert str(zone(name)) == name


@cases(
    ("no such zone", "Mars/Olympus"),
    ("case matters", "europe/berlin"),
    ("a folder", "Europe"),
    ("not a zone's file", "zone.tab"),
    ("dot", "./UTC"),
    ("dots", "Europe/../UTC"),
    ("absolute", "/UTC"),
    ("ends with a slash", "Europe/"),
    ("hyphen first", "-UTC"),
    ("blank", "Europe /Berlin"),
    ("a part of fifteen characters", "America/ComodRivadaviaX"),
    ("newline", "UTC\n"),
    ("nul", "UTC\0"),
    ("other letters", "Zürich"),
)
def test_names_that_are_unknown(name):
    assert check_zone(name) == f"unknown time zone {name}"
    with pytest.raises(ZoneError, match="unknown time zone"):
        parse("0 0 * * *", zone=name)


@for_each("-UTC", "Etc/-UTC", "Etc/ComodRivadaviaX", "Etc/U~C")
def test_names_that_the_rules_forbid_are_unknown_though_there_is_such_a_zone(name, tmp_path):
    utc = next(path for folder in zoneinfo.TZPATH if (path := Path(folder, "UTC")).exists())
    (tmp_path / "Etc").mkdir()
    shutil.copy(utc, tmp_path / name)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    try:
        assert zoneinfo.ZoneInfo(name)
        assert check_zone(name) == f"unknown time zone {name}"
    finally:
        zoneinfo.reset_tzpath(before)


def test_where_the_system_has_no_time_zone_data_the_package_has(tmp_path):
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert check_zone("America/Punta_Arenas") is None
    finally:
        zoneinfo.reset_tzpath(before)


def test_utc_needs_no_time_zone_data(tmp_path, monkeypatch):
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    zoneinfo.ZoneInfo.clear_cache()
    for module in ("tzdata", *(name for name in sys.modules if name.startswith("tzdata."))):
        monkeypatch.setitem(sys.modules, module, None)
    try:
        assert check_zone("Etc/UTC") == "unknown time zone Etc/UTC"
        for text, name in (("0 5 1 1 *", None), ("0 5 1 1 *", "UTC"), ("TZ=UTC 0 5 1 1 *", None)):
            assert parse(text, zone=name).next(NIGHT) == NIGHT.replace(hour=5)
    finally:
        zoneinfo.reset_tzpath(before)


REFUSED = {
    "": "timeZone must be nil or non-empty string",
    "Local": "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
    "LOCAL": "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
}


@pytest.mark.parametrize(("name", "message"), REFUSED.items())
def test_names_that_are_refused(name, message):
    assert check_zone(name) == message


@cases(
    ("none means UTC", "0 5 * * *", None, 5),
    ("the zone beside the text", "0 5 * * *", "Asia/Tokyo", 20),
    ("the zone in the text", "TZ=Asia/Tokyo 0 5 * * *", None, 20),
    ("the zone in the text goes first", "CRON_TZ=Asia/Tokyo 0 5 * * *", "America/New_York", 20),
    ("macros have zones too", "@daily", "Asia/Tokyo", 15),
)
def test_whose_clocks_count(text, name, hour):
    slot = parse(text, zone=name).next(NIGHT)
    assert slot == NIGHT.replace(hour=hour)
    assert slot.tzinfo is UTC


def test_a_wrong_zone_beside_the_text_is_refused_even_if_the_text_has_one():
    with pytest.raises(ZoneError):
        parse("TZ=UTC 0 0 * * *", zone="Mars/Olympus")


def test_an_interval_is_the_same_in_every_zone():
    assert parse("@every 1h", zone="Asia/Kathmandu").next(NIGHT) == NIGHT.replace(hour=1)
