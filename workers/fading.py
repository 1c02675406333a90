"""Gauges with one value per object: a value that this process has not seen for a while is not shown any more."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

#: Seconds that a value is shown, and series of one gauge at most: objects go, and move between processes.
LIFE, SERIES = 300.0, 10_000


class FadingGauge(Collector):
    """A gauge whose series fade. Several processes show what each saw last: of one series, the newest is right.

    clock: seconds of any clock that only goes forward.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        *,
        registry: CollectorRegistry = REGISTRY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._text, self._labels = name, text, tuple(labels)
        self._clock = clock
        # Scrapes come on a thread of their own.
        self._lock = threading.Lock()
        self._series: OrderedDict[tuple[str, ...], tuple[float, float]] = OrderedDict()
        registry.register(self)

    def set(self, value: float, *labels: str) -> None:
        """Show this value. Raises ValueError if there are not as many labels as the gauge has."""
        if len(labels) != len(self._labels):
            raise ValueError(f"{self._name} has the labels {', '.join(self._labels)}")
        with self._lock:
            self._series[labels] = (value, self._clock())
            self._series.move_to_end(labels)
            if len(self._series) > SERIES:
                self._series.popitem(last=False)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """What a scrape shows."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        with self._lock:
            while self._series and next(iter(self._series.values()))[1] < self._clock() - LIFE:
                self._series.popitem(last=False)
            for labels, (value, _) in self._series.items():
                family.add_metric(labels, value)
        return (family,)
