"""Completion indexes: their text, their sets, and what a pod's annotations say."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import pod
from workers.controllers.batch.job import indexes
from workers.controllers.batch.job.indexes import Indexes

SETS = st.sets(st.integers(0, 40))
NUMBERS = st.one_of(
    st.integers(0, 12).map(str), st.sampled_from(["", "x", "-1", "+3", "007", " 4", "٣", "1_0", "9" * 40])
)
PARTS = st.lists(NUMBERS, min_size=1, max_size=3).map("-".join)


def named(name, text):
    return pod("p", metadata={"annotations": {name: text}}).body


@cases(
    ("none", [], ""),
    ("one", [0], "0"),
    ("two in a row", [0, 1], "0,1"),
    ("three in a row", [0, 1, 2], "0-2"),
    ("runs and single ones", [1, 3, 4, 5, 7], "1,3-5,7"),
    ("any order, repeated", [9, 1, 8, 1], "1,8,9"),
    ("the largest", [2147483645, 2147483646], "2147483645,2147483646"),
)
def test_text_of_indexes(numbers, text):
    assert Indexes.of(numbers).text == text
    assert Indexes.parse(text) == Indexes.of(numbers)


@cases(
    ("no text", None, 5, []),
    ("empty text", "", 5, []),
    ("well formed", "1,3-4", 5, [1, 3, 4]),
    ("the end is clipped", "3-9", 5, [3, 4]),
    ("a huge end is clipped", "0-4294967295", 3, [0, 1, 2]),
    ("reading stops at the first start beyond", "1,5,2", 5, [1]),
    ("and there though its end cannot be read", "1,7-x,2", 5, [1]),
    ("unreadable parts", "x,1,-,3", 5, [1, 3]),
    ("negative", "-2,1", 5, [1]),
    ("half a range", "1-,-3,2", 5, [2]),
    ("two hyphens", "1-2-3,4", 5, [4]),
    ("backwards", "3-1,4", 5, [4]),
    ("empty parts", ",,1,,", 5, [1]),
    ("a blank", " 1,2", 5, [2]),
    ("what only Python reads as a number", "1_0,٣,2", 20, [2]),
    ("a sign and leading zeros", "+1,002", 5, [1, 2]),
    ("out of order and overlapping", "2,1,1-3,0", 5, [0, 1, 2, 3]),
    ("more than 64 bits is unreadable, not beyond", "99999999999999999999,1", 5, [1]),
    ("thousands of digits", "9" * 10_000 + ",1", 5, [1]),
    ("no completions", "0-2", 0, []),
    ("unbounded", "1,7-8", None, [1, 7, 8]),
)
def test_reading_indexes(text, completions, numbers):
    assert list(Indexes.parse(text, completions)) == numbers


def naive(text, completions):
    """The reader, one part after the other, over a plain set."""
    found = set()
    for part in text.split(","):
        limits = [_naive_number(each) for each in part.split("-", 1)]
        if limits[0] is not None and limits[0] >= completions:
            break
        if None not in limits:
            found |= set(range(limits[0], min(limits[-1], completions - 1) + 1))
    return found


def _naive_number(text):
    digits = text.removeprefix("+")
    return int(digits) if 0 < len(digits) < 19 and digits.isascii() and digits.isdigit() else None


@given(st.lists(PARTS, max_size=6).map(",".join), st.integers(0, 14))
def test_reading_is_as_a_plain_set_reads(text, completions):
    assert list(Indexes.parse(text, completions)) == sorted(naive(text, completions))


@given(st.text(alphabet="0123456789,-+ x", max_size=20), st.one_of(st.none(), st.integers(0, 20)))
def test_whatever_was_read_is_written_well_and_reads_the_same(text, completions):
    read = Indexes.parse(text, completions)
    assert Indexes.parse(read.text, completions) == read
    flat = [int(number) for part in read.text.split(",") if part for number in part.split("-")]
    assert flat == sorted(set(flat))


@given(SETS, SETS, st.integers(-1, 45))
def test_sets_behave_as_sets(left, right, probe):
    a, b = Indexes.of(left), Indexes.of(right)
    assert list(a) == sorted(left)
    assert len(a) == len(left)
    assert bool(a) is bool(left)
    assert (probe in a) is (probe in left)
    assert a | b == Indexes.of(left | right)
    assert a & b == Indexes.of(left & right)
    assert (a == b) is (left == right)
    assert Indexes.parse(a.text) == a


@given(st.integers(0, 30), SETS, st.integers(-2, 35))
def test_pending_are_the_lowest_free_ones(completions, taken, number):
    free = [index for index in range(completions) if index not in taken]
    assert indexes.pending(completions, Indexes.of(taken), number) == free[: max(number, 0)]


def test_a_hundred_thousand_indexes_are_one_run():
    done = Indexes.parse("0-99999", 100_000)
    assert done.runs == ((0, 99_999),)
    assert len(done) == 100_000
    assert indexes.pending(2**31 - 1, done, 2) == [100_000, 100_001]


@cases(
    ("the first", "0", 0),
    ("a number", "17", 17),
    ("leading zeros", "007", 7),
    ("negative", "-1", None),
    ("empty", "", None),
    ("no number", "x", None),
    ("a fraction", "1.0", None),
    ("a blank", " 1", None),
    ("a line end", "1\n", None),
    ("digits of another script", "٣", None),
    ("64 bits", "9223372036854775807", 2**63 - 1),
    ("more than 64 bits", "9223372036854775808", None),
    ("thousands of digits", "9" * 5000, None),
    ("null", None, None),
)
def test_index_of_a_pod(text, index):
    assert indexes.index_of(named(indexes.INDEX, text)) == index


@cases(
    ("no annotations", {}),
    ("null annotations", {"annotations": None}),
    ("no such annotation", {"annotations": {}}),
    ("the label alone", {"labels": {indexes.INDEX: "3"}}),
)
def test_without_its_annotation_a_pod_has_neither_index_nor_counts(metadata):
    body = pod("p", metadata=metadata).body
    assert indexes.index_of(body) is None
    assert (indexes.count_of(body), indexes.ignored_count_of(body)) == (0, 0)


@cases(
    ("none", "0", 0),
    ("three", "3", 3),
    ("the largest", "2147483647", 2147483647),
    ("too large", "2147483648", 0),
    ("thousands of digits", "9" * 5000, 0),
    ("negative", "-1", 0),
    ("unreadable", "x", 0),
    ("empty", "", 0),
)
def test_failure_counts_of_a_pod(text, count):
    assert indexes.count_of(named(indexes.FAILURE_COUNT, text)) == count
    assert indexes.ignored_count_of(named(indexes.FAILURE_COUNT, text)) == 0
    assert indexes.ignored_count_of(named(indexes.IGNORED_FAILURE_COUNT, text)) == count
    assert indexes.count_of(named(indexes.IGNORED_FAILURE_COUNT, text)) == 0
