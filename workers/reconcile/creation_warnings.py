"""Warnings of the API server about objects that it creates: fields it leaves out, policies they violate.

Such a text is about the template, and so comes with every object that is made from it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from workers.api.kinds import Kind, Object
from workers.decision.plan import RecordEvent
from workers.newest_entries import remember

#: Seconds until a text is recorded again: API servers keep Events for an hour.
RECORDED = 3600.0
#: Most texts that one plan records, and most that are remembered.
MOST, REMEMBERED = 16, 4096

#: A kind of created objects, and a text about one of them.
CreationWarning = tuple[Kind, str]


class CreationWarnings:
    """The texts that one process has recorded. Moments are monotonic seconds."""

    def __init__(self) -> None:
        self._recorded: OrderedDict[tuple[str, CreationWarning], float] = OrderedDict()

    def events(self, owner: Object, told: Iterable[CreationWarning], now: float) -> Iterator[RecordEvent]:
        """Yields an Event for each text that is news of this object, or was recorded an hour ago."""
        for warning in islice(dict.fromkeys(told), MOST):
            key = owner["metadata"].get("uid", ""), warning
            if key in self._recorded and now < self._recorded[key] + RECORDED:
                continue
            remember(self._recorded, key, now, REMEMBERED)
            kind, text = warning
            yield RecordEvent("Warning", "CreatedWithWarning", f"{kind.kind}: {text}")
