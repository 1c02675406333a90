"""Timestamps and boolean annotations."""

from datetime import UTC, datetime

import pytest

from tests.support.tables import cases, for_each
from workers.api import bool_annotations, times


@for_each(
    ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("2026-03-01T13:00:00+01:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("2026-03-01T12:00:00.250000Z", datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)),
)
def test_timestamps_are_read(text, instant):
    assert times.parse(text) == instant


@for_each("", "soon", "2026-03-01T12:00:00")
def test_what_is_no_timestamp_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        times.parse(text)


@for_each(
    (0, datetime(1970, 1, 1, tzinfo=UTC)),
    (1_772_366_400_250_001, datetime(2026, 3, 1, 12, 0, 0, 250_001, tzinfo=UTC)),
    (1_772_366_400_250_000.25, datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)),
    (2**63 - 1, datetime.max.replace(tzinfo=UTC)),
    (float("inf"), datetime.max.replace(tzinfo=UTC)),
)
def test_microseconds_are_an_instant_however_many_they_are(micros, instant):
    assert times.of_micros(micros) == instant


def test_timestamps_are_written_in_utc_and_whole_seconds():
    assert times.render(datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=UTC)) == "2026-03-01T12:00:00Z"


@for_each(
    (None, False),
    ({}, False),
    *[
        ({bool_annotations.PAUSED: text}, True)
        for text in ("1", "t", "T", "TRUE", "true", "True", "", "yes", "no", " false")
    ],
    *[({bool_annotations.PAUSED: text}, False) for text in ("0", "f", "F", "FALSE", "false", "False")],
)
def test_an_annotation_that_is_there_and_not_false_is_true(annotations, expected):
    assert bool_annotations.is_paused({"metadata": {"annotations": annotations}}) is expected


@cases(
    ("at a number of replicas", "ScaledObject", {bool_annotations.PAUSED_REPLICAS: "0"}, True),
    (
        "whatever else is said",
        "ScaledObject",
        {bool_annotations.PAUSED_REPLICAS: "0", bool_annotations.PAUSED: "false"},
        True,
    ),
    ("not paused", "ScaledObject", {bool_annotations.PAUSED: "false"}, False),
    ("a ScaledJob has no replicas", "ScaledJob", {bool_annotations.PAUSED_REPLICAS: "0"}, False),
)
def test_a_scaled_object_may_be_paused_at_a_number_of_replicas(kind, annotations, expected):
    assert bool_annotations.is_paused({"kind": kind, "metadata": {"annotations": annotations}}) is expected
