"""What Prometheus is shown of all objects as they are now, by the process that follows their kind.

The informer that leads a kind sees every object of it come, change and go. So what is shown needs no count that would
be lost with a process, nothing is shown twice, and what is deleted is not shown any more. A process that does not lead
a kind shows nothing of it.
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
    """All objects of one kind, and what each says. says: what one object says of itself.

    A listing runs beside the watch: of an object that the watch told of since the listing began, the watch knows more.
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
        """A listing begins."""
        self._rest()
        self._listing = True

    def listed(self, bodies: Iterable[Object]) -> None:
        """These objects are in the listing."""
        for body in bodies:
            name = _name(body)
            self._listed.add(name)
            if name not in self._updated:
                self._put(name, self._read(body))

    def finish(self) -> None:
        """The listing is whole: what is neither in it nor told of since it began has gone."""
        with self._lock:
            for name in self._samples.keys() - self._listed - self._updated:
                del self._samples[name]
        self._rest()

    def update(self, body: Object, *, deleted: bool) -> None:
        """The watch told of this object."""
        name = _name(body)
        if self._listing:
            self._updated.add(name)
        self._put(name, () if deleted else self._read(body))

    def clear(self) -> None:
        """Nothing is known any more: somebody else may follow the kind now."""
        self._rest()
        with self._lock:
            self._samples.clear()

    def read(self) -> Iterator[FamilySample]:
        """What all objects say, at one moment."""
        with self._lock:
            everything = list(self._samples.values())
        for said in everything:
            yield from said

    def _rest(self) -> None:
        self._listing, self._updated, self._listed = False, set(), set()

    def _read(self, body: Object) -> tuple[FamilySample, ...]:
        try:
            return tuple(self._sample(body))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A definition with a looser schema lets anything in. What cannot be read says nothing, and stops nobody.
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
        """Where an informer tells of this kind's objects; None for a kind whose objects say nothing."""
        sampler = SAMPLERS.get(kind.id)
        return self._tables.setdefault(kind.id, ObjectTable(sampler)) if sampler else None

    def collect(self) -> Sequence[Metric]:
        """What a scrape shows."""
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


#: Of this process.
OBJECT_METRICS = ObjectMetrics()


def _name(body: Object) -> _Name:
    metadata = body["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
