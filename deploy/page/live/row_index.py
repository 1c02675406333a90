"""The index of rows in memory: search, filters, pages and counts over all objects, without reading a body.

Pure: `store_follower` keeps it current. A row is encoded once, however many lists and watchers it goes to.
"""

import base64
import binascii
import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from deploy.object_rows.row import TONES, Row, Tone
from workers.api import times
from workers.errors import UserError

Sort = Literal["name", "-created", "tone"]
#: Rows of one page.
MOST = 500

_RANK = {tone: rank for rank, tone in enumerate(TONES)}


@dataclass(frozen=True, slots=True)
class RowQuery:
    """The rows that are asked for. kinds: their ids. text: words that must occur. after: a page's cursor."""

    kinds: Collection[str]
    namespace: str = ""
    text: str = ""
    tones: Collection[str] = ()
    sort: Sort = "name"
    after: str = ""
    limit: int = 50


@dataclass(frozen=True, slots=True)
class RowPage:
    """rows: encoded as JSON. next: the cursor of the following page, None at the end. total: rows of all pages."""

    rows: tuple[bytes, ...]
    next: str | None
    total: int


class IndexedRow:
    """A row with what search and order need of it."""

    __slots__ = ("_encoded", "created", "key", "row", "text")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.key = (row.name, row.namespace, row.kind)
        moment = times.instant(row.created)
        self.created = -round(moment.timestamp()) if moment else 0
        self.text = f"{row.namespace}/{row.name} {row.kind} {row.phase} {row.message}".lower()
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The row as JSON."""
        if self._encoded is None:
            self._encoded = orjson.dumps(self.row)
        return self._encoded

    def order(self, sort: Sort) -> tuple[Any, ...]:
        """Returns the row's place: unique, and for the first two constant while the object exists."""
        if sort == "-created":
            return (self.created, *self.key)
        return (_RANK[self.row.tone], *self.key) if sort == "tone" else self.key


class RowIndex:
    """All rows by kind, name and owner."""

    def __init__(self) -> None:
        self._rows: defaultdict[str, dict[tuple[str, str], IndexedRow]] = defaultdict(dict)
        self._owned: defaultdict[tuple[str, str, str], set[tuple[str, str, str]]] = defaultdict(set)
        self._tones: defaultdict[str, Counter[Tone]] = defaultdict(Counter)
        # Numbers that no body holds: they stay when the row is derived anew.
        self._added: dict[tuple[str, str, str], Mapping[str, int | float]] = {}

    def put(self, row: Row) -> bool:
        """Stores a row. Returns True if it differs from the stored one."""
        rows, place = self._rows[row.kind], (row.namespace, row.name)
        if added := self._added.get((row.kind, *place)):
            row = replace(row, numbers={**row.numbers, **added})
        former = rows.get(place)
        if former is not None:
            if former.row == row:
                return False
            self._forget(former.row)
        rows[place] = IndexedRow(row)
        self._tones[row.kind][row.tone] += 1
        if row.owner is not None:
            self._owned[_address(row.owner)].add((row.kind, *place))
        return True

    def drop(self, kind: str, namespace: str, name: str) -> Row | None:
        """Removes a row and returns it; None if there was none."""
        former = self._rows[kind].pop((namespace, name), None)
        self._added.pop((kind, namespace, name), None)
        if former is None:
            return None
        self._forget(former.row)
        return former.row

    def with_numbers(self, kind: str, namespace: str, name: str, numbers: Mapping[str, int | float]) -> bool:
        """Adds numbers that no body holds to a row. Returns True if that changed it; False without such a row."""
        found = self.get(kind, namespace, name)
        if found is None:
            return False
        place = (kind, namespace, name)
        self._added[place] = {**self._added.get(place, {}), **numbers}
        return self.put(found.row)

    def get(self, kind: str, namespace: str, name: str) -> IndexedRow | None:
        """Returns the row of one object."""
        return self._rows[kind].get((namespace, name))

    def of_kind(self, kind: str) -> Iterator[IndexedRow]:
        """Returns the rows of a kind, in no order. They must not change meanwhile."""
        return iter(self._rows[kind].values())

    def child_tones(self, kind: str, namespace: str, name: str) -> Counter[Tone]:
        """Returns the number of an object's children by tone."""
        places = self._owned.get((kind, namespace, name), ())
        return Counter(self._rows[child][space, called].row.tone for child, space, called in places)

    def owned_by(self, kind: str, namespace: str, name: str) -> list[IndexedRow]:
        """Returns the rows of an object's children, the newest first."""
        places = self._owned.get((kind, namespace, name), ())
        found = [self._rows[child][space, called] for child, space, called in places]
        return sorted(found, key=lambda each: each.order("-created"))

    def tones(self, kind: str) -> Mapping[Tone, int]:
        """Returns the number of a kind's rows by tone, all tones included."""
        counted = self._tones[kind]
        return {tone: counted[tone] for tone in reversed(TONES)}

    def page(self, query: RowQuery) -> RowPage:
        """Returns a page of rows. Raises UserError for a cursor that is none of this order.

        By name and by age, an object that exists throughout comes exactly once in consecutive pages, even if others
        change meanwhile. By tone, one whose tone changes may move behind the cursor or ahead of it.
        """
        rows = list(self._matching(query))
        total = len(rows)
        if query.after:
            place = _place(query.after, query.sort)
            rows = [each for each in rows if each.order(query.sort) > place]
        limit = max(1, min(query.limit, MOST))
        found = heapq.nsmallest(limit + 1, rows, key=lambda each: each.order(query.sort))
        more = len(found) > limit
        shown = found[:limit]
        return RowPage(
            tuple(each.encoded for each in shown),
            _cursor(query.sort, shown[-1].order(query.sort)) if more else None,
            total,
        )

    def _matching(self, query: RowQuery) -> Iterator[IndexedRow]:
        words = query.text.lower().split()
        for kind in query.kinds:
            rows: Iterable[IndexedRow] = self._rows[kind].values() if kind in self._rows else ()
            if query.namespace:
                rows = (each for each in rows if each.row.namespace == query.namespace)
            if query.tones:
                rows = (each for each in rows if each.row.tone in query.tones)
            for word in words:
                rows = _containing(rows, word)
            yield from rows

    def _forget(self, row: Row) -> None:
        self._tones[row.kind][row.tone] -= 1
        if row.owner is not None:
            siblings = self._owned[_address(row.owner)]
            siblings.discard((row.kind, row.namespace, row.name))
            if not siblings:
                del self._owned[_address(row.owner)]


def _containing(rows: Iterable[IndexedRow], word: str) -> Iterator[IndexedRow]:
    return (each for each in rows if word in each.text)


def _address(owner: Mapping[str, str]) -> tuple[str, str, str]:
    return owner["kind"], owner["namespace"], owner["name"]


def _cursor(sort: Sort, place: tuple[Any, ...]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([sort, *place])).decode().rstrip("=")


def _place(cursor: str, sort: Sort) -> tuple[Any, ...]:
    """Returns the place that a cursor stands for."""
    try:
        found = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        given, *place = found
        words = place[-3:]
        leading = place[:-3]
        readable = len(words) == 3 and all(isinstance(word, str) for word in words)
        numbers = len(leading) == (sort != "name") and all(type(number) is int for number in leading)
    except (binascii.Error, TypeError, ValueError):
        raise UserError("after: not a cursor of this list") from None
    if given != sort or not readable or not numbers:
        raise UserError("after: not a cursor of this list and order")
    return tuple(place)
