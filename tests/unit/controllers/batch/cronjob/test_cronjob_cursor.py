"""A cursor that lies in the future: tolerated, waited for, or given up."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.tables import cases
from workers.controllers.batch.cronjob.cursor import Cursor

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize("field", ["scheduled", "missed"])
@cases(
    ("in the past", -timedelta(hours=1), False, False),
    ("as far as clocks differ", timedelta(seconds=10), False, False),
    ("further: it is waited for", timedelta(seconds=10) + MOMENT, True, False),
    ("no clock is set back by more than a day", timedelta(hours=23), True, False),
    ("by a day", timedelta(days=1), True, False),
    ("by more: it is given up", timedelta(days=1) + MOMENT, True, True),
)
def test_how_far_ahead_a_cursor_may_be(ahead_by: timedelta, ahead: bool, absurd: bool, field: str) -> None:
    cursor = Cursor(NOW - timedelta(days=30), **{field: NOW + ahead_by})
    assert (cursor.is_ahead(NOW), cursor.is_absurd(NOW)) == (ahead, absurd)


def test_the_creation_of_an_object_is_no_cursor() -> None:
    created = Cursor(NOW + timedelta(days=3))
    assert (created.is_ahead(NOW), created.is_absurd(NOW)) == (False, False)
