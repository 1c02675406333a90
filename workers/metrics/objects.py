"""Metrics of objects as they are now, as kube-state-metrics has them, shown by the process that leads their kind.

The leading reflector sees every object of its kind: no series depends on a count that a restart would lose, none is
shown twice, and those of deleted objects vanish. A process that does not lead a kind shows nothing of it.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from workers.api.kinds import Kind, Object
from workers.metrics.object_families import FAMILIES, SAMPLERS, FamilySample

log = logging.getLogger(__name__)

Metric = GaugeMetricFamily | UnknownMetricFamily
_Name = tuple[str, str]


class ObjectTable:
    """The samples of one kind's objects. sample: reads one object's samples.

    A relist runs beside the watch: for an object that was updated since the relist began, the watch is newer.
    """

    def __init__(self, sample: Callable[[Object], Iterable[FamilySample]]) -> None:
        self._sample = sample
        # Scrapes come on a thread of their own.
        self._lock = threading.Lock()
        self._samples: dict[_Name, tuple[FamilySample, ...]] = {}
        self._listing = False
        self._updated: set[_Name] = set()
        self._listed: set[_Name] = set()

    def begin(self) -> None:
        """Begins a listing."""
        self._reset()
        self._listing = True

    def listed(self, bodies: Iterable[Object]) -> None:
        """Adds a page of the listing."""
        for body in bodies:
            name = _name(body)
            self._listed.add(name)
            if name not in self._updated:
                self._put(name, self._read(body))

    def finish(self) -> None:
        """Ends the listing: objects that are neither in it nor updated since it began are dropped."""
        with self._lock:
            for name in self._samples.keys() - self._listed - self._updated:
                del self._samples[name]
        self._reset()

    def update(self, body: Object, *, deleted: bool) -> None:
        """Takes one event of the watch in."""
        name = _name(body)
        if self._listing:
            self._updated.add(name)
        self._put(name, () if deleted else self._read(body))

    def clear(self) -> None:
        """Drops everything: another process may lead the kind now."""
        self._reset()
        with self._lock:
            self._samples.clear()

    def read(self) -> Iterator[FamilySample]:
        """Yields the samples of all objects, as of one moment."""
        with self._lock:
            everything = list(self._samples.values())
        for said in everything:
            yield from said

    def _reset(self) -> None:
        self._listing, self._updated, self._listed = False, set(), set()

    def _read(self, body: Object) -> tuple[FamilySample, ...]:
        try:
            return tuple(self._sample(body))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A cluster's definition may have a looser schema than ours; one bad object must not stop the metrics.
            log.debug("an object is not shown", extra={"object": "/".join(_name(body)), "error": repr(error)})
            return ()

    def _put(self, name: _Name, said: tuple[FamilySample, ...]) -> None:
        with self._lock:
            if said:
                self._samples[name] = said
            else:
                self._samples.pop(name, None)


class ObjectMetrics(Collector):
    """The metrics of all kinds that this process leads."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._tables: dict[str, ObjectTable] = {}
        registry.register(self)

    def table(self, kind: Kind) -> ObjectTable | None:
        """Returns the table that this kind's reflector fills; None for a kind without metrics."""
        sampler = SAMPLERS.get(kind.id)
        return self._tables.setdefault(kind.id, ObjectTable(sampler)) if sampler else None

    def collect(self) -> Sequence[Metric]:
        """Returns the families of a scrape."""
        sums: defaultdict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
        for table in list(self._tables.values()):
            for said in table.read():
                sums[said.family.name, said.labels] += said.value
        shown: dict[str, Metric] = {
            family.name: (UnknownMetricFamily if family.counts else GaugeMetricFamily)(
                family.name, family.text, labels=family.labels
            )
            for family in FAMILIES
        }
        for (name, labels), value in sums.items():
            shown[name].add_metric(labels, value)
        return tuple(shown.values())


#: The object metrics of this process.
OBJECT_METRICS = ObjectMetrics()


def _name(body: Object) -> _Name:
    metadata = body["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
