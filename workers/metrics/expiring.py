"""Gauges and counters with a series per object: one that this process has not heard of for a while is not shown."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

#: Seconds that a value is shown, and series of one family at most: objects go, and move between processes.
LIFE, SERIES = 300.0, 10_000

#: Seconds that a count is kept. Longer than a value: a count that fades begins at zero when it comes back.
COUNT_LIFE = 3600.0

#: For counts that are kept as long as the process lives.
FOR_EVER = math.inf

Family = GaugeMetricFamily | CounterMetricFamily | UnknownMetricFamily


class Expiring(Collector):
    """Series that fade. life: seconds after which one that nobody touched is dropped, `LIFE` of its class by default.

    clock: seconds of any clock that only goes forward.
    """

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
        """What a scrape shows."""
        family = self._family()
        with self._lock:
            self._fade()
            for labels, (value, _) in self._series.items():
                family.add_metric(labels, value)
        return (family,)

    def _family(self) -> Family:
        raise NotImplementedError

    def _put(self, labels: tuple[str, ...], change: Callable[[float], float]) -> None:
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {', '.join(self.labels)}")
        with self._lock:
            self._fade()
            before, _ = self._series.get(labels, (0.0, 0.0))
            self._series[labels] = (change(before), self._clock())
            self._series.move_to_end(labels)
            if len(self._series) > SERIES:
                self._series.popitem(last=False)

    def _fade(self) -> None:
        while self._series and next(iter(self._series.values()))[1] < self._clock() - self.life:
            self._series.popitem(last=False)


class ExpiringGauge(Expiring):
    """A gauge whose series fade. Several processes show what each saw last: of one series, the newest is right."""

    LIFE = LIFE

    def set(self, value: float, *labels: str) -> None:
        """Show this value. Raises ValueError if there are not as many labels as the gauge has."""
        self._put(labels, lambda _: value)

    def _family(self) -> Family:
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)


class ExpiringCounter(Expiring):
    """A counter whose series fade. Several processes count what each saw: their sum is right.

    A name that does not end in `_total` is shown as it is, without a type: the formats know no such counter, but
    dashboards ask for names that other systems gave.
    """

    LIFE = COUNT_LIFE

    def add(self, amount: float, *labels: str) -> None:
        """Count so much more. Of nothing (0) too: a series that begins at zero shows its first rise.

        Raises ValueError if there are not as many labels as the counter has.
        """
        self._put(labels, lambda before: before + amount)

    def _family(self) -> Family:
        family = CounterMetricFamily if self.name.endswith("_total") else UnknownMetricFamily
        return family(self.name, self.text, labels=self.labels)
