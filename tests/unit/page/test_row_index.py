"""The index of rows: pages, search, filters, counts and children."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.object_rows.row import Row, Tone
from deploy.page.live.row_index import RowIndex, RowQuery, Sort
from tests.support.tables import for_each
from workers.errors import UserError

JOBS, PODS = "jobs.batch", "pods"


def row(
    name: str, *, kind: str = JOBS, namespace: str = "shop", tone: Tone = "ok", age: int = 0, **more: object
) -> Row:
    created = f"2026-03-01T00:{59 - age:02}:00.000Z"
    base = Row(kind, namespace, name, f"uid-{name}", created, "Phase", tone, "")
    return replace(base, **more)  # type: ignore[arg-type]


def index(*rows: Row) -> RowIndex:
    found = RowIndex()
    for each in rows:
        found.put(each)
    return found


def names(index: RowIndex, **query: object) -> list[str]:
    page = index.page(RowQuery(**{"kinds": [JOBS], **query}))  # type: ignore[arg-type]
    return [orjson.loads(each)["name"] for each in page.rows]


def test_each_order_shows_what_it_says_first() -> None:
    rows = index(row("b", age=1), row("c", tone="error", age=2), row("a", tone="active", age=3))
    assert names(rows) == ["a", "b", "c"]
    assert names(rows, sort="-created") == ["b", "c", "a"]
    assert names(rows, sort="tone") == ["c", "a", "b"]


def test_filters_hold_together() -> None:
    rows = index(
        row("one", message="exit code 3"),
        row("two", namespace="ops", message="exit code 3"),
        row("three", tone="error"),
        row("pod", kind=PODS),
    )
    assert names(rows, text="EXIT 3") == ["one", "two"]
    assert names(rows, text="exit 3", namespace="ops") == ["two"]
    assert names(rows, text="ops/two") == ["two"]
    assert names(rows, tones=["error", "paused"]) == ["three"]
    assert names(rows, kinds=[PODS, JOBS]) == ["one", "pod", "three", "two"]
    assert names(rows, text="nothing") == []


def test_a_page_says_how_many_there_are_and_where_the_next_begins() -> None:
    rows = index(*(row(f"job-{number}") for number in range(5)))
    first = rows.page(RowQuery([JOBS], limit=2))
    assert (len(first.rows), first.total) == (2, 5)
    last = rows.page(RowQuery([JOBS], limit=3, after=first.next or ""))
    assert (len(last.rows), last.next, last.total) == (3, None, 5)


@for_each("x", "W10", "WyJuYW1lIl0", "WyJuYW1lIiwxLDIsM10", "bnVsbA", "é")
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(UserError, match="after"):
        index(row("a")).page(RowQuery([JOBS], after=cursor))
    by_age = index(row("a"), row("b")).page(RowQuery([JOBS], sort="-created", limit=1)).next
    with pytest.raises(UserError, match="after"):
        index(row("a")).page(RowQuery([JOBS], after=by_age or ""))


def test_an_equal_row_is_no_change_and_added_numbers_stay() -> None:
    rows = index(row("a"))
    assert not rows.put(row("a"))
    assert rows.with_numbers(JOBS, "shop", "a", {"waiting": 3})
    assert not rows.with_numbers(JOBS, "shop", "a", {"waiting": 3})
    assert rows.put(row("a", phase="Other", numbers={"running": 1}))
    found = rows.get(JOBS, "shop", "a")
    assert found is not None
    assert found.row.numbers == {"running": 1, "waiting": 3}
    rows.drop(JOBS, "shop", "a")
    rows.put(row("a"))
    assert rows.get(JOBS, "shop", "a").row.numbers == {}  # type: ignore[union-attr]
    assert not rows.with_numbers(JOBS, "shop", "missing", {"waiting": 3})


def test_tones_are_counted_and_children_found_as_they_come_and_go() -> None:
    owner = {"kind": "scaledjobs.keda.sh", "namespace": "shop", "name": "crunch"}
    rows = index(row("a", owner=owner, age=1), row("b", owner=owner, tone="active"), row("c"))
    assert rows.tones(JOBS) == {"ok": 2, "paused": 0, "active": 1, "waiting": 0, "warning": 0, "error": 0}
    assert [each.row.name for each in rows.owned_by(*owner.values())] == ["b", "a"]
    assert rows.child_tones(*owner.values()) == {"ok": 1, "active": 1}
    rows.put(row("a", owner=None, tone="error"))
    rows.drop(JOBS, "shop", "b")
    assert rows.owned_by(*owner.values()) == []
    assert rows.tones(JOBS)["error"] == 1
    assert rows.drop(JOBS, "shop", "b") is None


CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 30)), max_size=12)


@given(
    sort=st.sampled_from(["name", "-created"]),
    limit=st.integers(1, 7),
    initial=st.sets(st.integers(0, 40)),
    changes=st.lists(CHANGES, max_size=30),
)
def test_pages_skip_and_repeat_nothing_whatever_changes_meanwhile(
    sort: Sort, limit: int, initial: set[int], changes: list[list[tuple[bool, int, int]]]
) -> None:
    rows = index(*(row(f"job-{number:02}", age=number % 7) for number in initial))
    throughout, seen, after = set(initial), [], ""
    while True:
        page = rows.page(RowQuery([JOBS], sort=sort, limit=limit, after=after))
        seen += [orjson.loads(each)["name"] for each in page.rows]
        if page.next is None:
            break
        after = page.next
        for exists, number, version in changes.pop() if changes else ():
            if exists:
                # The creation of an object never changes.
                rows.put(row(f"job-{number:02}", age=number % 7, phase=f"Phase{version}", tone="error"))
            else:
                rows.drop(JOBS, "shop", f"job-{number:02}")
                throughout.discard(number)
    assert len(seen) == len(set(seen))
    assert {f"job-{number:02}" for number in throughout} <= set(seen)
