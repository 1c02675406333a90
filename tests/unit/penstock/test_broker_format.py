"""The formats that this release reads, adopts and refuses."""

import pytest

from penstock._broker_format import FORMAT, OTHERS, RESTORING, FormatRefused, Handling, adoptable, check
from tests.support.tables import for_each

#: Of a release that writes format 3, adopts 2, and reads nothing older.
THREE = {"own": 3, "others": {2: Handling.ADOPT}}


@for_each((b"3", 3), ("3", 3), (b"2", 2))
def test_own_and_adoptable_formats_are_read(found, number):
    assert check(found, **THREE) == number


@for_each(
    (b"4", "has format 4; this release reads 2 and 3. A newer release wrote it: start that release"),
    (b"10", "has format 10; this release reads 2 and 3. A newer release wrote it"),
    (b"1", "has format 1; this release reads 2 and 3. A release too old for this one wrote it"),
    (None, "has format 0; this release reads 2 and 3. A release too old for this one wrote it"),
    (b"", "has format 0; this release reads 2 and 3"),
    (b"3.0", "has format 3.0; this release reads 2 and 3. This is no number"),
    (b"-3", "This is no number"),
    ("٣", "This is no number"),
    (b"\xff", "This is no number"),
    (RESTORING.encode(), "half of a backup: finish it with `penstock restore FILE`"),
)
def test_any_other_format_is_refused_with_both_and_what_to_do(found, problem):
    with pytest.raises(FormatRefused) as refused:
        check(found, **THREE)
    assert problem in str(refused.value)


def test_data_of_earlier_formats_are_adopted_by_this_release():
    assert (check(None), check("1"), check("2")) == (0, 1, 2)
    assert adoptable() == (0, 1, 2)


def test_a_release_that_reads_its_own_format_alone_says_so():
    with pytest.raises(FormatRefused, match=r"this release reads 3\. A newer release"):
        check("4", own=3, others={})


def test_no_format_of_the_table_is_newer_than_our_own():
    assert max(OTHERS) < FORMAT
