"""Calming a stream of wake-ups: the first one counts at once, those that follow closely count once more."""

from collections.abc import Iterable


class Debounce:
    """Lets each key through at most once per `gap` seconds; instants are arguments, in seconds of any one clock."""

    def __init__(self, gap: float) -> None:
        self._gap = gap
        self._waiting: set[str] = set()
        self._released: dict[str, float] = {}

    def offer(self, keys: Iterable[str]) -> None:
        """These keys are to be let through."""
        self._waiting.update(keys)

    def take(self, now: float) -> tuple[list[str], float | None]:
        """The keys that may pass now, and the seconds until the next one may; None when none is waiting."""
        self._released = {key: at for key, at in self._released.items() if now - at < self._gap}
        passing = [key for key in self._waiting if key not in self._released]
        self._waiting.difference_update(passing)
        self._released.update(dict.fromkeys(passing, now))
        if not self._waiting:
            return passing, None
        return passing, max(0.0, min(self._released[key] for key in self._waiting) + self._gap - now)
