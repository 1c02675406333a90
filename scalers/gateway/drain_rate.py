"""The time until a full channel has room again, from how quickly its events were done lately. Pure."""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from workers.newest_entries import remember

#: Seconds of the past that count, the shortest of them that say something, and samples of one channel.
_SPAN, _SHORTEST, _SAMPLES = 60.0, 1.0, 32
#: Seconds to wait: at least, at most, and where nothing is known.
LEAST, MOST, UNKNOWN = 1, 300, 5
_CHANNELS = 1_000


@dataclass(slots=True)
class DrainRate:
    """The rate at which the events of one channel are done. Instants are seconds of any one clock."""

    _samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def note(self, now: float, accepted: int, waiting: int) -> None:
        """Adds a reading. accepted: events since the beginning. waiting: those that are not done."""
        done = accepted - waiting
        if self._samples and done < self._samples[-1][1]:
            # The broker was emptied.
            self._samples.clear()
        if not self._samples or now - self._samples[-1][0] >= _SPAN / _SAMPLES:
            self._samples.append((now, done))
        while self._samples and now - self._samples[0][0] > _SPAN:
            self._samples.popleft()

    def seconds_until(self, now: float, accepted: int, waiting: int, surplus: int) -> int:
        """Returns the seconds after which `surplus` more events will probably be done."""
        if not self._samples:
            return UNKNOWN
        began, before = self._samples[0]
        elapsed, done = now - began, accepted - waiting - before
        if elapsed < _SHORTEST:
            return UNKNOWN
        return max(LEAST, min(MOST, math.ceil(surplus * elapsed / done))) if done > 0 else MOST


class DrainRates:
    """The rates of the channels that were pushed to last."""

    def __init__(self) -> None:
        self._rates: OrderedDict[str, DrainRate] = OrderedDict()

    def of(self, channel: str) -> DrainRate:
        """Returns the channel's rate, a new one without readings the first time."""
        rate = self._rates.get(channel) or DrainRate()
        remember(self._rates, channel, rate, _CHANNELS)
        return rate
