"""Series of depth and Jobs of single objects, in bounded rings in memory. Unknown is not zero: it is NaN here."""

import math
from array import array
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

#: The numbers of a point, in the order of its columns.
COLUMNS = ("waiting", "pending", "running", "done")
#: Points per object, and objects: about 12 kB each, 12 MB in all.
POINTS, OBJECTS = 450, 1_000


@dataclass(frozen=True, slots=True)
class Point:
    """One moment (seconds since the epoch) of an object; None for a number that is not known."""

    at: float
    waiting: float | None = None
    pending: float | None = None
    running: float | None = None
    done: float | None = None


class Ring:
    """The last points of one object."""

    def __init__(self) -> None:
        self._times = array("d")
        self._columns = {name: array("f") for name in COLUMNS}
        self._next = 0

    def add(self, point: Point) -> None:
        """Adds a point, in place of the oldest if the ring is full."""
        full = len(self._times) == POINTS
        for name, column in self._columns.items():
            value = getattr(point, name)
            _put(column, self._next, math.nan if value is None else float(value), full=full)
        _put(self._times, self._next, point.at, full=full)
        self._next = (self._next + 1) % POINTS

    def since(self, moment: float) -> list[Point]:
        """Returns the points from this moment on, the oldest first."""
        count = len(self._times)
        order = [(self._next + place) % count for place in range(count)] if count == POINTS else range(count)
        return [self._point(place) for place in order if self._times[place] >= moment]

    def _point(self, place: int) -> Point:
        values = {name: column[place] for name, column in self._columns.items()}
        return Point(
            self._times[place], **{name: None if math.isnan(value) else value for name, value in values.items()}
        )


class AllSeries:
    """The rings by object's key; of too many objects those stay whose points are the newest."""

    def __init__(self) -> None:
        self._rings: OrderedDict[str, Ring] = OrderedDict()

    def add(self, points: Mapping[str, Point]) -> None:
        """Adds one point per object."""
        for key, point in points.items():
            ring = self._rings.get(key)
            if ring is None:
                ring = self._rings[key] = Ring()
            self._rings.move_to_end(key)
            ring.add(point)
        while len(self._rings) > OBJECTS:
            self._rings.popitem(last=False)

    def since(self, key: str, moment: float) -> list[Point]:
        """Returns an object's points from this moment on (seconds since the epoch), the oldest first."""
        ring = self._rings.get(key)
        return ring.since(moment) if ring else []


def _put(column: "array[float]", place: int, value: float, *, full: bool) -> None:
    if full:
        column[place] = value
    else:
        column.append(value)
