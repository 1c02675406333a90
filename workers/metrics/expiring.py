"""Gauges and counters with a series per object, dropped when they were not updated for a while."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

#: Seconds a value is shown, and most series of one family: objects are deleted, and move between processes.
LIFE, SERIES = 300.0, 10_000

#: Seconds a count is kept. Longer than a value: an expired count begins at zero when it comes back.
COUNT_LIFE = 3600.0

#: The life of counts that never expire.
FOR_EVER = math.inf

#: Value and last update of a series that is not there.
_NONE = (0.0, -math.inf)

Family = GaugeMetricFamily | CounterMetricFamily | UnknownMetricFamily


class Expiring(Collector):
    """Series that expire. life: seconds without an update after which a series is dropped. clock: monotonic seconds."""

    LIFE: ClassVar[float]

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        *,
        life: float | None = None,
        registry: CollectorRegistry = REGISTRY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.life = self.LIFE if life is None else life
        self._clock = clock
        # Scrapes come on a thread of their own.
        self._lock = threading.Lock()
        self._series: OrderedDict[tuple[str, ...], tuple[float, float]] = OrderedDict()
        registry.register(self)

    def collect(self) -> Iterable[Family]:
        """Returns the family of a scrape."""
        family = self._family()
        with self._lock:
            self._expire()
            for labels, (value, _) in self._series.items():
                family.add_metric(labels, value)
        return (family,)

    def _family(self) -> Family:
        raise NotImplementedError

    def _put(self, labels: tuple[str, ...], value: float, *, adds: bool) -> None:
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {', '.join(self.labels)}")
        series = self._series
        with self._lock:
            now = self._clock()
            if adds:
                before, updated = series.get(labels, _NONE)
                value += before if updated >= now - self.life else 0.0
            series[labels] = (value, now)
            # The series that was updated longest ago is the first.
            series.move_to_end(labels)
            if len(series) > SERIES:
                series.popitem(last=False)

    def _expire(self) -> None:
        oldest = self._clock() - self.life
        while self._series and next(iter(self._series.values()))[1] < oldest:
            self._series.popitem(last=False)


class ExpiringGauge(Expiring):
    """A gauge whose series expire. Each process shows the value it saw last: the newest is right."""

    LIFE = LIFE

    def set(self, value: float, labels: tuple[str, ...]) -> None:
        """Shows this value. Raises ValueError if there are not as many labels as the gauge has."""
        self._put(labels, value, adds=False)

    def _family(self) -> Family:
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)


class ExpiringCounter(Expiring):
    """A counter whose series expire; the sum over processes is right.

    A name that does not end in `_total` is shown without a type: the formats know no such counter, but dashboards ask
    for the names of other systems.
    """

    LIFE = COUNT_LIFE

    def add(self, amount: float, labels: tuple[str, ...]) -> None:
        """Adds to the count. An amount of 0 creates the series, so that its first rise is visible.

        Raises ValueError if there are not as many labels as the counter has.
        """
        self._put(labels, amount, adds=True)

    def _family(self) -> Family:
        family = CounterMetricFamily if self.name.endswith("_total") else UnknownMetricFamily
        return family(self.name, self.text, labels=self.labels)
